"""What Lance calls back when it commits to a table whose versions the catalog manages."""

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
    from pennon.directory.versions.record import Record
    from pennon.identifiers import Identifier


class VersionClient(LanceNamespace):
    """The version operations of one catalog, for Lance."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._made: dict[int, Record] = {}
        self._newest = 0

    def namespace_id(self) -> str:
        """Name the catalog."""
        return f"versions of {self._catalog.store.identity()}"

    @background.awaited_at_exit()
    def describe_table(self, request: Any) -> DescribeTableResponse:
        """Tell where the table is."""
        found = self._catalog.resolver.table(_identifier(request))
        return DescribeTableResponse(location=self._catalog.store.resolve(found.location), managed_versioning=True)

    @background.awaited_at_exit()
    def list_table_versions(self, request: Any) -> ListTableVersionsResponse:
        """List versions."""
        return list_versions(self._catalog, ListTableVersionsRequest.model_validate(content(request)))

    @background.awaited_at_exit()
    def describe_table_version(self, request: Any) -> DescribeTableVersionResponse:
        """Describe a version."""
        return describe_version(self._catalog, DescribeTableVersionRequest.model_validate(content(request)))

    @background.awaited_at_exit()
    def create_table_version(self, request: Any) -> CreateTableVersionResponse:
        """Create a version."""
        wanted = CreateTableVersionRequest.model_validate(content(request))
        (record,) = service.create(self._catalog, [staged(wanted, table_identifier(wanted.id))])
        if normalize_branch(wanted.branch) is None:
            self._remember(record)
        return CreateTableVersionResponse(version=record.shown(self._catalog.store))

    def made(self, version: int) -> Record | None:
        """Give what is known of a version of the one table that this client is used for, if it made that version.

        None if it is not sure: once numbers begin anew, another table has taken the place of the first one.
        """
        return self._made.get(version)

    def _remember(self, record: Record) -> None:
        if record.version <= self._newest:
            self._newest = naming.LARGEST
        if self._newest == naming.LARGEST:
            self._made = {}
            return
        self._newest = record.version
        self._made = {record.version: record}


def opening(catalog: Catalog, identifier: Identifier, client: VersionClient | None = None) -> dict[str, Any]:
    """Give what Lance is told to open a table, and to commit to it then, through the catalog."""
    return {"namespace_client": client or VersionClient(catalog), "table_id": list(identifier)}


def committing(catalog: Catalog, identifier: Identifier) -> dict[str, Any]:
    """Give what Lance is told to commit to a table through the catalog."""
    return {**opening(catalog, identifier), "namespace_client_managed_versioning": True}


def list_versions(catalog: Catalog, request: ListTableVersionsRequest) -> ListTableVersionsResponse:
    """List a page of versions, the newest first unless asked otherwise."""
    records, token = service.list_versions(
        catalog,
        table_identifier(request.id),
        request.page_token,
        request.limit,
        descending=request.descending is not False,
        branch=request.branch,
    )
    return ListTableVersionsResponse(versions=[record.shown(catalog.store) for record in records], page_token=token)


def describe_version(catalog: Catalog, request: DescribeTableVersionRequest) -> DescribeTableVersionResponse:
    """Describe a version, or the latest."""
    record = service.describe(catalog, table_identifier(request.id), request.version, request.branch)
    return DescribeTableVersionResponse(version=record.shown(catalog.store))


def create_version(catalog: Catalog, request: CreateTableVersionRequest) -> CreateTableVersionResponse:
    """Create a version from a staged manifest."""
    (record,) = service.create(catalog, [staged(request, table_identifier(request.id))])
    return CreateTableVersionResponse(version=record.shown(catalog.store))


def staged(entry: Any, identifier: Identifier) -> service.Staged:
    """Read what a request says about a staged manifest."""
    return service.Staged(
        identifier,
        entry.version,
        entry.manifest_path,
        entry.naming_scheme,
        entry.metadata,
        normalize_branch(entry.branch),
    )


def _identifier(request: Any) -> Identifier:
    return table_identifier(content(request).get("id"))


def content(request: dict[str, Any] | BaseModel) -> dict[str, Any]:
    """Give a request as a dict, whichever way Lance passes it."""
    return dict(request) if isinstance(request, dict) else request.model_dump()
