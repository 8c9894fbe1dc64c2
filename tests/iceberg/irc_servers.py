"""Iceberg REST servers for the tests: Apache's fixture, MiniStack, SeaweedFS, Nessie, ours, and a lossy proxy."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.client
import ipaddress
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest
import urllib3

from pennon import DirectoryNamespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from pennon import IcebergNamespace
    from tests.servers import CountingS3, S3Endpoint, SeaweedS3

JARS = Path(os.environ.get("PENNON_JARS", Path.home() / ".cache" / "pennon" / "jars"))
FIXTURE_JAR = "iceberg-open-api-1.9.2.jar"
NESSIE_JAR = "nessie-quarkus-0.99.0-runner.jar"
_START_SECONDS = 180.0
"""Java on a busy machine takes its time."""


STOCK = ["apache", "seaweed", "nessie"]
"""Servers that nobody here wrote."""
ALL = ["facade", *STOCK]


def only_on_apache(reason: str) -> pytest.MarkDecorator:
    """Mark a test that runs on Apache's fixture alone, for the reason that is given."""
    assert reason
    return pytest.mark.parametrize("irc", ["apache"], indirect=True)


def not_on_ours(reason: str) -> pytest.MarkDecorator:
    """Mark a test that means nothing on our own server, for the reason that is given."""
    assert reason
    return pytest.mark.parametrize("irc", STOCK, indirect=True)


@dataclass(frozen=True)
class Irc:
    """Where a server is, how a namespace is made there if not by the protocol, and where its tables have to lie."""

    uri: str
    make_namespace: Callable[[str], object] | None = None
    root: Path | None = None
    process: int | None = None
    properties: dict[str, str] = field(default_factory=dict)
    """What else a client has to say."""
    bucket: S3Endpoint | None = None
    """Where tables are, if that is not a disk."""
    clients: str | None = None
    """Below which roots of clients have to be in the bucket; the server chooses every place if there is none."""

    @property
    def lance(self) -> str:
        """Where the same server speaks the Lance protocol, if it is our own."""
        return self.uri.removesuffix("/iceberg")

    def table(self, space: str, name: str) -> dict[str, Any]:
        """Load the metadata of a table, as any client would."""
        return self.ask("GET", f"namespaces/{space}/tables/{name}").json()["metadata"]

    def ask(self, method: str, path: str, **options: Any) -> urllib3.BaseHTTPResponse:
        """Make one request."""
        warehouse = self.properties.get("warehouse")
        query = {} if warehouse is None else {"fields": {"warehouse": warehouse}}
        config = urllib3.request("GET", f"{self.uri}/v1/config", headers=self._proof, **query, timeout=60.0).json()
        prefix = config.get("overrides", {}).get("prefix") or config.get("defaults", {}).get("prefix")
        base = f"{self.uri}/v1/{prefix}" if prefix else f"{self.uri}/v1"
        return urllib3.request(method, f"{base}/{path}", headers=self._proof, timeout=60.0, **options)

    @property
    def _proof(self) -> dict[str, str]:
        credential = self.properties.get("credential")
        if credential is None:
            return {}
        client, _, secret = credential.partition(":")
        form = urlencode({"grant_type": "client_credentials", "client_id": client, "client_secret": secret})
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = urllib3.request("POST", f"{self.uri}/v1/oauth/tokens", body=form, headers=kind, timeout=60.0)
        return {"Authorization": f"Bearer {answer.json()['access_token']}"}


def is_there(catalog: IcebergNamespace, location: str) -> bool:
    """Return True if there are files at a place, on disk or in a bucket."""
    return catalog._places.store(str(location), catalog._catalog.options(None)).has_files("")


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextlib.contextmanager
def _running(command: list[str], environment: dict[str, str], directory: Path, ready: str) -> Iterator[None]:
    """Run a server until the end of the block; it is there when an address answers."""
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(ready):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{command[0]} did not start:\n{(directory / 'log').read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib3.PoolManager(retries=False, timeout=2.0) as pool:
            return pool.request("GET", url).status < 500
    except urllib3.exceptions.HTTPError:
        return False


@contextlib.contextmanager
def apache_fixture(directory: Path, settings: dict[str, str] | None = None) -> Iterator[Irc]:
    """Start Apache's REST fixture on a new SQLite catalog; its settings are variables of its environment."""
    jar = JARS / FIXTURE_JAR
    java = shutil.which("java")
    if java is None or not jar.exists():
        pytest.skip(f"Apache's REST fixture needs Java and {jar}, which could not be fetched")
    port = _free_port()
    environment = {
        "CATALOG_URI": f"jdbc:sqlite:{directory}/catalog.db",
        "CATALOG_WAREHOUSE": (directory / "warehouse").as_uri(),
        "CATALOG_JDBC_STRICT__MODE": "true",
        "CATALOG_REST_PORT": str(port),
        **(settings or {}),
    }
    uri = f"http://127.0.0.1:{port}"
    command = [java, "-Xmx256m", "-cp", str(jar), "org.apache.iceberg.rest.RESTCatalogServer"]
    with _running(command, environment, directory, f"{uri}/v1/config"):
        yield Irc(uri)


@contextlib.contextmanager
def ministack(directory: Path) -> Iterator[Irc]:
    """Start MiniStack, with one table bucket and the namespace `lake` in it."""
    program = shutil.which("ministack") or str(Path(os.sys.executable).parent / "ministack")
    if not Path(program).exists():
        pytest.skip("MiniStack is not installed")
    port = _free_port()
    base = f"http://127.0.0.1:{port}"
    environment = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "HOME": str(directory)}
    with _running([program], environment, directory, f"{base}/iceberg/v1/config"):
        make_namespace = _bucket(base)
        make_namespace("lake")
        yield Irc(f"{base}/iceberg", make_namespace=make_namespace)


