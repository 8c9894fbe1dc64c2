"""Clients that send incomplete requests, read no responses or send huge bodies do not block other clients."""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import ssl
import threading
from urllib.parse import urlsplit

import pytest

from pennon import DirectoryNamespace
from pennon.server import app as application
from pennon.server import connections, requests, running
from pennon.server.access import Access
from pennon.server.operation.limits import Limits
from tests.hostile.served import Client, facade, self_signed

HALF_HEADER = b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
PATIENCE = 60.0
"""For what must come; nothing waits that long if all is well."""


def connect(uri: str, receive_buffer: int | None = None) -> socket.socket:
    parts = urlsplit(uri)
    connection = socket.socket()
    connection.settimeout(PATIENCE)
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.connect((parts.hostname, parts.port))
    return connection


def post(body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return (
        b"POST /iceberg/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (size, body)
    )


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    said = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while chunk := connection.recv(65536):
            said += chunk
    return said


def ask(uri: str) -> bytes:
    """Request the configuration on a new connection."""
    with connect(uri) as connection:
        connection.sendall(b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return read_all(connection)


@pytest.fixture
def many_files():
    """Raise the limit of open files to 3,000."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 3000:
        pytest.skip(f"this machine allows only {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_1200_incomplete_headers_do_not_block_other_clients(tmp_path):
    with facade(tmp_path, managed=False) as server, contextlib.ExitStack() as held:
        resource.prlimit(server.process, resource.RLIMIT_NOFILE, (1024, 1024))
        body = b'{"namespace": ["patient"]}'
        begun = held.enter_context(connect(server.uri))
        begun.sendall(post(body[:5], len(body)))
        # A response on the same loop proves that the server has seen the request.
        assert Client(server.uri).get("/config").status == 200
        slow = []
        for _ in range(1200):
            slow.append(held.enter_context(connect(server.uri)))
            # The server may already have closed it to make room.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                slow[-1].sendall(HALF_HEADER)
        for _ in range(5):
            assert ask(server.uri).startswith(b"HTTP/1.1 200")
        # Connections that sent a complete header are kept.
        begun.sendall(body[5:])
        assert begun.recv(65536).startswith(b"HTTP/1.1 200")
        # The oldest connections were closed.
        assert all(read_all(one) == b"" for one in slow[: -connections.MOST_CONNECTIONS])
        assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """Serve from this process, with deadlines of a fraction of a second."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.2)
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.2)
    with serving(tmp_path) as uri:
        yield uri


@contextlib.contextmanager
def serving(directory, certificate=None):
    root = directory / "root"
    root.mkdir()
    taken = running.listening("127.0.0.1", 0)
    with taken, DirectoryNamespace(root=str(root)) as namespace:
        server = running.server(
            application.build(namespace, Access(), catalog=namespace.catalog), certificate=certificate
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield running.address(taken, certificate) + application.ICEBERG
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.parametrize("begun", [b"", HALF_HEADER], ids=["nothing", "half a header"])
def test_a_header_has_a_deadline(quick, begun):
    with connect(quick) as connection:
        connection.sendall(begun)
        assert read_all(connection) == b""


def test_bytes_of_a_header_do_not_extend_its_deadline(quick):
    with connect(quick) as connection:
        connection.sendall(HALF_HEADER)
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(4000):
                connection.sendall(b"x")
                if poller.poll(10):
                    break
        assert read_all(connection) == b""


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /v1/table HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"GET /v1/table HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
        (
            b"POST /v1/table/t/insert HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: application/vnd.apache.arrow.stream\r\n\r\n1\r\nx\r\n0\r\n"
        ),
    ],
    ids=["headers", "one header", "headers after a body"],
)
def test_endless_headers_are_cut_off(tmp_path, begun):
    line, most = (b"x" * 1000 if begun.endswith(b"X: ") else b"Y: " + b"y" * 995 + b"\r\n"), 4000
    with serving(tmp_path) as uri, connect(uri) as connection:
        sent = 0
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(begun)
            while sent < most:
                connection.sendall(line)
                sent += 1
        assert sent < most


