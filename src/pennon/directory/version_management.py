"""Turning version management on and off for a whole catalog.

Turning it on imports the versions of all tables as rows, a bounded number of tables per commit, and then sets the
metadata key and the writer flag. A second round imports what was written during the first. Turning it off finishes all
versions, removes key and flag, and then removes the rows. Both can be interrupted at any point and repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import migrate
from pennon.directory.manifest import TABLE, Draft, LoadedSnapshot, Snapshot, flags
from pennon.directory.manifest.snapshot import find_location_fault
from pennon.directory.versions import managed, version_files, version_rows
from pennon.directory.versions.version_rows import ManagedTable
from pennon.results import ManagementReport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Manifest
    from pennon.directory.versions.record import VersionRecord
    from pennon.results import MigrationReport

_TABLES_PER_COMMIT = 64
_ROWS_PER_COMMIT = 10_000


def enable(catalog: Catalog, progress: Callable[[int, int], None] | None = None) -> ManagementReport:
    """Turn version management on. Root tables without a row are registered first."""
    manifest = catalog.require_manifest("enable_table_version_management")
    if catalog.lists_directories:
        migrate.migrate_to_manifest(catalog, dry_run=False)
    tables = manifest.read_whole(_list_tables)
    added = _import_all(catalog, manifest, tables, progress)
    metadata = manifest.read(lambda snapshot: snapshot.metadata)
    if not flags.manages_versions(metadata):
        manifest.update_metadata(flags.version_management(metadata, on=True))
        tables = manifest.read_whole(_list_tables)
        added += _import_all(catalog, manifest, tables, None)
    return ManagementReport(len(tables), added)


def migrate_tables(catalog: Catalog, *, dry_run: bool, names: Collection[str] | None = None) -> MigrationReport:
    """Register V1 directories, all or those with the given names, with their versions if the catalog manages them."""
    report = migrate.migrate_to_manifest(catalog, dry_run=dry_run, names=names)
    if report.migrated and not dry_run and managed.manages_versions(catalog):
        enable(catalog)
    return report


def disable(catalog: Catalog) -> ManagementReport:
    """Turn version management off. All versions are finished first, so that none is lost."""
    manifest = catalog.require_manifest("disable_table_version_management")
    managed.finish(catalog, manifest.read_whole(list_unfinished_versions), tidy=True)
    manifest.update_metadata(flags.version_management(manifest.read(lambda snapshot: snapshot.metadata), on=False))
    tables = manifest.read_whole(lambda snapshot: len(snapshot.versioned_tables()))
    removed = 0
    while manifest.read_whole(lambda snapshot: snapshot.versioned_tables()):
        # A writer that has not seen the change may have added a version since. One that cannot be finished goes too.
        tried = {
            record.path for record in managed.finish(catalog, manifest.read_whole(list_unfinished_versions), tidy=True)
        }
        removed += manifest.mutate(lambda draft, tried=tried: _remove_some(draft, tried))  # type: ignore[misc]
    return ManagementReport(tables, removed)


def _import_all(
    catalog: Catalog, manifest: Manifest, tables: list[ManagedTable], progress: Callable[[int, int], None] | None
) -> int:
    added = 0
    for start in range(0, len(tables), _TABLES_PER_COMMIT):
        batch = tables[start : start + _TABLES_PER_COMMIT]
        found = catalog.store.map(lambda table: version_files.list_versions(catalog.store, table.location), batch)
        pairs = list(zip(batch, found, strict=True))
        added += manifest.mutate(
            lambda draft, pairs=pairs: sum(_import_table(draft, table, records.values()) for table, records in pairs)  # type: ignore[misc]
        )
        if progress is not None:
            progress(min(start + _TABLES_PER_COMMIT, len(tables)), len(tables))
    return added


def _import_table(draft: Draft, table: ManagedTable, records: Iterable[VersionRecord]) -> int:
    row = draft.get(table.key)
    if row is None or row.location != table.location:
        return 0
    if not flags.manages_versions(draft.metadata):
        # The files still decide. Rows of an earlier, interrupted attempt may be of versions that no longer exist.
        return version_rows.replace_rows(draft, table.key, list(records))
    # Rows were committed through the catalog: only files of newer versions can be missing among them.
    newest = max(draft.versions_of(table.key), default=0)
    return version_rows.import_rows(draft, table.key, [record for record in records if record.version > newest])


def _list_tables(snapshot: LoadedSnapshot) -> list[ManagedTable]:
    """Return all tables, dropped ones included, because they can be restored."""
    tables = [_find_table(snapshot, key) for key in snapshot.object_ids()]
    return [table for table in tables if table is not None]


def list_unfinished_versions(snapshot: LoadedSnapshot) -> list[tuple[ManagedTable, VersionRecord]]:
    """Return the versions that are committed and whose manifests are not copied to their final names yet."""
    tables = [_find_table(snapshot, key) for key in snapshot.versioned_tables()]
    return [pair for table in tables if table is not None for pair in version_rows.list_unfinished(snapshot, table)]


def _find_table(rows: Draft | Snapshot, key: str) -> ManagedTable | None:
    """Return a table by its key, or None if there is no table, or one whose location is unusable."""
    row = rows.get(key)
    if row is None or row.object_type != TABLE or row.location is None or find_location_fault(row) is not None:
        return None
    return ManagedTable(key, row.location)


def _remove_some(draft: Draft, tried: set[str]) -> int:
    """Remove version rows and return how many. Unfinished versions that nobody has tried to finish stay."""
    removed = 0
    for key in draft.versioned_tables():
        table = _find_table(draft, key)
        records = {} if table is None else version_rows.list_records(draft, table)
        for version in draft.versions_of(key):
            record = records.get(version)
            if record is None or not record.is_unfinished or record.path in tried:
                draft.remove_version(key, version)
                removed += 1
        if removed >= _ROWS_PER_COMMIT:
            break
    return removed
