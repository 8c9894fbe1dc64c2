"""How much the server does at once, and for whom. Everything beyond is refused, with the time to try again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of a server. Zero switches a limit off, where that is possible."""

    running: int = 32
    """Requests that are worked on at once."""
    queued: int = 256
    """Requests that wait for their turn."""
    queue_seconds: float = 10.0
    """How long a request waits for its turn."""
    request_seconds: float = 600.0
    """How long an answer may take to begin, after the last part of the request came. Zero: for ever."""
    rate: float = 0.0
    """Requests per second of one principal, who may send twice as many at once. Zero: as many as they like."""
    json_bytes: int = 4 << 20
    """The size of a body that is not Arrow data."""
    upload_bytes: int = 16 << 30
    """The size of a body of Arrow data. Zero: any size."""
    page_size: int = 100_000
    """The most entries of a page, however many a client asks for."""
