"""The requests that jobs send to the catalog."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lance_namespace_urllib3_client.models.batch_delete_table_versions_request import BatchDeleteTableVersionsRequest
from lance_namespace_urllib3_client.models.describe_table_request import DescribeTableRequest
from lance_namespace_urllib3_client.models.list_table_versions_request import ListTableVersionsRequest
from lance_namespace_urllib3_client.models.list_tables_request import ListTablesRequest
from lance_namespace_urllib3_client.models.namespace_exists_request import NamespaceExistsRequest
from lance_namespace_urllib3_client.models.version_range import VersionRange

from pennon.errors import NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import split_object_id
from pennon.spark.reading.pinned import PinnedTable, pin
from pennon.spark.tables.destination import require_plain_cleanup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset
    from lance_namespace_urllib3_client.models.describe_table_response import DescribeTableResponse

    from pennon import DirectoryNamespace
    from pennon.directory.catalog import Catalog
    from pennon.identifiers import Identifier
    from pennon.spark.address import Address

_PAGE = 1000


def list_tables(catalog: DirectoryNamespace) -> Iterator[Identifier]:
    """Yield the identifiers of all tables of a catalog, including declared ones."""
    token = None
    while True:
        page = catalog.list_all_tables(ListTablesRequest(limit=_PAGE, page_token=token))
        for joined in page.tables:
            yield split_object_id(joined)
        token = page.page_token
        if not token:
            return


def namespace_exists(catalog: DirectoryNamespace, identifier: Identifier) -> bool:
    """Return True if the namespace exists."""
    try:
        catalog.namespace_exists(NamespaceExistsRequest(id=list(identifier)))
    except NamespaceNotFoundError:
        return False
    return True


def describe_table(address: Address, identifier: Identifier) -> DescribeTableResponse:
    """Return a table's location, its storage options, who manages its versions, and whether it is only declared."""
    request = DescribeTableRequest(id=list(identifier), vend_credentials=True, check_declared=True)
    return address.connect().describe_table(request)


def open_latest(address: Address, identifier: Identifier) -> tuple[PinnedTable, LanceDataset] | None:
    """Return the latest version of a table, opened through the catalog, or None if the table is only declared."""
    try:
        return pin(address, identifier)
    except TableNotFoundError:
        if describe_table(address, identifier).is_only_declared:
            return None
        raise


def open_for_commit(address: Address, identifier: Identifier, version: int | None = None) -> LanceDataset:
    """Return a version of a table whose commits go through the catalog if that manages versions."""
    import lance

    found = describe_table(address, identifier)
    if found.managed_versioning:
        where: dict[str, Any] = {"namespace_client": address.connect(), "table_id": list(identifier)}
    else:
        where = {"uri": found.location}
    dataset = lance.dataset(version=version, storage_options=found.storage_options or None, **where)
    require_plain_cleanup(dataset)
    return dataset


def list_versions(address: Address, identifier: Identifier) -> list[int]:
    """Return the versions of a table that the catalog lists.

    Listing also finishes versions that a dead writer has committed.
    """
    catalog = address.connect()
    found: list[int] = []
    token = None
    while True:
        request = ListTableVersionsRequest(id=list(identifier), limit=_PAGE, page_token=token)
        page = catalog.list_table_versions(request)
        found += [one.version for one in page.versions]
        token = page.page_token
        if not token:
            return found


def delete_versions(catalog: DirectoryNamespace, identifier: Identifier, spans: Sequence[tuple[int, int]]) -> int:
    """Delete versions by ranges that exclude their end, and return how many were deleted."""
    ranges = [VersionRange(start_version=start, end_version=end) for start, end in spans]
    request = BatchDeleteTableVersionsRequest(id=list(identifier), ranges=ranges)
    return int(catalog.batch_delete_table_versions(request).deleted_count or 0)


@lru_cache(maxsize=4)
def open_records(address: Address) -> Catalog | None:
    """Return the catalog's own records, or None if it is not a directory catalog.

    Jobs read from them what the namespace interface has no operation for.
    """
    if address.impl != "dir":
        return None
    from pennon.config import DirectorySettings
    from pennon.directory.catalog import open_catalog
    from pennon.store import open_store

    settings = DirectorySettings.from_properties(dict(address.properties))
    return open_catalog(settings, open_store(settings.root, settings.storage_options))
