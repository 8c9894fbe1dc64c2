"""A proxy that puts a server at a distance: it delays requests and responses, and records them.

`SlowProxy` runs in a process of its own, so that neither its work nor its clock depends on the client that is measured.
Each connection has its own task, and stays open as long as the client keeps it. Headers are passed on unchanged: the
signature of an S3 request covers `Host`. Bodies are read completely before they are passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

    from tests.servers import S3Endpoint

__all__ = ["ProxiedRequest", "SlowProxy", "longest_chain"]

HERE = "127.0.0.1"
_CONTROL = "/-/"
"""Paths for the proxy itself. No bucket has this name."""
_WITHOUT_BODY = {204, 304}
_LARGEST_HEAD = 1 << 20


@dataclass(frozen=True)
class ProxiedRequest:
    """A request, from its arrival at the proxy to the moment its response is handed out (`time.monotonic()`)."""

    method: str
    path: str
    query: str
    start: float
    end: float

    def __str__(self) -> str:
        """Return the request in one line."""
        return f"{self.method} {self.path}{'?' + self.query if self.query else ''}"


def longest_chain(requests: Iterable[ProxiedRequest]) -> list[ProxiedRequest]:
    """Return the longest chain of requests in which each started after the previous one ended.

    Its length is the depth of an operation: requests that overlap do not wait for each other.
    """
    chain: list[ProxiedRequest] = []
    for request in sorted(requests, key=attrgetter("end")):
        if not chain or request.start >= chain[-1].end:
            chain.append(request)
    return chain


class SlowProxy:
    """A proxy in front of a server; a context manager.

    `delay` is the time in seconds that it adds in each direction: a request takes twice as much longer.
    """

    def __init__(self, upstream: S3Endpoint, *, delay: float) -> None:
        self._upstream = upstream
        self._delay = delay
        self._process: subprocess.Popen[str] | None = None
        self._port = 0

    @property
    def endpoint(self) -> S3Endpoint:
        """The server behind the proxy, at the proxy's address."""
        return replace(self._upstream, url=f"http://{HERE}:{self._port}")

    def set_delay(self, delay: float) -> None:
        """Change the delay of requests that arrive from now on."""
        self._control("PUT", f"delay/{delay}")

    def clear(self) -> None:
        """Forget the requests so far."""
        self._control("DELETE", "requests")

    def requests(self) -> list[ProxiedRequest]:
        """Return the requests whose response was handed out, in that order."""
        return [ProxiedRequest(**fields) for fields in self._control("GET", "requests")]

    def _control(self, method: str, path: str) -> Any:
        with contextlib.closing(http.client.HTTPConnection(HERE, self._port, timeout=30)) as connection:
            connection.request(method, _CONTROL + path)
            return json.loads(connection.getresponse().read())

    def __enter__(self) -> Self:
        port = urlsplit(self._upstream.url).port
        # The file is run directly: importing the package would take longer than the proxy needs to start.
        command = [sys.executable, str(Path(__file__)), str(port), str(self._delay)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.communicate()  # the end of its input ends it


class _Forwarder:
    """What the process of the proxy does."""

    def __init__(self, port: int, delay: float) -> None:
        self._port = port
        self._delay = delay
        self._log: list[dict[str, Any]] = []

    async def serve(self) -> None:
        """Print the port, and forward requests until the input ends."""
        server = await asyncio.start_server(self._connected, HERE, 0, limit=_LARGEST_HEAD, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        os._exit(0)  # connections are still open, and asyncio would report each one that it cancels

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server: _Connection | None = None
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                start = time.monotonic()
                method, target = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")[:2]
                body = await _read_body(reader, head)
                if target.startswith(_CONTROL):
                    writer.write(self._answer(method, target))
                    continue
                delay = self._delay
                late = await _sleep_until(time.monotonic() + delay)
                if server is None or server.reader.at_eof():
                    server = _Connection(*await asyncio.open_connection(HERE, self._port, limit=_LARGEST_HEAD))
                response = await server.exchange(method, head + body)
                await _sleep_until(time.monotonic() + delay - late)
                path, _, query = target.partition("?")
                request = ProxiedRequest(method, unquote(path), query, start, time.monotonic())
                self._log.append(vars(request))
                writer.write(response)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client or the server closed its connection
        finally:
            writer.close()
            if server is not None:
                server.writer.close()

    def _answer(self, method: str, target: str) -> bytes:
        """Return the response to a request for the proxy itself."""
        log = list(self._log)
        if method == "DELETE":
            self._log.clear()
        elif method == "PUT":
            self._delay = float(target.rpartition("/")[2])
        body = json.dumps(log).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@dataclass(frozen=True)
class _Connection:
    """A connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def exchange(self, method: str, request: bytes) -> bytes:
        """Send a request, and return the response."""
        self.writer.write(request)
        await self.writer.drain()
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if method == "HEAD" or status in _WITHOUT_BODY:
            return head
        return head + await _read_body(self.reader, head)


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """Return the body that belongs to a head, as it was sent."""
    headers = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if line)
    if b"chunked" in headers.get(b"transfer-encoding", b""):
        parts = []
        size = -1
        while size != 0:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            parts += [line, await reader.readexactly(size + 2)]
        return b"".join(parts)
    return await reader.readexactly(int(headers.get(b"content-length", b"0")))


async def _sleep_until(due: float) -> float:
    """Sleep, and return how much too long it took: the event loop's timers have a resolution of a millisecond."""
    if (remaining := due - time.monotonic()) > 0:
        await asyncio.sleep(remaining)
    return time.monotonic() - due


if __name__ == "__main__":
    asyncio.run(_Forwarder(int(sys.argv[1]), float(sys.argv[2])).serve())
