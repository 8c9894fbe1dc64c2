"""The page of a namespace: its properties, the namespaces below it, and its tables."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_namespace import DescribeNamespaceRequest, NamespaceExistsRequest

from pennon.errors import LanceNamespaceError
from pennon.identifiers import object_id
from pennon.server.lance.errors import describe_error
from pennon.server.pages import page_tree, paths
from pennon.server.pages.rendering import render
from pennon.server.permissions.rights import Right
from pennon.table.version_summary import VersionSummary, summarize_version

if TYPE_CHECKING:
    from starlette.responses import Response

    from pennon.identifiers import Identifier
    from pennon.server.pages.page_request import PageRequest

PAGE_SIZE = 50
_FIGURES_SECONDS = 0.25
"""How long a page may take to open tables. Those that are left are shown without figures."""


@dataclass(frozen=True)
class TableLine:
    """A table in a listing."""

    identifier: Identifier
    summary: VersionSummary | None
    """None if it was not read."""
    note: str = ""


def show_namespace(request: PageRequest) -> Response:
    """Return the page of a namespace."""
    place = request.container
    properties: dict[str, str] = {}
    if place and request.allows(Right.READ, "namespace", place):
        properties = request.namespace.describe_namespace(DescribeNamespaceRequest(id=list(place))).properties or {}
    else:
        request.namespace.namespace_exists(NamespaceExistsRequest(id=list(place)))
    names, next_namespaces = page_tree.list_namespaces(request, place, request.text("namespaces") or None, PAGE_SIZE)
    tables, next_tables = page_tree.list_tables(request, place, request.page_token, PAGE_SIZE)
    lines = summarize_tables(request, [(*place, name) for name in tables], seconds=_FIGURES_SECONDS)
    path = paths.namespace_path(place)
    return request.render(
        "namespace.html",
        place[-1] if place else "Catalog",
        place=place,
        section="browse",
        properties=properties,
        is_protected=_is_protected(request, place),
        namespaces=[(*place, name) for name in names],
        tables=lines,
        more_namespaces=next_namespaces and paths.with_query(path, namespaces=next_namespaces),
        more_tables=next_tables and paths.with_query(path, page=next_tables),
        is_later_page=request.page_token is not None or bool(request.text("namespaces")),
        can_see_trash=request.allows(Right.MANAGE, "namespace", place),
    )


def show_branch(request: PageRequest) -> Response:
    """Return the part of the tree below a namespace."""
    return render("tree_level.html", {"level": page_tree.build_level(request, request.container)})


def summarize_tables(request: PageRequest, identifiers: list[Identifier], *, seconds: float) -> list[TableLine]:
    """Return the tables with figures of their latest versions, as many as can be opened in this time."""
    deadline = time.monotonic() + seconds

    def summarize(identifier: Identifier) -> TableLine:
        return summarize_table(request, identifier) if time.monotonic() < deadline else TableLine(identifier, None)

    return request.map(summarize, identifiers)


def summarize_table(request: PageRequest, identifier: Identifier) -> TableLine:
    """Return a table with the figures of its latest version, or why there are none."""
    if not request.allows(Right.READ, "table", identifier):
        return TableLine(identifier, None)
    try:
        return TableLine(identifier, summarize_version(request.namespace.open_dataset(identifier)))
    except (LanceNamespaceError, OSError, ValueError) as error:
        return TableLine(identifier, None, describe_error(error)[1])


def _is_protected(request: PageRequest, place: Identifier) -> bool:
    if request.catalog is None or request.catalog.manifest is None or not place:
        return False
    row = request.catalog.manifest.peek(lambda snapshot: snapshot.get(object_id(place)))
    return row is not None and row.protected
