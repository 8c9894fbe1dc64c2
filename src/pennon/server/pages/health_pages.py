"""The health of the catalog: figures of tables, those that need work, and entries of the root that cannot be used.

A request looks into a limited number of tables. The next request continues after them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import LanceNamespaceError, TableIsOnlyDeclaredError, UnsupportedOperationError
from pennon.identifiers import object_id, split_object_id
from pennon.paging import encode_token, select_page
from pennon.server.lance.errors import describe_error
from pennon.server.pages import page_tree, paths
from pennon.server.pages.page_request import TOGETHER
from pennon.server.pages.rendering import redirect
from pennon.server.permissions.rights import Need, Right
from pennon.table.version_summary import MANY_DELETED_ROWS, MANY_SMALL_FRAGMENTS, summarize_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.responses import Response

    from pennon.identifiers import Identifier
    from pennon.server.pages.page_request import PageRequest
    from pennon.server.pages.root_search import RootSearch
    from pennon.table.version_summary import VersionSummary

MOST_OPENED = 500
"""How many tables a page looks into, at most."""
LOOK_SECONDS = 1.5
"""How long it may take for that."""
MOST_FAULTY = 50
"""After so many tables that need work, a page ends."""
LARGEST = 10
_BAR_WIDTH = 160


@dataclass(frozen=True)
class TableHealth:
    """A table that was looked into."""

    identifier: Identifier
    summary: VersionSummary | None
    """None if it cannot be read."""
    reasons: tuple[str, ...]
    """Why it needs work."""
    bar: float = 0


@dataclass(frozen=True)
class HealthTotals:
    """Sums over tables."""

    tables: int
    rows: int
    data_bytes: int
    fragments: int
    deleted_rows: int


@dataclass(frozen=True)
class HealthPart:
    """What a page has looked into."""

    tables: tuple[TableHealth, ...]
    declared: int
    left: int
    next_token: str | None

    @property
    def totals(self) -> HealthTotals:
        """The sums over the tables that could be read."""
        read = [one.summary for one in self.tables if one.summary is not None]
        return HealthTotals(
            len(self.tables),
            sum(one.rows for one in read),
            sum(one.data_bytes for one in read),
            sum(one.fragments for one in read),
            sum(one.deleted_rows for one in read),
        )

    @property
    def faulty(self) -> list[TableHealth]:
        """The tables that need work."""
        return [one for one in self.tables if one.reasons]

    @property
    def largest(self) -> list[tuple[TableHealth, float]]:
        """The largest tables, each with the length of its bar."""
        read = [(one.summary.data_bytes, one) for one in self.tables if one.summary is not None]
        read = sorted(read, key=lambda pair: (-pair[0], pair[1].identifier))[:LARGEST]
        most = (read[0][0] if read else 0) or 1
        return [(one, round(_BAR_WIDTH * size / most, 1)) for size, one in read]


def show_health(request: PageRequest) -> Response:
    """Return the figures of tables, and those that need work."""
    place = request.container
    started = time.monotonic()
    part = look_into_tables(request, page_tree.list_table_ids(request, place))
    query = {"namespace": object_id(place), "page": part.next_token}
    return request.render(
        "health.html",
        "Health",
        place=place,
        section="health",
        view="tables",
        part=part,
        seconds=time.monotonic() - started,
        more=part.next_token and paths.with_query(paths.HEALTH, **query),
        is_later_page=request.page_token is not None,
        many_small=MANY_SMALL_FRAGMENTS,
        many_deleted=MANY_DELETED_ROWS,
        can_search_root=_may_search_root(request),
    )


def look_into_tables(request: PageRequest, ids: Sequence[str]) -> HealthPart:
    """Look into tables, as many as fit into a page. Tables that may not be read are left out."""
    deadline = time.monotonic() + LOOK_SECONDS
    visible = request.guard.visible(request.principal, [split_object_id(one) for one in ids], kind="table")
    left, _ = select_page([object_id(one) for one in visible], request.page_token, None)
    found: list[TableHealth] = []
    looked = declared = faulty = 0
    while looked < min(len(left), MOST_OPENED) and faulty < MOST_FAULTY and time.monotonic() <= deadline:
        chosen = [split_object_id(one) for one in left[looked : looked + TOGETHER]]
        looked += len(chosen)
        readable = [one for one in chosen if request.allows(Right.READ, "table", one)]
        for health in request.map(lambda one: _look_into_table(request, one), readable):
            if health is None:
                declared += 1
            else:
                found.append(health)
                faulty += bool(health.reasons)
    rest = len(left) - looked
    return HealthPart(tuple(found), declared, rest, encode_token(left[looked - 1]) if rest else None)


def show_entries(request: PageRequest) -> Response:
    """Return the result of the last search of the root, and whether one is running."""
    return request.render(
        "health_entries.html",
        "Health",
        section="health",
        view="entries",
        state=_root_search(request).state,
        can_search_root=True,
    )


def start_search(request: PageRequest) -> Response:
    """Start a search of the root, unless one is running."""
    _root_search(request).start()
    return redirect(paths.HEALTH_ENTRIES)


def to_search_root(_: PageRequest) -> Iterable[Need]:
    """Need to administer everything, as the operation ListProblems does: entries have names of any table."""
    return [Need(Right.ADMINISTER, "namespace", ())]


def _look_into_table(request: PageRequest, identifier: Identifier) -> TableHealth | None:
    """Return the health of a table, or None if it is only declared."""
    try:
        summary = summarize_version(request.namespace.open_dataset(identifier))
    except TableIsOnlyDeclaredError:
        return None
    except (LanceNamespaceError, OSError, ValueError) as error:
        return TableHealth(identifier, None, (f"It cannot be read: {describe_error(error)[1]}",))
    return TableHealth(identifier, summary, tuple(summary.list_compaction_reasons()))


def _may_search_root(request: PageRequest) -> bool:
    return request.root_search is not None and request.allows(Right.ADMINISTER, "namespace", ())


def _root_search(request: PageRequest) -> RootSearch:
    if request.root_search is None:
        raise UnsupportedOperationError("This page is only for directory catalogs")
    return request.root_search
