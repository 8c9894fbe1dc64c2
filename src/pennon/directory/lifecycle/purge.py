"""Purging many dropped tables, with a report of what went and what did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import retention
from pennon.directory.lifecycle import dropped
from pennon.directory.manifest import NAMESPACE
from pennon.directory.manifest_tables import trash
from pennon.directory.root_tables import purge
from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableNotFoundError,
    UnusableEntryError,
    from_error_code,
    translate_errors,
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
    """Purge all tables whose time is over, or, of those, the ones dropped before a moment."""
    now = dropped.moment(catalog.store.now() * 1000)
    found, unreadable = dropped.list_purgeable_and_unreadable(catalog, deleted_before, now)
    due = [
        table for table in found if table.is_due(now) and (deleted_before is None or table.dropped_at < deleted_before)
    ]
    report = _run(catalog, due, dry_run=dry_run, force=force, progress=progress)
    report.kept.extend(_kept(table) for table in unreadable)
    if not dry_run and deleted_before is None:
        _purge_namespaces(catalog, now, force=force)
    return report


def purge_one(catalog: Catalog, identifier: Identifier, deletion_id: str | None, *, force: bool) -> PurgeReport:
    """Purge what was dropped under a name; raises what kept it if nothing could be purged."""
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
    """Purge exactly these dropped tables, all that was dropped under each name; nothing if one of them is live.

    Before its time a table is purged only if forced.
    """
    tables: list[DroppedTable] = []
    for identifier in identifiers:
        found = dropped.generations(catalog, identifier, deletion_id, settle=not dry_run)
        if deletion_id is None and dropped.status(catalog, identifier).status == TableStatus.EXISTS:
            raise InvalidInputError(f"Table {format_identifier(identifier)} is live: only dropped tables are purged")
        if not found:
            raise TableNotFoundError(f"Table {format_identifier(identifier)} is not dropped")
        tables += found
    unreadable = next((table for table in tables if table.fault is not None and not table.being_purged), None)
    if unreadable is not None and not force:
        raise InvalidTableStateError(
            f"Table {format_identifier(tuple(unreadable.id))} is kept: for how long cannot be read "
            f"({unreadable.fault}); "
            f"{retention.FIX}"
        )
    now = dropped.moment(0 if force else catalog.store.now() * 1000)
    early = [table for table in tables if not table.is_due(now)]
    if early and not force:
        raise InvalidTableStateError(
            f"Table {format_identifier(tuple(early[0].id))} is kept until "
            f"{early[0].purgeable_at:%Y-%m-%d %H:%M:%S %Z}; force it"
        )
    return _run(catalog, tables, dry_run=dry_run, force=force, progress=progress)


def _kept(table: DroppedTable) -> KeptTable:
    return KeptTable(table.id, table.deletion_id, table.location, str(table.fault), retention.FIX)


def _run(
    catalog: Catalog,
    tables: Sequence[DroppedTable],
    *,
    dry_run: bool,
    force: bool,
    progress: Callable[[PurgedTable, int, int], None] | None,
) -> PurgeReport:
    """Purge in batches: of tables that the manifest knows, a batch costs two commits."""
    report = PurgeReport(dry_run)
    for start in range(0, len(tables), _BATCH):
        batch = tables[start : start + _BATCH]
        outcomes = _measured(catalog, batch) if dry_run else _purged(catalog, batch, force=force)
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


def _measured(catalog: Catalog, batch: Sequence[DroppedTable]) -> Sequence[Amount]:
    """Tell what would go."""
    store = catalog.store

    def measure(table: DroppedTable) -> Amount:
        path = dropped.inside(catalog, table)
        try:
            return Amount() if path is None else store.measure(path)
        except UnusableEntryError:
            return Amount()

    return store.map(measure, batch)


def _purged(catalog: Catalog, batch: Sequence[DroppedTable], *, force: bool) -> Sequence[Amount | LanceNamespaceError]:
    known = {} if catalog.manifest is None else catalog.manifest.read(_by_deletion_id)
    trashed = [entry for table in batch if (entry := known.get(table.deletion_id)) is not None]
    done = dict(
        zip(
            [entry.deletion_id for entry in trashed],
            purge.purge_trashed(catalog, trashed, force=force) if trashed else [],
            strict=True,
        )
    )
    return [
        done[table.deletion_id] if table.deletion_id in done else _purged_root_table(catalog, table, force=force)
        for table in batch
    ]


def _purged_root_table(catalog: Catalog, table: DroppedTable, *, force: bool) -> Amount | LanceNamespaceError:
    if len(table.id) != 1:
        return TableNotFoundError(f"Table {format_identifier(tuple(table.id))} is not dropped any more")
    try:
        with translate_errors(f"purge of {format_identifier(tuple(table.id))}"):
            return purge.purge_root_table(catalog, table.id[0], table.deletion_id, force=force)
    except LanceNamespaceError as error:
        return error


def _by_deletion_id(snapshot: Snapshot) -> dict[str, trash.Trashed]:
    return {entry.deletion_id: entry for entry in trash.in_snapshot(snapshot)}


def _purge_namespaces(catalog: Catalog, now: datetime, *, force: bool) -> None:
    """Forget dropped namespaces whose time is over."""
    if catalog.manifest is None:
        return
    over = [
        entry
        for entry in catalog.manifest.read(trash.in_snapshot)
        if entry.original.object_type == NAMESPACE
        and not entry.deletion.fault
        and (not entry.deletion.ttl_ms or dropped.moment(entry.deletion.deleted_at_ms + entry.deletion.ttl_ms) <= now)
        and (force or not entry.original.protected)
    ]
    if over:
        purge.purge_trashed(catalog, over, force=force)
