"""The id of a request: the client's own if it is valid, or a new one. It is in logs, traces, audit and answers."""

from __future__ import annotations

import re
import uuid
from contextvars import ContextVar

HEADER = "x-request-id"
_VALID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_current: ContextVar[str] = ContextVar("pennon_request_id", default="")


def begin(given: str | None) -> str:
    """Return the id of the request that begins now, and remember it for this task and its threads."""
    chosen = given if given is not None and _VALID.fullmatch(given) else uuid.uuid4().hex
    _current.set(chosen)
    return chosen


def current_request_id() -> str:
    """Return the id of the request that is worked on, or an empty text outside a request."""
    return _current.get()
