"""Commits of prepared Lance transactions to several tables, and of new tables, all at once.

Lance stages the manifest of each transaction as if it committed to the catalog, but the catalog only records the
version. When all are staged, one commit of the manifest creates all versions, or none. Until then nobody else sees
them, but the staged tables can be opened and checked.
"""

from __future__ import annotations

import random
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance
from lance import LanceDataset, LanceOperation
from lance_namespace_urllib3_client.models.create_table_version_request import CreateTableVersionRequest
from lance_namespace_urllib3_client.models.create_table_version_response import CreateTableVersionResponse

from pennon.directory import table_rows
from pennon.directory.lifecycle import adopt
from pennon.directory.manifest import PLAN_ERRORS, TABLE, Draft, Row, properties_json
from pennon.directory.versions import callback, managed, service, version_commit, version_files, version_rows
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableVersionAlreadyExistsError,
    is_commit_conflict,
)
from pennon.identifiers import Identifier, format_identifier, object_id, table_identifier
from pennon.table_commits import NewTable, TableCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.versions.record import VersionRecord

_ATTEMPTS = 20
_LONGEST_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class StagedTable:
    """A staged change of a table. Its dataset can be read, but nobody else sees it."""

    identifier: Identifier
    version: version_commit.StagedVersion
    dataset: LanceDataset


def commit_tables(
    catalog: Catalog,
    commits: Sequence[TableCommit | NewTable],
    check: Callable[[Mapping[Identifier, int]], object] = lambda _: None,
) -> dict[tuple[str, ...], int]:
    """Stage all changes, commit them at once, and return the new version of each table.

    If others commit to one of the tables first, the changes are rebased and committed again. `check` is called with
    the version that each existing table is about to get, each time the changes are staged; an error that it raises
    stops the commit. The commit point is one commit of the manifest. A crash before it leaves staged manifests that
    nothing refers to.
    """
    _check_tables(catalog, commits)
    new_tables = _prepare_new_tables(catalog, [one for one in commits if isinstance(one, NewTable)])
    changes = [*(one for one in commits if isinstance(one, TableCommit)), *new_tables.first_versions]
    for attempt in range(_ATTEMPTS):
        staged = stage(catalog, changes)
        with _discard_on_error(catalog, staged):
            check({one.identifier: one.version.record.version for one in staged})
        try:
            records = version_commit.create_versions(catalog, [one.version for one in staged], new_tables.insert)
        except PLAN_ERRORS as error:
            _discard(catalog, staged)
            if not isinstance(error, TableVersionAlreadyExistsError):
                raise
            time.sleep(random.uniform(0, min(0.005 * 2**attempt, _LONGEST_PAUSE_SECONDS)))  # noqa: S311 - jitter
            continue
        for location in new_tables.copied:
            catalog.store.delete_tree(location)
        created = {one.identifier: record.version for one, record in zip(staged, records, strict=True)}
        return {**created, **new_tables.versions}
    tables = ", ".join(format_identifier(table_identifier(one.id)) for one in commits)
    raise ConcurrentModificationError(
        f"Could not commit to {tables}: others committed first {_ATTEMPTS} times; nothing was changed"
    )


def commit_staged(
    catalog: Catalog, versions: Sequence[service.VersionRequest], new_tables: Sequence[NewTable]
) -> dict[Identifier, int]:
    """Create versions that others have staged, and add new tables, in one commit. Return the version of each table.

    Raises ConcurrentModificationError if somebody else committed to one of the tables since then: nothing is changed,
    and the versions have to be staged again. The commit point is one commit of the manifest.
    """
    identifiers = require_management(catalog, [*(one.identifier for one in versions), *(one.id for one in new_tables)])
    _require_distinct(identifiers)
    given = [service.check_staged_version(catalog, one, None) for one in versions]
    prepared = _prepare_new_tables(catalog, new_tables)
    staged = stage(catalog, prepared.first_versions)
    try:
        records = version_commit.create_versions(catalog, [*given, *(one.version for one in staged)], prepared.insert)
    except PLAN_ERRORS:
        _discard(catalog, staged)
        raise
    for location in prepared.copied:
        catalog.store.delete_tree(location)
    changed = [*(one.identifier for one in versions), *(one.identifier for one in staged)]
    created = {identifier: record.version for identifier, record in zip(changed, records, strict=True)}
    return {**created, **prepared.versions}


def stage(catalog: Catalog, commits: Sequence[TableCommit]) -> list[StagedTable]:
    """Write the manifests of the changes without committing them. If one of them fails, all are deleted."""
    identifiers = _check_tables(catalog, commits)
    staged: list[StagedTable] = []
    with _discard_on_error(catalog, staged):
        for one, identifier in zip(commits, identifiers, strict=True):
            staged.append(_stage_table(catalog, one, identifier))
    return staged


