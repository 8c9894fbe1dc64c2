"""How long a dropped object is kept, as a marker or a row of the trash records it.

A retention counts only if it is valid beyond doubt. An unreadable retention keeps the object: it is listed with the
reason, and purged only by name and with force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.stored_json import parse_digits

if TYPE_CHECKING:
    from collections.abc import Mapping

DELETED_AT = "deleted_at_ms"
TTL = "ttl_ms"
FIX = "purge it by name and with force, or restore it and drop it again"
_EARLIEST_MS = 1_577_836_800_000
"""The start of 2020. No client wrote such times before. A time in seconds is far below it."""
_CLOCK_SKEW_MS = 24 * 3600 * 1000
"""How far the clock of another machine may be ahead. A time in microseconds is far above it."""
_MAX_DIGITS = 24
_MAX_CHARACTERS = 40


@dataclass(frozen=True)
class Retention:
    """When an object was dropped and how long it is kept; `fault` is the reason if that cannot be read."""

    deleted_at_ms: int = 0
    """0 if it cannot be read."""
    ttl_ms: int = 0
    fault: str = ""


def parse_retention(content: Mapping[str, object], now_ms: int, *, as_text: bool = False) -> Retention:
    """Return the retention that two fields hold: whole numbers in markers, digits in rows (`as_text`)."""
    deleted_at, fault = _parse_number(content, DELETED_AT, as_text=as_text)
    if not fault and deleted_at < _EARLIEST_MS:
        deleted_at, fault = 0, f"{DELETED_AT} is before 2020: are these milliseconds?"
    elif not fault and deleted_at > now_ms + _CLOCK_SKEW_MS:
        deleted_at, fault = 0, f"{DELETED_AT} is in the future: are these milliseconds?"
    ttl, ttl_fault = _parse_number(content, TTL, as_text=as_text)
    return Retention(deleted_at, ttl, fault or ttl_fault)


def _parse_number(content: Mapping[str, object], key: str, *, as_text: bool) -> tuple[int, str]:
    value = content.get(key)
    if value is None:
        return 0, f"{key} is missing"
    if as_text:
        number = parse_digits(value, _MAX_DIGITS)
    else:
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if number is None or not 0 <= number < 10**_MAX_DIGITS:
        return 0, f"{key} is {_shorten(value)} instead of a whole number of milliseconds"
    return number, ""


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
