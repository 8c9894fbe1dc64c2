"""Find and list dropped tables, and the status of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.clock import END_OF_TIME, now_ms, to_datetime
from pennon.directory.lookup.directories import list_root
from pennon.directory.manifest import TABLE
from pennon.directory.manifest_tables import trash
from pennon.directory.markers import claim
from pennon.directory.markers.marker import DELETED, PURGING, REVIVING, UNREADABLE, Marker, minimum_retention_ms
from pennon.directory.problems import warn_once
from pennon.directory.root_tables.settle import read_settled_marker
from pennon.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError, UnusableEntryError
from pennon.identifiers import Identifier, object_id
from pennon.paging import select_page
from pennon.results import DroppedTable, TableStatus, TableStatusReport
from pennon.table.description import count_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pennon.directory.catalog import Catalog
    from pennon.directory.lifecycle.kinds import DropRecord
    from pennon.directory.markers.claim import StoredMarker
    from pennon.store import FileEntry


def find(catalog: Catalog, identifier: Identifier, deletion_id: str | None) -> DropRecord | None:
    """Return the latest drop of a table, or the one with a deletion id; None if there is none.

    For writers: an expired claim is settled first.
    """
    return _find_latest(catalog, identifier, deletion_id, _read_settled)


def _find_latest(
    catalog: Catalog,
    identifier: Identifier,
    deletion_id: str | None,
    read_marker: Callable[[Catalog, str], StoredMarker | None],
) -> DropRecord | None:
    candidates: list[tuple[int, DropRecord]] = []
    if catalog.manifest is not None:
        for entry in catalog.manifest.read(trash.list_entries):
            is_drop_of_table = entry.original.object_type == TABLE and entry.identifier == identifier
            if is_drop_of_table and deletion_id in {None, entry.deletion_id}:
                candidates.append((entry.deletion.deleted_at_ms, entry))
    stored = read_marker(catalog, identifier[0]) if len(identifier) == 1 else None
    if (
        stored is not None
        and stored.marker.state in {DELETED, UNREADABLE}
        and deletion_id in {None, stored.deletion_id}
    ):
        candidates.append((stored.marker.deleted_at_ms, stored))
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def list_drops(
    catalog: Catalog, identifier: Identifier, deletion_id: str | None, *, settle: bool = False
) -> list[DroppedTable]:
    """Return all drops of a name, or the one with a deletion id. With `settle`, an expired claim is settled first."""
    found = [_from_trash(catalog, entry) for entry in _list_trash(catalog) if entry.identifier == identifier]
    if len(identifier) == 1:
        stored = (_read_settled if settle else _read_as_settled)(catalog, identifier[0])
        marked = _from_marker(catalog, identifier[0], stored)
        found += [] if marked is None else [marked]
    return [table for table in found if deletion_id in {None, table.deletion_id}]


def status(catalog: Catalog, identifier: Identifier) -> TableStatusReport:
    """Return whether a table exists, is dropped, or neither. Nothing is written or deleted."""
    if _exists(catalog, identifier):
        return TableStatusReport(TableStatus.EXISTS)
    found = _find_latest(catalog, identifier, None, _read_as_settled)
    if isinstance(found, trash.TrashEntry):
        dropped_at = to_datetime(found.deletion.deleted_at_ms)
        return TableStatusReport(TableStatus.SOFT_DELETED, dropped_at, found.deletion_id)
    if found is not None:
        return TableStatusReport(TableStatus.SOFT_DELETED, _dropped_at(found.marker, found), found.deletion_id)
    # The table may have been restored between the two reads.
    return TableStatusReport(TableStatus.EXISTS if _exists(catalog, identifier) else TableStatus.NOT_FOUND)


def _exists(catalog: Catalog, identifier: Identifier) -> bool:
    try:
        catalog.resolver.table(identifier)
    except (TableNotFoundError, NamespaceNotFoundError):
        return False
    return True


def list_dropped(
    catalog: Catalog,
    namespace: Identifier | None,
    token: str | None,
    limit: int | None,
    *,
    detailed: bool = False,
    choose: Callable[[Identifier], bool] = lambda _: True,
) -> tuple[list[DroppedTable], str | None]:
    """Return a page of the tables that were dropped from a namespace, or from all, and the token of the next page.

    `choose` is called with the identifiers, and returns False for those to leave out. `detailed` reads the rows and
    bytes of each table. Costs one listing at the root, and one read for each marker of the page.
    """
    entries = [
        entry
        for entry in _list_trash(catalog)
        if namespace in {None, entry.identifier[:-1]} and choose(entry.identifier)
    ]
    markers = [name for name in _list_markers(catalog) if choose((name,))] if not namespace else []
    by_key = {f"{object_id(entry.identifier)}/{entry.deletion_id}": entry for entry in entries}
    keys = sorted([*by_key, *(f"{name}/" for name in markers)])
    chosen, next_token = select_page(keys, token, limit, takes_names=False)
    names = [key[:-1] for key in chosen if key not in by_key]
    stored = dict(zip(names, _read_markers(catalog, names), strict=True))
    found = [
        _from_trash(catalog, by_key[key]) if key in by_key else _from_marker(catalog, key[:-1], stored[key[:-1]])
        for key in chosen
    ]
    tables = [table for table in found if table is not None]
    return (measure_tables(catalog, tables) if detailed else tables), next_token


def list_purgeable(
    catalog: Catalog, deleted_before: datetime | None = None, *, now: datetime | None = None, detailed: bool = False
) -> list[DroppedTable]:
    """Return the tables whose retention has expired or, with `deleted_before`, those dropped before that time.

    Costs one listing of the root, and one read for each marker that may be due. The size and time of a marker in the
    listing show which are too young. Tables with an unreadable retention are not returned.
    """
    now = to_datetime(now_ms()) if now is None else now
    due = [table for table in _candidates(catalog, deleted_before, now) if _is_selected(table, deleted_before, now)]
    return measure_tables(catalog, due) if detailed else due


def list_purgeable_and_unreadable(
    catalog: Catalog, deleted_before: datetime | None, now: datetime
) -> tuple[list[DroppedTable], list[DroppedTable]]:
    """Return the same tables and, at the same cost, those with an unreadable retention."""
    found = _candidates(catalog, deleted_before, now)
    unreadable = [table for table in found if table.fault is not None and not table.being_purged]
    return [table for table in found if _is_selected(table, deleted_before, now)], unreadable


def list_everything(catalog: Catalog) -> list[DroppedTable]:
    """Return all dropped tables, sorted by name and time. Costs one listing, and one read for each marker."""
    return _candidates(catalog, END_OF_TIME, END_OF_TIME)


def _is_selected(table: DroppedTable, deleted_before: datetime | None, now: datetime) -> bool:
    if deleted_before is None or table.being_purged:
        return table.is_due(now)
    return table.fault is None and table.dropped_at < deleted_before


def _candidates(catalog: Catalog, deleted_before: datetime | None, now: datetime) -> list[DroppedTable]:
    """Return all tables in the trash, and the dropped root tables that the listing does not rule out."""
    if deleted_before is not None and deleted_before.tzinfo is None:
        raise InvalidInputError(f"deleted_before needs a time zone, got {deleted_before}")

    def may_be_due(marker: FileEntry) -> bool:
        if deleted_before is not None:
            return to_datetime(marker.modified * 1000) < deleted_before
        retention_ms = minimum_retention_ms(marker.size)
        return not retention_ms or to_datetime(marker.modified * 1000 + retention_ms) <= now

    names = [name for name, marker in _list_markers(catalog).items() if may_be_due(marker)]
    found = [_from_trash(catalog, entry) for entry in _list_trash(catalog)]
    for name, stored in zip(names, _read_markers(catalog, names), strict=True):
        table = _from_marker(catalog, name, stored)
        if table is not None:
            found.append(table)
    return sorted(found, key=lambda table: (table.id, table.dropped_at))


def measure_tables(catalog: Catalog, tables: list[DroppedTable]) -> list[DroppedTable]:
    """Return dropped tables with their rows and bytes."""
    return catalog.store.map(lambda table: _measure(catalog, table), tables)


def _measure(catalog: Catalog, table: DroppedTable) -> DroppedTable:
    store, path = catalog.store, relative_location(catalog, table)
    if path is None:
        return table
    try:
        rows = count_rows(store.resolve(path), store.storage_options)
    except UnusableEntryError:
        return table
    return replace(table, rows=rows, bytes=store.measure(path).size)


def relative_location(catalog: Catalog, table: DroppedTable) -> str | None:
    """Return the path of a dropped table below the root, or None if no table can be there."""
    path = catalog.store.relative(table.location)
    return None if path is None or layout.find_location_fault(path) is not None else path


def _list_trash(catalog: Catalog) -> list[trash.TrashEntry]:
    if catalog.manifest is None:
        return []
    entries, problems = catalog.manifest.read(trash.list_entries_and_problems)
    for problem in problems:
        warn_once(problem, catalog.store.identity())
    return [entry for entry in entries if entry.original.object_type == TABLE]


def _list_markers(catalog: Catalog) -> dict[str, FileEntry]:
    return dict(sorted(list_root(catalog.store).markers.items()))


def _read_settled(catalog: Catalog, name: str) -> StoredMarker | None:
    current = read_settled_marker(catalog, name)
    if current is not None and current.marker.state == UNREADABLE:
        raise claim.unavailable_error(current)
    return current


def _read_as_settled(catalog: Catalog, name: str) -> StoredMarker | None:
    """Return the marker that settling would leave of a claim for a restoration, without settling it."""
    current = claim.read_marker(catalog.store, name)
    if current is None or current.marker.state != REVIVING:
        return current
    return None if current.marker.prior is None else replace(current, marker=current.marker.prior)


def _read_markers(catalog: Catalog, names: list[str]) -> list[StoredMarker | None]:
    return catalog.store.map(lambda name: claim.read_marker(catalog.store, name), names)


def _from_trash(catalog: Catalog, entry: trash.TrashEntry) -> DroppedTable:
    deletion = entry.deletion
    return DroppedTable(
        list(entry.identifier),
        entry.deletion_id,
        to_datetime(deletion.deleted_at_ms),
        END_OF_TIME if deletion.fault else to_datetime(deletion.deleted_at_ms + deletion.ttl_ms),
        catalog.format_location(str(entry.original.location)),
        entry.state == trash.PURGING,
        fault=deletion.fault or None,
    )


def _from_marker(catalog: Catalog, name: str, stored: StoredMarker | None) -> DroppedTable | None:
    dropped = None if stored is None else _dropped_state(stored.marker)
    if stored is None or dropped is None:
        return None
    # The clock of the client that dropped the table may be wrong, so the store's time counts too.
    since = max(dropped.deleted_at_ms, int(stored.written * 1000)) if dropped.ttl_ms else dropped.deleted_at_ms
    return DroppedTable(
        [name],
        dropped.deletion_id,
        _dropped_at(dropped, stored),
        END_OF_TIME if dropped.fault else to_datetime(since + dropped.ttl_ms),
        catalog.store.location(layout.root_table(name)),
        stored.marker.state == PURGING,
        fault=dropped.fault or None,
    )


def _dropped_at(dropped: Marker, stored: StoredMarker) -> datetime:
    """Return when a root table was dropped or, if that cannot be read, when its marker was written."""
    return to_datetime(dropped.deleted_at_ms or stored.written * 1000)


def _dropped_state(marker: Marker) -> Marker | None:
    """Return the dropped table that a marker stands for, also while a client holds a claim on it."""
    if marker.state in {DELETED, UNREADABLE}:
        return marker
    if marker.state == PURGING:
        # Without these it only deletes what a failed creation left.
        return marker if marker.deletion_id or marker.deleted_at_ms or marker.fault else None
    return marker.prior
