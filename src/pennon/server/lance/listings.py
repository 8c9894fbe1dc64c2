"""Listings, with only what a principal may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lance_namespace import ListNamespacesResponse, ListTablesResponse

from pennon.identifiers import Identifier, split_object_id
from pennon.server.permissions.listings import visible_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from pennon.server.permissions.rights import Guard, Kind, Principal

_KINDS: dict[str, Kind] = {"namespaces": "namespace", "tables": "table"}
_RESPONSES: dict[str, type[BaseModel]] = {"namespaces": ListNamespacesResponse, "tables": ListTablesResponse}


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

    With a delimiter, the names are full identifiers.
    """
    parent: Identifier = tuple(request.id or ())

    def fetch_page(token: str | None, limit: int | None) -> tuple[list[str], str | None]:
        page = fetch(request.model_copy(update={"page_token": token, "limit": limit}))
        return getattr(page, lists), page.page_token

    def choose(names: list[str]) -> list[str]:
        whole = [(*parent, name) if delimiter is None else split_object_id(name) for name in names]
        allowed = set(guard.visible(principal, whole, kind=_KINDS[lists]))
        return [name for name, identifier in zip(names, whole, strict=True) if identifier in allowed]

    names, token = visible_page(fetch_page, choose, request.page_token, request.limit)
    shown = names if delimiter is None else [delimiter.join(split_object_id(name)) for name in names]
    return _RESPONSES[lists](**{lists: shown}, page_token=token)
