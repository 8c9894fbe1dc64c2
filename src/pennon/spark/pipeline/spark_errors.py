"""What Spark's errors say, in a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*([^\n]*)")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+.*$")
_LONGEST = 400


def condition(error: BaseException) -> str | None:
    """Give Spark's own name for an error, such as `PATH_NOT_FOUND`; None if it has none."""
    asked = getattr(error, "getCondition", None)
    named = asked() if callable(asked) else None
    if named:
        return str(named)
    found = _CONDITION.search(str(error))
    return None if found is None else found[1]


def short_message(error: BaseException, hide: Callable[[str], str] = str) -> str:
    """Give what an error says without Java's stack, Spark's plans and what `hide` takes out."""
    text = hide(str(error)).strip()
    found = _CONDITION.search(text)
    line = _SQL_STATE.sub("", found[2]) if found is not None else text.partition("\n")[0]
    line = line.strip() or type(error).__name__
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
