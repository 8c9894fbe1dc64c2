"""A few rows for people to look at, in terms of JSON and cut to a readable length."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pennon.spark.pipeline.scrubbing import Scrubber

_LONGEST_TEXT = 200
_MOST_ITEMS = 8


def sampled(frame: DataFrame, number: int, scrubber: Scrubber) -> tuple[dict[str, Any], ...]:
    """Give the first rows of a DataFrame, without secrets."""
    if not number:
        return ()
    rows = [row.asDict() for row in frame.limit(number).collect()]
    return tuple({scrubber.text(name): _plain(value, scrubber) for name, value in row.items()} for row in rows)


def _plain(value: Any, scrubber: Scrubber) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return scrubber.scalar(value)
    if isinstance(value, float):
        return scrubber.scalar(value if math.isfinite(value) else str(value))
    if isinstance(value, (bytes, bytearray)):
        return _cut(base64.b64encode(_scrubbed_bytes(bytes(value), scrubber)[:_LONGEST_TEXT]).decode())
    if isinstance(value, (list, tuple)) and not hasattr(value, "asDict"):
        return [_plain(one, scrubber) for one in value[:_MOST_ITEMS]]
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        few = list(value.items())[:_MOST_ITEMS]
        return {scrubber.text(str(key)): _plain(one, scrubber) for key, one in few}
    return _cut(scrubber.text(str(value)))


def _scrubbed_bytes(value: bytes, scrubber: Scrubber) -> bytes:
    return scrubber.text(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
