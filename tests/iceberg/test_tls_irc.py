"""TLS: a server is trusted by the bundle that was given, and by nothing less."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl

import pytest
from hostile import HostileServer, Reply, within
from support import fails, list_namespaces


@pytest.fixture
def certificate(tmp_path):
    """Make a certificate for 127.0.0.1 that nobody has signed."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "pennon-test")])
    now = dt.datetime.now(dt.timezone.utc)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    (tmp_path / "cert.pem").write_bytes(made.public_bytes(pem))
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return tmp_path / "cert.pem", tmp_path / "key.pem"


@pytest.fixture
def server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with HostileServer(context) as hostile:
        hostile.answer("GET /v1/namespaces", Reply(body={"namespaces": [["a"]]}))
        yield hostile


def test_a_trusted_server_is_used(server, connect, certificate):
    client = connect(server.uri, token="tok", **{"ssl.cabundle": str(certificate[0])})
    assert list_namespaces(client) == ["a"]


def test_an_unknown_server_is_refused_at_once(server, connect):
    with fails(18, "TLS"), within(5):
        list_namespaces(connect(server.uri, token="tok-very-secret"))
    assert server.asked == []


def test_headers_that_trickle_are_cut_off(server, connect, certificate):
    server.answer("GET /v1/namespaces", Reply(raw=b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 500, drip=0.2))
    times = {"retry_timeout": "1s", "read_timeout": "1s", "ssl.cabundle": str(certificate[0])}
    with fails(17), within(8):
        list_namespaces(connect(server.uri, **times))
