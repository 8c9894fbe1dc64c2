"""Publishing prepared Lance transactions of several tables, and new tables among them, all at once.

Lance writes the manifest of each transaction's version as if it committed to the catalog; the catalog's answer is held
back. When all of them are staged, one commit of the manifest makes them all versions, or none. Until then nobody else
sees anything, but the staged tables can be opened and checked.
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

from pennon.directory.lifecycle import adopt
from pennon.directory.manifest import TABLE, Draft, Row, properties_json
from pennon.directory.manifest_tables import table_rows
from pennon.directory.versions import callback, service, version_files, version_rows
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
    is_commit_conflict,
)
from pennon.identifiers import Identifier, format_identifier, object_id, table_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.versions.record import Record

_ATTEMPTS = 20
_LONGEST_PAUSE_SECONDS = 0.2
_NOT_COMMITTED = (
    TableVersionAlreadyExistsError,
    TableNotFoundError,
    TableAlreadyExistsError,
    NamespaceNotFoundError,
)


@dataclass(frozen=True)
class TableCommit:
    """A prepared change of one table: a Lance transaction, or an operation and the version that it was made for."""

    id: Sequence[str]
    operation: lance.Transaction | LanceOperation.BaseOperation
    read_version: int | None = None


@dataclass(frozen=True)
class NewTable:
    """A table that was written at a place which `new_table_location` named, and is to come into the catalog."""

    id: Sequence[str]
    location: str
    """As `new_table_location` gave it."""
    properties: Mapping[str, str] | None = None


@dataclass(frozen=True)
class StagedTable:
    """A change that is staged: it can be read, and nobody else sees it."""

    identifier: Identifier
    wanted: version_rows.Wanted
    dataset: LanceDataset


def commit_tables(
    catalog: Catalog,
    commits: Sequence[TableCommit | NewTable],
    check: Callable[[Mapping[Identifier, int]], object] = lambda _: None,
) -> dict[tuple[str, ...], int]:
    """Stage all, then commit all at once; again, rebased, if others committed to one of the tables meanwhile.

    The commit point is one commit of the manifest. A crash before it leaves staged manifests that nothing refers to.
    `check` is told the versions that are about to be made, of tables that are there, each time they are staged: they
    are made only if no others came before them. What it raises stops the commit.
    """
    _required(catalog, commits)
    arrivals = Arrivals(catalog, [one for one in commits if isinstance(one, NewTable)])
    changes = [*(one for one in commits if isinstance(one, TableCommit)), *arrivals.filled]
    for attempt in range(_ATTEMPTS):
        staged = stage(catalog, changes)
        with _withdrawn_on_error(catalog, staged):
            check({one.identifier: one.wanted.record.version for one in staged})
        try:
            records = version_rows.create(catalog, [one.wanted for one in staged], arrivals.insert)
        except _NOT_COMMITTED as error:
            # Of any other error nobody knows here whether it came before the commit: what is staged stays then.
            _withdraw(catalog, staged)
            if not isinstance(error, TableVersionAlreadyExistsError):
                raise
            time.sleep(random.uniform(0, min(0.005 * 2**attempt, _LONGEST_PAUSE_SECONDS)))  # noqa: S311 - jitter
            continue
        arrivals.finish()
        made = {one.identifier: record.version for one, record in zip(staged, records, strict=True)}
        return {**made, **arrivals.versions}
    tables = ", ".join(format_identifier(table_identifier(one.id)) for one in commits)
    raise ConcurrentModificationError(f"Could not commit to {tables}: others committed first every time")


@contextmanager
def _withdrawn_on_error(catalog: Catalog, staged: Sequence[StagedTable]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _withdraw(catalog, staged)
        raise


def _withdraw(catalog: Catalog, staged: Sequence[StagedTable]) -> None:
    if staged:
        catalog.store.delete(*(one.wanted.record.path for one in staged))


def stage(catalog: Catalog, commits: Sequence[TableCommit]) -> list[StagedTable]:
    """Write the manifests of the changes without committing them; nothing is left of them if one cannot be made."""
    identifiers = _required(catalog, commits)
    staged: list[StagedTable] = []
    with _withdrawn_on_error(catalog, staged):
        for one, identifier in zip(commits, identifiers, strict=True):
            staged.append(_staged(catalog, one, identifier))
    return staged


def _required(catalog: Catalog, commits: Sequence[TableCommit | NewTable]) -> list[Identifier]:
    """Check what can be checked before anything is staged; gives the tables."""
    identifiers = [table_identifier(one.id) for one in commits]
    require_management(catalog, identifiers)
    if len(set(identifiers)) != len(identifiers):
        raise InvalidInputError("Each table is committed once: two transactions name the same one")
    return identifiers


def require_management(catalog: Catalog, _identifiers: Sequence[Identifier]) -> None:
    """Raise 0 if the catalog does not manage the versions of its tables: it does so for all of them or none."""
    if not service.manages(catalog):
        raise UnsupportedOperationError(
            "Several tables are committed together only where the catalog manages versions; "
            "enable_table_version_management() makes it so"
        )


def _staged(catalog: Catalog, commit: TableCommit, identifier: Identifier) -> StagedTable:
    found = catalog.resolver.table(identifier)
    holding = _Holding(catalog)
    operation = commit.operation
    read_version = operation.read_version if isinstance(operation, lance.Transaction) else commit.read_version
    try:
        dataset = LanceDataset.commit(
            catalog.store.resolve(found.location, deeply=True),
            operation,
            read_version=None if isinstance(operation, lance.Transaction) else read_version,
            storage_options=catalog.store.storage_options or None,
            namespace_client=holding,
            table_id=list(identifier),
            namespace_client_managed_versioning=True,
        )
    except (OSError, ValueError) as error:
        if is_commit_conflict(error):
            raise ConcurrentModificationError(
                f"The change of table {format_identifier(identifier)} cannot be made: {error}"
            ) from error
        raise
    return StagedTable(identifier, holding.held[-1], dataset)


class Arrivals:
    """New tables of a commit. Those that were declared have a place of their own, and get their first version there."""

    def __init__(self, catalog: Catalog, new: Sequence[NewTable]) -> None:
        self._catalog = catalog
        self.filled: list[TableCommit] = []
        self.versions: dict[Identifier, int] = {}
        """Of those that come in by their rows alone."""
        self._rows: list[tuple[Row, list[Record]]] = []
        self._left: list[str] = []
        for one in new:
            self._take(one, table_identifier(one.id))

    def insert(self, draft: Draft) -> None:
        """Put the rows of new tables and of their versions into a draft; 5 if one is there."""
        for row, versions in self._rows:
            there = draft.get(row.object_id)
            if there is None or there.location != row.location:
                table_rows.insert_into(draft, row)
                version_rows.import_rows(draft, row.object_id, versions)

    def finish(self) -> None:
        """Delete what was copied to where it belongs."""
        for location in self._left:
            self._catalog.store.delete_tree(location)

    def _take(self, new: NewTable, identifier: Identifier) -> None:
        catalog = self._catalog
        location = catalog.store.relative(new.location)
        if location is None:
            raise InvalidInputError(
                f"The location {new.location!r} of {format_identifier(identifier)} is not in the root"
            )
        dataset = adopt.opened(catalog, identifier, location)
        declared = adopt.require_absent(catalog, identifier)
        if declared is not None:
            data = adopt.prepared(catalog, dataset, location)
            data.bring(catalog.store.resolve(declared.location))
            operation = LanceOperation.Overwrite(data.schema, data.fragments)
            transaction = lance.Transaction(
                0, operation, data.transaction_id or str(uuid.uuid4()), dict(data.properties)
            )
            self.filled.append(TableCommit(identifier, transaction))
            self._left.append(location)
            return
        table_rows.require_unused(catalog, identifier)
        row = Row(object_id(identifier), TABLE, location, properties_json(new.properties))
        self._rows.append((row, list(version_files.records(catalog.store, location).values())))
        self.versions[identifier] = int(dataset.version)


class _Holding(callback.VersionClient):
    """Answers Lance that a version is created, and keeps what was asked for to itself."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self.held: list[version_rows.Wanted] = []

    def create_table_version(self, request: Any) -> CreateTableVersionResponse:
        """Hold the version back."""
        asked = CreateTableVersionRequest.model_validate(callback.content(request))
        wanted = callback.staged(asked, table_identifier(asked.id))
        table, record = service.checked(self._catalog, wanted, None)
        newest = version_rows.latest(self._catalog, table)
        if record.version != (0 if newest is None else newest.version) + 1:
            raise TableVersionAlreadyExistsError(f"Version {record.version} of '{table.key}' already exists")
        self.held.append(version_rows.Wanted(table, record))
        return CreateTableVersionResponse(version=record.shown(self._catalog.store))