def test_the_next_header_of_a_connection_has_a_deadline_too(quick):
    with connect(quick) as connection:
        connection.sendall(b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n" + HALF_HEADER)
        assert read_all(connection).count(b"HTTP/1.1") == 1


def test_a_body_has_a_deadline(quick):
    with connect(quick) as connection:
        connection.sendall(post(b"{", 100))
        assert read_all(connection).startswith(b"HTTP/1.1 408")


def test_rejected_request_cannot_send_forever(quick):
    with connect(quick) as connection:
        connection.sendall(post(b"{", 100).replace(b"Host: localhost", b"Host: evil.example"))
        assert read_all(connection).startswith(b"HTTP/1.1 403")


def test_unread_responses_are_dropped(quick, monkeypatch):
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.2)
    requests_ = b"GET /iceberg/v1/%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"x" * 8000) * 10_000
    with connect(quick) as connection, pytest.raises((ConnectionResetError, BrokenPipeError)):
        connection.sendall(requests_)


def test_large_response_may_be_read_slowly(quick):
    """The deadline of a header does not cut off an answer that is still being read."""
    value = "v" * (3 << 20)
    assert Client(quick).post("/namespaces", {"namespace": ["a"], "properties": {"k": value}}).status == 200
    with connect(quick, receive_buffer=4096) as slow, connect(quick) as silent:
        slow.sendall(b"GET /iceberg/v1/namespaces/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = slow.recv(1024)
        # Each of these ends by its deadline, after the response has started.
        for connection in (silent, connect(quick), connect(quick)):
            with connection:
                assert read_all(connection) == b""
        while value[-1].encode() * 2 + b'"}' not in said[-8:]:
            chunk = slow.recv(1 << 16)
            assert chunk, f"cut off after {len(said):,} bytes"
            said += chunk


def test_silent_tls_connections_do_not_block_other_clients(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 8)
    certificate = running.Certificate(*self_signed(tmp_path))
    trusting = ssl.create_default_context(cafile=str(certificate.certificate))
    with serving(tmp_path, certificate) as uri, contextlib.ExitStack() as held:
        silent = [held.enter_context(connect(uri)) for _ in range(20)]
        for _ in range(3):
            with trusting.wrap_socket(connect(uri), server_hostname="127.0.0.1") as mine:
                mine.sendall(b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert read_all(mine).startswith(b"HTTP/1.1 200")
        # The oldest connections were closed.
        assert all(read_all(one) == b"" for one in silent[:12])


def test_silent_tls_connections_have_a_deadline(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.2)
    certificate = running.Certificate(*self_signed(tmp_path))
    with serving(tmp_path, certificate) as uri, connect(uri) as silent:
        assert read_all(silent) == b""


def test_an_11_mb_body_is_refused_before_it_is_sent(quick):
    with connect(quick) as connection:
        connection.sendall(post(b"", 11 << 20))
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_body_of_too_many_values_is_refused(quick):
    body = b'{"namespace": ["x"], "properties": [' + b"[]," * 1_000_000 + b"[]]}"
    assert len(body) < Limits().json_bytes
    answer = Client(quick).call("POST", "/namespaces", body)
    assert answer.error == (400, "BadRequestException")
    assert "250,000 values" in answer.body["error"]["message"]


def test_large_bodies_do_not_block_other_requests(tmp_path):
    """Another request is answered while large bodies are parsed, not after them."""
    body = b'{"namespace": ["x"], "properties": [' + b"[[]]," * 80_000 + b"[]]}"
    with facade(tmp_path, managed=False) as server, contextlib.ExitStack() as held:
        large = [held.enter_context(connect(server.uri)) for _ in range(12)]
        other = held.enter_context(connect(server.uri))
        for one in large:
            one.sendall(post(body)[:-1])
        for one in large:
            one.sendall(b"}")
        poller = select.poll()
        waiting = {one.fileno(): one for one in large}
        for number in [*waiting, other.fileno()]:
            poller.register(number, select.POLLIN)
        asked = answered = False
        while not answered:
            for number, _ in poller.poll(PATIENCE * 1000):
                poller.unregister(number)
                answered |= number == other.fileno()
                waiting.pop(number, None)
            if not asked:
                other.sendall(b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n")
                asked = True
        assert other.recv(65536).startswith(b"HTTP/1.1 200")
        assert waiting, "the other request had to wait for all large bodies"
        assert all(one.recv(65536).startswith(b"HTTP/1.1 400") for one in large)