def _bucket(base: str) -> Callable[[str], object]:
    client = _table_buckets(base, "us-east-1", "test", "test")
    arn = client.create_table_bucket(name="lake-bucket")["arn"]
    return lambda name: client.create_namespace(tableBucketARN=arn, namespace=[name])


def _table_buckets(base: str, region: str, access_key: str, secret_key: str) -> Any:
    import boto3

    keys = {"aws_access_key_id": access_key, "aws_secret_access_key": secret_key}
    return boto3.client("s3tables", endpoint_url=base, region_name=region, **keys)


@contextlib.contextmanager
def seaweed(server: SeaweedS3) -> Iterator[Irc]:
    """Use the Iceberg catalog of SeaweedFS, with one table bucket."""
    endpoint = replace(server.endpoint, bucket="lake")
    buckets = _table_buckets(endpoint.url, endpoint.region, endpoint.access_key, endpoint.secret_key)
    buckets.create_table_bucket(name=endpoint.bucket)
    properties = {
        "warehouse": endpoint.bucket,
        "credential": f"{endpoint.access_key}:{endpoint.secret_key}",
        **endpoint.properties(),
    }
    uri = f"http://127.0.0.1:{server.iceberg_port}"
    yield Irc(uri, properties=properties, bucket=endpoint, clients=endpoint.uri().rstrip("/"))


@contextlib.contextmanager
def nessie(directory: Path, endpoint: S3Endpoint) -> Iterator[Irc]:
    """Start Nessie on a bucket; what it keeps itself is gone with it."""
    jar, java = JARS / NESSIE_JAR, _java(21)
    if java is None or not jar.exists():
        pytest.skip(f"Nessie needs Java 21 and {jar}: make jars")
    port, other = _free_port(), _free_port()
    s3 = "nessie.catalog.service.s3.default-options"
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.http.access-log.enabled": "false",
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(other),
        "quarkus.oidc.tenant-enabled": "false",
        "quarkus.otel.sdk.disabled": "true",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "warehouse",
        "nessie.catalog.warehouses.warehouse.location": endpoint.uri("nessie"),
        f"{s3}.endpoint": endpoint.url,
        f"{s3}.region": endpoint.region,
        f"{s3}.path-style-access": "true",
        f"{s3}.access-key": "urn:nessie-secret:quarkus:tests.s3",
        "tests.s3.name": endpoint.access_key,
        "tests.s3.secret": endpoint.secret_key,
    }
    uri = f"http://127.0.0.1:{port}/iceberg"
    options = [f"-D{key}={value}" for key, value in settings.items()]
    with _running([java, "-Xmx512m", *options, "-jar", str(jar)], {}, directory, f"{uri}/v1/config"):
        yield Irc(uri, properties={"warehouse": "warehouse", **endpoint.properties()}, bucket=endpoint)


def _java(version: int) -> str | None:
    """Find a Java of at least this version: the one on the PATH, or the one that `make jars` has fetched."""
    fetched = JARS / f"java-{version}" / "bin" / "java"
    for java in (shutil.which("java"), str(fetched) if fetched.exists() else None):
        told = java and subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
        found = re.search(r'version "(\d+)', told or "")
        if found is not None and int(found[1]) >= version:
            return java
    return None


