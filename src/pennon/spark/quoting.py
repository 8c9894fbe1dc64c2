"""Names in SQL: quoting, case, and looking one up."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Planning a query compares each of its names with each column.
_FOLDED_NAMES = 16_384


def quote_name(*parts: str) -> str:
    """Return a name with each part in backticks."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


@lru_cache(maxsize=_FOLDED_NAMES)
def fold_name(name: str) -> str:
    """Return a name in a form that ignores case. Names that Spark takes as equal are equal here; a few others too."""
    return name.upper().casefold().replace("i\u0307", "i")


def find_name(name: str, names: Sequence[str], *, case_sensitive: bool = False) -> str | None:
    """Return the one of `names` that equals a name, else the only one that differs just in case, or None."""
    if name in names:
        return name
    like = [] if case_sensitive else [other for other in names if fold_name(other) == fold_name(name)]
    return like[0] if len(like) == 1 else None
