"""Values of tables, as JSON has them and as a person reads them in a cell."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

_LONGEST_CELL = 120
_SHOWN_ITEMS = 4
_KILO = 1000


def plain(value: Any) -> Any:
    """Give a value in terms of JSON: bytes as base64, times in ISO form, decimals and what is no number as texts."""
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
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return str(value)


def cell(value: Any) -> str:
    """Give a value in a few words: long lists by their first items and their length, bytes by their number."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return f"<{size(len(value))}>"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (list, tuple)):
        items = [cell(item) for item in value[:_SHOWN_ITEMS]]
        more = f", … {len(value):,} items" if len(value) > _SHOWN_ITEMS else ""
        return f"[{', '.join(items)}{more}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {cell(item)}" for key, item in value.items()) + "}"
    text = str(plain(value)) if isinstance(value, (Decimal, date, time, timedelta)) else str(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def size(count: int) -> str:
    """Give a number of bytes as a person says it."""
    if count < _KILO:
        return f"{count} bytes"
    amount = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= _KILO
        if amount < _KILO:
            return f"{amount:.1f} {unit}"
    return f"{amount / _KILO:.1f} PB"


def moment(when: datetime | None) -> str:
    """Give a time to the second, in UTC."""
    return "" if when is None else f"{when:%Y-%m-%d %H:%M:%S}"
