"""What is dropped: finding it by name, listing it, and the status of a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.claims import claim
from pennon.directory.claims.marker import (
    DELETED,
    PURGING,
    REVIVING,
    UNREADABLE,
    Marker,
    kept_at_least_ms,
    milliseconds,
)
from pennon.directory.lookup.listing import list_root
from pennon.directory.manifest import TABLE
from pennon.directory.manifest_tables import trash
from pennon.directory.problem_log import warn_once
from pennon.directory.root_tables import purge
from pennon.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError, UnusableEntryError
from pennon.identifiers import ROOT, Identifier, object_id
from pennon.paging import select_page
from pennon.results import DroppedTable, TableStatus, TableStatusReport
from pennon.table.description import count_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.directory.catalog import Catalog
    from pennon.store import FileEntry

_END_OF_TIME = datetime.max.replace(tzinfo=timezone.utc)


def find(catalog: Catalog, identifier: Identifier, deletion_id: str | None) -> trash.Trashed | claim.Standing | None:
    """Find the latest drop of a table, or the one with a deletion id: in the trash, or by the marker at the root.

    For writers: brings a marker whose owner is dead to rest.
    """
    return _latest(catalog, identifier, deletion_id, _settled)


def _latest(
    catalog: Catalog,
    identifier: Identifier,
    deletion_id: str | None,
    read_marker: Callable[[Catalog, str], claim.Standing | None],
) -> trash.Trashed | claim.Standing | None:
    candidates: list[tuple[int, trash.Trashed | claim.Standing]] = []
    if catalog.manifest is not None:
        for entry in catalog.manifest.read(trash.in_snapshot):
            wanted = entry.original.object_type == TABLE and entry.identifier == identifier
            if wanted and deletion_id in {None, entry.deletion_id}:
                candidates.append((entry.deletion.deleted_at_ms, entry))
    if len(identifier) == 1:
        standing = read_marker(catalog, identifier[0])
        if standing is not None and standing.marker is not None:
            marker = standing.marker
            if marker.state in {DELETED, UNREADABLE} and deletion_id in {None, marker.deletion_id}:
                candidates.append((marker.deleted_at_ms, standing))
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def generations(
    catalog: Catalog, identifier: Identifier, deletion_id: str | None, *, settle: bool = False
) -> list[DroppedTable]:
    """Give everything that was dropped under a name, or the one with a deletion id.

    With `settle`, for writers, a marker whose owner is dead is brought to rest first.
    """
    found = [_from_trash(catalog, entry) for entry in _trashed(catalog) if entry.identifier == identifier]
    if len(identifier) == 1:
        standing = (_settled if settle else _looked_at)(catalog, identifier[0])
        marked = _from_marker(catalog, identifier[0], standing)
        found += [] if marked is None else [marked]
    return [table for table in found if deletion_id in {None, table.deletion_id}]


def status(catalog: Catalog, identifier: Identifier) -> TableStatusReport:
    """Tell whether a table is there, dropped, or neither (never there, or purged). Nothing is written or deleted."""
    if _exists(catalog, identifier):
        return TableStatusReport(TableStatus.EXISTS)
    found = _latest(catalog, identifier, None, _looked_at)
    if isinstance(found, trash.Trashed):
        return TableStatusReport(TableStatus.SOFT_DELETED, moment(found.deletion.deleted_at_ms), found.deletion_id)
    if found is not None and found.marker is not None:
        return TableStatusReport(TableStatus.SOFT_DELETED, _dropped_at(found.marker, found), found.marker.deletion_id)
    # It may have been restored between the two looks.
    return TableStatusReport(TableStatus.EXISTS if _exists(catalog, identifier) else TableStatus.NOT_FOUND)


def _exists(catalog: Catalog, identifier: Identifier) -> bool:
    try:
        catalog.resolver.table(identifier)
    except (TableNotFoundError, NamespaceNotFoundError):
        return False
    return True


def list_dropped(
    catalog: Catalog, namespace: Identifier, token: str | None, limit: int | None, *, detailed: bool = False
) -> tuple[list[DroppedTable], str | None]:
    """List a page of the tables that were dropped from a namespace; `detailed` looks at each for its rows and bytes."""
    entries = [entry for entry in _trashed(catalog) if entry.identifier[:-1] == namespace]
    markers = _marked(catalog) if namespace == ROOT else {}
    by_key = {f"{object_id(entry.identifier)}/{entry.deletion_id}": entry for entry in entries}
    keys = sorted([*by_key, *(f"{name}/" for name in markers)])
    chosen, next_token = select_page(keys, token, limit, takes_names=False)
    names = [key[:-1] for key in chosen if key not in by_key]
    read = dict(zip(names, _read(catalog, names), strict=True))
    found = [
        _from_trash(catalog, by_key[key]) if key in by_key else _from_marker(catalog, key[:-1], read[key[:-1]])
        for key in chosen
    ]
    tables = [table for table in found if table is not None]
    return (measured(catalog, tables) if detailed else tables), next_token


def list_purgeable(
    catalog: Catalog, deleted_before: datetime | None = None, *, now: datetime | None = None, detailed: bool = False
) -> list[DroppedTable]:
    """List the tables whose time is over, or, with `deleted_before`, those dropped before then.

    One listing of the root, and one small read for each of its markers that may be due: the size and the time of
    those of which the listing tells that they are not are enough. Tables of which nobody can tell for how long they
    are kept are not listed: see `list_everything`.
    """
    now = moment(milliseconds()) if now is None else now
    due = [table for table in _candidates(catalog, deleted_before, now) if _is_wanted(table, deleted_before, now)]
    return measured(catalog, due) if detailed else due


def list_purgeable_and_unreadable(
    catalog: Catalog, deleted_before: datetime | None, now: datetime
) -> tuple[list[DroppedTable], list[DroppedTable]]:
    """List the same tables, and, at the same cost, those of which nobody can tell for how long they are kept."""
    found = _candidates(catalog, deleted_before, now)
    unreadable = [table for table in found if table.fault is not None and not table.being_purged]
    return [table for table in found if _is_wanted(table, deleted_before, now)], unreadable


def list_everything(catalog: Catalog) -> list[DroppedTable]:
    """List all dropped tables, sorted by name and time: one listing of the root, and one read for each marker."""
    return _candidates(catalog, _END_OF_TIME, _END_OF_TIME)


def _is_wanted(table: DroppedTable, deleted_before: datetime | None, now: datetime) -> bool:
    if deleted_before is None or table.being_purged:
        return table.is_due(now)
    return table.fault is None and table.dropped_at < deleted_before


def _candidates(catalog: Catalog, deleted_before: datetime | None, now: datetime) -> list[DroppedTable]:
    """List what is in the trash, and the root tables whose markers have to be read to tell."""
    if deleted_before is not None and deleted_before.tzinfo is None:
        raise InvalidInputError(f"deleted_before needs a time zone, got {deleted_before}")

    def may_be_wanted(marker: FileEntry) -> bool:
        written = moment(marker.modified * 1000)
        if deleted_before is not None:
            return written < deleted_before
        kept = kept_at_least_ms(marker.size)
        return not kept or moment(marker.modified * 1000 + kept) <= now

    names = [name for name, marker in _marked(catalog).items() if may_be_wanted(marker)]
    found = [_from_trash(catalog, entry) for entry in _trashed(catalog)]
    for name, standing in zip(names, _read(catalog, names), strict=True):
        table = _from_marker(catalog, name, standing)
        if table is not None:
            found.append(table)
    return sorted(found, key=lambda table: (table.id, table.dropped_at))


def measured(catalog: Catalog, tables: list[DroppedTable]) -> list[DroppedTable]:
    """Look at dropped tables for their rows and bytes."""
    return catalog.store.map(lambda table: _measured(catalog, table), tables)


def _measured(catalog: Catalog, table: DroppedTable) -> DroppedTable:
    store, path = catalog.store, inside(catalog, table)
    if path is None:
        return table
    try:
        rows = count_rows(store.resolve(path), store.storage_options)
    except UnusableEntryError:
        return table
    return replace(table, rows=rows, bytes=store.measure(path).size)


def inside(catalog: Catalog, table: DroppedTable) -> str | None:
    """Give the location of a dropped table below the root; None if no table can be there."""
    path = catalog.store.relative(table.location)
    return None if path is None or layout.location_fault(path) is not None else path


def moment(epoch_ms: float) -> datetime:
    """Give a time as people and programs read it; times past the end of the calendar are its end."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return _END_OF_TIME


