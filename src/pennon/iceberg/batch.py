"""Several tables in one commit: the server's CommitTransaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import lance
from lance import LanceDataset
from lance_namespace_urllib3_client.models.batch_commit_tables_response import BatchCommitTablesResponse
from lance_namespace_urllib3_client.models.commit_table_result import CommitTableResult
from lance_namespace_urllib3_client.models.create_table_version_request import CreateTableVersionRequest
from lance_namespace_urllib3_client.models.create_table_version_response import CreateTableVersionResponse
from lance_namespace_urllib3_client.models.table_version import TableVersion

from pennon.catalog_callback import CatalogCallback
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableVersionAlreadyExistsError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
    is_commit_conflict,
)
from pennon.http_transport import pause_before_retry
from pennon.iceberg import arriving, managed, rest
from pennon.iceberg.files import StagedManifest
from pennon.iceberg.reserved import table_identifier
from pennon.iceberg.settings import IMPL
from pennon.identifiers import Identifier, format_identifier
from pennon.table_commits import NewTable, TableCommit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_namespace import BatchCommitTablesRequest, LanceNamespace

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry
    from pennon.iceberg.files import VersionFile

_ATTEMPTS = 20
_KINDS = ("declare_table", "create_table_version", "delete_table_versions", "deregister_table")


Check = Callable[[Mapping[Identifier, int]], object]


def commit(catalog: Catalog, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
    """Create versions of several tables in one transaction.

    Raises UnsupportedOperationError for anything else, because the protocol's transactions cannot do it.
    """
    wanted: list[tuple[Identifier, StagedManifest]] = []
    for operation in request.operations:
        given = [kind for kind in _KINDS if getattr(operation, kind) is not None]
        if len(given) != 1:
            raise InvalidInputError(f"Each operation of a batch names exactly one thing to do, got {given or 'none'}")
        asked = operation.create_table_version
        if asked is None:
            raise UnsupportedOperationError(
                f"An Iceberg REST catalog has no {given[0]} in a transaction: only versions are created together"
            )
        wanted.append(
            (table_identifier(asked.id), StagedManifest(asked.version, asked.manifest_path, asked.naming_scheme))
        )
    versions = create_together(catalog, wanted)
    return BatchCommitTablesResponse(
        results=[
            CommitTableResult(create_table_version=CreateTableVersionResponse(version=one.shown(catalog.store(entry))))
            for one, entry in versions
        ]
    )


def create_together(
    catalog: Catalog, wanted: Sequence[tuple[Identifier, managed.VersionSource]]
) -> list[tuple[VersionFile, Entry]]:
    """Create versions of managed tables, all or none, and return them with their entries."""
    identifiers = [identifier for identifier, _ in wanted]
    if len(set(identifiers)) != len(identifiers):
        raise InvalidInputError("Each table gets one version in a transaction: two operations name the same one")
    found = [catalog.table(identifier) for identifier in identifiers]
    for entry in found:
        _require_managed(entry)
    require_transactions(catalog, len(found))
    return list(zip(managed.create(catalog, wanted, found), found, strict=True))


def require_managed(catalog: Catalog, identifiers: Sequence[Identifier]) -> None:
    """Raise UnsupportedOperationError unless one commit can create versions of all these tables.

    Tables that do not exist yet are allowed.
    """
    for identifier in identifiers:
        entry = catalog.any_table(identifier)
        if entry is not None and entry.is_lance:
            _require_managed(entry)
        elif catalog.settings.managed_by != IMPL:
            raise UnsupportedOperationError(
                f"Table {format_identifier(identifier)} is new, and would not be managed by the catalog: connect with "
                "managed_by=impl to make its first version part of a transaction"
            )
    require_transactions(catalog, len(identifiers))


def require_transactions(catalog: Catalog, count: int) -> None:
    """Raise UnsupportedOperationError if the server cannot commit so many tables together."""
    if count > 1 and not catalog.server.offers(rest.COMMIT_TRANSACTION):
        raise UnsupportedOperationError("The server has no transactions over several tables")


def _require_managed(entry: Entry) -> None:
    if not entry.is_managed:
        raise UnsupportedOperationError(
            f"Table {format_identifier(entry.identifier)} is not managed by the catalog (managed_by=impl), "
            "so its versions cannot be part of a transaction"
        )


def latest_versions(catalog: Catalog, identifiers: Sequence[Identifier]) -> list[int]:
    """Return the latest versions of managed tables at one point in time: reads them until two reads are equal.

    Raises TableVersionNotFoundError if a table has no version yet, ConcurrentModificationError if no two reads are
    equal, UnsupportedOperationError if the catalog does not manage a table's versions.
    """
    before: list[tuple[str, int | None]] | None = None
    for _ in range(_ATTEMPTS):
        found = catalog.map(catalog.table, identifiers)
        for entry in found:
            _require_managed(entry)
        seen = [(entry.uuid, entry.version) for entry in found]
        if seen == before or len(seen) <= 1:
            for entry in found:
                if entry.version is None:
                    raise TableVersionNotFoundError(f"Table {format_identifier(entry.identifier)} has no version yet")
            return [int(version or 0) for _, version in seen]
        before = seen
    raise ConcurrentModificationError(
        f"{', '.join(map(format_identifier, identifiers))}: commits came too fast to read all versions at one time"
    )


def commit_tables(
    catalog: Catalog,
    client: LanceNamespace,
    changes: Sequence[TableCommit | NewTable],
    check: Check = lambda _: None,
) -> dict[tuple[str, ...], int]:
    """Stage Lance transactions of several tables, then publish all of them at once.

    If another client commits first, the transactions are rebased and staged again. New tables are declared first; the
    same commit adds their first versions. `check` is called with the staged versions of existing tables.
    """
    arrivals = [one for one in changes if isinstance(one, NewTable)]
    others = [one for one in changes if not isinstance(one, NewTable)]
    require_managed(catalog, [table_identifier(one.id) for one in others])
    with arriving.reserve_names(catalog, arrivals) as placed:
        for attempt in range(_ATTEMPTS):
            staged: list[tuple[Identifier, StagedManifest]] = []
            try:
                # One by one: those before the one that fails are withdrawn.
                staged.extend(_stage(catalog, client, one) for one in others)
                check({identifier: one.version for identifier, one in staged})
            except BaseException:
                _withdraw(catalog, staged)
                raise
            try:
                made = create_together(catalog, [*staged, *placed])
            except ConcurrentModificationError:
                _withdraw(catalog, staged)
                pause_before_retry(attempt)
                continue
            return {entry.identifier: one.version for one, entry in made}
    tables = ", ".join(format_identifier(table_identifier(one.id)) for one in changes)
    raise ConcurrentModificationError(f"Could not commit to {tables}: others committed first every time")


def _stage(catalog: Catalog, client: LanceNamespace, one: TableCommit) -> tuple[Identifier, StagedManifest]:
    identifier = table_identifier(one.id)
    entry = catalog.table(identifier)
    holding = _StagingCallback(client, entry.version or 0)
    is_whole = isinstance(one.operation, lance.Transaction)
    try:
        LanceDataset.commit(
            catalog.store(entry).location("").rstrip("/"),
            one.operation,
            read_version=None if is_whole else one.read_version,
            storage_options=catalog.options(entry) or None,
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
    return identifier, holding.held[-1]


def _withdraw(catalog: Catalog, staged: Sequence[tuple[Identifier, StagedManifest]]) -> None:
    for identifier, one in staged:
        store = catalog.store(catalog.table(identifier))
        store.delete(one.checked(store, format_identifier(identifier)).path)


class _StagingCallback(CatalogCallback):
    """Tells Lance that a version was created, but only records the request."""

    def __init__(self, client: LanceNamespace, newest: int) -> None:
        super().__init__(client)
        self._newest = newest
        self.held: list[StagedManifest] = []

    def create_table_version(self, request: Any) -> CreateTableVersionResponse:
        """Record the version without creating it."""
        content = dict(request) if isinstance(request, dict) else request.model_dump()
        asked = CreateTableVersionRequest.model_validate(content)
        if asked.version <= self._newest:
            raise TableVersionAlreadyExistsError(f"Version {asked.version} of {asked.id} already exists")
        self.held.append(StagedManifest(asked.version, asked.manifest_path, asked.naming_scheme))
        version = TableVersion(
            version=asked.version,
            manifest_path=asked.manifest_path,
            manifest_size=asked.manifest_size,
            e_tag=asked.e_tag,
        )
        return CreateTableVersionResponse(version=version)
