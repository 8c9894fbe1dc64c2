"""The client that Lance calls to commit to a table whose versions the catalog manages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_namespace import LanceNamespace
from lance_namespace_urllib3_client.models.create_table_version_request import CreateTableVersionRequest
from lance_namespace_urllib3_client.models.create_table_version_response import CreateTableVersionResponse
from lance_namespace_urllib3_client.models.describe_table_response import DescribeTableResponse
from lance_namespace_urllib3_client.models.describe_table_version_request import DescribeTableVersionRequest
from lance_namespace_urllib3_client.models.describe_table_version_response import DescribeTableVersionResponse
from lance_namespace_urllib3_client.models.list_table_versions_request import ListTableVersionsRequest
from lance_namespace_urllib3_client.models.list_table_versions_response import ListTableVersionsResponse

from pennon import background
from pennon.directory.versions import service
from pennon.identifiers import table_identifier
from pennon.table import naming
from pennon.table.version_selector import normalize_branch

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pennon.directory.catalog import Catalog
    from pennon.directory.versions.record import VersionRecord
    from pennon.identifiers import Identifier


class VersionClient(LanceNamespace):
    """The version operations of one catalog, for Lance, which passes requests as models or as dicts."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._created: dict[int, VersionRecord] = {}
        self._newest = 0

    def namespace_id(self) -> str:
        """Return a name of the catalog."""
        return f"versions of {self._catalog.store.identity()}"

    @background.awaited_at_exit()
    def describe_table(self, request: Any) -> DescribeTableResponse:
        """Return the location of the table."""
        found = self._catalog.resolver.table(table_identifier(to_dict(request).get("id")))
        return DescribeTableResponse(location=self._catalog.store.resolve(found.location), managed_versioning=True)

    @background.awaited_at_exit()
    def list_table_versions(self, request: Any) -> ListTableVersionsResponse:
        """List versions."""
        return list_versions(self._catalog, ListTableVersionsRequest.model_validate(to_dict(request)))

    @background.awaited_at_exit()
    def describe_table_version(self, request: Any) -> DescribeTableVersionResponse:
        """Describe a version."""
        return describe_version(self._catalog, DescribeTableVersionRequest.model_validate(to_dict(request)))

    @background.awaited_at_exit()
    def create_table_version(self, request: Any) -> CreateTableVersionResponse:
        """Create a version."""
        version = parse_version_request(CreateTableVersionRequest.model_validate(to_dict(request)))
        (record,) = service.create_versions(self._catalog, [version], wait=False)
        if version.branch is None:
            self._remember(record)
        return CreateTableVersionResponse(version=record.to_response(self._catalog.store))

    def find_created(self, version: int) -> VersionRecord | None:
        """Return a version of the only table that this client is used for, if this client created it.

        Returns None when that is uncertain: once version numbers start again, another table has replaced the first.
        """
        return self._created.get(version)

    def _remember(self, record: VersionRecord) -> None:
        if record.version <= self._newest:
            self._newest = naming.LARGEST
        if self._newest == naming.LARGEST:
            self._created = {}
            return
        self._newest = record.version
        self._created = {record.version: record}


def opening_arguments(catalog: Catalog, identifier: Identifier, client: VersionClient | None = None) -> dict[str, Any]:
    """Return the arguments with which Lance opens a table, and later commits to it, through the catalog."""
    return {"namespace_client": client or VersionClient(catalog), "table_id": list(identifier)}


def commit_arguments(catalog: Catalog, identifier: Identifier, client: VersionClient | None = None) -> dict[str, Any]:
    """Return the arguments with which Lance commits to a table through the catalog."""
    return {**opening_arguments(catalog, identifier, client), "namespace_client_managed_versioning": True}


def list_versions(catalog: Catalog, request: ListTableVersionsRequest) -> ListTableVersionsResponse:
    """Return a page of versions, newest first unless the request says otherwise."""
    records, token = service.list_versions(
        catalog,
        table_identifier(request.id),
        request.page_token,
        request.limit,
        descending=request.descending is not False,
        branch=request.branch,
    )
    versions = [record.to_response(catalog.store) for record in records]
    return ListTableVersionsResponse(versions=versions, page_token=token)


def describe_version(catalog: Catalog, request: DescribeTableVersionRequest) -> DescribeTableVersionResponse:
    """Return a version, or the latest."""
    record = service.describe_version(catalog, table_identifier(request.id), request.version, request.branch)
    return DescribeTableVersionResponse(version=record.to_response(catalog.store))


def create_version(catalog: Catalog, request: CreateTableVersionRequest) -> CreateTableVersionResponse:
    """Create a version from a staged manifest."""
    (record,) = service.create_versions(catalog, [parse_version_request(request)])
    return CreateTableVersionResponse(version=record.to_response(catalog.store))


def parse_version_request(request: Any) -> service.VersionRequest:
    """Return what a request, or one entry of a batch, asks for."""
    return service.VersionRequest(
        table_identifier(request.id),
        request.version,
        request.manifest_path,
        request.naming_scheme,
        request.metadata,
        normalize_branch(request.branch),
    )


def to_dict(request: dict[str, Any] | BaseModel) -> dict[str, Any]:
    """Return a request as a dict."""
    return dict(request) if isinstance(request, dict) else request.model_dump()
