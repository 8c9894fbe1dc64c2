"""Connections: how many are held at once, how long a client may take, and which one makes room for another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

    from uvicorn.server import ServerState

MOST_CONNECTIONS = 512
HEADER_SECONDS = 10.0
ANSWER_SECONDS = 60.0
"""How long a client may read nothing of an answer; the buffers of the system may hide how much it reads."""
HANDSHAKE_SECONDS = 10.0
_OTHER_FILES = 256
"""Files that the catalog itself may open."""
_PAUSE_SECONDS = 0.1
_log = logging.getLogger(__name__)


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for whatever the client has to do next; a body has one of its own."""

    _deadline: asyncio.TimerHandle | None = None
    _unsent = 0
    _sent_at = 0.0
    idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        self._stop_watching()

    def handle_events(self) -> None:
        """Stop waiting if a request has arrived; parts of its header do not extend the deadline."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request, or until the answer is read."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait until the client reads."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on with the request."""
        super().resume_writing()
        self._watch()

    def expendability(self) -> tuple[int, float] | None:
        """Return a key by which the connection to close comes first; None if a request is being worked on."""
        if self._is_working():
            return (1, self.idle_since) if self.cycle.more_body else None
        return (1 if self.transport.get_write_buffer_size() else 0, self.idle_since)

    def cut(self) -> None:
        """Close the connection at once, with what was not sent."""
        self.connections.discard(self)
        self.transport.abort()

    def _is_working(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused

    def _watch(self) -> None:
        if self._is_working():
            self._stop_watching()
        elif self._deadline is None and self in self.connections:
            self.idle_since = self._sent_at = time.monotonic()
            self._unsent = self.transport.get_write_buffer_size()
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._expire)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        now, unsent = time.monotonic(), self.transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._unsent, self._sent_at = unsent, now
        if unsent and now < self._sent_at + ANSWER_SECONDS:
            # The client reads a large answer slowly.
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._expire)
        else:
            self._deadline = None
            self.cut()


class Acceptor:
    """Accepts the connections of a listening socket, at most `limit` at once.

    When all are taken, the one that has waited longest for its client gives way; those whose request is being worked
    on are kept. So clients that send nothing, or half a header, keep nobody else out.
    """

    def __init__(
        self,
        listener: socket.socket,
        state: ServerState,
        make_protocol: Callable[[], BoundedProtocol],
        *,
        tls: ssl.SSLContext | None,
        limit: int,
    ) -> None:
        listener.setblocking(False)  # noqa: FBT003 - a flag of the standard library
        self._listener = listener
        self._state = state
        self._make_protocol = make_protocol
        self._tls = tls
        self._limit = limit
        self._arriving: dict[asyncio.Task[None], float] = {}
        self._accepting = asyncio.create_task(self._accept())

    async def close(self) -> None:
        """Accept no more, and drop those that are not connected yet."""
        tasks = [self._accepting, *self._arriving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                # The process has no file left to open, most likely.
                _log.warning("a connection was not accepted: %s", error)
                self._make_room()
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if len(self._arriving) + len(self._state.connections) >= self._limit and not self._make_room():
                taken.close()
            else:
                task = asyncio.create_task(self._connect(taken))
                self._arriving[task] = time.monotonic()
                task.add_done_callback(self._arrived)
            # A flood of connections must not keep the loop from those that are there.
            await asyncio.sleep(0)

    async def _connect(self, taken: socket.socket) -> None:
        options: dict[str, Any] = {"ssl": self._tls}
        if self._tls is not None:
            options["ssl_handshake_timeout"] = HANDSHAKE_SECONDS
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._make_protocol, taken, **options)
        except OSError as error:
            _log.debug("a connection was not made: %s", error)
        except asyncio.CancelledError:
            taken.close()
            raise

    def _arrived(self, task: asyncio.Task[None]) -> None:
        self._arriving.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a connection was not made", exc_info=task.exception())

    def _make_room(self) -> bool:
        """Close the connection that has waited longest for its client; return False if there is none."""
        choices: list[tuple[tuple[int, float], Callable[[], object]]] = [
            ((0, since), partial(self._drop, task)) for task, since in self._arriving.items()
        ]
        choices += [
            (key, connection.cut)
            for connection in self._state.connections
            if isinstance(connection, BoundedProtocol) and (key := connection.expendability()) is not None
        ]
        if not choices:
            return False
        min(choices, key=lambda choice: choice[0])[1]()
        return True

    def _drop(self, task: asyncio.Task[None]) -> None:
        self._arriving.pop(task, None)
        task.cancel()


def connection_limit() -> int:
    """Return how many connections may be held: fewer than the files that this process may open."""
    with contextlib.suppress(OSError, ValueError):
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if allowed != resource.RLIM_INFINITY:
            return max(1, min(MOST_CONNECTIONS, max(allowed - _OTHER_FILES, allowed // 2)))
    return MOST_CONNECTIONS
