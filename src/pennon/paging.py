"""Pages of a sorted listing.

A page token names the last entry of the page before it, so entries that come and go meanwhile neither repeat nor lose
others.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOKEN_MARK = "p1."  # noqa: S105 - a format mark, not a secret


def page(names: Sequence[str], token: str | None, limit: int | None) -> tuple[list[str], str | None]:
    """Cut the page after `token` from sorted names; returns it with the token of the next page, None at the end."""
    if limit is not None and limit <= 0:
        raise InvalidInputError(f"The limit of a page must be positive, got {limit}")
    start = bisect_right(names, _decoded(token)) if token else 0
    end = len(names) if limit is None else min(start + limit, len(names))
    chosen = list(names[start:end])
    return chosen, _encoded(chosen[-1]) if chosen and end < len(names) else None


def _encoded(last: str) -> str:
    return _TOKEN_MARK + base64.urlsafe_b64encode(last.encode()).decode()


def _decoded(token: str) -> str:
    mark, encoded = token[: len(_TOKEN_MARK)], token[len(_TOKEN_MARK) :]
    if mark != _TOKEN_MARK:
        raise InvalidInputError(f"Bad page token {token!r}")
    try:
        last = base64.b64decode(encoded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error) as error:
        raise InvalidInputError(f"Bad page token {token!r}") from error
    if not last:
        raise InvalidInputError(f"Bad page token {token!r}")
    return last
