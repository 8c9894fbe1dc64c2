"""Pages of a sorted listing.

A page token contains the last entry of the previous page. So entries that appear or disappear between two pages do not
repeat or hide others. For listings of names, the plain last name is also a valid token: LanceDB passes it.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TOKEN_MARK = "p1."  # noqa: S105 - a format mark, not a secret


def select_page(
    names: Sequence[str], token: str | None, limit: int | None, *, takes_names: bool = True
) -> tuple[list[str], str | None]:
    """Return the page of sorted names after `token`, and the token of the next page, or None at the end.

    A limit of 0 returns an empty page without a token. With `takes_names=False` only returned tokens are accepted.
    Raises InvalidInputError if the limit is negative or the token is not valid.
    """
    if limit is not None and limit < 0:
        raise InvalidInputError(f"The limit of a page must not be negative, got {limit}")
    start = bisect_right(names, _decode_token(token, takes_names=takes_names)) if token else 0
    end = len(names) if limit is None else min(start + limit, len(names))
    chosen = list(names[start:end])
    return chosen, encode_token(chosen[-1]) if chosen and end < len(names) else None


def fetch_page(
    fetch: Callable[[str, int | None], Sequence[str]],
    token: str | None,
    limit: int | None,
    *,
    takes_names: bool = True,
) -> tuple[list[str], str | None]:
    """Return a page like `select_page`, of names that `fetch` returns: those after a name, and at most so many."""
    if limit is not None and limit < 0:
        raise InvalidInputError(f"The limit of a page must not be negative, got {limit}")
    after = _decode_token(token, takes_names=takes_names) if token else ""
    if not limit:
        return list(fetch(after, None)) if limit is None else [], None
    names = fetch(after, limit + 1)
    chosen = list(names[:limit])
    return chosen, encode_token(chosen[-1]) if len(names) > limit else None


def require_token(token: str | None) -> None:
    """Raise InvalidInputError unless the token is None, empty, or was returned with a page."""
    if token:
        _decode_token(token, takes_names=False)


def encode_token(last: str) -> str:
    """Return the token of the page after an entry."""
    return _TOKEN_MARK + base64.urlsafe_b64encode(last.encode()).decode()


def _decode_token(token: str, *, takes_names: bool) -> str:
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
