"""Pages of a sorted listing.

A page token names the last entry of the page before it, so entries that come and go between two pages neither repeat
nor lose others. Where the entries are names, the plain last name is a token as well: LanceDB passes it.
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


def page(
    names: Sequence[str], token: str | None, limit: int | None, *, takes_names: bool = True
) -> tuple[list[str], str | None]:
    """Cut the page after `token` from sorted names; returns it with the token of the next page, None at the end.

    A limit of 0 is an empty page without a token. With `takes_names=False` only tokens that were returned are accepted.
    Raises InvalidInputError for a negative limit and for a bad token.
    """
    if limit is not None and limit < 0:
        raise InvalidInputError(f"The limit of a page must not be negative, got {limit}")
    start = bisect_right(names, _decoded(token, takes_names=takes_names)) if token else 0
    end = len(names) if limit is None else min(start + limit, len(names))
    chosen = list(names[start:end])
    return chosen, _encoded(chosen[-1]) if chosen and end < len(names) else None


def require_token(token: str | None) -> None:
    """Raise InvalidInputError unless a token is None, empty, or one that a page had."""
    if token:
        _decoded(token, takes_names=False)


def _encoded(last: str) -> str:
    return _TOKEN_MARK + base64.urlsafe_b64encode(last.encode()).decode()


def _decoded(token: str, *, takes_names: bool) -> str:
    mark, encoded = token[: len(_TOKEN_MARK)], token[len(_TOKEN_MARK) :]
    if mark != _TOKEN_MARK:
        if takes_names:
            return token
        raise InvalidInputError(f"Bad page token {token!r}")
    try:
        last = base64.b64decode(encoded, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error) as error:
        raise InvalidInputError(f"Bad page token {token!r}") from error
    if not last:
        raise InvalidInputError(f"Bad page token {token!r}")
    return last
