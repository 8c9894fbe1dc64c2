"""The tree of namespaces beside every page: the way to the current one is open, everything else is loaded on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lance_namespace import ListNamespacesRequest, ListTablesRequest

from pennon.identifiers import ROOT, object_id
from pennon.server.lance.listings import list_visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from pennon.identifiers import Identifier
    from pennon.server.pages.page_request import PageRequest

MOST_CHILDREN = 50


@dataclass(frozen=True)
class Branch:
    """A namespace in the tree."""

    identifier: Identifier
    is_current: bool = False
    level: Level | None = None
    """What is below it, if that is shown."""


@dataclass(frozen=True)
class Level:
    """The namespaces directly below another one."""

    parent: Identifier
    branches: tuple[Branch, ...]
    has_more: bool


def list_namespaces(
    request: PageRequest, parent: Identifier, token: str | None, limit: int
) -> tuple[list[str], str | None]:
    """Return a page of the visible namespaces below another one, and the token of the next page."""
    given = ListNamespacesRequest(id=list(parent), page_token=token, limit=limit)
    page: Any = _list(request, request.namespace.list_namespaces, given, "namespaces")
    return page.namespaces, page.page_token


def list_tables(
    request: PageRequest, parent: Identifier, token: str | None, limit: int
) -> tuple[list[str], str | None]:
    """Return a page of the visible tables of a namespace, and the token of the next page."""
    given = ListTablesRequest(id=list(parent), page_token=token, limit=limit)
    page: Any = _list(request, request.namespace.list_tables, given, "tables")
    return page.tables, page.page_token


def list_table_ids(request: PageRequest, place: Identifier) -> list[str]:
    """Return the object ids of all tables below a namespace, sorted, also of those that must not be shown."""
    catalog = request.catalog
    if catalog is not None and catalog.manifest is not None and not catalog.lists_directories:
        catalog.resolver.require_namespace(place)
        # From memory: a listing of so many names by queries would take seconds.
        return catalog.manifest.read_whole(lambda snapshot: snapshot.table_ids(object_id(place)))
    found = request.namespace.list_all_tables(ListTablesRequest(id=[])).tables
    if place == ROOT:
        return sorted(found)
    beginning = f"{object_id(place)}$"
    return sorted(one for one in found if one.startswith(beginning))


def build_level(request: PageRequest, parent: Identifier) -> Level:
    """Return the first namespaces below another one."""
    names, token = list_namespaces(request, parent, None, MOST_CHILDREN)
    return Level(parent, tuple(Branch((*parent, name)) for name in names), token is not None)


def build_tree(request: PageRequest, place: Identifier) -> Level:
    """Return the tree, open along the way to a namespace. Raises NamespaceNotFoundError if that does not exist."""
    level: Level | None = None
    for depth in range(len(place), -1, -1):
        parent = place[:depth]
        found = build_level(request, parent)
        branches = found.branches
        if depth < len(place):
            way = Branch(place[: depth + 1], is_current=depth + 1 == len(place), level=level)
            others = [one for one in branches if one.identifier != way.identifier]
            # The way is shown even if the namespace is not among the first.
            branches = tuple(sorted([*others, way], key=lambda one: one.identifier))
        level = Level(parent, branches, found.has_more)
    if level is None:
        raise AssertionError("the loop ends at the root")
    return level


def _list(
    request: PageRequest, fetch: Callable[[Any], Any], given: BaseModel, lists: Literal["namespaces", "tables"]
) -> BaseModel:
    return list_visible(fetch, given, guard=request.guard, principal=request.principal, lists=lists, delimiter=None)
