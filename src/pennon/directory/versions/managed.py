"""Versions of tables where the catalog decides: a version exists once its row is committed.

A committed version is finished in two steps: its staged manifest is copied to its final name, and its row is changed
to point there (see `row_finishing`). Each client that reads an unfinished version does both steps itself, so a crash
after any of them loses nothing and blocks nobody. See `version_commit` for the commit.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pennon.directory.manifest import Snapshot, flags
from pennon.directory.manifest.snapshot import find_location_fault
from pennon.directory.problems import warn_once
from pennon.directory.versions import version_files
from pennon.directory.versions.record import VersionRecord, find_version_problem
from pennon.directory.versions.row_finishing import CopiedVersion, change_rows
from pennon.directory.versions.version_rows import (
    ManagedTable,
    find_newest,
    find_record,
    list_unfinished,
    newest_number,
    parse_records,
)
from pennon.errors import LanceNamespaceError, TableVersionNotFoundError, translate_errors
from pennon.store import LARGEST_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Row

_log = logging.getLogger(__name__)


def finish(
    catalog: Catalog,
    versions: Iterable[tuple[ManagedTable, VersionRecord]],
    *,
    tidy: bool = False,
    bodies: Mapping[str, bytes] | None = None,
    wait: bool = True,
) -> list[VersionRecord]:
    """Copy staged manifests to their final names, make the rows point there, and return the records.

    With `tidy`, the staged manifests are deleted; readers leave them. If a writer that bypassed the catalog has taken
    a final name, the version keeps its staged manifest. `bodies` has staged manifests that need not be read, by path.
    Without `wait`, the rows are changed and the staged manifests deleted in the background.
    """
    pairs = list(versions)
    # A version that this client has copied is finished for readers. Only rows that are to be removed cannot wait.
    known = {} if tidy else {record.path: catalog.finisher.find(record) for _, record in pairs if record.is_unfinished}
    outcomes = catalog.store.map(
        lambda pair: known.get(pair[1].path) or _finish_version(catalog, *pair, bodies or {}), pairs
    )
    moved = [
        CopiedVersion(table, before, after)
        for (table, before), after in zip(pairs, outcomes, strict=True)
        if after.path != before.path and known.get(before.path) is None
    ]
    if not moved:
        return outcomes
    if not wait:
        catalog.finisher.add(moved)
        return outcomes
    catalog.require_manifest("create_table_version").mutate(lambda draft: change_rows(draft, moved))
    if tidy:
        catalog.store.delete(*(version.before.path for version in moved))
    return outcomes


def finish_committed(
    catalog: Catalog,
    versions: Sequence[tuple[ManagedTable, VersionRecord]],
    *,
    bodies: Mapping[str, bytes] | None = None,
    wait: bool = True,
) -> list[VersionRecord]:
    """Finish versions that were just committed, and return their records. See `finish`.

    If the store fails now, the next reader finishes them. No error is raised: the versions exist, and an error would
    make the caller commit them again.
    """
    try:
        with translate_errors("finishing versions"):
            return finish(catalog, versions, tidy=True, bodies=bodies, wait=wait or catalog.store.is_local)
    except LanceNamespaceError as error:
        names = ", ".join(f"{record.version} of '{table.key}'" for table, record in versions)
        _log.warning("version %s is committed but not finished yet: %s", names, error)
        return [record for _, record in versions]


def finish_table(catalog: Catalog, key: str, location: str, *, tidy: bool) -> None:
    """Finish the versions of a table before its files are read, or, with `tidy`, before its rows are removed."""
    if catalog.manifest is None:
        return
    table = ManagedTable(key, location)
    finish(catalog, catalog.manifest.peek(lambda snapshot: list_unfinished(snapshot, table)), tidy=tidy)


def finish_replaced_table(catalog: Catalog, key: str) -> None:
    """Finish the versions of the table that has a key, if there is one: its row is about to be replaced."""
    row = None if catalog.manifest is None else catalog.manifest.peek(lambda snapshot: snapshot.get(key))
    if row is not None and row.location is not None and find_location_fault(row) is None:
        finish_table(catalog, key, row.location, tidy=True)


def list_versions_to_import(catalog: Catalog, location: str) -> list[VersionRecord]:
    """Return the versions of a directory that enters the catalog, or none if the catalog does not manage versions.

    Their rows belong in the same commit as the row of the table.
    """
    if not manages_versions(catalog):
        return []
    return list(version_files.list_versions(catalog.store, location).values())


def manages_versions(catalog: Catalog) -> bool:
    """Return True if the catalog manages the versions of its tables."""
    manifest = catalog.manifest
    return manifest is not None and manifest.peek(lambda snapshot: flags.manages_versions(snapshot.metadata))


def list_versions(catalog: Catalog, table: ManagedTable) -> list[VersionRecord]:
    """Return the versions of a table whose files exist, oldest first, each finished."""
    rows = read_records(catalog, table)
    files = version_files.list_versions(catalog.store, table.location)
    latest = max(rows, default=0)
    present = [
        record
        for record in rows.values()
        if record.is_unfinished or record.version in files or record.version == latest
    ]
    unfinished = [(table, record) for record in present if record.is_unfinished]
    finished = {record.version: record for record in finish(catalog, unfinished)}
    newer = [record for version, record in files.items() if version > latest]
    return [finished.get(record.version, record) for record in present] + newer


def find_latest(catalog: Catalog, table: ManagedTable) -> VersionRecord | None:
    """Return the latest version, finished, or None if there is none.

    The caller has just resolved the table, so this makes no request for the manifest.
    """
    manifest = catalog.require_manifest("list_table_versions")
    record, unusable = manifest.peek(lambda snapshot: find_newest(snapshot, table))
    if record is None or unusable:
        _warn(catalog, table, unusable)
        # The table has no row because it is only declared, or because a client that does not know version management
        # created it. If a newer row is unusable, only the files show whether its version exists.
        files = version_files.list_versions(catalog.store, table.location)
        newest = max(files, default=0)
        if record is None or newest > record.version:
            return files.get(newest)
    return finish(catalog, [(table, record)])[0] if record.is_unfinished else record


def find_latest_together(catalog: Catalog, tables: Sequence[ManagedTable]) -> list[VersionRecord | None]:
    """Return the latest versions of several tables in one version of the manifest, each finished."""
    manifest = catalog.require_manifest("latest_table_versions")
    records = manifest.read(lambda snapshot: [find_newest(snapshot, table)[0] for table in tables])
    pairs = list(zip(tables, records, strict=True))
    unfinished = [(table, record) for table, record in pairs if record is not None and record.is_unfinished]
    finished = dict(zip([table for table, _ in unfinished], finish(catalog, unfinished), strict=True))
    return [finished.get(table, record) for table, record in pairs]


def describe_version(catalog: Catalog, table: ManagedTable, version: int) -> VersionRecord:
    """Return one version, finished. Raises TableVersionNotFoundError if it does not exist."""
    manifest = catalog.require_manifest("describe_table_version")

    def look(snapshot: Snapshot) -> tuple[VersionRecord | None, int]:
        return find_record(snapshot, table, version), newest_number(snapshot, table)

    record, newest = manifest.peek(look)
    if record is None and version > newest:
        # A writer that bypassed the catalog may have created it; the next commit through the catalog imports it.
        record = version_files.find_version(catalog.store, table.location, version)
    elif record is not None and record.is_unfinished:
        record = finish(catalog, [(table, record)])[0]
    elif record is not None and version != newest and catalog.store.size(record.path) is None:
        record = None
    if record is None:
        raise TableVersionNotFoundError(f"Table '{table.key}' has no version {version}")
    return record


def delete_files(catalog: Catalog, location: str, removed: Iterable[VersionRecord]) -> None:
    """Delete the manifest files of versions whose rows were removed: final and staged ones."""
    paths: set[str] = set()
    for record in removed:
        # Readers that finish a version do not delete its staged manifest.
        paths |= {record.path, record.final_path(location), record.staged_path or record.path}
    if paths:
        catalog.store.delete(*sorted(paths))


def read_records(catalog: Catalog, table: ManagedTable) -> dict[int, VersionRecord]:
    """Return the versions of a table that have usable rows, and warn of the other rows."""
    manifest = catalog.require_manifest("list_table_versions")
    records, unusable = manifest.peek(lambda snapshot: parse_records(snapshot, table))
    _warn(catalog, table, unusable)
    return records


def _warn(catalog: Catalog, table: ManagedTable, unusable: Iterable[Row]) -> None:
    for row in unusable:
        problem = find_version_problem(row, table.location)
        if problem is not None:
            warn_once(problem, catalog.store.identity())


def _finish_version(
    catalog: Catalog, table: ManagedTable, record: VersionRecord, bodies: Mapping[str, bytes]
) -> VersionRecord:
    """Copy a staged manifest to its final name, and return the record that points there."""
    if not record.is_unfinished:
        return record
    body = bodies.get(record.path)
    if body is None:
        blob = catalog.store.get(record.path, max_bytes=LARGEST_MANIFEST)
        if blob is None:
            # Another client has finished it and deleted the staged manifest.
            existing = version_files.find_version(catalog.store, table.location, record.version)
            return record if existing is None else record.with_final_path(table.location, None)
        body = blob.body
    e_tag = version_files.put_in_place(catalog.store, table.location, record, body)
    return record if e_tag is None else record.with_final_path(table.location, e_tag)
