"""The turns of requests: how many are worked on at once, how many wait, how often one principal may ask.

A request takes its turn when it has arrived completely, and gives it back when its answer begins. So clients that send
or read slowly hold no turn. A request that is one too many is refused: 503 for all, 429 for one principal, both with
`Retry-After`. A request whose answer does not begin in time gets 504; its work goes on, and keeps the turn until then.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
from starlette.datastructures import Headers

from pennon.server.permissions.rights import principal_of
from pennon.server.refusals import refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pennon.server.operation.limits import Limits
    from pennon.server.operation.metrics import Metrics

_BURST_SECONDS = 2.0
"""A principal may send the requests of so many seconds at once."""
_MOST_PRINCIPALS = 10_000
_LENGTH, _PARTS = "content-length", "transfer-encoding"
_log = logging.getLogger(__name__)


class Turns:
    """Lets requests through in turn."""

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics) -> None:
        self._app = app
        self._limits = limits
        self._metrics = metrics
        self._turns = asyncio.Semaphore(limits.running)
        self._queued = 0
        self._rates = RateLimiter(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(self, scope, receive, send)
        wait = self._rates.seconds_to_wait(principal_of(scope).name)
        if wait:
            message = f"More than {self._limits.rate:g} requests per second: try again in {wait} s"
            await exchange.refuse(429, "TooManyRequestsException", message, {"Retry-After": str(wait)})
        elif self._turns.locked() and self._queued >= self._limits.queued:
            # Before the body is sent.
            await exchange.refuse_turn()
        else:
            await exchange.run(self._app)

    @property
    def limits(self) -> Limits:
        """The limits that are kept."""
        return self._limits

    async def take(self) -> bool:
        """Take a turn. Returns False if too many requests wait already, or it does not come in time."""
        if self._turns.locked():
            if self._queued >= self._limits.queued:
                return False
            self._count_queued(1)
            try:
                with anyio.fail_after(self._limits.queue_seconds):
                    await self._turns.acquire()
            except TimeoutError:
                return False
            finally:
                self._count_queued(-1)
        else:
            await self._turns.acquire()
        self._metrics.running.inc()
        return True

    def give_back(self) -> None:
        """Let another request have the turn."""
        self._metrics.running.dec()
        self._turns.release()

    def _count_queued(self, more: int) -> None:
        self._queued += more
        self._metrics.queued.inc(more)


class _Exchange:
    """One request and its answer."""

    def __init__(self, turns: Turns, scope: Scope, receive: Receive, send: Send) -> None:
        self._turns = turns
        self._scope = scope
        self._receive = receive
        self._send = send
        self._received_bytes = 0
        self._has_turn = False
        self._is_complete = False
        self._is_answered = False
        self._is_refused = False
        self._timer: asyncio.TimerHandle | None = None
        self._late_answer: asyncio.Task[None] | None = None

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer."""
        headers, method = Headers(scope=self._scope), self._scope["method"]
        has_body = _PARTS in headers or headers.get(_LENGTH, "0") != "0"
        if self._is_too_large(headers.get(_LENGTH, "0")):
            await self._refuse_size()
        elif has_body and method in {"GET", "HEAD"}:
            await self.refuse(400, "BadRequestException", f"A request with the method {method} has no body")
        # Nothing waits for the body of a DELETE.
        elif (has_body and method != "DELETE") or await self._begin():
            try:
                await app(self._scope, self.receive, self.send)
            finally:
                self._end_turn()

    async def receive(self) -> Message:
        """Return the next part of the request. After the last one, the request waits for its turn."""
        message = await self._receive()
        if self._is_complete or message["type"] != "http.request":
            return message
        self._received_bytes += len(message.get("body", b""))
        if self._is_too_large(str(self._received_bytes)):
            await self._refuse_size()
            return {"type": "http.disconnect"}
        self._is_complete = not message.get("more_body", False)
        if self._is_complete and not self._has_turn and not await self._begin():
            return {"type": "http.disconnect"}
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer, unless the request was refused."""
        if not self._is_answered:
            self._end_turn()
            self._is_answered = True
        if not self._is_refused:
            await self._send(message)

    async def refuse(self, status: int, kind: str, text: str, headers: dict[str, str] | None = None) -> None:
        """Answer instead of the application."""
        self._is_refused = True
        await refuse(self._scope["path"], status, kind, text, headers)(self._scope, self._receive, self._send)

    async def refuse_turn(self) -> None:
        """Ask the client to come back."""
        text = "Too many requests are worked on or wait; try again"
        await self.refuse(503, "ServiceUnavailableException", text, {"Retry-After": "1"})

    async def _begin(self) -> bool:
        """Take a turn, or refuse the request and return False."""
        if not await self._turns.take():
            await self.refuse_turn()
            return False
        self._has_turn = True
        seconds = self._turns.limits.request_seconds
        if seconds:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)
        return True

    def _end_turn(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._has_turn:
            self._has_turn = False
            self._turns.give_back()

    def _expire(self) -> None:
        text = f"There was no answer in {self._turns.limits.request_seconds:g} s; the request may still be carried out"
        _log.warning("%s: %s", self._scope["path"], text)
        self._late_answer = asyncio.ensure_future(self.refuse(504, "CommitStateUnknownException", text))
        # From now on, the application's own answer is not sent.
        self._is_refused = True

    def _is_too_large(self, length: str) -> bool:
        most = self._turns.limits.upload_bytes
        return bool(most) and length.isdecimal() and int(length) > most

    async def _refuse_size(self) -> None:
        text = f"The body is larger than {self._turns.limits.upload_bytes:,} bytes"
        await self.refuse(413, "BadRequestException", text)


@dataclass
class _Bucket:
    """What one principal may still send."""

    tokens: float
    filled_at: float = field(default_factory=time.monotonic)


class RateLimiter:
    """Counts the requests of each principal. Not thread-safe."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = max(1.0, rate * _BURST_SECONDS)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def seconds_to_wait(self, name: str) -> int:
        """Count a request and return 0, or return how long the principal has to wait before the next."""
        if not self._rate:
            return 0
        bucket = self._buckets.setdefault(name, _Bucket(self._most))
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MOST_PRINCIPALS:
            self._buckets.popitem(last=False)
        now = time.monotonic()
        bucket.tokens = min(self._most, bucket.tokens + (now - bucket.filled_at) * self._rate)
        bucket.filled_at = now
        if bucket.tokens < 1:
            return math.ceil((1 - bucket.tokens) / self._rate)
        bucket.tokens -= 1
        return 0
