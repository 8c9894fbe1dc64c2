"""UpdateTable and CommitTransaction: one commit to the catalog's manifest, of one table or of several.

All requirements and updates are read first. The commit point is the next version of `__manifest`, which holds the rows
of all new versions and all properties, or nothing of it. A crash before it leaves staged manifests that mean nothing; a
crash after it leaves versions that the next client finishes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.manifest import properties_json
from pennon.directory.versions import managed, service, version_commit, version_rows
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.server.iceberg import documents, requirements, updates
from pennon.server.iceberg.columns import same_columns
from pennon.server.iceberg.tables import translate_not_found
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Draft, Row, Snapshot
    from pennon.directory.versions.record import VersionRecord
    from pennon.server.iceberg.models import CommitTableRequest, CommitTransactionRequest
    from pennon.server.iceberg.updates import RequestedChanges


@dataclass
class _TableChange:
    """The changes of one commit to one table."""

    wanted: RequestedChanges
    newest_row: int | None
    """The newest version with a row when the table was read."""
    is_pinned: bool
    removed: list[VersionRecord]
    """Versions that the commit removes. Each attempt sets them again."""

    @property
    def table(self) -> version_rows.ManagedTable:
        """The table before the commit."""
        return service.managed_table(self.wanted.looked.found)


def update_table(catalog: Catalog, identifier: Identifier, body: CommitTableRequest) -> None:
    """Change one table.

    Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist,
    ConcurrentModificationError if a requirement fails, UnsupportedOperationError for a change that Lance cannot make.
    """
    if body.identifier is not None and body.identifier.identifier != identifier:
        raise InvalidInputError(
            f"The change of {format_identifier(identifier)}: the body names another table than the path"
        )
    _commit(catalog, [_change(catalog, identifier, body)])


def commit_transaction(catalog: Catalog, body: CommitTransactionRequest) -> None:
    """Change several tables, all or none. Raises the errors of `update_table`."""
    identifiers = [one.identifier.identifier for one in body.table_changes]
    updates.require_each_once(identifiers)
    _commit(
        catalog,
        [_change(catalog, identifier, one) for identifier, one in zip(identifiers, body.table_changes, strict=True)],
    )


def _change(catalog: Catalog, identifier: Identifier, body: CommitTableRequest) -> _TableChange:
    # The rows are read first, so that a version committed in between is a conflict.
    newest = _newest_row(catalog, identifier)
    with translate_not_found(identifier):
        looked = documents.read_table(catalog, identifier)
    is_pinned = requirements.require(looked, body.requirements)
    wanted = updates.parse_updates(looked, body.updates)
    _require_own_schema(wanted)
    if wanted.version is not None and _is_there(wanted):
        wanted.version = None
    elif wanted.version is None and wanted.main is not None:
        _require_current(wanted, wanted.main)
    return _TableChange(wanted, newest, is_pinned, [])


def _newest_row(catalog: Catalog, identifier: Identifier) -> int | None:
    if catalog.manifest is None:
        return None
    return catalog.manifest.read(lambda snapshot: _last(snapshot, object_id(identifier)))


def _last(state: Snapshot | Draft, key: str) -> int | None:
    return next(reversed(state.versions_of(key)), None)


def _require_own_schema(wanted: RequestedChanges) -> None:
    """Raise UnsupportedOperationError for a schema that is not the table's. A new version has its own manifest."""
    if not wanted.schemas or wanted.version is not None:
        return
    looked = wanted.looked
    metadata = documents.load_table(looked.catalog, looked.found.identifier)
    if not all(same_columns(one, metadata["schemas"][0]) for one in wanted.schemas):
        raise UnsupportedOperationError(
            f"{wanted.what} has other columns than the schema says: columns of a Lance table are changed through Lance"
        )


