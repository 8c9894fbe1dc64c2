"""Short messages for errors of Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*([^\n]*)")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+.*$")
_LONGEST = 400


def error_condition(error: BaseException) -> str | None:
    """Return Spark's name for an error, such as `PATH_NOT_FOUND`, or None if it has none."""
    asked = getattr(error, "getCondition", None)
    named = asked() if callable(asked) else None
    if named:
        return str(named)
    found = _CONDITION.search(str(error))
    return None if found is None else found[1]


def shorten_error(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """Return the message of an error in one line, without stack traces and plans, after applying `hide`."""
    text = hide(str(error)).strip()
    found = _CONDITION.search(text)
    line = _SQL_STATE.sub("", found[2]) if found is not None else text.partition("\n")[0]
    line = line.strip() or type(error).__name__
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
