"""Lance transactions of several tables, and new tables, published together through a server.

Lance stages the manifest of each transaction as if it committed to the server, but the client only records the version.
Then one request creates all versions and adds the new tables, or nothing, which is the commit point. A crash before it,
and an error, leave staged manifests that nothing refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
    is_commit_conflict,
)
from pennon.http_transport import BadAnswerError, pause_before_retry
from pennon.identifiers import Identifier, format_identifier, table_identifier
from pennon.table_commits import NewTable, TableCommit

_ATTEMPTS = 20


Publish = Callable[[Sequence[CreateTableVersionEntry], Sequence[NewTable]], list[int]]
"""Creates staged versions and adds new tables in one commit. Returns the versions, those of new tables at the end."""


def commit_tables(
    client: sdk.LanceNamespace,
    commits: Sequence[TableCommit | NewTable],
    check: Callable[[Mapping[Identifier, int]], object],
    publish: Publish,
) -> dict[Identifier, int]:
    """Stage all changes, commit them at once, and return the new version of each table.

    If others commit to one of the tables first, the changes are rebased and committed again.
    """
    changes: dict[Identifier, TableCommit] = {}
    new_tables: dict[Identifier, NewTable] = {}
    for one in commits:
        identifier = table_identifier(one.id)
        if identifier in changes or identifier in new_tables:
            raise InvalidInputError(f"Two changes of one commit name the table {format_identifier(identifier)}")
        if isinstance(one, NewTable):
            new_tables[identifier] = one
        else:
            changes[identifier] = one
    for attempt in range(_ATTEMPTS):
        staged = [_stage(client, identifier, one) for identifier, one in changes.items()]
        check({identifier: entry.version for identifier, entry in zip(changes, staged, strict=True)})
        try:
            versions = publish(staged, list(new_tables.values()))
        except ConcurrentModificationError:
            pause_before_retry(attempt)
            continue
        tables = [*changes, *new_tables]
        if len(versions) != len(tables):
            raise BadAnswerError(f"The server answers a commit of {len(tables)} tables with {len(versions)} versions")
        return dict(zip(tables, versions, strict=True))
    names = ", ".join(map(format_identifier, [*changes, *new_tables]))
    raise ConcurrentModificationError(f"Could not commit to {names}: others committed first every time")


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
