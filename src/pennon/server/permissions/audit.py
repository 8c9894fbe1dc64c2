"""The audit: one JSON line for each change, and for each request that is denied.

A record is written when the outcome is known, before the client gets the answer: no client has an answer to a change
that the audit does not know of. A record has no secrets: names and identifiers only, never headers or bodies.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import datetime, timezone
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from pennon.errors import InvalidInputError
from pennon.server.permissions.authorization import ATTEMPT_KEY, Attempt
from pennon.server.permissions.rights import SCOPE_KEY, Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

STDERR = "-"
_UNAUTHENTICATED, _FORBIDDEN, _FAILED = 401, 403, 400
_LONGEST_PATH = 1000
_log = logging.getLogger(__name__)


class AuditLog:
    """Writes records to a file, which may be rotated while it is written, or to stderr."""

    def __init__(self, handler: logging.Handler) -> None:
        self._handler = handler

    @classmethod
    def open(cls, target: str) -> AuditLog:
        """Open a file, or stderr if the target is `-`. Raises InvalidInputError if that fails."""
        if target == STDERR:
            return cls(_Stream(sys.stderr))
        try:
            # Only the owner may read who did what.
            os.close(os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
            return cls(_File(Path(target), encoding="ascii"))
        except OSError as error:
            raise InvalidInputError(f"Cannot write the audit log {target!r}: {error.strerror}") from error

    def write(self, record: dict[str, Any]) -> None:
        """Write a record as one line. Everything but printable ASCII is escaped, so that no value can begin another."""
        line = json.dumps(record, ensure_ascii=True)
        self._handler.handle(logging.LogRecord(__name__, logging.INFO, "", 0, "%s", (line,), None))


class Audit:
    """Observes requests and writes the records. It wraps the gate, so that refusals are recorded, too."""

    def __init__(self, app: ASGIApp, log: AuditLog, request_id: Callable[[], str]) -> None:
        self._app = app
        self._log = log
        self._request_id = request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        attempt = scope[ATTEMPT_KEY] = Attempt()
        is_written = False

        async def write(status: int | None) -> None:
            nonlocal is_written
            is_written = True
            outcome = _outcome(attempt, status)
            if attempt.changes or outcome == "denied":
                record = self._record(scope, attempt, outcome, status)
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._log.write, record)

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start" and not is_written:
                await write(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        finally:
            if not is_written:
                # The client hung up, or the server is stopped: the change may have been made.
                await write(None)

    def _record(self, scope: Scope, attempt: Attempt, outcome: str, status: int | None) -> dict[str, Any]:
        principal, client = scope.get(SCOPE_KEY), scope.get("client")
        objects = {(need.kind, need.identifier): None for need in attempt.needs}
        return {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "who": principal.name if isinstance(principal, Principal) else None,
            "operation": attempt.operation,
            "objects": [{"kind": kind, "id": list(identifier)} for kind, identifier in objects],
            "outcome": outcome,
            "status": status,
            "request_id": self._request_id(),
            "client": client[0] if client else None,
            "method": scope["method"],
            "path": scope["raw_path"].partition(b"?")[0].decode("ascii", "backslashreplace")[:_LONGEST_PATH],
        }


def _outcome(attempt: Attempt, status: int | None) -> str:
    if attempt.is_denied or (attempt.operation is None and status in {_UNAUTHENTICATED, _FORBIDDEN}):
        return "denied"
    if status is None:
        return "unknown"
    return "failed" if status >= _FAILED else "done"


class _File(WatchedFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Report a record that cannot be written. The request goes on: its change is made already."""
        _report(record)


class _Stream(logging.StreamHandler):  # type: ignore[type-arg]  # the class has no parameters in Python 3.10
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the same
        """Report a record that cannot be written."""
        _report(record)


def _report(record: logging.LogRecord) -> None:
    _log.error("an audit record cannot be written: %s", record.getMessage(), exc_info=True)
