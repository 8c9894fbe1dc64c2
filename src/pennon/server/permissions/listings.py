"""Pages of listings, with only what a principal may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.paging import encode_token

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_AT_ONCE = 1000


def visible_page(
    fetch: Callable[[str | None, int | None], tuple[list[str], str | None]],
    choose: Callable[[list[str]], list[str]],
    token: str | None,
    limit: int | None,
) -> tuple[list[str], str | None]:
    """Return a page of those names that `choose` keeps, and a token if there are more of them.

    Neither the page nor the token depends on other names.
    """
    if limit is not None and limit <= 0:
        return fetch(token, limit)
    # One more than asked for, to know whether there is another page.
    most = None if limit is None else limit + 1
    found: list[str] = []
    size = most
    while True:
        names, token = fetch(token, size)
        found += choose(names)
        if not token or (most is not None and len(found) >= most):
            break
        # Pages with few visible names must not cost a request for each of them.
        size = None if most is None else max(most - len(found), _MOST_AT_ONCE)
    if most is None or limit is None or len(found) < most:
        return found, None
    return found[:limit], encode_token(found[limit - 1])
