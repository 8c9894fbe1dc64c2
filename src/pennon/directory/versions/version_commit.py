"""Creating versions of managed tables: the catalog is the external manifest store of Lance.

The caller stages the manifest of a table's next version. One commit of the catalog's manifest adds the version row,
which is the commit point; then the version is finished (see `managed`). One commit can add the rows of several tables:
either all of the versions exist afterwards, or none. A crash before the commit leaves staged files that nothing refers
to; after it, the next reader finishes the versions.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.clock import now_ms
from pennon.directory.manifest import Draft, flags
from pennon.directory.versions import managed, version_files, version_rows
from pennon.errors import ConcurrentModificationError, InvalidInputError, TableVersionAlreadyExistsError
from pennon.store import LARGEST_MANIFEST, call_together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.versions.record import VersionRecord
    from pennon.directory.versions.version_rows import ManagedTable
    from pennon.store import Store

_SURELY_CURRENT_SECONDS = 1.0
"""A writer that was stopped for longer reads the staged manifest again: its table may have been purged since."""


@dataclass(frozen=True)
class StagedVersion:
    """A version to be created from a staged manifest."""

    table: ManagedTable
    record: VersionRecord


@dataclass(frozen=True)
class ObservedVersions:
    """The versions of a table when its rows and files were read, before the commit."""

    files: Mapping[int, VersionRecord]
    deleted: frozenset[int]
    """Finished versions whose rows exist but whose files were deleted."""
    newest: VersionRecord | None
    """The newest version that had a row."""
    leftovers: frozenset[str]
    """Staged manifests of versions that readers have finished."""


class TableReplacedError(ConcurrentModificationError):
    """The version rows do not continue those that were read: another table may be in the same directory now."""


def create_versions(
    catalog: Catalog,
    versions: Sequence[StagedVersion],
    also: Callable[[Draft], object] = lambda _: None,
    *,
    wait: bool = True,
) -> list[VersionRecord]:
    """Create versions of one or several tables in one commit, and return their records.

    `also` changes the draft of the same commit first. Without `wait`, the rows of the versions are finished in the
    background; their manifests have their final names in any case. The same request may be repeated if its response
    was lost. Raises TableVersionAlreadyExistsError if a version exists, ConcurrentModificationError if it is not the
    next one.
    """
    try:
        return _commit(catalog, versions, also, wait=wait)
    except TableReplacedError:
        return _commit(catalog, versions, also, wait=wait)


def _commit(
    catalog: Catalog, versions: Sequence[StagedVersion], also: Callable[[Draft], object], *, wait: bool
) -> list[VersionRecord]:
    return commit_prepared(catalog, prepare(catalog, versions), also, wait=wait)


def commit_prepared(
    catalog: Catalog, prepared: VersionCommit, also: Callable[[Draft], object] = lambda _: None, *, wait: bool = True
) -> list[VersionRecord]:
    """Commit versions and finish them. See `create_versions`."""
    started = time.monotonic()

    def plan(draft: Draft) -> list[VersionRecord]:
        also(draft)
        return prepared.plan(draft)

    try:
        records = catalog.require_manifest("create_table_version").mutate(plan)
    except TableVersionAlreadyExistsError:
        records = prepared.find_identical(catalog)
    else:
        prepared.delete_leftovers(catalog.store)
    committed = [(version.table, record) for (version, _), record in zip(prepared.entries, records, strict=True)]
    bodies = prepared.list_bodies() if not catalog.store.is_local else {}
    if time.monotonic() - started > _SURELY_CURRENT_SECONDS:
        bodies = {}
    return managed.finish_committed(catalog, committed, bodies=bodies, wait=wait)


def prepare(catalog: Catalog, versions: Sequence[StagedVersion]) -> VersionCommit:
    """Read the tables' versions and the staged manifests, and return the commit that creates the versions.

    Raises InvalidInputError if a staged manifest does not exist.
    """
    # The rows first: if another table replaces one of the tables later, the plan sees that its rows differ.
    tables = list(dict.fromkeys(version.table for version in versions))
    rows = [managed.read_records(catalog, table) for table in tables]
    now = now_ms()
    found = call_together(
        catalog.store,
        *(partial(observe, catalog, table, records) for table, records in zip(tables, rows, strict=True)),
        *(partial(catalog.store.get, version.record.path, max_bytes=LARGEST_MANIFEST) for version in versions),
    )
    observed, blobs = dict(zip(tables, found, strict=False)), found[len(tables) :]
    entries: list[tuple[StagedVersion, bytes | None]] = []
    for version, blob in zip(versions, blobs, strict=True):
        staged = version.record
        if blob is not None:
            entries.append((replace(version, record=staged.with_manifest(blob.body, now)), blob.body))
            continue
        created = _find_created(catalog, version)
        if created is None:
            path = catalog.store.absolute(staged.path)
            raise InvalidInputError(f"There is no staged manifest for '{version.table.key}' at {path!r}")
        entries.append((replace(version, record=created), None))
    return VersionCommit(observed, entries)


@dataclass(frozen=True)
class VersionCommit:
    """A commit that adds versions, made by `prepare`."""

    observed: Mapping[ManagedTable, ObservedVersions]
    entries: Sequence[tuple[StagedVersion, bytes | None]]
    """The versions, with the staged manifests. None if an earlier attempt of the same request created the version."""

    def plan(self, draft: Draft) -> list[VersionRecord]:
        """Add the version rows, or raise if one of the versions cannot be the next of its table."""
        if not flags.manages_versions(draft.metadata):
            raise ConcurrentModificationError("Version management was turned off while a version was created")
        for table, observed in self.observed.items():
            version_rows.require_table(draft, table)
            _require_continuation(draft, table, observed)
            _update_rows(draft, table, observed)
        return [version_rows.add_next_version(draft, one.table, one.record) for one, _ in self.entries]

    def list_bodies(self) -> dict[str, bytes]:
        """Return the staged manifests that need not be read again before they are copied, by path.

        That a staged manifest still exists shows that its table was not replaced since. Only a root table can be
        replaced by another one in the same directory.
        """
        return {
            version.record.path: body
            for version, body in self.entries
            if body is not None and layout.root_table_name(version.table.location) is None
        }

    def delete_leftovers(self, store: Store) -> None:
        """Delete staged manifests of older versions that readers have finished."""
        paths = sorted(path for observed in self.observed.values() for path in observed.leftovers)
        if paths:
            with suppress(OSError):
                store.delete(*paths)

    def find_identical(self, catalog: Catalog) -> list[VersionRecord]:
        """Return the records if all versions exist with the same content, as after a lost response.

        Raises TableVersionAlreadyExistsError if they do not.
        """
        manifest = catalog.require_manifest("create_table_version")
        found: list[VersionRecord] = []
        for version, body in self.entries:
            if body is None:
                found.append(version.record)
                continue
            table, number = version.table, version.record.version
            existing = manifest.read(lambda snapshot: version_rows.find_record(snapshot, table, number))  # noqa: B023
            blob = None if existing is None else catalog.store.get(existing.path, max_bytes=LARGEST_MANIFEST)
            if existing is None or blob is None or blob.body != body:
                raise TableVersionAlreadyExistsError(f"Version {number} of table '{table.key}' already exists")
            found.append(existing)
        return found


def observe(catalog: Catalog, table: ManagedTable, rows: Mapping[int, VersionRecord]) -> ObservedVersions:
    """List the files of a table, and return them with its version rows.

    The rows were read before: a version that is finished afterwards must not look as if its file were deleted.
    """
    finished = {version: record for version, record in rows.items() if not record.is_unfinished}
    files, staged = version_files.list_versions_and_staged(catalog.store, table.location)
    leftovers = staged & {record.staged_path for record in finished.values() if record.staged_path is not None}
    return ObservedVersions(
        files, frozenset(finished.keys() - files.keys()), rows[max(rows)] if rows else None, leftovers
    )


def _find_created(catalog: Catalog, version: StagedVersion) -> VersionRecord | None:
    """Return the version that was created from a staged manifest which no longer exists, if it was."""
    manifest = catalog.require_manifest("create_table_version")
    record = manifest.read(lambda snapshot: version_rows.find_record(snapshot, version.table, version.record.version))
    return record if record is not None and record.staged_path == version.record.path else None


def _require_continuation(draft: Draft, table: ManagedTable, observed: ObservedVersions) -> None:
    """Raise TableReplacedError unless the version rows continue those that were observed."""
    newest = observed.newest
    if newest is None:
        return
    current = version_rows.find_record(draft, table, newest.version)
    if current is None:
        # It may have been deleted as an old version.
        is_same = version_rows.newest_number(draft, table) > newest.version
    else:
        is_same = (current.size, current.timestamp_ms) == (newest.size, newest.timestamp_ms)
    if not is_same:
        raise TableReplacedError(f"Table '{table.key}' was replaced while version {newest.version + 1} was created")


def _update_rows(draft: Draft, table: ManagedTable, observed: ObservedVersions) -> None:
    """Import versions of writers that bypassed the catalog, and remove rows of versions that were cleaned up."""
    newest = version_rows.newest_number(draft, table)
    stored = draft.versions_of(table.key)
    for version in observed.deleted:
        if version in stored and version != newest:
            draft.remove_version(table.key, version)
    version_rows.import_rows(
        draft, table.key, [record for version, record in observed.files.items() if version > newest]
    )
