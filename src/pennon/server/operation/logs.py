"""Logs on stderr, as lines of text or as JSON, without secrets."""

from __future__ import annotations

import json
import logging
import logging.config
import time
from typing import TYPE_CHECKING, Any

from pennon.redaction import hide_secrets
from pennon.server.operation.request_ids import current_request_id

if TYPE_CHECKING:
    from collections.abc import Collection

REQUESTS = "pennon.server.requests"
"""The logger with a record for each request."""
FIELDS = "fields"
"""The attribute of a record with more fields for JSON."""
_ESCAPES = {number: f"\\x{number:02x}" for number in (*range(32), 127)}


class _Formatter(logging.Formatter):
    def __init__(self, secrets: Collection[str], *, as_json: bool) -> None:
        super().__init__()
        self._secrets = {*secrets, *(json.dumps(one)[1:-1] for one in secrets)}
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON, or text that may have a traceback."""
        text = self._json(record) if self._as_json else self._text(record)
        return hide_secrets(text, self._secrets)

    def _text(self, record: logging.LogRecord) -> str:
        request_id = current_request_id()
        suffix = f" [{request_id}]" if request_id else ""
        # A name in a message cannot begin a line of its own.
        message = record.getMessage().translate(_ESCAPES)
        exception = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{_time_of(record)} {record.levelname} {record.name}: {message}{suffix}{exception}"

    def _json(self, record: logging.LogRecord) -> str:
        request_id = current_request_id()
        document: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id:
            document["request_id"] = request_id
        document |= getattr(record, FIELDS, {})
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


def configure(*, as_json: bool, requests: bool, secrets: Collection[str] = ()) -> None:
    """Write all records of this process to stderr: warnings and errors, and requests if they are asked for."""
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": {"()": lambda: _Formatter(secrets, as_json=as_json)}},
            "handlers": {
                "stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "line"}
            },
            "root": {"level": "WARNING", "handlers": ["stderr"]},
            "loggers": {REQUESTS: {"level": "INFO" if requests else "WARNING"}},
        }
    )
    logging.captureWarnings(capture=True)


def _time_of(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"
