"""Search over names, and over columns and properties of tables. The work of a request is bounded."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_namespace import DescribeTableRequest

from pennon.errors import InvalidInputError, LanceNamespaceError
from pennon.identifiers import object_id, split_object_id
from pennon.paging import encode_token, select_page
from pennon.server.pages import page_tree, paths
from pennon.server.pages.page_request import TOGETHER
from pennon.server.permissions.rights import Right

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.responses import Response

    from pennon.identifiers import Identifier
    from pennon.server.pages.page_request import PageRequest

SUBJECTS = ("names", "columns", "properties")
RESULTS_ON_PAGE = 50
MOST_OPENED = 500
"""How many tables a search for columns or properties looks into, at most, before it shows what it found."""
SEARCH_SECONDS = 1.5
"""How long it may take for that."""
_LONGEST = 200
_MOST_REASONS = 5


@dataclass(frozen=True)
class Match:
    """A table or namespace that was found."""

    identifier: Identifier
    kind: str
    reason: str = ""


@dataclass(frozen=True)
class SearchResult:
    """What was found, and how much was searched."""

    matches: tuple[Match, ...]
    next_token: str | None
    searched: int = 0
    """How many tables were looked into; 0 if only names were searched."""
    left: int = 0
    unreadable: int = 0


def show_search(request: PageRequest) -> Response:
    """Return what a search finds in a namespace and below it."""
    place, text = request.container, request.text("q")[:_LONGEST]
    subject = request.text("in") or SUBJECTS[0]
    if subject not in SUBJECTS:
        raise InvalidInputError(f"Search in one of {', '.join(SUBJECTS)}, not in {subject[:40]!r}")
    started = time.monotonic()
    result = _search(request, place, text, subject) if text else None
    next_path = None
    if result is not None and result.next_token is not None:
        query = {"q": text, "in": subject, "namespace": object_id(place), "page": result.next_token}
        next_path = paths.with_query(paths.SEARCH, **query)
    return request.render(
        "search.html",
        f"Search: {text}" if text else "Search",
        place=place,
        section="search",
        search_text=text,
        subject=subject,
        result=result,
        more=next_path,
        seconds=time.monotonic() - started,
    )


def _search(request: PageRequest, place: Identifier, text: str, subject: str) -> SearchResult:
    ids = page_tree.list_table_ids(request, place)
    return _search_names(request, ids, text) if subject == "names" else _search_inside(request, ids, text, subject)


def _search_names(request: PageRequest, ids: list[str], text: str) -> SearchResult:
    wanted = text.lower().replace(".", "$")
    tables = [one for one in ids if wanted in one.lower()]
    matches = [Match(split_object_id(one), "table") for one in tables] + list(_find_namespaces(ids, wanted))
    keys = {f"{object_id(one.identifier)}${one.kind}": one for one in matches}
    visible = _choose_visible(request, keys)
    chosen, token = select_page(sorted(visible), request.page_token, RESULTS_ON_PAGE)
    return SearchResult(tuple(visible[one] for one in chosen), token)


def _choose_visible(request: PageRequest, keys: dict[str, Match]) -> dict[str, Match]:
    shown: set[tuple[str, Identifier]] = set()
    for kind in ("table", "namespace"):
        found = [one.identifier for one in keys.values() if one.kind == kind]
        allowed = request.guard.visible(request.principal, found, kind="table" if kind == "table" else "namespace")
        shown |= {(kind, one) for one in allowed}
    return {key: one for key, one in keys.items() if (one.kind, one.identifier) in shown}


def _find_namespaces(ids: list[str], wanted: str) -> Iterator[Match]:
    """Return the namespaces with tables whose own name matches."""
    seen: set[str] = set()
    for one in ids:
        parent = one.rpartition("$")[0]
        while parent and parent not in seen:
            seen.add(parent)
            if wanted in parent.lower():
                yield Match(split_object_id(parent), "namespace")
            parent = parent.rpartition("$")[0]


def _search_inside(request: PageRequest, ids: list[str], text: str, subject: str) -> SearchResult:
    deadline = time.monotonic() + SEARCH_SECONDS
    wanted = text.lower()
    visible = request.guard.visible(request.principal, [split_object_id(one) for one in ids], kind="table")
    left, _ = select_page([object_id(one) for one in visible], request.page_token, None)
    matches: list[Match] = []
    searched = unreadable = 0

    def look(one: str) -> list[str] | None:
        return _look_inside(request, split_object_id(one), wanted, subject)

    while searched < min(len(left), MOST_OPENED) and len(matches) < RESULTS_ON_PAGE and time.monotonic() <= deadline:
        chosen = left[searched : searched + TOGETHER]
        searched += len(chosen)
        for one, reasons in zip(chosen, request.map(look, chosen), strict=True):
            unreadable += reasons is None
            matches += [Match(split_object_id(one), "table", ", ".join(reasons[:_MOST_REASONS]))] if reasons else []
    rest = len(left) - searched
    return SearchResult(tuple(matches), encode_token(left[searched - 1]) if rest else None, searched, rest, unreadable)


def _look_inside(request: PageRequest, identifier: Identifier, wanted: str, subject: str) -> list[str] | None:
    """Return what matches in a table that may be read; None if it cannot be read."""
    if not request.allows(Right.READ, "table", identifier):
        return []
    try:
        return _list_reasons(request, identifier, wanted, subject)
    except (LanceNamespaceError, OSError, ValueError):
        return None


def _list_reasons(request: PageRequest, identifier: Identifier, wanted: str, subject: str) -> list[str]:
    if subject == "columns":
        schema = request.namespace.open_dataset(identifier).schema
        return [f"{field.name}: {field.type}" for field in schema if wanted in field.name.lower()]
    described = request.namespace.describe_table(DescribeTableRequest(id=list(identifier)))
    pairs = (described.properties or {}).items()
    return [f"{key} = {value}" for key, value in pairs if wanted in key.lower() or wanted in value.lower()]