def _trashed(catalog: Catalog) -> list[trash.Trashed]:
    if catalog.manifest is None:
        return []
    entries, problems = catalog.manifest.read(trash.with_problems)
    for problem in problems:
        warn_once(problem, catalog.store.identity())
    return [entry for entry in entries if entry.original.object_type == TABLE]


def _marked(catalog: Catalog) -> dict[str, FileEntry]:
    """Name the root tables that have a marker."""
    return dict(sorted(list_root(catalog.store).markers.items()))


def _settled(catalog: Catalog, name: str) -> claim.Standing | None:
    current = claim.read(catalog.store, name)
    if current is not None and current.marker is not None and current.marker.is_over:
        purge.settle(catalog, current)
        current = claim.read(catalog.store, name)
    if current is not None and current.marker is not None and current.marker.state == UNREADABLE:
        raise claim.not_available(current)
    return current


def _looked_at(catalog: Catalog, name: str) -> claim.Standing | None:
    """Read a marker as it will be once somebody brings it to rest, without doing so."""
    current = claim.read(catalog.store, name)
    if current is None or current.marker is None or current.marker.state != REVIVING:
        return current
    return replace(current, marker=current.marker.prior)


def _read(catalog: Catalog, names: list[str]) -> list[claim.Standing | None]:
    return catalog.store.map(lambda name: claim.read(catalog.store, name), names)


