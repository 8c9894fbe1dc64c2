"""Parse durations such as `0`, `90s`, `15m`, `12h` and `7d`."""

from __future__ import annotations

import re

from pennon.errors import InvalidInputError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"([0-9]{1,12})([smhdw])")


def parse_milliseconds(text: object, what: str) -> int:
    """Return a duration in milliseconds. Raises InvalidInputError, which names `what`, if it cannot be parsed."""
    written = str(text).strip().lower()
    if written == "0":
        return 0
    found = _DURATION.fullmatch(written)
    if found is None:
        raise InvalidInputError(f"{what} must be a duration such as 0, 90s, 15m, 12h or 7d, got {text!r}")
    return int(found[1]) * _UNITS[found[2]] * 1000