def _is_there(wanted: RequestedChanges) -> bool:
    """Return True if the version already exists and was created from the file that the snapshot names."""
    version, looked = wanted.version, wanted.looked
    if version is None or naming.parse_name(version.staged) is None:
        return False
    try:
        record = service.describe_version(looked.catalog, looked.found.identifier, version.version)
    except TableVersionNotFoundError:
        return False
    is_same = record.path == f"{looked.found.location}/{naming.VERSIONS_FOLDER}/{version.staged}"
    return is_same and version.version == wanted.main


def _require_current(wanted: RequestedChanges, main: int) -> None:
    try:
        current = service.describe_version(wanted.looked.catalog, wanted.looked.found.identifier, None).version
    except TableVersionNotFoundError:
        current = None
    if current != main:
        raise UnsupportedOperationError(
            f"{wanted.what} has the current version {current}: going back to another one is done through Lance"
        )


def _commit(catalog: Catalog, changes: Sequence[_TableChange]) -> None:
    def prepare(draft: Draft) -> None:
        for change in changes:
            _apply(draft, change)

    versions = [_version(catalog, change.wanted) for change in changes if change.wanted.version is not None]
    if versions:
        version_commit.create_versions(catalog, versions, prepare)
    elif any(one.wanted.assigned or one.wanted.removed or one.wanted.expired for one in changes):
        catalog.require_manifest("UpdateTable").mutate(prepare)
    for change in changes:
        managed.delete_files(catalog, change.table.location, change.removed)
        if change.wanted.place is not None:
            _leave(catalog, change.table.location)


def _leave(catalog: Catalog, declared: str) -> None:
    """Delete the markers of a location where a table was declared but never written."""
    catalog.store.delete(layout.inside(declared, layout.RESERVED_MARKER), layout.declared_marker(declared))
    catalog.store.prune(declared)


def _version(catalog: Catalog, wanted: RequestedChanges) -> version_commit.StagedVersion:
    version, found = wanted.version, wanted.looked.found
    if version is None:
        raise AssertionError
    staged = service.VersionRequest(
        found.identifier,
        version.version,
        f"{wanted.place or found.location}/{naming.VERSIONS_FOLDER}/{version.staged}",
        version.scheme,
        version.metadata,
    )
    return service.check_staged_version(catalog, staged, wanted.place)


def _moved(draft: Draft, wanted: RequestedChanges, row: Row) -> Row:
    """Return the row of a declared table with the location of its first version."""
    place = str(wanted.place)
    if draft.versions_of(row.object_id):
        raise ConcurrentModificationError(f"{wanted.what} has data by now, and stays where it is")
    others = [key for key in draft.overlapping(place) if key != row.object_id]
    if others:
        raise InvalidInputError(f"The location {place!r} belongs to table '{others[0]}'")
    return replace(row, location=place)


def _apply(draft: Draft, change: _TableChange) -> None:
    """Apply all changes except the new version to a draft. Raises an error if the table has changed."""
    wanted, key = change.wanted, change.table.key
    found = wanted.looked.found
    row = draft.get(key)
    if found.row is None or row is None:
        raise UnsupportedOperationError(
            f"{wanted.what} is not in the manifest and keeps no properties; 'pennon migrate' brings it there"
        )
    version_rows.require_table(draft, change.table)
    if change.is_pinned and wanted.looked.is_managed and _last(draft, key) != change.newest_row:
        raise ConcurrentModificationError(f"{wanted.what} got another version since it was read")
    if wanted.place is not None:
        row = _moved(draft, wanted, row)
        draft.put(row)
    if wanted.assigned or wanted.removed:
        merged = {**row.properties(), **wanted.assigned}
        kept = {name: value for name, value in merged.items() if name not in wanted.removed}
        draft.put(row.with_properties(properties_json(kept)))
    change.removed = []
    if wanted.expired:
        gone = [number for number in draft.versions_of(key) if number in set(wanted.expired)]
        if gone and gone[-1] == _last(draft, key):
            raise InvalidInputError(f"{wanted.what} cannot be without its current version {gone[-1]}")
        change.removed = version_rows.plan_removal(change.table, lambda _: gone)(draft)
