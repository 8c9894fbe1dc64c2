"""Turning the management of versions on and off for a whole catalog.

Turning it on brings the versions of all tables in as rows, a bounded number of tables per commit, and sets the metadata
key and the writer flag last. A second round then takes in what was written meanwhile. Turning it off finishes every
version, takes key and flag away, and removes the rows last. Both can be interrupted anywhere and asked for again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import migrate
from pennon.directory.manifest import TABLE, Draft, Snapshot, flags
from pennon.directory.versions import service, version_files, version_rows
from pennon.directory.versions.version_rows import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Manifest
    from pennon.directory.versions.record import Record
    from pennon.results import MigrationReport

_TABLES_PER_COMMIT = 64
_ROWS_PER_COMMIT = 10_000


@dataclass(frozen=True)
class ManagementReport:
    """What turning the management on or off did."""

    tables: int
    versions: int
    """Rows that were added, or removed."""


def enable(catalog: Catalog, progress: Callable[[int, int], None] | None = None) -> ManagementReport:
    """Let the catalog manage the versions of all its tables; tables that only the directory knows are registered."""
    manifest = catalog.require_manifest("enable_table_version_management")
    if catalog.lists_directories:
        migrate.migrate_to_manifest(catalog, dry_run=False)
    tables = manifest.read(_tables)
    added = _import_all(catalog, manifest, tables, progress)
    if not manifest.read(lambda snapshot: flags.manages_versions(snapshot.metadata)):
        manifest.update_metadata(flags.version_management(manifest.read(lambda snapshot: snapshot.metadata), on=True))
        tables = manifest.read(_tables)
        added += _import_all(catalog, manifest, tables, None)
    return ManagementReport(len(tables), added)


def migrate_tables(catalog: Catalog, *, dry_run: bool, names: Collection[str] | None = None) -> MigrationReport:
    """Register V1 directories, all or those of some names, with their versions where the catalog manages them."""
    report = migrate.migrate_to_manifest(catalog, dry_run=dry_run, names=names)
    if report.migrated and not dry_run and service.manages(catalog):
        enable(catalog)
    return report


def disable(catalog: Catalog) -> ManagementReport:
    """Let the files alone decide again. Every version is finished first, so that nothing is lost."""
    manifest = catalog.require_manifest("disable_table_version_management")
    version_rows.finish(catalog, manifest.read(_staged), tidy=True)
    manifest.update_metadata(flags.version_management(manifest.read(lambda snapshot: snapshot.metadata), on=False))
    tables = manifest.read(lambda snapshot: len(snapshot.versioned_tables()))
    removed = 0
    while manifest.read(lambda snapshot: snapshot.versioned_tables()):
        # A writer that had not seen the change may have added a version since; one that cannot be finished goes too.
        tried = {record.path for record in version_rows.finish(catalog, manifest.read(_staged), tidy=True)}
        removed += manifest.mutate(lambda draft, tried=tried: _forget_some(draft, tried))  # type: ignore[misc]
    return ManagementReport(tables, removed)


def _import_all(
    catalog: Catalog, manifest: Manifest, tables: list[Table], progress: Callable[[int, int], None] | None
) -> int:
    added = 0
    for start in range(0, len(tables), _TABLES_PER_COMMIT):
        batch = tables[start : start + _TABLES_PER_COMMIT]
        found = catalog.store.map(lambda table: version_files.records(catalog.store, table.location), batch)

        def plan(draft: Draft, batch: list[Table] = batch, found: list[dict[int, Record]] = found) -> int:
            return sum(_brought_in(draft, table, records) for table, records in zip(batch, found, strict=True))

        added += manifest.mutate(plan)
        if progress is not None:
            progress(min(start + _TABLES_PER_COMMIT, len(tables)), len(tables))
    return added


def _brought_in(draft: Draft, table: Table, records: dict[int, Record]) -> int:
    row = draft.get(table.key)
    if row is None or row.location != table.location:
        return 0
    if not flags.manages_versions(draft.metadata):
        # The files still decide: rows of an earlier try that was interrupted may be of versions that are gone.
        return version_rows.replace_rows(draft, table.key, list(records.values()))
    newest = max(draft.versions_of(table.key), default=0)
    # A row that is newer than the files was committed through the catalog: older files say nothing new then.
    return version_rows.import_rows(
        draft, table.key, [record for record in records.values() if not newest or record.version > newest]
    )


def _tables(snapshot: Snapshot) -> list[Table]:
    """Name all tables, those in the trash included: they can be restored."""
    return [
        Table(key, row.location)
        for key in snapshot.object_ids()
        if (row := snapshot.get(key)) is not None
        and row.object_type == TABLE
        and row.location is not None
        and key not in snapshot.location_faults()
    ]


def _staged(snapshot: Snapshot) -> list[tuple[Table, Record]]:
    found = []
    for key in snapshot.versioned_tables():
        row = snapshot.get(key)
        if row is None or row.location is None or key in snapshot.location_faults():
            continue
        table = Table(key, row.location)
        found += [(table, record) for record in version_rows.records_in(snapshot, table).values() if record.is_staged]
    return found


def _forget_some(draft: Draft, tried: set[str]) -> int:
    """Remove rows of versions, but none that is unfinished and was not tried to be finished."""
    removed = 0
    for key in draft.versioned_tables():
        row = draft.get(key)
        table = Table(key, "" if row is None else str(row.location))
        for version in draft.versions_of(key):
            record = version_rows.record_in(draft, table, version)
            if record is None or not record.is_staged or record.path in tried:
                draft.remove_version(key, version)
                removed += 1
        if removed >= _ROWS_PER_COMMIT:
            break
    return removed
