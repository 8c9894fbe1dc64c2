"""Lance transactions of several tables, published together through a server.

Lance stages the manifest of each transaction as if it committed to the server, but the client only records the version.
Then one BatchCreateTableVersions creates all versions, or none, which is the commit point. A crash before it, and an
error, leave staged manifests that nothing refers to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import lance_namespace as sdk
from lance import LanceDataset
from lance_namespace_urllib3_client.models.create_table_version_entry import CreateTableVersionEntry
from lance_namespace_urllib3_client.models.table_version import TableVersion

from pennon.catalog_callback import CatalogCallback
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
    is_commit_conflict,
)
from pennon.http_transport import pause_before_retry
from pennon.identifiers import Identifier, format_identifier, table_identifier
from pennon.table_commits import NewTable, TableCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ATTEMPTS = 20


def commit_tables(
    client: sdk.LanceNamespace,
    commits: Sequence[TableCommit | NewTable],
    check: Callable[[Mapping[Identifier, int]], object],
) -> dict[Identifier, int]:
    """Stage all changes, commit them at once, and return the new version of each table.

    If others commit to one of the tables first, the changes are rebased and committed again.
    """
    changes: dict[Identifier, TableCommit] = {}
    for one in commits:
        identifier = table_identifier(one.id)
        if isinstance(one, NewTable):
            raise new_table_error(identifier)
        if identifier in changes:
            raise InvalidInputError(f"Two changes of one commit name the table {format_identifier(identifier)}")
        changes[identifier] = one
    for attempt in range(_ATTEMPTS):
        staged = [_stage(client, identifier, one) for identifier, one in changes.items()]
        check({identifier: entry.version for identifier, entry in zip(changes, staged, strict=True)})
        try:
            made = client.batch_create_table_versions(sdk.BatchCreateTableVersionsRequest(entries=staged))
        except ConcurrentModificationError:
            pause_before_retry(attempt)
            continue
        return {identifier: one.version for identifier, one in zip(changes, made.versions, strict=True)}
    tables = ", ".join(map(format_identifier, changes))
    raise ConcurrentModificationError(f"Could not commit to {tables}: others committed first every time")


def new_table_error(identifier: Identifier) -> UnsupportedOperationError:
    """Return the error for a new table in a commit of several."""
    return UnsupportedOperationError(
        f"Table {format_identifier(identifier)} is new: a common commit through a server only changes tables that have "
        "a version; create it first, or open the catalog itself"
    )


def _stage(client: sdk.LanceNamespace, identifier: Identifier, change: TableCommit) -> CreateTableVersionEntry:
    request = sdk.DescribeTableRequest(id=list(identifier), vend_credentials=True)
    described = client.describe_table(request)
    callback = _StagingCallback(client)
    is_whole = isinstance(change.operation, lance.Transaction)
    try:
        LanceDataset.commit(
            str(described.location),
            change.operation,
            read_version=None if is_whole else change.read_version,
            storage_options=described.storage_options or None,
            namespace_client=callback,
            table_id=list(identifier),
            namespace_client_managed_versioning=True,
        )
    except (OSError, ValueError) as error:
        if is_commit_conflict(error):
            raise ConcurrentModificationError(
                f"The change of table {format_identifier(identifier)} cannot be made: {error}"
            ) from error
        raise
    return callback.staged[-1]


class _StagingCallback(CatalogCallback):
    """Tells Lance that a version was created, but only records the request."""

    def __init__(self, client: sdk.LanceNamespace) -> None:
        super().__init__(client)
        self.staged: list[CreateTableVersionEntry] = []

    def create_table_version(self, request: Any) -> sdk.CreateTableVersionResponse:
        """Record the version. Raises TableVersionAlreadyExistsError unless it is newer than all others."""
        content = dict(request) if isinstance(request, dict) else request.model_dump()
        asked = sdk.CreateTableVersionRequest.model_validate(content)
        latest = self._client.describe_table_version(sdk.DescribeTableVersionRequest(id=asked.id)).version
        if asked.version <= latest.version:
            raise TableVersionAlreadyExistsError(f"Version {asked.version} of {asked.id} already exists")
        fields = {name: getattr(asked, name) for name in CreateTableVersionEntry.model_fields if hasattr(asked, name)}
        self.staged.append(CreateTableVersionEntry(**fields))
        version = TableVersion(
            version=asked.version,
            manifest_path=asked.manifest_path,
            manifest_size=asked.manifest_size,
            e_tag=asked.e_tag,
        )
        return sdk.CreateTableVersionResponse(version=version)
