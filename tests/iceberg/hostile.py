"""A server that answers whatever a test wants, and writes down what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    from typing_extensions import Self


@dataclass
class Reply:
    """One answer: a status, a body (JSON unless it is bytes, or what a function of the request returns), headers."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    drip: float = 0.0
    cut: int | None = None
    raw: bytes | None = None


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class HostileServer:
    """`replies["GET /v1/config"]` is a list; its last entry is given again and again."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.replies: dict[str, list[Reply]] = {"GET /v1/config": [Reply(body={"defaults": {}, "overrides": {}})]}
        self.asked: list[Asked] = []
        self._over = threading.Event()
        hostile = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args) -> None:
                pass

            def handle_any(self) -> None:
                hostile._handle(self)

            do_GET = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815 - as http.server wants it

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        if tls is not None:
            # The handshake is made by the thread of the connection.
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
            )
            self._server.handle_error = lambda *_: None  # clients that refuse the certificate
            self.uri = self.uri.replace("http:", "https:")
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, route: str, *replies: Reply) -> None:
        self.replies[route] = list(replies)

    def count(self, route: str) -> int:
        return sum(1 for one in self.asked if f"{one.method} {one.path.partition('?')[0]}" == route)

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.asked.append(Asked(handler.command, handler.path, dict(handler.headers), body))
        route = f"{handler.command} {handler.path.partition('?')[0]}"
        listed = self.replies.get(route, [Reply(404, {"error": {"type": "NoSuchTableException", "message": route}})])
        reply = listed.pop(0) if len(listed) > 1 else listed[0]
        self._over.wait(reply.pause)
        if callable(reply.body):
            reply = replace(reply, body=reply.body(self.asked[-1]))
        with contextlib.suppress(OSError):
            self._send(handler, reply)

    def _send(self, handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        if reply.raw is not None:
            handler.close_connection = True
            for byte in reply.raw:
                handler.wfile.write(bytes([byte]))
                if reply.drip and self._over.wait(reply.drip):
                    return
            return
        handler.send_response(reply.status)
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if reply.cut is not None:
            handler.wfile.write(content[: reply.cut])
            handler.close_connection = True
            return
        if reply.drip:
            for byte in content:
                handler.wfile.write(bytes([byte]))
                if self._over.wait(reply.drip):
                    return
        else:
            handler.wfile.write(content)


@contextlib.contextmanager
def within(seconds: float):
    """Require that a block ends in time."""
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds
