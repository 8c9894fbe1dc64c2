"""Purge dropped tables, with a report of what was deleted and what was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import retention
from pennon.directory.clock import to_datetime
from pennon.directory.lifecycle import dropped
from pennon.directory.manifest import NAMESPACE
from pennon.directory.manifest_tables import trash
from pennon.directory.manifest_tables.purge import purge as purge_entries
from pennon.directory.root_tables.purge import purge_name
from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableNotFoundError,
    UnusableEntryError,
    from_error_code,
)
from pennon.identifiers import Identifier, format_identifier
from pennon.results import KeptTable, PurgedTable, PurgeReport, TableStatus
from pennon.store import Amount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Snapshot
    from pennon.results import DroppedTable

_BATCH = 256


def purge_all(
    catalog: Catalog,
    deleted_before: datetime | None,
    *,
    dry_run: bool,
    force: bool,
    progress: Callable[[PurgedTable, int, int], None] | None,
) -> PurgeReport:
    """Purge all tables whose retention has expired, or those of them that were dropped before a time."""
    now = to_datetime(catalog.store.now() * 1000)
    found, unreadable = dropped.list_purgeable_and_unreadable(catalog, deleted_before, now)
    due = [
        table for table in found if table.is_due(now) and (deleted_before is None or table.dropped_at < deleted_before)
    ]
    report = _run(catalog, due, dry_run=dry_run, force=force, progress=progress)
    report.kept.extend(
        KeptTable(table.id, table.deletion_id, table.location, str(table.fault), retention.FIX) for table in unreadable
    )
    if not dry_run and deleted_before is None:
        _purge_namespaces(catalog, now, force=force)
    return report


def purge_one(catalog: Catalog, identifier: Identifier, deletion_id: str | None, *, force: bool) -> PurgeReport:
    """Purge all drops of a name, or the one with a deletion id.

    Raises TableNotFoundError if it is not dropped, InvalidInputError if it is live, InvalidTableStateError if it is
    still kept or protected. If nothing could be purged, raises the reason.
    """
    report = purge_these(catalog, [identifier], deletion_id, force=force)
    first = report.failed[0] if report.failed else None
    if first is not None and first.code is not None and len(report.failed) == len(report.tables):
        raise from_error_code(first.code, str(first.error))
    return report


def purge_these(
    catalog: Catalog,
    identifiers: Sequence[Identifier],
    deletion_id: str | None = None,
    *,
    dry_run: bool = False,
    force: bool = False,
    progress: Callable[[PurgedTable, int, int], None] | None = None,
) -> PurgeReport:
    """Purge all drops of these names; nothing if one of them is live.

    With `force`, also tables whose retention has not expired. Raises what `purge_one` raises.
    """
    tables: list[DroppedTable] = []
    for identifier in identifiers:
        found = dropped.list_drops(catalog, identifier, deletion_id, settle=not dry_run)
        if deletion_id is None and dropped.status(catalog, identifier).status == TableStatus.EXISTS:
            raise InvalidInputError(f"Table {format_identifier(identifier)} is live: only dropped tables are purged")
        if not found:
            raise TableNotFoundError(f"Table {format_identifier(identifier)} is not dropped")
        tables += found
    unreadable = next((table for table in tables if table.fault is not None and not table.being_purged), None)
    if unreadable is not None and not force:
        raise InvalidTableStateError(
            f"Table {format_identifier(tuple(unreadable.id))} is kept: its retention cannot be read "
            f"({unreadable.fault}); {retention.FIX}"
        )
    now = to_datetime(0 if force else catalog.store.now() * 1000)
    early = [table for table in tables if not table.is_due(now)]
    if early and not force:
        raise InvalidTableStateError(
            f"Table {format_identifier(tuple(early[0].id))} is kept until "
            f"{early[0].purgeable_at:%Y-%m-%d %H:%M:%S %Z}; force it"
        )
    return _run(catalog, tables, dry_run=dry_run, force=force, progress=progress)


def list_begun(catalog: Catalog) -> list[trash.TrashEntry]:
    """Return the objects in the trash whose purge has begun: it is running, or was interrupted."""
    if catalog.manifest is None:
        return []
    entries: list[trash.TrashEntry] = catalog.manifest.read(trash.list_entries)
    return [entry for entry in entries if entry.state == trash.PURGING]


def finish_begun(catalog: Catalog) -> list[LanceNamespaceError]:
    """Finish the purges that have begun, and return why some could not be finished."""
    begun = list_begun(catalog)
    errors: list[LanceNamespaceError] = []
    for start in range(0, len(begun), _BATCH):
        outcomes = purge_entries(catalog, begun[start : start + _BATCH], force=True)
        errors += [one for one in outcomes if isinstance(one, LanceNamespaceError)]
    return errors


def _run(
    catalog: Catalog,
    tables: Sequence[DroppedTable],
    *,
    dry_run: bool,
    force: bool,
    progress: Callable[[PurgedTable, int, int], None] | None,
) -> PurgeReport:
    """Purge in batches. A batch of manifest tables costs two commits."""
    report = PurgeReport(dry_run)
    for start in range(0, len(tables), _BATCH):
        batch = tables[start : start + _BATCH]
        outcomes = _measure(catalog, batch) if dry_run else _purge(catalog, batch, force=force)
        for table, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Amount):
                purged = PurgedTable(table.id, table.deletion_id, table.location, outcome.files, outcome.size)
            else:
                purged = PurgedTable(
                    table.id, table.deletion_id, table.location, error=str(outcome), code=int(outcome.code)
                )
            report.tables.append(purged)
            if progress is not None:
                progress(purged, len(report.tables), len(tables))
    return report


def _measure(catalog: Catalog, batch: Sequence[DroppedTable]) -> Sequence[Amount]:
    store = catalog.store

    def measure(table: DroppedTable) -> Amount:
        path = dropped.relative_location(catalog, table)
        try:
            return Amount() if path is None else store.measure(path)
        except UnusableEntryError:
            return Amount()

    return store.map(measure, batch)


def _purge(catalog: Catalog, batch: Sequence[DroppedTable], *, force: bool) -> Sequence[Amount | LanceNamespaceError]:
    known = {} if catalog.manifest is None else catalog.manifest.read(_by_deletion_id)
    entries = [entry for table in batch if (entry := known.get(table.deletion_id)) is not None]
    outcomes = purge_entries(catalog, entries, force=force) if entries else []
    by_id = {entry.deletion_id: outcome for entry, outcome in zip(entries, outcomes, strict=True)}
    return [by_id.get(table.deletion_id) or _purge_root_table(catalog, table, force=force) for table in batch]


def _purge_root_table(catalog: Catalog, table: DroppedTable, *, force: bool) -> Amount | LanceNamespaceError:
    if len(table.id) != 1:
        return TableNotFoundError(f"Table {format_identifier(tuple(table.id))} is not dropped any more")
    return purge_name(catalog, table.id[0], table.deletion_id, force=force)


def _by_deletion_id(snapshot: Snapshot) -> dict[str, trash.TrashEntry]:
    return {entry.deletion_id: entry for entry in trash.list_entries(snapshot)}


def _purge_namespaces(catalog: Catalog, now: datetime, *, force: bool) -> None:
    """Remove dropped namespaces whose retention has expired from the trash."""
    if catalog.manifest is None:
        return
    expired = [
        entry
        for entry in catalog.manifest.read(trash.list_entries)
        if entry.original.object_type == NAMESPACE
        and not entry.deletion.fault
        and (not entry.deletion.ttl_ms or to_datetime(entry.deletion.deleted_at_ms + entry.deletion.ttl_ms) <= now)
        and (force or not entry.original.protected)
    ]
    if expired:
        purge_entries(catalog, expired, force=force)
