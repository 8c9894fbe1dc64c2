"""RestNamespace: a client of a Lance REST namespace server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance_namespace as sdk

from pennon.http_transport import BadAnswerError
from pennon.identifiers import DELIMITER, namespace_identifier, object_id
from pennon.requests import operation
from pennon.rest import routes
from pennon.rest.contents import TableContents
from pennon.rest.lifecycle import TableLifecycle
from pennon.rest.rows import make_body
from pennon.rest.server import RestServer, ServerDescription
from pennon.rest.settings import RestSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self


_MOST_PAGES = 100_000
"""How many pages without a name a server may send."""


class RestNamespace(TableContents, TableLifecycle):
    """A catalog of Lance tables behind a server of the Lance REST namespace protocol.

    Properties: `uri`, `delimiter`, `token`, `header.*`, `tls.*` and more; docs/reference/properties.md describes all of
    them. No request is sent before the first operation. Instances can be pickled, shared by threads, used as context
    managers, and closed. Operations raise the errors that the server answers, as the SDK's classes.
    """

    def __init__(self, **properties: Any) -> None:
        self._settings = RestSettings.from_properties(properties)
        self._properties = dict(properties)
        self._server = RestServer(self._settings)

    def namespace_id(self) -> str:
        """Return a readable id of this namespace. Namespaces on the same server have the same id."""
        return f'RestNamespace {{ uri: "{self._settings.uri}" }}'

    @property
    def storage_options(self) -> dict[str, str]:
        """The options of the object store among the properties. They may contain secrets."""
        return dict(self._settings.storage_options)

    def describe_server(self) -> ServerDescription:
        """Return what the server says of itself, and how fast it answers."""
        return self._server.describe()

    def __repr__(self) -> str:
        """Return the server, without secrets."""
        return f"RestNamespace(uri={self._settings.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the properties. The copy opens its own connections."""
        return _unpickle, (type(self), self._properties)

    def __enter__(self) -> Self:
        """Return the namespace."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the namespace."""
        self.close()

    def close(self) -> None:
        """Close all connections. The namespace cannot be used afterwards."""
        self._server.close()

    # Namespaces

    @operation(sdk.CreateNamespaceRequest)
    def create_namespace(self, request: sdk.CreateNamespaceRequest) -> sdk.CreateNamespaceResponse:
        """Create a namespace, by the mode create, exist_ok or overwrite."""
        return self._server.call(routes.CREATE_NAMESPACE, request)

    @operation(sdk.ListNamespacesRequest)
    def list_namespaces(self, request: sdk.ListNamespacesRequest) -> sdk.ListNamespacesResponse:
        """List the names of child namespaces, in pages."""
        return self._server.call(routes.LIST_NAMESPACES, request)

    @operation(sdk.DescribeNamespaceRequest)
    def describe_namespace(self, request: sdk.DescribeNamespaceRequest) -> sdk.DescribeNamespaceResponse:
        """Return the properties of a namespace."""
        return self._server.call(routes.DESCRIBE_NAMESPACE, request)

    @operation(sdk.DropNamespaceRequest)
    def drop_namespace(self, request: sdk.DropNamespaceRequest) -> sdk.DropNamespaceResponse:
        """Drop a namespace, by the mode fail or skip and the behavior restrict or cascade."""
        return self._server.call(routes.DROP_NAMESPACE, request)

    @operation(sdk.NamespaceExistsRequest)
    def namespace_exists(self, request: sdk.NamespaceExistsRequest) -> sdk.NamespaceExistsResponse:
        """Raise NamespaceNotFoundError if the namespace does not exist."""
        return self._server.call(routes.NAMESPACE_EXISTS, request)

    # Tables

    @operation(sdk.ListTablesRequest)
    def list_tables(self, request: sdk.ListTablesRequest) -> sdk.ListTablesResponse:
        """List the names of a namespace's tables, in pages."""
        return self._server.call(routes.LIST_TABLES, request)

    @operation(sdk.ListTablesRequest)
    def list_all_tables(self, request: sdk.ListTablesRequest) -> sdk.ListTablesResponse:
        """List the full identifiers of all tables at any depth, in pages.

        The protocol lists all tables of the server. Of those, a page has the ones below the namespace of the request.
        """
        below = namespace_identifier(request.id)
        if below:
            self.namespace_exists(sdk.NamespaceExistsRequest(id=list(below)))
        prefix = object_id((*below, ""))
        for _ in range(_MOST_PAGES):
            page = self._server.call(routes.LIST_ALL_TABLES, request)
            delimiter = self._settings.delimiter
            page.tables = [name.replace(delimiter, DELIMITER) for name in page.tables]
            if below:
                page.tables = [name for name in page.tables if name.startswith(prefix)]
            if page.tables or not page.page_token or page.page_token == request.page_token:
                return page
            request = request.model_copy(update={"page_token": page.page_token})
        raise BadAnswerError(f"list_all_tables: the pages of the server {self._settings.uri} do not end")

    @operation(sdk.DeclareTableRequest)
    def declare_table(self, request: sdk.DeclareTableRequest) -> sdk.DeclareTableResponse:
        """Reserve a name and a location without data."""
        response = self._server.call(routes.DECLARE_TABLE, request)
        response.storage_options = self._choose_options(response.storage_options, vend=request.vend_credentials)
        return response

    @operation(sdk.CreateTableRequest)
    def create_table(self, request: sdk.CreateTableRequest, request_data: object) -> sdk.CreateTableResponse:
        """Create a table by the mode create, exist_ok or overwrite. Rows as for `insert_into_table`."""
        return self._server.call(routes.CREATE_TABLE, request, make_body(request_data))

    @operation(sdk.RegisterTableRequest)
    def register_table(self, request: sdk.RegisterTableRequest) -> sdk.RegisterTableResponse:
        """Add an existing table to the catalog, by the mode create or overwrite."""
        return self._server.call(routes.REGISTER_TABLE, request)

    @operation(sdk.DeregisterTableRequest)
    def deregister_table(self, request: sdk.DeregisterTableRequest) -> sdk.DeregisterTableResponse:
        """Remove a table from the catalog and keep its data."""
        return self._server.call(routes.DEREGISTER_TABLE, request)

    @operation(sdk.DescribeTableRequest)
    def describe_table(self, request: sdk.DescribeTableRequest) -> sdk.DescribeTableResponse:
        """Return the location of a table and, if requested, its schema and statistics."""
        response = self._server.call(routes.DESCRIBE_TABLE, request)
        response.storage_options = self._choose_options(response.storage_options, vend=request.vend_credentials)
        return response

    @operation(sdk.TableExistsRequest)
    def table_exists(self, request: sdk.TableExistsRequest) -> sdk.TableExistsResponse:
        """Raise NamespaceNotFoundError, TableNotFoundError or TableVersionNotFoundError if the table does not exist."""
        return self._server.call(routes.TABLE_EXISTS, request)

    @operation(sdk.RenameTableRequest)
    def rename_table(self, request: sdk.RenameTableRequest) -> sdk.RenameTableResponse:
        """Rename a table, also into another namespace."""
        return self._server.call(routes.RENAME_TABLE, request)

    @operation(sdk.DropTableRequest)
    def drop_table(self, request: sdk.DropTableRequest) -> sdk.DropTableResponse:
        """Drop a table. `pennon serve` keeps its data until it is purged; context entries: `ttl`, `purge`, `force`."""
        return self._server.call(routes.DROP_TABLE, request)

    # Versions

    @operation(sdk.CreateTableVersionRequest)
    def create_table_version(self, request: sdk.CreateTableVersionRequest) -> sdk.CreateTableVersionResponse:
        """Publish a staged manifest as the next version of a table."""
        return self._server.call(routes.CREATE_TABLE_VERSION, request)

    @operation(sdk.BatchCreateTableVersionsRequest)
    def batch_create_table_versions(
        self, request: sdk.BatchCreateTableVersionsRequest
    ) -> sdk.BatchCreateTableVersionsResponse:
        """Create versions of several tables."""
        return self._server.call(routes.BATCH_CREATE_TABLE_VERSIONS, request)

    @operation(sdk.ListTableVersionsRequest)
    def list_table_versions(self, request: sdk.ListTableVersionsRequest) -> sdk.ListTableVersionsResponse:
        """List the versions of a table, in pages."""
        return self._server.call(routes.LIST_TABLE_VERSIONS, request)

    @operation(sdk.DescribeTableVersionRequest)
    def describe_table_version(self, request: sdk.DescribeTableVersionRequest) -> sdk.DescribeTableVersionResponse:
        """Return where the manifest of a version is, by default of the latest one."""
        return self._server.call(routes.DESCRIBE_TABLE_VERSION, request)

    @operation(sdk.BatchDeleteTableVersionsRequest)
    def batch_delete_table_versions(
        self, request: sdk.BatchDeleteTableVersionsRequest
    ) -> sdk.BatchDeleteTableVersionsResponse:
        """Delete versions by ranges."""
        return self._server.call(routes.BATCH_DELETE_TABLE_VERSIONS, request)

    @operation(sdk.BatchCommitTablesRequest)
    def batch_commit_tables(self, request: sdk.BatchCommitTablesRequest) -> sdk.BatchCommitTablesResponse:
        """Apply several operations on several tables in one commit."""
        return self._server.call(routes.BATCH_COMMIT_TABLES, request)

    def _choose_options(self, vended: dict[str, str] | None, *, vend: bool | None) -> dict[str, str] | None:
        """Return the options that open a table: those that the server vends, or the client's own if there are none."""
        if vend is False:
            return vended
        return vended or self._settings.storage_options or None


def _unpickle(kind: Callable[..., RestNamespace], properties: dict[str, Any]) -> RestNamespace:
    return kind(**properties)
