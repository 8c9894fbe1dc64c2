"""Times as the catalog stores them: milliseconds since the epoch."""

from __future__ import annotations

import time
from datetime import datetime, timezone

END_OF_TIME = datetime.max.replace(tzinfo=timezone.utc)


def now_ms() -> int:
    """Return the time of this machine's clock."""
    return int(time.time() * 1000)


def to_datetime(epoch_ms: float) -> datetime:
    """Return a stored time as a datetime in UTC; END_OF_TIME if it is past the end of the calendar."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return END_OF_TIME
