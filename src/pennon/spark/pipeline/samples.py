"""A few rows for people to look at, in terms of JSON and cut to a readable length."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LONGEST_TEXT = 200
_MOST_ITEMS = 8


def sampled(frame: DataFrame, number: int) -> tuple[dict[str, Any], ...]:
    """Give the first rows of a DataFrame."""
    if not number:
        return ()
    return tuple({name: _plain(value) for name, value in row.asDict().items()} for row in frame.limit(number).collect())


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of any column
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return _cut(base64.b64encode(bytes(value[:_LONGEST_TEXT])).decode())
    if isinstance(value, (list, tuple)) and not hasattr(value, "asDict"):
        return [_plain(one) for one in value[:_MOST_ITEMS]]
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in list(value.items())[:_MOST_ITEMS]}
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
