"""Format values for JSON and for the cells of tables."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_CELL = 120
_SHOWN_ITEMS = 4
_KILO = 1000
_SHORT_FLOATS = {"float", "halffloat"}


def to_json_value(value: Any) -> Any:
    """Return a value as JSON: bytes in base64, times in ISO format, decimals, NaN and infinities as strings."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else "-Infinity" if value < 0 else "Infinity"
        )
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, dict):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_value(item) for item in value]
    return str(value)


def format_cell(value: Any, kind: pa.DataType | None = None) -> str:
    """Return a short text for a value: long lists as their first items and length, bytes as their size.

    Numbers of a `kind` with less precision than Python's are written with the digits that they have.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _format_float(value, kind)
    if isinstance(value, bytes):
        return f"<{format_size(len(value))}>"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (list, tuple)):
        inner = getattr(kind, "value_type", None)
        items = [format_cell(item, inner) for item in value[:_SHOWN_ITEMS]]
        more = f", … {len(value):,} items" if len(value) > _SHOWN_ITEMS else ""
        return f"[{', '.join(items)}{more}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {format_cell(item)}" for key, item in value.items()) + "}"
    text = str(to_json_value(value)) if isinstance(value, (Decimal, date, time, timedelta)) else str(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def _format_float(value: float, kind: pa.DataType | None) -> str:
    """Return the shortest text from which the number can be read again."""
    if kind is None or str(kind) not in _SHORT_FLOATS:
        return repr(value)
    import numpy as np

    return str(np.float32(value) if str(kind) == "float" else np.float16(value))


def is_number(kind: pa.DataType) -> bool:
    """Return True for types whose values are aligned to the right."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def format_size(count: int) -> str:
    """Return a number of bytes with a unit."""
    if count < _KILO:
        return f"{count} bytes"
    amount = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= _KILO
        if amount < _KILO:
            return f"{amount:.1f} {unit}"
    return f"{amount / _KILO:.1f} PB"


def format_time(when: datetime | None) -> str:
    """Return a time with seconds, or an empty string for None."""
    return "" if when is None else f"{when:%Y-%m-%d %H:%M:%S}"
