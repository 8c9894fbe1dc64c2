"""Lengths of time as people write them: `0`, `90s`, `15m`, `12h`, `7d`."""

from __future__ import annotations

import re

from pennon.errors import InvalidInputError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_WRITTEN = re.compile(r"([0-9]{1,12})([smhdw])")


def milliseconds(text: object, what: str) -> int:
    """Read a length of time, or raise InvalidInputError (13) that names what it is for."""
    written = str(text).strip().lower()
    if written == "0":
        return 0
    found = _WRITTEN.fullmatch(written)
    if found is None:
        raise InvalidInputError(f"{what} is a length of time such as 0, 90s, 15m, 12h or 7d, got {text!r}")
    return int(found[1]) * _UNITS[found[2]] * 1000
