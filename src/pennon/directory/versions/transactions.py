"""Publishing prepared Lance transactions of several tables all at once.

Lance writes the manifest of each transaction's version as if it committed to the catalog; the catalog's answer is held
back. When all of them are staged, one commit of the manifest makes them all versions, or none. Until then nobody else
sees anything, but the staged tables can be opened and checked.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance
from lance import LanceDataset, LanceOperation
from lance_namespace_urllib3_client.models.create_table_version_request import CreateTableVersionRequest
from lance_namespace_urllib3_client.models.create_table_version_response import CreateTableVersionResponse

from pennon.directory.versions import client, managed, operations
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
    is_commit_conflict,
)
from pennon.identifiers import Identifier, shown, table_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.directory.catalog import Catalog

_ATTEMPTS = 20
_LONGEST_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class TableCommit:
    """A prepared change of one table: a Lance transaction, or an operation and the version that it was made for."""

    id: Sequence[str]
    operation: lance.Transaction | LanceOperation.BaseOperation
    read_version: int | None = None


@dataclass(frozen=True)
class StagedTable:
    """A change that is staged: it can be read, and nobody else sees it."""

    identifier: Identifier
    wanted: managed.Wanted
    dataset: LanceDataset


def commit_tables(catalog: Catalog, commits: Sequence[TableCommit]) -> dict[tuple[str, ...], int]:
    """Stage all, then commit all at once; again, rebased, if others committed to one of the tables meanwhile.

    The commit point is one commit of the manifest. A crash before it leaves staged manifests that nothing refers to.
    """
    for attempt in range(_ATTEMPTS):
        staged = stage(catalog, commits)
        try:
            records = managed.create(catalog, [one.wanted for one in staged])
        except (TableVersionAlreadyExistsError, TableNotFoundError) as error:
            # Of any other error nobody knows here whether it came before the commit: what is staged stays then.
            catalog.store.delete(*(one.wanted.record.path for one in staged))
            if isinstance(error, TableNotFoundError):
                raise
            time.sleep(random.uniform(0, min(0.005 * 2**attempt, _LONGEST_PAUSE_SECONDS)))  # noqa: S311 - jitter
            continue
        return {one.identifier: record.version for one, record in zip(staged, records, strict=True)}
    names = ", ".join(shown(table_identifier(one.id)) for one in commits)
    raise ConcurrentModificationError(f"Could not commit to {names}: others committed first every time")


def stage(catalog: Catalog, commits: Sequence[TableCommit]) -> list[StagedTable]:
    """Write the manifests of the changes without committing them; nothing is left of them if one cannot be made."""
    if not operations.manages(catalog):
        raise UnsupportedOperationError(
            "Several tables are committed together only where the catalog manages versions; "
            "enable_table_version_management() makes it so"
        )
    identifiers = [table_identifier(one.id) for one in commits]
    if len(set(identifiers)) != len(identifiers):
        raise InvalidInputError("Each table is committed once: two transactions name the same one")
    staged: list[StagedTable] = []
    try:
        for one, identifier in zip(commits, identifiers, strict=True):
            staged.append(_staged(catalog, one, identifier))
    except BaseException:
        if staged:
            catalog.store.delete(*(one.wanted.record.path for one in staged))
        raise
    return staged


def _staged(catalog: Catalog, commit: TableCommit, identifier: Identifier) -> StagedTable:
    found = catalog.resolver.table(identifier)
    holding = _Holding(catalog)
    operation = commit.operation
    read_version = operation.read_version if isinstance(operation, lance.Transaction) else commit.read_version
    try:
        dataset = LanceDataset.commit(
            catalog.store.location(found.location),
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
                f"The change of table {shown(identifier)} cannot be made: {error}"
            ) from error
        raise
    return StagedTable(identifier, holding.held[-1], dataset)


class _Holding(client.VersionClient):
    """Answers Lance that a version is created, and keeps what was asked for to itself."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self.held: list[managed.Wanted] = []

    def create_table_version(self, request: Any) -> CreateTableVersionResponse:  # noqa: ANN401 - as in VersionClient
        """Hold the version back."""
        asked = CreateTableVersionRequest.model_validate(client.content(request))
        wanted = client.staged(asked, table_identifier(asked.id))
        table, record = operations.checked(self._catalog, wanted, None)
        newest = managed.latest(self._catalog, table)
        if record.version != (0 if newest is None else newest.version) + 1:
            raise TableVersionAlreadyExistsError(f"Version {record.version} of '{table.key}' already exists")
        self.held.append(managed.Wanted(table, record))
        return CreateTableVersionResponse(version=record.shown(self._catalog.store))