def _from_trash(catalog: Catalog, entry: trash.Trashed) -> DroppedTable:
    deletion = entry.deletion
    return DroppedTable(
        list(entry.identifier),
        entry.deletion_id,
        moment(deletion.deleted_at_ms),
        _END_OF_TIME if deletion.fault else moment(deletion.deleted_at_ms + deletion.ttl_ms),
        catalog.shown_location(str(entry.original.location)),
        entry.state == trash.PURGING,
        fault=deletion.fault or None,
    )


def _from_marker(catalog: Catalog, name: str, standing: claim.Standing | None) -> DroppedTable | None:
    marker = None if standing is None else standing.marker
    kept = _kept(marker)
    if standing is None or marker is None or kept is None:
        return None
    # The store's clock says when the marker was written: the dropper's own may be wrong.
    since = max(kept.deleted_at_ms, int(standing.written * 1000)) if kept.ttl_ms else kept.deleted_at_ms
    return DroppedTable(
        [name],
        kept.deletion_id,
        _dropped_at(kept, standing),
        _END_OF_TIME if kept.fault else moment(since + kept.ttl_ms),
        catalog.store.location(layout.root_table(name)),
        marker.state == PURGING,
        fault=kept.fault or None,
    )


def _dropped_at(kept: Marker, standing: claim.Standing) -> datetime:
    """Tell when a root table was dropped; if its marker does not tell, when that was written."""
    return moment(kept.deleted_at_ms or standing.written * 1000)


def _kept(marker: Marker | None) -> Marker | None:
    """Give the dropped table that a marker stands for, also while somebody is at work on it."""
    if marker is None:
        return None
    if marker.state in {DELETED, UNREADABLE}:
        return marker
    if marker.state == PURGING:
        # Without these it clears up what a creation left, and there is no dropped table.
        return marker if marker.deletion_id or marker.deleted_at_ms or marker.fault else None
    return marker.prior
