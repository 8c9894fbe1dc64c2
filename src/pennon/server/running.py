"""Running the application: one process, threads for requests, an orderly end."""

from __future__ import annotations

import signal
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread
import uvicorn

from pennon.errors import InvalidInputError
from pennon.server.connections import Acceptor, BoundedProtocol, connection_limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from starlette.types import ASGIApp

    from pennon.server.operation.health import Readiness

LAST_REQUESTS_SECONDS = 10
"""How long requests that were begun may take when the server stops."""
_BACKLOG = 1024
_SENDING_THREADS = 16


class Server(uvicorn.Server):
    """A server that stops on a signal, and at once on another one. It limits the number of connections.

    From the signal on it is not ready. It goes on for the delay that was asked for, so that load balancers notice.
    """

    readiness: Readiness | None = None
    stop_delay_seconds = 0.0
    threads = 0
    _stops_at = float("inf")
    _acceptors: tuple[Acceptor, ...] = ()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, or begin to."""
        if self.stop_delay_seconds and self._stops_at == float("inf"):
            self._stops_at = time.monotonic() + self.stop_delay_seconds
        else:
            super().handle_exit(sig, frame)
        if self.readiness is not None:
            self.readiness.is_stopping = True

    async def on_tick(self, counter: int) -> bool:
        """Return True if it is time to stop."""
        return await super().on_tick(counter) or time.monotonic() >= self._stops_at

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections by our own rule; uvicorn would accept as many as there are."""
        await super().startup(sockets=[])
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, self.threads)

        def make_protocol() -> BoundedProtocol:
            return BoundedProtocol(self.config, self.server_state, self.lifespan.state)

        limit = connection_limit()
        self._acceptors = tuple(
            Acceptor(one, self.server_state, make_protocol, tls=self.config.ssl, limit=limit) for one in sockets or ()
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and let those that are connected finish."""
        for acceptor in self._acceptors:
            await acceptor.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle Ctrl-C and SIGTERM as requests to stop, not as failures."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        taken = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self.handle_exit) for one in taken}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def listening(host: str, port: int) -> socket.socket:
    """Bind an address. The port 0 is any free port. Raises OSError if it cannot be bound."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    # Told to be TCP, so that small answers are sent at once.
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
        taken.listen(_BACKLOG)
    except OSError:
        taken.close()
        raise
    return taken


@dataclass(frozen=True)
class Certificate:
    """Files for TLS; the certificate's may hold the key, too."""

    certificate: Path
    key: Path | None = None

    def require_usable(self) -> None:
        """Raise 13 unless the two can be read and belong together."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"The certificate {str(self.certificate)!r} cannot be used: {error}") from error


def address(taken: socket.socket, certificate: Certificate | None = None) -> str:
    """Return the URL of a listening socket."""
    host, port = taken.getsockname()[:2]
    scheme = "http" if certificate is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def server(
    app: ASGIApp,
    *,
    certificate: Certificate | None = None,
    readiness: Readiness | None = None,
    stop_delay_seconds: float = 0.0,
    last_requests_seconds: int = LAST_REQUESTS_SECONDS,
    running_requests: int = 0,
) -> Server:
    """Return a server. `run(sockets=[...])` serves until it is stopped, and finishes running requests.

    It has a thread for each of `running_requests`, and some for results that are being sent.
    """
    made = Server(
        uvicorn.Config(
            app,
            # Requests are logged where they are observed.
            log_config=None,
            access_log=False,
            # Who asks is the one that is connected, whatever headers say.
            proxy_headers=False,
            server_header=False,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=last_requests_seconds,
            ssl_certfile=None if certificate is None else certificate.certificate,
            ssl_keyfile=None if certificate is None else certificate.key,
        )
    )
    made.readiness = readiness
    made.stop_delay_seconds = stop_delay_seconds
    made.threads = running_requests + _SENDING_THREADS
    return made
