"""Append rows to a managed table in an object store, with few requests that wait for each other.

The files of the next version are made locally, from the manifest of the latest one. They are uploaded at the same time
as the versions of the table are listed. The commit of the version row follows, which is the commit point, and then the
copy of the manifest to its final name. A crash before the commit leaves files that nothing refers to; after it, the
next reader finishes the version (see `versions.managed`).

Whatever is unusual is left to Lance: large rows, other writers that came first, versions that others have not finished.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.clock import now_ms
from pennon.directory.lookup.resolve import find_location_fault, is_root_table
from pennon.directory.manifest import TABLE, Snapshot, flags
from pennon.directory.versions import managed, version_commit, version_rows
from pennon.directory.versions.base_cache import BaseManifest
from pennon.directory.versions.record import VersionRecord
from pennon.directory.versions.version_commit import StagedVersion, TableReplacedError, VersionCommit
from pennon.directory.versions.version_rows import ManagedTable
from pennon.errors import (
    ConcurrentModificationError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
)
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.store import call_together
from pennon.table import naming
from pennon.table.local_append import LARGEST_APPEND, LocalAppend, make_append
from pennon.table.mutations import ChangeResult

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.directory.catalog import Catalog


@dataclass(frozen=True)
class _Target:
    """A table, and its latest version, which is finished."""

    table: ManagedTable
    latest: VersionRecord


def append(catalog: Catalog, identifier: Identifier, rows: pa.Table) -> ChangeResult | None:
    """Append rows and return the new version, or return None if nothing was changed and Lance is to append them.

    Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist, ConcurrentModificationError if it
    was dropped or replaced at the same time, or if the outcome of the commit is unknown.
    """
    if catalog.manifest is None or catalog.store.is_local or rows.nbytes > LARGEST_APPEND:
        return None
    target = _find_target(catalog, identifier)
    if target is None:
        return None
    is_resolved = not catalog.bases.is_recent()
    if is_resolved:
        # The files go into the directory of the table, so it must not have been purged long ago.
        catalog.resolver.table(identifier)
        target = _find_target(catalog, identifier)
    if target is None:
        return None
    base = catalog.bases.find(target.table)
    body = base.body if base is not None and base.record == target.latest else _read_manifest(catalog, target.latest)
    made = None if body is None else make_append(body, target.latest.version, rows, identifier)
    if made is None:
        return None
    try:
        return _commit(catalog, target, made)
    except (TableNotFoundError, TableReplacedError) as error:
        if not is_resolved:
            return None  # it may have happened before the call: resolving the table shows it
        raise ConcurrentModificationError(
            f"Table {format_identifier(identifier)} was dropped or replaced while it was changed"
        ) from error


def _find_target(catalog: Catalog, identifier: Identifier) -> _Target | None:
    """Return a manifest table and its latest version by the rows in memory, or None if the table is unusual.

    Only the row decides about a manifest table. Root tables are also hidden by markers, which the commit does not
    check.
    """
    manifest = catalog.require_manifest("insert_into_table")

    def look(snapshot: Snapshot) -> _Target | None:
        row = snapshot.get(object_id(identifier)) if flags.manages_versions(snapshot.metadata) else None
        if row is None or row.object_type != TABLE or row.location is None:
            return None
        if is_root_table(identifier, row.location) or find_location_fault(snapshot, row) is not None:
            return None
        table = ManagedTable(row.object_id, row.location)
        latest, unusable = version_rows.find_newest(snapshot, table)
        return None if latest is None or unusable else _Target(table, latest)

    try:
        target = manifest.peek(look)
    except UnsupportedOperationError:
        return None  # the snapshot may be outdated: the validated read decides
    if target is None or target.latest.scheme != naming.V2:
        return None
    if not target.latest.is_unfinished:
        return target
    copied = catalog.finisher.find(target.latest)
    return None if copied is None else _Target(target.table, copied)


def _read_manifest(catalog: Catalog, record: VersionRecord) -> bytes | None:
    """Return the manifest of a version, or None if it is large or does not fit the row."""
    if record.size is None or record.size > LARGEST_APPEND:
        return None
    blob = catalog.store.get(record.path)
    return None if blob is None or len(blob.body) != record.size else blob.body


def _commit(catalog: Catalog, target: _Target, made: LocalAppend) -> ChangeResult | None:
    """Upload the files and commit the version. Returns None if another client came first.

    Raises TableNotFoundError or TableReplacedError if the table is gone. The files are deleted in all of these cases.
    """
    table, version, store = target.table, target.latest.version + 1, catalog.store
    name = f"{naming.format_name(version, naming.V2)}-{uuid.uuid4()}"
    staged = VersionRecord(version, f"{table.location}/{naming.VERSIONS_FOLDER}/{name}", naming.V2)
    files = {layout.inside(table.location, path): body for path, body in made.files.items()}
    files[staged.path] = made.manifest
    rows = managed.read_records(catalog, table)
    try:
        *_, observed = call_together(
            store,
            *(partial(store.put, path, body) for path, body in files.items()),
            partial(version_commit.observe, catalog, table, rows),
        )
        entry = StagedVersion(table, staged.with_manifest(made.manifest, now_ms()))
        prepared = VersionCommit({table: observed}, [(entry, made.manifest)])
    except Exception:
        _discard(catalog, files)
        raise
    started = time.monotonic()
    try:
        (created,) = version_commit.commit_prepared(catalog, prepared, wait=False)
    except TableVersionAlreadyExistsError:
        _discard(catalog, files)
        return None
    except (TableNotFoundError, TableReplacedError):
        _discard(catalog, files)
        raise
    if not created.is_unfinished:
        catalog.bases.keep(table, BaseManifest(created, made.manifest), started)
    return ChangeResult(version, inserted=made.inserted)


def _discard(catalog: Catalog, files: dict[str, bytes]) -> None:
    """Delete files that nothing refers to."""
    with suppress(OSError):
        catalog.store.delete(*files)
