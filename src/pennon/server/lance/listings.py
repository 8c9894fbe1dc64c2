"""Pages of listings, with only what a principal may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pennon.identifiers import DELIMITER, Identifier, object_id, split_object_id
from pennon.paging import encode_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from pennon.server.permissions.rights import Guard, Kind, Principal


def list_visible(
    fetch: Callable[[Any], Any],
    request: Any,  # noqa: ANN401 - the request of any listing
    *,
    guard: Guard,
    principal: Principal,
    lists: Literal["namespaces", "tables"],
    delimiter: str | None,
) -> BaseModel:
    """Return a page of the names that the principal may see, and a token if there are more of them.

    Neither the page nor the token depends on other names. With a delimiter, the names are full identifiers.
    """
    kind: Kind = "namespace" if lists == "namespaces" else "table"
    parent: Identifier = tuple(request.id or ())
    # One more than asked for, to know whether there is another page.
    most = request.limit + 1 if request.limit is not None and request.limit > 0 else None
    found: list[Identifier] = []
    token = request.page_token
    while True:
        left = request.limit if most is None else most - len(found)
        page = fetch(request.model_copy(update={"page_token": token, "limit": left}))
        names = getattr(page, lists)
        whole = [split_object_id(name) if delimiter is not None else (*parent, name) for name in names]
        found += guard.visible(principal, whole, kind=kind)
        token = page.page_token
        if not token or (most is not None and len(found) >= most):
            break
    following = None
    if most is not None and len(found) >= most:
        found = found[: most - 1]
        following = encode_token(found[-1][-1] if delimiter is None else object_id(found[-1]))
    shown = [one[-1] if delimiter is None else (delimiter or DELIMITER).join(one) for one in found]
    shown_page: BaseModel = type(page)(**{lists: shown}, page_token=following)
    return shown_page