def require_management(catalog: Catalog, ids: Sequence[Sequence[str]]) -> list[Identifier]:
    """Return the identifiers. Raises UnsupportedOperationError unless one commit can change all these tables."""
    identifiers = [table_identifier(one) for one in ids]
    service.require_management(catalog, "A commit to several tables")
    return identifiers


@contextmanager
def _discard_on_error(catalog: Catalog, staged: Sequence[StagedTable]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _discard(catalog, staged)
        raise


def _discard(catalog: Catalog, staged: Sequence[StagedTable]) -> None:
    if staged:
        catalog.store.delete(*(one.version.record.path for one in staged))


def _check_tables(catalog: Catalog, commits: Sequence[TableCommit | NewTable]) -> list[Identifier]:
    """Check what can be checked before anything is staged, and return the identifiers."""
    identifiers = require_management(catalog, [one.id for one in commits])
    _require_distinct(identifiers)
    return identifiers


def _require_distinct(identifiers: Sequence[Identifier]) -> None:
    if len(set(identifiers)) != len(identifiers):
        raise InvalidInputError("Two changes of one commit name the same table: combine them into one")


def _stage_table(catalog: Catalog, commit: TableCommit, identifier: Identifier) -> StagedTable:
    found = catalog.resolver.table(identifier)
    client = _StagingClient(catalog)
    operation = commit.operation
    try:
        dataset = LanceDataset.commit(
            catalog.store.resolve(found.location, deeply=True),
            operation,
            read_version=None if isinstance(operation, lance.Transaction) else commit.read_version,
            storage_options=catalog.store.storage_options or None,
            **callback.commit_arguments(catalog, identifier, client),
        )
    except (OSError, ValueError) as error:
        if is_commit_conflict(error):
            raise ConcurrentModificationError(
                f"The change of table {format_identifier(identifier)} cannot be made: {error}"
            ) from error
        raise
    return StagedTable(identifier, client.staged[-1], dataset)


@dataclass(frozen=True)
class _PreparedNewTables:
    """The new tables of a commit."""

    first_versions: list[TableCommit]
    """Changes that fill declared tables, which keep their locations."""
    versions: dict[Identifier, int]
    """The versions of the tables that stay where they were written."""
    rows: list[tuple[Row, list[VersionRecord]]]
    """The rows of those tables, and their versions."""
    copied: list[str]
    """The locations from which data was copied to declared tables: deleted after the commit."""

    def insert(self, draft: Draft) -> None:
        """Add the rows of new tables and of their versions. Raises TableAlreadyExistsError if a name is taken."""
        for row, versions in self.rows:
            existing = draft.get(row.object_id)
            if existing is None or existing.location != row.location:
                table_rows.insert_into(draft, row)
                version_rows.import_rows(draft, row.object_id, versions)


def _prepare_new_tables(catalog: Catalog, new_tables: Sequence[NewTable]) -> _PreparedNewTables:
    """Check new tables, and copy the data of those that were declared to their locations."""
    prepared = _PreparedNewTables([], {}, [], [])
    for new in new_tables:
        identifier = table_identifier(new.id)
        location = catalog.store.relative(new.location)
        if location is None:
            raise InvalidInputError(
                f"The location {new.location!r} of {format_identifier(identifier)} is not in the root"
            )
        dataset = adopt.open_location(catalog, identifier, location)
        declared = adopt.require_absent(catalog, identifier)
        if declared is not None:
            data = adopt.prepare_data(catalog, identifier, dataset, location)
            data.bring(catalog.store.resolve(declared.location))
            operation = LanceOperation.Overwrite(data.schema, data.fragments)
            transaction = lance.Transaction(
                0, operation, data.transaction_id or str(uuid.uuid4()), dict(data.properties)
            )
            prepared.first_versions.append(TableCommit(identifier, transaction))
            prepared.copied.append(location)
        else:
            table_rows.require_no_root_table(catalog, identifier)
            row = Row(object_id(identifier), TABLE, location, properties_json(new.properties))
            prepared.rows.append((row, list(version_files.list_versions(catalog.store, location).values())))
            prepared.versions[identifier] = int(dataset.version)
    return prepared


class _StagingClient(callback.VersionClient):
    """Tells Lance that a version is created, but only records it in `staged`."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self.staged: list[version_commit.StagedVersion] = []

    def create_table_version(self, request: Any) -> CreateTableVersionResponse:
        """Record the version. Raises TableVersionAlreadyExistsError unless it is the next one."""
        version = callback.parse_version_request(CreateTableVersionRequest.model_validate(callback.to_dict(request)))
        staged = service.check_staged_version(self._catalog, version, None)
        newest = managed.find_latest(self._catalog, staged.table)
        if staged.record.version != (0 if newest is None else newest.version) + 1:
            raise TableVersionAlreadyExistsError(
                f"Version {staged.record.version} of '{staged.table.key}' already exists"
            )
        self.staged.append(staged)
        return CreateTableVersionResponse(version=staged.record.to_response(self._catalog.store))