@contextlib.contextmanager
def facade(
    directory: Path,
    *,
    managed: bool,
    arguments: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    bucket: dict[str, str] | None = None,
) -> Iterator[Irc]:
    """Serve a new catalog by `pennon serve`, in a process of its own; `bucket` has the properties of one elsewhere."""
    root = directory / "root"
    root.mkdir(parents=True, exist_ok=True)
    properties = {"root": str(root), **(bucket or {})}
    if managed:
        with DirectoryNamespace(**properties) as namespace:
            namespace.enable_table_version_management()
    environment = {"PENNON_PROPERTIES": json.dumps(properties), **(environment or {})}
    command = [sys.executable, "-m", "pennon", "serve", "--port", "0", "--json", *arguments]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        lines: list[str] = []
        while "}" not in "".join(lines):
            line = process.stdout.readline()
            if not line:
                process.wait()
                pytest.fail(f"pennon serve did not start:\n{(directory / 'log').read_text(errors='replace')[-2000:]}")
            lines.append(line)
        yield Irc(json.loads("".join(lines))["iceberg"], root=root, process=process.pid)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def self_signed(directory: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that nobody has signed."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

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
    (directory / "cert.pem").write_bytes(made.public_bytes(pem))
    (directory / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return directory / "cert.pem", directory / "key.pem"


class LossyProxy:
    """Stands before a server and loses things: `lose(method, part of the path, when, times)`.

    `before` it reaches the server, `after` the server has answered, `swallow` it and say that it is done, or all but
    the first `part` of a transaction.
    """

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._lock = threading.Lock()
        self._losses: list[tuple[str, str, str]] = []
        self.lost: list[str] = []
        self.seen: list[str] = []
        self.between: Callable[[], None] | None = None
        """Called once after a loss, while the client waits."""
        self.rewrite: Callable[[bytes], bytes] = lambda content: content
        """What becomes of the bodies of good answers."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args) -> None:
                pass

            def handle_any(self) -> None:
                proxy._handle(self)

            do_GET = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815 - as http.server wants it

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def lose(self, method: str, part: str, when: str, times: int = 1) -> None:
        self._losses += [(method, part, when)] * times

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with self._lock:
            self.seen.append(f"{handler.command} {handler.path}")
            loss = next((one for one in self._losses if one[0] == handler.command and one[1] in handler.path), None)
            if loss is not None:
                self._losses.remove(loss)
                self.lost.append(f"{handler.command} {handler.path} {loss[2]}")
        if loss is not None and loss[2] == "before":
            self._cut(handler)
            return
        if loss is not None and loss[2] == "swallow":
            handler.send_response(204)
            handler.end_headers()
            return
        if loss is not None and loss[2] == "part":
            changes = json.loads(body)["table-changes"]
            body = json.dumps({"table-changes": changes[:1]}).encode()
            handler.headers.replace_header("Content-Length", str(len(body)))
        answer, content = self._passed_on(handler, body)
        if loss is not None and self.between is not None:
            between, self.between = self.between, None
            between()
        if loss is not None and loss[2] == "after":
            self._cut(handler)
            return
        handler.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {"transfer-encoding", "content-length", "connection", "date", "server"}:
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(content)

    def _passed_on(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(self._target.hostname, self._target.port, timeout=30)
        connection.request(handler.command, self._target.path + handler.path, body or None, dict(handler.headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, self.rewrite(content) if answer.status == 200 else content

    def _cut(self, handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.connection.shutdown(socket.SHUT_RDWR)


class Vending:
    """Lets the server behind a proxy hand out credentials for a bucket with each table, new ones every time."""

    def __init__(self, proxy: LossyProxy, bucket: CountingS3, **properties: str) -> None:
        self.uri = proxy.uri
        self.seen = proxy.seen
        self.properties = {"uri": proxy.uri, **properties}
        self.valid_for: float | None = None
        """For how many seconds those hold that are handed out from now on; None says nothing about that."""
        self._bucket = bucket
        self._numbers = itertools.count(1)
        self._names: set[str] = set()
        proxy.rewrite = self._handed_out

    def expire(self) -> None:
        """Let the bucket refuse what was handed out before."""
        self._bucket.refused |= self._names

    def _handed_out(self, content: bytes) -> bytes:
        answer = json.loads(content or b"{}")
        if "metadata" not in answer:
            return content
        name = f"handed-out-{next(self._numbers)}"
        self._names.add(name)
        config = {
            "s3.access-key-id": name,
            "s3.secret-access-key": "secret",
            "s3.session-token": "token",
            "s3.endpoint": self._bucket.endpoint.url,
            "s3.path-style-access": "true",
            "client.region": self._bucket.endpoint.region,
        }
        if self.valid_for is not None:
            config["s3.session-token-expires-at-ms"] = str(int((time.time() + self.valid_for) * 1000))
        return json.dumps({**answer, "config": config}).encode()
