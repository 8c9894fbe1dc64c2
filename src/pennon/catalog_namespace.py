"""CatalogNamespace: the operations that the directory namespace and the Iceberg namespace have in common.

An operation reads its request, calls one method of the catalog's kind (`_create_table`, `_drop_table`, ...), and builds
the response. A subclass implements these methods.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lance_namespace import (
    BatchCommitTablesRequest,
    BatchCommitTablesResponse,
    BatchCreateTableVersionsRequest,
    BatchCreateTableVersionsResponse,
    BatchDeleteTableVersionsRequest,
    BatchDeleteTableVersionsResponse,
    CreateNamespaceRequest,
    CreateNamespaceResponse,
    CreateTableRequest,
    CreateTableResponse,
    CreateTableVersionRequest,
    CreateTableVersionResponse,
    DeclareTableRequest,
    DeclareTableResponse,
    DeregisterTableRequest,
    DeregisterTableResponse,
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    DescribeTableRequest,
    DescribeTableResponse,
    DescribeTableVersionRequest,
    DescribeTableVersionResponse,
    DropNamespaceRequest,
    DropNamespaceResponse,
    DropTableRequest,
    DropTableResponse,
    ListNamespacesRequest,
    ListNamespacesResponse,
    ListTablesRequest,
    ListTablesResponse,
    ListTableVersionsRequest,
    ListTableVersionsResponse,
    NamespaceExistsRequest,
    NamespaceExistsResponse,
    RegisterTableRequest,
    RegisterTableResponse,
    RenameTableRequest,
    RenameTableResponse,
    TableExistsRequest,
    TableExistsResponse,
)

from pennon import durations, identifiers, modes
from pennon.errors import InvalidInputError, translate_errors
from pennon.identifiers import Identifier, format_identifier
from pennon.requests import operation
from pennon.table.ipc_file import IpcFile, load_rows
from pennon.table.operations import TableOperations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    import pyarrow as pa
    from lance import LanceDataset
    from lance_namespace_urllib3_client.models.create_table_version_entry import CreateTableVersionEntry
    from lance_namespace_urllib3_client.models.table_version import TableVersion
    from lance_namespace_urllib3_client.models.version_range import VersionRange
    from typing_extensions import Self

    from pennon.results import DroppedTable, PurgedTable, PurgeReport, TableStatusReport
    from pennon.table.description import TableDescription
    from pennon.table.handles import HandleCache
    from pennon.table_commits import NewTable, TableCommit


class _Settings(Protocol):
    @property
    def drop_ttl_ms(self) -> int: ...
    @property
    def storage_options(self) -> Mapping[str, str]: ...


class _Catalog(Protocol):
    @property
    def handles(self) -> HandleCache: ...

    def close(self) -> None: ...


CatalogT = TypeVar("CatalogT", bound=_Catalog)


@dataclass(frozen=True)
class TableInfo:
    """What responses contain about a table."""

    location: str
    properties: dict[str, str] | None
    version: int | None = None
    storage_options: dict[str, str] | None = field(default=None, repr=False)
    managed_versioning: bool | None = None
    uri: str | None = None
    only_declared: bool | None = None
    details: TableDescription | None = None


@dataclass(frozen=True)
class DropOptions:
    """The options of a drop, from the context of its request."""

    ttl_ms: int
    """How long the dropped object is kept at least."""
    purge: bool
    """Whether the data is deleted at once."""
    force: bool
    """Whether protected objects are dropped, too."""

    @classmethod
    def parse(cls, context: Mapping[str, str] | None, default_ttl_ms: int) -> DropOptions:
        """Return the options in a context. Raises InvalidInputError for a bad value."""
        ttl_ms = default_ttl_ms
        if context and "ttl" in context:
            ttl_ms = durations.parse_milliseconds(context["ttl"], "The context's 'ttl'")
        return cls(ttl_ms, modes.parse_flag(context, "purge"), modes.parse_flag(context, "force"))


class CatalogNamespace(TableOperations, Generic[CatalogT]):
    """A catalog of Lance tables.

    No request is sent before the first operation. Instances can be pickled, shared by threads, used as context
    managers, and closed.
    """

    _settings: _Settings

    def __init__(self, properties: dict[str, Any]) -> None:
        self._properties = properties
        self._lock = Lock()
        self._open: CatalogT | None = None
        self._closed = False

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
        """Finish background work and close threads and connections. The namespace cannot be used afterwards."""
        with self._lock:
            catalog, self._open = self._open, None
            self._closed = True
        if catalog is not None:
            catalog.close()
        else:
            self._close_stores()

    @property
    def storage_options(self) -> dict[str, str]:
        """The options of the object store among the properties. They may contain secrets."""
        return dict(self._settings.storage_options)

    @property
    def _catalog(self) -> CatalogT:
        with self._lock:
            if self._closed:
                raise InvalidInputError(f"{self!r} is closed")
            if self._open is None:
                self._open = self._open_catalog()
            return self._open

    @abstractmethod
    def _open_catalog(self) -> CatalogT:
        """Return a new catalog. Sends no request."""

    @abstractmethod
    def _close_stores(self) -> None:
        """Close the stores of a namespace whose catalog was never opened."""

    def _advance_handle(self, before: LanceDataset, after: LanceDataset) -> None:
        self._catalog.handles.replace_dataset(before, after)

    def _require_allowed(self, identifier: Identifier) -> Identifier:
        """Return the identifier. Raises InvalidInputError if the catalog reserves it."""
        return identifier

    def _namespace_identifier(self, value: Sequence[str] | None) -> Identifier:
        return self._require_allowed(identifiers.namespace_identifier(value))

    def _table_identifier(self, value: Sequence[str] | None) -> Identifier:
        return self._require_allowed(identifiers.table_identifier(value))

    # Namespaces

    @operation(CreateNamespaceRequest)
    def create_namespace(self, request: CreateNamespaceRequest) -> CreateNamespaceResponse:
        """Create a namespace, by the mode create, exist_ok or overwrite.

        Raises NamespaceNotFoundError if the parent does not exist, NamespaceAlreadyExistsError if the namespace
        exists, InvalidInputError for a bad name or mode.
        """
        mode = modes.parse_mode(request.mode, modes.CreateMode.CREATE)
        identifier = self._namespace_identifier(request.id)
        return CreateNamespaceResponse(properties=self._create_namespace(identifier, mode, request.properties))

    @abstractmethod
    def _create_namespace(
        self, identifier: Identifier, mode: modes.CreateMode, properties: Mapping[str, str] | None
    ) -> dict[str, str] | None:
        """Create a namespace and return its properties."""

    @operation(ListNamespacesRequest)
    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        """List the names of child namespaces, sorted, in pages.

        Raises NamespaceNotFoundError if the namespace does not exist.
        """
        identifier = self._namespace_identifier(request.id)
        names, token = self._list_namespaces(identifier, request.page_token, request.limit)
        return ListNamespacesResponse(namespaces=names, page_token=token)

    @abstractmethod
    def _list_namespaces(
        self, identifier: Identifier, token: str | None, limit: int | None
    ) -> tuple[list[str], str | None]:
        """Return a page of names and the token of the next page."""

    @operation(DescribeNamespaceRequest)
    def describe_namespace(self, request: DescribeNamespaceRequest) -> DescribeNamespaceResponse:
        """Return the properties of a namespace. Raises NamespaceNotFoundError if it does not exist."""
        return DescribeNamespaceResponse(properties=self._describe_namespace(self._namespace_identifier(request.id)))

    @abstractmethod
    def _describe_namespace(self, identifier: Identifier) -> dict[str, str] | None:
        """Return the properties of a namespace."""

    @operation(DropNamespaceRequest)
    def drop_namespace(self, request: DropNamespaceRequest) -> DropNamespaceResponse:
        """Drop a namespace, by the mode fail or skip and the behavior restrict or cascade.

        Raises NamespaceNotFoundError if it does not exist, NamespaceNotEmptyError if it is not empty.
        """
        mode = modes.parse_mode(request.mode, modes.DropMode.FAIL)
        behavior = modes.parse_mode(request.behavior, modes.DropBehavior.RESTRICT)
        identifier = self._namespace_identifier(request.id)
        options = DropOptions.parse(request.context, self._settings.drop_ttl_ms)
        return DropNamespaceResponse(properties=self._drop_namespace(identifier, mode, behavior, options))

    @abstractmethod
    def _drop_namespace(
        self, identifier: Identifier, mode: modes.DropMode, behavior: modes.DropBehavior, options: DropOptions
    ) -> dict[str, str] | None:
        """Drop a namespace and return the properties that it had."""

    @operation(NamespaceExistsRequest)
    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        """Raise NamespaceNotFoundError if the namespace does not exist."""
        self._require_namespace(self._namespace_identifier(request.id))
        return NamespaceExistsResponse()

    @abstractmethod
    def _require_namespace(self, identifier: Identifier) -> object:
        """Raise NamespaceNotFoundError if a namespace does not exist."""

    def alter_namespace_properties(self, id: Sequence[str], changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set properties of a namespace, remove those whose value is None, and return all properties.

        Raises NamespaceNotFoundError if the namespace does not exist.
        """
        identifier = self._namespace_identifier(id)
        with translate_errors(f"alter_namespace_properties of {format_identifier(identifier)}"):
            return self._alter_namespace_properties(identifier, changes)

    @abstractmethod
    def _alter_namespace_properties(self, identifier: Identifier, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Change properties of a namespace and return all of them."""

    # Tables

    @operation(ListTablesRequest)
    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the names of a namespace's tables, sorted, in pages.

        Raises NamespaceNotFoundError if the namespace does not exist.
        """
        return self._respond_to_listing(self._list_tables, request)

    @operation(ListTablesRequest)
    def list_all_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the full identifiers of all tables at any depth, sorted, in pages."""
        return self._respond_to_listing(self._list_all_tables, request)

    def _respond_to_listing(
        self, list_names: Callable[..., tuple[list[str], str | None]], request: ListTablesRequest
    ) -> ListTablesResponse:
        names, token = list_names(
            self._namespace_identifier(request.id),
            request.page_token,
            request.limit,
            include_declared=request.include_declared is not False,
        )
        return ListTablesResponse(tables=names, page_token=token)

    @abstractmethod
    def _list_tables(
        self, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
    ) -> tuple[list[str], str | None]:
        """Return a page of names and the token of the next page."""

    @abstractmethod
    def _list_all_tables(
        self, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
    ) -> tuple[list[str], str | None]:
        """Return a page of full identifiers and the token of the next page."""

    @operation(DeclareTableRequest)
    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """Reserve a name and a location without data.

        Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the name is taken,
        ConcurrentModificationError if another client changed it, InvalidInputError for a bad name or location.
        """
        info = self._declare_table(
            self._table_identifier(request.id), request.location, request.properties, vend=request.vend_credentials
        )
        return DeclareTableResponse(
            location=info.location,
            properties=info.properties,
            storage_options=info.storage_options,
            managed_versioning=info.managed_versioning,
        )

    @abstractmethod
    def _declare_table(
        self,
        identifier: Identifier,
        location: str | None,
        properties: Mapping[str, str] | None,
        *,
        vend: bool | None,
    ) -> TableInfo:
        """Declare a table."""

    @operation(CreateTableRequest)
    def create_table(self, request: CreateTableRequest, request_data: bytes) -> CreateTableResponse:
        """Create a table from Arrow IPC data, by the mode create, exist_ok or overwrite.

        The data is a stream or file in memory, or an open file with a stream, which is read a batch at a time.
        Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the table exists,
        ConcurrentModificationError if another client changed it at the same time, InvalidInputError for bad data.
        """
        mode = modes.parse_mode(request.mode, modes.CreateMode.CREATE)
        identifier = self._table_identifier(request.id)
        data = load_rows(request_data)
        info = self._create_table(identifier, data, mode, request.properties, request.storage_options)
        return CreateTableResponse(
            location=info.location,
            version=info.version,
            properties=info.properties,
            storage_options=info.storage_options,
        )

    @abstractmethod
    def _create_table(
        self,
        identifier: Identifier,
        data: pa.Table | IpcFile,
        mode: modes.CreateMode,
        properties: Mapping[str, str] | None,
        storage_options: Mapping[str, str] | None,
    ) -> TableInfo:
        """Create a table."""

    def new_table_location(self, id: Sequence[str]) -> str:
        """Return a location where a new table may be written before it is in the catalog.

        Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the name is taken,
        ConcurrentModificationError if another client changed it, InvalidInputError for a bad name or location.
        """
        identifier = self._table_identifier(id)
        with translate_errors(f"new_table_location of {format_identifier(identifier)}"):
            return self._new_table_location(identifier)

    @abstractmethod
    def _new_table_location(self, identifier: Identifier) -> str:
        """Return a new location."""

    def adopt_table(self, id: Sequence[str], location: str, properties: Mapping[str, str] | None = None) -> int:
        """Add the table that was written at a new location to the catalog, and return its version.

        Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the name is taken,
        ConcurrentModificationError if another client changed it at the same time, InvalidInputError for bad data.
        """
        identifier = self._table_identifier(id)
        with translate_errors(f"adopt_table of {format_identifier(identifier)}"):
            return self._adopt_table(identifier, location, properties)

    @abstractmethod
    def _adopt_table(self, identifier: Identifier, location: str, properties: Mapping[str, str] | None) -> int:
        """Add a table to the catalog and return its version."""

    def require_new_table_location(self, id: Sequence[str], location: str) -> None:
        """Raise InvalidTableStateError unless a location was made for this table and no table refers to it."""
        identifier = self._table_identifier(id)
        with translate_errors(f"require_new_table_location of {format_identifier(identifier)}"):
            self._require_new_table_location(identifier, location)

    @abstractmethod
    def _require_new_table_location(self, identifier: Identifier, location: str) -> None:
        """Raise InvalidTableStateError unless a location is a new one of this table."""

    def discard_table_location(self, id: Sequence[str], location: str) -> None:
        """Delete the files at a new location that did not become a table.

        Raises InvalidTableStateError, before anything is deleted, unless it is certain that no table uses them.
        """
        identifier = self._table_identifier(id)
        with translate_errors(f"discard_table_location of {format_identifier(identifier)}"):
            self._discard_table_location(identifier, location)

    @abstractmethod
    def _discard_table_location(self, identifier: Identifier, location: str) -> None:
        """Delete the files at a new location."""

    @operation(RegisterTableRequest)
    def register_table(self, request: RegisterTableRequest) -> RegisterTableResponse:
        """Add an existing table to the catalog, by the mode create or overwrite.

        The context entry `allow_missing=true` accepts a location without a table.
        Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the name is taken,
        InvalidInputError if there is no table at the location.
        """
        info = self._register_table(
            self._table_identifier(request.id),
            request.location,
            modes.parse_mode(request.mode, modes.RegisterMode.CREATE),
            request.properties,
            allow_missing=modes.parse_flag(request.context, "allow_missing"),
        )
        return RegisterTableResponse(location=info.location, properties=info.properties)

    @abstractmethod
    def _register_table(
        self,
        identifier: Identifier,
        location: str,
        mode: modes.RegisterMode,
        properties: Mapping[str, str] | None,
        *,
        allow_missing: bool,
    ) -> TableInfo:
        """Register a table."""

    @operation(DeregisterTableRequest)
    def deregister_table(self, request: DeregisterTableRequest) -> DeregisterTableResponse:
        """Remove a table from the catalog and keep its data.

        Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist.
        """
        identifier = self._table_identifier(request.id)
        info = self._deregister_table(identifier)
        return DeregisterTableResponse(id=list(identifier), location=info.location, properties=info.properties)

    @abstractmethod
    def _deregister_table(self, identifier: Identifier) -> TableInfo:
        """Deregister a table."""

    @operation(DescribeTableRequest)
    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        """Return the location of a table and, if requested, its schema and statistics.

        Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist, TableVersionNotFoundError,
        TableTagNotFoundError or TableBranchNotFoundError if the version does not exist.
        """
        identifier = self._table_identifier(request.id)
        info = self._describe_table(identifier, request)
        details = info.details
        return DescribeTableResponse(
            table=identifier[-1],
            namespace=list(identifier[:-1]),
            location=info.location,
            table_uri=info.uri,
            properties=info.properties,
            storage_options=info.storage_options,
            is_only_declared=info.only_declared,
            version=None if details is None else details.version,
            schema=None if details is None else details.schema,
            stats=None if details is None else details.stats,
            metadata=None if details is None else details.metadata,
            managed_versioning=info.managed_versioning,
        )

    @abstractmethod
    def _describe_table(self, identifier: Identifier, request: DescribeTableRequest) -> TableInfo:
        """Describe a table. `uri` is set if the request asks for it."""

    @operation(TableExistsRequest)
    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        """Raise NamespaceNotFoundError, TableNotFoundError or TableVersionNotFoundError if the table does not exist."""
        self._require_table(self._table_identifier(request.id), request.version)
        return TableExistsResponse()

    @abstractmethod
    def _require_table(self, identifier: Identifier, version: int | None) -> object:
        """Raise an error unless a table exists and has this version."""

    @operation(RenameTableRequest)
    def rename_table(self, request: RenameTableRequest) -> RenameTableResponse:
        """Rename a table, also into another namespace. Its data stays where it is.

        Raises NamespaceNotFoundError or TableNotFoundError if the table or the new namespace does not exist,
        TableAlreadyExistsError if the new name is taken.
        """
        identifier = self._table_identifier(request.id)
        parent = (
            identifier[:-1]
            if request.new_namespace_id is None
            else self._namespace_identifier(request.new_namespace_id)
        )
        self._rename_table(identifier, self._table_identifier([*parent, request.new_table_name]))
        return RenameTableResponse()

    @abstractmethod
    def _rename_table(self, identifier: Identifier, target: Identifier) -> None:
        """Rename a table."""

    @operation(DropTableRequest)
    def drop_table(self, request: DropTableRequest) -> DropTableResponse:
        """Drop a table. Its data is kept until it is purged.

        Entries of the context: `ttl` (how long it is kept), `purge=true` (delete the data now), `force=true` (also if
        the table is protected). Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist,
        InvalidTableStateError if it is protected, ConcurrentModificationError if another client changes it.
        """
        identifier = self._table_identifier(request.id)
        info = self._drop_table(identifier, DropOptions.parse(request.context, self._settings.drop_ttl_ms))
        return DropTableResponse(id=list(identifier), location=info.location, properties=info.properties)

    @abstractmethod
    def _drop_table(self, identifier: Identifier, options: DropOptions) -> TableInfo:
        """Drop a table."""

    # Dropped tables. Identifiers are lists of names, as in the SDK's requests.

    def undrop_table(
        self, id: Sequence[str], as_id: Sequence[str] | None = None, deletion_id: str | None = None
    ) -> str:
        """Restore a dropped table, under its own name or another one, and return its location.

        Restores the latest drop of the name unless a deletion id selects another one.
        Raises TableNotFoundError if there is no such dropped table, NamespaceNotFoundError if the namespace does not
        exist, TableAlreadyExistsError if the name is taken.
        """
        identifier = self._table_identifier(id)
        with translate_errors(f"undrop_table of {format_identifier(identifier)}"):
            target = None if as_id is None else self._table_identifier(as_id)
            return self._undrop_table(identifier, target, deletion_id)

    @abstractmethod
    def _undrop_table(self, identifier: Identifier, target: Identifier | None, deletion_id: str | None) -> str:
        """Restore a dropped table and return its location."""

    def purge_table(self, id: Sequence[str], deletion_id: str | None = None, *, force: bool = False) -> PurgeReport:
        """Delete permanently what was dropped under a name.

        Raises TableNotFoundError if nothing was dropped under the name, InvalidTableStateError before the end of the
        retention unless `force` is set, InvalidInputError if the table is not dropped.
        """
        identifier = self._table_identifier(id)
        with translate_errors(f"purge_table of {format_identifier(identifier)}"):
            return self._purge_table(identifier, deletion_id, force=force)

    @abstractmethod
    def _purge_table(self, identifier: Identifier, deletion_id: str | None, *, force: bool) -> PurgeReport:
        """Purge what was dropped under a name."""

    def purge_tables(
        self,
        ids: Sequence[Sequence[str]] | None = None,
        deleted_before: datetime | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        progress: Callable[[PurgedTable, int, int], None] | None = None,
    ) -> PurgeReport:
        """Delete permanently all dropped tables whose retention has ended, or exactly those in `ids`.

        The report has an entry for each table, also for those that could not be purged.
        """
        with translate_errors("purge_tables"):
            if ids is None:
                return self._purge_due_tables(deleted_before, dry_run=dry_run, force=force, progress=progress)
            chosen = [self._table_identifier(one) for one in ids]
            return self._purge_named_tables(chosen, dry_run=dry_run, force=force, progress=progress)

    @abstractmethod
    def _purge_due_tables(
        self,
        deleted_before: datetime | None,
        *,
        dry_run: bool,
        force: bool,
        progress: Callable[[PurgedTable, int, int], None] | None,
    ) -> PurgeReport:
        """Purge all tables whose retention has ended and that were dropped before a time."""

    @abstractmethod
    def _purge_named_tables(
        self,
        chosen: Sequence[Identifier],
        *,
        dry_run: bool,
        force: bool,
        progress: Callable[[PurgedTable, int, int], None] | None,
    ) -> PurgeReport:
        """Purge all that was dropped under these names."""

    def list_purgable_tables(
        self, deleted_before: datetime | None = None, *, detailed: bool = False
    ) -> list[DroppedTable]:
        """List the dropped tables whose retention has ended, or those that were dropped before a time.

        `detailed` adds rows and bytes, as in `list_dropped_tables`.
        """
        with translate_errors("list_purgable_tables"):
            return self._list_purgeable_tables(deleted_before, detailed=detailed)

    @abstractmethod
    def _list_purgeable_tables(self, deleted_before: datetime | None, *, detailed: bool) -> list[DroppedTable]:
        """List dropped tables that may be purged."""

    def list_dropped_tables(
        self,
        namespace: Sequence[str] = (),
        page_token: str | None = None,
        limit: int | None = None,
        *,
        detailed: bool = False,
    ) -> tuple[list[DroppedTable], str | None]:
        """Return a page of the tables that were dropped from a namespace, and the token of the next page.

        `detailed` opens each table of the page to count its rows, and lists its files to add up their bytes.
        """
        identifier = self._namespace_identifier(namespace)
        with translate_errors(f"list_dropped_tables of {format_identifier(identifier)}"):
            return self._list_dropped_tables(identifier, page_token, limit, detailed=detailed)

    @abstractmethod
    def _list_dropped_tables(
        self, identifier: Identifier, token: str | None, limit: int | None, *, detailed: bool
    ) -> tuple[list[DroppedTable], str | None]:
        """Return a page of dropped tables and the token of the next page."""

    def table_status(self, id: Sequence[str]) -> TableStatusReport:
        """Return whether a table exists, is dropped, or neither."""
        identifier = self._table_identifier(id)
        with translate_errors(f"table_status of {format_identifier(identifier)}"):
            return self._table_status(identifier)

    @abstractmethod
    def _table_status(self, identifier: Identifier) -> TableStatusReport:
        """Return the status of a table."""

    # Versions

    @operation(CreateTableVersionRequest)
    def create_table_version(self, request: CreateTableVersionRequest) -> CreateTableVersionResponse:
        """Publish a staged manifest as the next version of a table.

        Raises TableNotFoundError if the table does not exist, ConcurrentModificationError if the version exists,
        InvalidInputError for a bad staged manifest.
        """
        return CreateTableVersionResponse(version=self._create_table_version(request))

    @abstractmethod
    def _create_table_version(self, request: CreateTableVersionRequest) -> TableVersion:
        """Create a version."""

    @operation(BatchCreateTableVersionsRequest)
    def batch_create_table_versions(self, request: BatchCreateTableVersionsRequest) -> BatchCreateTableVersionsResponse:
        """Create versions of several tables: all or none if the catalog manages versions."""
        return BatchCreateTableVersionsResponse(versions=self._create_table_versions(request.entries))

    @abstractmethod
    def _create_table_versions(self, entries: Sequence[CreateTableVersionEntry]) -> list[TableVersion]:
        """Create versions of several tables."""

    @operation(ListTableVersionsRequest)
    def list_table_versions(self, request: ListTableVersionsRequest) -> ListTableVersionsResponse:
        """List the versions of a table, the newest first unless `descending` is false, in pages.

        Raises NamespaceNotFoundError, TableNotFoundError or TableBranchNotFoundError if the table does not exist,
        InvalidInputError for a bad page.
        """
        versions, token = self._list_table_versions(
            self._table_identifier(request.id),
            request.page_token,
            request.limit,
            descending=request.descending is not False,
            branch=request.branch,
        )
        return ListTableVersionsResponse(versions=versions, page_token=token)

    @abstractmethod
    def _list_table_versions(
        self, identifier: Identifier, token: str | None, limit: int | None, *, descending: bool, branch: str | None
    ) -> tuple[list[TableVersion], str | None]:
        """Return a page of versions and the token of the next page."""

    @operation(DescribeTableVersionRequest)
    def describe_table_version(self, request: DescribeTableVersionRequest) -> DescribeTableVersionResponse:
        """Return where the manifest of a version is, by default of the latest one.

        Raises NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError or TableBranchNotFoundError if it
        does not exist.
        """
        identifier = self._table_identifier(request.id)
        version = self._describe_table_version(identifier, request.version, request.branch)
        return DescribeTableVersionResponse(version=version)

    @abstractmethod
    def _describe_table_version(self, identifier: Identifier, version: int | None, branch: str | None) -> TableVersion:
        """Return a version, by default the latest one."""

    @operation(BatchDeleteTableVersionsRequest)
    def batch_delete_table_versions(self, request: BatchDeleteTableVersionsRequest) -> BatchDeleteTableVersionsResponse:
        """Delete versions by ranges.

        Raises InvalidTableStateError if the latest version is among them. With the context entry
        `ignore_missing=false`, raises TableVersionNotFoundError if a version does not exist. Raises
        NamespaceNotFoundError, TableNotFoundError, TableBranchNotFoundError, and InvalidInputError for a bad range.
        """
        identifier = self._table_identifier(request.id)
        ignore_missing = modes.parse_flag(request.context, "ignore_missing", default=True)
        deleted = self._delete_table_versions(
            identifier, request.ranges, ignore_missing=ignore_missing, branch=request.branch
        )
        return BatchDeleteTableVersionsResponse(deleted_count=deleted)

    @abstractmethod
    def _delete_table_versions(
        self, identifier: Identifier, ranges: Sequence[VersionRange], *, ignore_missing: bool, branch: str | None
    ) -> int:
        """Delete versions and return how many were deleted."""

    @operation(BatchCommitTablesRequest)
    def batch_commit_tables(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        """Apply several operations on several tables in one commit.

        Raises the errors of each operation, and UnsupportedOperationError if the catalog cannot combine them.
        """
        return self._commit_batch(request)

    @abstractmethod
    def _commit_batch(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        """Apply several operations in one commit."""

    def commit_tables(
        self,
        commits: Sequence[TableCommit | NewTable],
        check: Callable[[Mapping[Identifier, int]], object] = lambda _: None,
    ) -> dict[Identifier, int]:
        """Publish prepared Lance transactions of several tables, and new tables, all at once or not at all.

        Returns the new versions. The catalog must manage the versions of all tables. Each transaction is rebased on
        what was committed since it was prepared. `check` is called with the versions each time they are staged; an
        error that it raises stops the commit.
        Raises ConcurrentModificationError if a transaction cannot be rebased, TableAlreadyExistsError if a new table
        exists, UnsupportedOperationError if the catalog does not manage the versions.
        """
        with translate_errors("commit_tables"):
            return self._commit_tables(commits, check)

    @abstractmethod
    def _commit_tables(
        self, commits: Sequence[TableCommit | NewTable], check: Callable[[Mapping[Identifier, int]], object]
    ) -> dict[Identifier, int]:
        """Publish transactions of several tables, and new tables, and return the new versions."""

    def require_common_commits(self, ids: Sequence[Sequence[str]]) -> None:
        """Raise UnsupportedOperationError unless one `commit_tables` can change all these tables, or create them."""
        with translate_errors("require_common_commits"):
            self._require_common_commits([self._table_identifier(one) for one in ids])

    @abstractmethod
    def _require_common_commits(self, chosen: Sequence[Identifier]) -> None:
        """Raise UnsupportedOperationError unless one commit can change all these tables."""

    def latest_table_versions(self, ids: Sequence[Sequence[str]]) -> list[int]:
        """Return the latest versions of several tables at one point in time.

        At these versions, the tables show each commit over several tables as a whole.
        Raises NamespaceNotFoundError or TableNotFoundError if a table does not exist, TableVersionNotFoundError if it
        has no version yet, UnsupportedOperationError if the catalog does not manage its versions.
        """
        with translate_errors("latest_table_versions"):
            return self._latest_table_versions([self._table_identifier(one) for one in ids])

    @abstractmethod
    def _latest_table_versions(self, chosen: Sequence[Identifier]) -> list[int]:
        """Return the latest versions of several tables at one point in time."""


def _unpickle(kind: Callable[..., CatalogNamespace[Any]], properties: dict[str, Any]) -> CatalogNamespace[Any]:
    return kind(**properties)
