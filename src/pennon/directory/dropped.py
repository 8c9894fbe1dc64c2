"""What is dropped: finding it by name, listing it, and the status of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.directory import claim, layout, purging, trash
from pennon.directory.listing import list_root
from pennon.directory.manifest import TABLE
from pennon.directory.marker import DELETED, PURGING, Marker, kept_at_least_ms, milliseconds
from pennon.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import ROOT, Identifier, object_id
from pennon.paging import page
from pennon.table.description import count_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.directory.catalog import Catalog
    from pennon.store import FileEntry

EXISTS = "Exists"
SOFT_DELETED = "SoftDeleted"
NOT_FOUND = "NotFound"
_END_OF_TIME = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class DroppedTable:
    """A table that waits to be purged or restored."""

    id: list[str]
    deletion_id: str
    dropped_at: datetime
    purgeable_at: datetime
    location: str
    being_purged: bool = False
    rows: int | None = None
    """Rows of the latest version, where they were asked for and the table has any version."""
    bytes: int | None = None
    """What its files take, all versions together, where that was asked for."""

    def is_due(self, now: datetime) -> bool:
        """Tell whether its time is over; a table that is kept for no time is due whatever the clocks say."""
        return self.being_purged or self.purgeable_at <= now or self.purgeable_at == self.dropped_at


@dataclass(frozen=True)
class TableStatus:
    """Whether a table is there, dropped (since when, and under which deletion id), or neither."""

    status: str
    dropped_at: datetime | None = None
    deletion_id: str | None = None


def find(catalog: Catalog, identifier: Identifier, deletion_id: str | None) -> trash.Trashed | claim.Standing | None:
    """Find the latest drop of a table, or the one with a deletion id: in the trash, or by the marker at the root."""
    candidates: list[tuple[int, trash.Trashed | claim.Standing]] = []
    if catalog.manifest is not None:
        for entry in catalog.manifest.read(trash.in_snapshot):
            wanted = entry.original.object_type == TABLE and entry.identifier == identifier
            if wanted and deletion_id in {None, entry.deletion_id}:
                candidates.append((entry.deletion.deleted_at_ms, entry))
    if len(identifier) == 1:
        standing = _settled(catalog, identifier[0])
        if standing is not None and standing.marker is not None:
            marker = standing.marker
            if marker.state == DELETED and deletion_id in {None, marker.deletion_id}:
                candidates.append((marker.deleted_at_ms, standing))
    return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def generations(catalog: Catalog, identifier: Identifier, deletion_id: str | None) -> list[DroppedTable]:
    """Give everything that was dropped under a name, or the one with a deletion id."""
    found = [_from_trash(catalog, entry) for entry in _trashed(catalog) if entry.identifier == identifier]
    if len(identifier) == 1:
        standing = _settled(catalog, identifier[0])
        marked = _from_marker(catalog, identifier[0], standing)
        found += [] if marked is None else [marked]
    return [table for table in found if deletion_id in {None, table.deletion_id}]


def status(catalog: Catalog, identifier: Identifier) -> TableStatus:
    """Tell whether a table is there, dropped, or neither (never there, or purged)."""
    if _exists(catalog, identifier):
        return TableStatus(EXISTS)
    found = find(catalog, identifier, None)
    if isinstance(found, trash.Trashed):
        return TableStatus(SOFT_DELETED, moment(found.deletion.deleted_at_ms), found.deletion_id)
    if found is not None and found.marker is not None:
        return TableStatus(SOFT_DELETED, moment(found.marker.deleted_at_ms), found.marker.deletion_id)
    # It may have been restored between the two looks.
    return TableStatus(EXISTS if _exists(catalog, identifier) else NOT_FOUND)


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
    chosen, next_token = page(keys, token, limit)
    names = [key[:-1] for key in chosen if key not in by_key]
    read = dict(zip(names, _read(catalog, names), strict=True))
    found = [
        _from_trash(catalog, by_key[key]) if key in by_key else _from_marker(catalog, key[:-1], read[key[:-1]])
        for key in chosen
    ]
    tables = [table for table in found if table is not None]
    return (measured(catalog, tables) if detailed else tables), next_token


def list_purgable(
    catalog: Catalog, deleted_before: datetime | None = None, *, now: datetime | None = None, detailed: bool = False
) -> list[DroppedTable]:
    """List the tables whose time is over, or, with `deleted_before`, those dropped before then.

    One listing of the root, and one small read for each of its markers that may be due: the size and the time of
    those of which the listing tells that they are not are enough.
    """
    if deleted_before is not None and deleted_before.tzinfo is None:
        raise InvalidInputError(f"deleted_before needs a time zone, got {deleted_before}")
    now = moment(milliseconds()) if now is None else now

    def wanted(table: DroppedTable) -> bool:
        return table.is_due(now) if deleted_before is None else table.dropped_at < deleted_before or table.being_purged

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
    due = sorted((table for table in found if wanted(table)), key=lambda table: (table.id, table.dropped_at))
    return measured(catalog, due) if detailed else due


def measured(catalog: Catalog, tables: list[DroppedTable]) -> list[DroppedTable]:
    """Look at dropped tables for their rows and bytes."""
    store = catalog.store

    def measuring(table: DroppedTable) -> Callable[[], DroppedTable]:
        return lambda: replace(
            table,
            rows=count_rows(table.location, store.storage_options),
            bytes=store.measure(str(store.relative(table.location))).size,
        )

    return store.concurrently([measuring(table) for table in tables])


def moment(epoch_ms: float) -> datetime:
    """Give a time as people and programs read it; times past the end of the calendar are its end."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return _END_OF_TIME


def _trashed(catalog: Catalog) -> list[trash.Trashed]:
    if catalog.manifest is None:
        return []
    return [entry for entry in catalog.manifest.read(trash.in_snapshot) if entry.original.object_type == TABLE]


def _marked(catalog: Catalog) -> dict[str, FileEntry]:
    """Name the root tables that have a marker."""
    return dict(sorted(list_root(catalog.store).markers.items()))


def _settled(catalog: Catalog, name: str) -> claim.Standing | None:
    current = claim.read(catalog.store, name)
    if current is None or current.marker is None or not current.marker.is_over:
        return current
    purging.settle(catalog, current)
    return claim.read(catalog.store, name)


def _read(catalog: Catalog, names: list[str]) -> list[claim.Standing | None]:
    def reading(name: str) -> Callable[[], claim.Standing | None]:
        return lambda: claim.read(catalog.store, name)

    return catalog.store.concurrently([reading(name) for name in names])


def _from_trash(catalog: Catalog, entry: trash.Trashed) -> DroppedTable:
    deletion = entry.deletion
    return DroppedTable(
        list(entry.identifier),
        entry.deletion_id,
        moment(deletion.deleted_at_ms),
        moment(deletion.deleted_at_ms + deletion.ttl_ms),
        catalog.store.location(str(entry.original.location)),
        entry.state == trash.PURGING,
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
        moment(kept.deleted_at_ms),
        moment(since + kept.ttl_ms),
        catalog.store.location(layout.root_table(name)),
        marker.state == PURGING,
    )


def _kept(marker: Marker | None) -> Marker | None:
    """Give the dropped table that a marker stands for, also while somebody is at work on it."""
    if marker is None:
        return None
    if marker.state in {DELETED, PURGING}:
        return marker if marker.deletion_id else None
    return marker.prior
