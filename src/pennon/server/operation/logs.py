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


class _Formatter(logging.Formatter):
    def __init__(self, secrets: Collection[str], *, as_json: bool) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._secrets = secrets
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON, or text that may have a traceback."""
        request_id = current_request_id()
        if not self._as_json:
            suffix = f" [{request_id}]" if request_id else ""
            # The id is on the first line, before a traceback.
            first, newline, rest = super().format(record).partition("\n")
            return hide_secrets(f"{_time_of(record)} {first}{suffix}{newline}{rest}", self._secrets)
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
        return hide_secrets(json.dumps(document, default=str), self._secrets)


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
