"""Observes each request: gives it an id, logs it, counts it, and traces it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from pennon.server.operation import logs, request_ids
from pennon.server.permissions.rights import principal_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pennon.server.operation.metrics import Metrics
    from pennon.server.operation.tracing import Tracer

_PROTOCOLS = {"v1": "lance", "iceberg": "iceberg", "": "pages", "pages": "pages"}
_NONE = "none"
_HUNG_UP = 499
"""Counted for a request without an answer, as other servers do."""
_log = logging.getLogger(logs.REQUESTS)


class Observer:
    """Wraps the whole application, so that refusals are observed too."""

    def __init__(self, app: ASGIApp, metrics: Metrics, tracer: Tracer | None = None) -> None:
        self._app = app
        self._metrics = metrics
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        given = Headers(scope=scope)
        request_id = request_ids.begin(given.get(request_ids.HEADER))
        status = _HUNG_UP

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[request_ids.HEADER] = request_id
            await send(message)

        span = None if self._tracer is None else self._tracer.start(given, scope["method"])
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            protocol, operation = operation_of(scope)
            seconds = time.monotonic() - started
            self._metrics.record(protocol, operation, status, seconds)
            if span is not None:
                span.end(operation, {"pennon.protocol": protocol, "pennon.request_id": request_id}, status)
            if _log.isEnabledFor(logging.INFO):
                self._log_request(scope, protocol, operation, status, seconds)

    def _log_request(self, scope: Scope, protocol: str, operation: str, status: int, seconds: float) -> None:
        # The path as it came has no control characters; a query may hold tokens of pages, which help nobody.
        path = scope["raw_path"].partition(b"?")[0].decode("ascii", "backslashreplace")
        client = scope.get("client")
        fields = {
            "method": scope["method"],
            "path": path,
            "protocol": protocol,
            "operation": operation,
            "status": status,
            "seconds": round(seconds, 6),
            "client": client[0] if client else "",
            "principal": principal_of(scope).name,
        }
        _log.info("%s %s %s %.1f ms", scope["method"], path, status, seconds * 1000, extra={logs.FIELDS: fields})


def operation_of(scope: Scope) -> tuple[str, str]:
    """Return the protocol and the operation of a request; `none` where no route was found."""
    endpoint = scope.get("endpoint")
    if endpoint is None:
        return _NONE, _NONE
    name = str(endpoint.__name__).strip("_")
    protocol = _PROTOCOLS.get(scope["path"].split("/")[1], _NONE)
    return protocol, name if name[:1].isupper() else "".join(part.capitalize() for part in name.split("_"))
