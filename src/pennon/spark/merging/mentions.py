"""Which columns an SQL expression may speak of: never too few, now and then one too many."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_STAR = re.compile(r"\.\s*\*")


def mentioned(columns: Iterable[str], texts: Iterable[str | None]) -> list[str]:
    """Give the columns, in their order, whose names occur in one of the texts, or all if a text says `alias.*`.

    Words are compared without regard to case; whether they stand in a literal is not looked at.
    """
    given = [text for text in texts if text is not None]
    if any(_STAR.search(text) for text in given):
        return list(columns)
    words = {(plain or quoted.replace("``", "`")).lower() for text in given for quoted, plain in _WORD.findall(text)}
    return [name for name in columns if name.lower() in words]
