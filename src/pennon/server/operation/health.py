"""`/healthz`: the process answers. `/readyz`: the catalog's storage answers, and the server is not about to stop.

Both are open to everybody: they name nothing, and a probe of the storage is shared by all who ask within a second.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import anyio
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

ALIVE, READY = "/healthz", "/readyz"
_FRESH_SECONDS = 1.0
_PROBE_SECONDS = 5.0
_log = logging.getLogger(__name__)


class Readiness:
    """Whether the server can answer requests."""

    def __init__(self, probe: Callable[[], object]) -> None:
        self.is_stopping = False
        self._probe = probe
        self._probed_at = float("-inf")
        self._answers = False
        self._lock = anyio.Lock()
        self._limiter = anyio.CapacityLimiter(1)

    async def state(self) -> str:
        """Return `ready`, `stopping`, or `unavailable` if the storage does not answer."""
        async with self._lock:
            if not self.is_stopping and time.monotonic() > self._probed_at + _FRESH_SECONDS:
                self._answers = await self._ask()
                self._probed_at = time.monotonic()
        if self.is_stopping:
            return "stopping"
        return "ready" if self._answers else "unavailable"

    async def _ask(self) -> bool:
        try:
            with anyio.fail_after(_PROBE_SECONDS):
                # At most one thread waits for a storage that hangs.
                await anyio.to_thread.run_sync(self._probe, abandon_on_cancel=True, limiter=self._limiter)
        except Exception as error:  # noqa: BLE001 - whatever it is, the storage does not answer
            _log.warning("the storage of the catalog does not answer: %s", error or type(error).__name__)
            return False
        return True


class HealthEndpoints:
    """Answers both paths before anything else is asked."""

    def __init__(self, app: ASGIApp, readiness: Readiness) -> None:
        self._app = app
        self._readiness = readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"] not in {ALIVE, READY} or scope["method"] not in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        state = "alive" if scope["path"] == ALIVE else await self._readiness.state()
        status = 200 if state in {"alive", "ready"} else 503
        await JSONResponse({"status": state}, status, {"Cache-Control": "no-store"})(scope, receive, send)
