"""Running the application: one process, threads for requests, an orderly end."""

from __future__ import annotations

import signal
import socket
import ssl
import threading
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.config import LOGGING_CONFIG

from pennon.errors import InvalidInputError
from pennon.server.connections import Acceptor, BoundedProtocol, connection_limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fastapi import FastAPI

_LAST_REQUESTS_SECONDS = 10
_BACKLOG = 1024
# All that is logged goes to stderr: stdout has the result of the command.
_LOGGING = deepcopy(LOGGING_CONFIG)
_LOGGING["handlers"]["access"]["stream"] = "ext://sys.stderr"


class Server(uvicorn.Server):
    """A server that stops on a signal, and at once on a second one. It limits the number of connections."""

    _acceptors: tuple[Acceptor, ...] = ()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections by our own rule; uvicorn would accept as many as there are."""
        await super().startup(sockets=[])

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


def server(app: FastAPI, *, certificate: Certificate | None = None, log_requests: bool = False) -> Server:
    """Return a server. `run(sockets=[...])` serves until it is stopped, and finishes running requests."""
    return Server(
        uvicorn.Config(
            app,
            log_config=_LOGGING,
            access_log=log_requests,
            log_level="info" if log_requests else "warning",
            # Who asks is the one that is connected, whatever headers say.
            proxy_headers=False,
            server_header=False,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=_LAST_REQUESTS_SECONDS,
            ssl_certfile=None if certificate is None else certificate.certificate,
            ssl_keyfile=None if certificate is None else certificate.key,
        )
    )
