"""TLS: a server is trusted by the bundle that was given, and by nothing less."""

from __future__ import annotations

import ssl

import pytest

from tests.iceberg.hostile import HostileServer, Reply, within
from tests.iceberg.irc_servers import self_signed
from tests.support import fails, list_namespaces


@pytest.fixture
def certificate(tmp_path):
    return self_signed(tmp_path)


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
