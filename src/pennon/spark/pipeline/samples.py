"""Sample rows for reports, as JSON values and truncated."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pennon.spark.pipeline.scrubbing import Scrubber

_LONGEST_TEXT = 200
_MOST_ITEMS = 8


def sample_rows(frame: DataFrame, number: int, scrubber: Scrubber) -> tuple[dict[str, Any], ...]:
    """Return the first rows of a DataFrame, without secrets."""
    if not number:
        return ()
    rows = [row.asDict() for row in frame.limit(number).collect()]
    return tuple({scrubber.scrub_text(name): _to_json(value, scrubber) for name, value in row.items()} for row in rows)


def _to_json(value: Any, scrubber: Scrubber) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return scrubber.scrub_scalar(value)
    if isinstance(value, float):
        return scrubber.scrub_scalar(value if math.isfinite(value) else str(value))
    if isinstance(value, (bytes, bytearray)):
        return _cut(base64.b64encode(_scrub_bytes(bytes(value), scrubber)[:_LONGEST_TEXT]).decode())
    if isinstance(value, (list, tuple)) and not hasattr(value, "asDict"):
        return [_to_json(one, scrubber) for one in value[:_MOST_ITEMS]]
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        few = list(value.items())[:_MOST_ITEMS]
        return {scrubber.scrub_text(str(key)): _to_json(one, scrubber) for key, one in few}
    return _cut(scrubber.scrub_text(str(value)))


def _scrub_bytes(value: bytes, scrubber: Scrubber) -> bytes:
    return scrubber.scrub_text(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
