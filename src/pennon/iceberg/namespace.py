"""IcebergNamespace: the operations of the Lance namespace interface on an Iceberg REST catalog."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

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

from pennon import durations, modes
from pennon.errors import InvalidInputError, translate_errors
from pennon.iceberg import (
    adoption,
    arriving,
    batch,
    creation,
    describing,
    dropping,
    entries,
    handles,
    late_commits,
    namespaces,
    tables,
    version_operations,
)
from pennon.iceberg.catalog import Catalog
from pennon.iceberg.files import Staged
from pennon.iceberg.places import Places
from pennon.iceberg.reserved import namespace_identifier, table_identifier
from pennon.iceberg.rest import RestCatalog
from pennon.iceberg.settings import IcebergSettings
from pennon.identifiers import Identifier, format_identifier
from pennon.requests import operation
from pennon.store.root import make_root_absolute
from pennon.table.branches import BranchClaim, claim_branch
from pennon.table.ipc import read_ipc
from pennon.table.operations import TableOperations
from pennon.table.version_ranges import VersionRanges, ignores_missing
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    import pyarrow as pa
    from lance import LanceDataset
    from typing_extensions import Self

    from pennon.iceberg.entry import Entry
    from pennon.results import DroppedTable
    from pennon.table.version_identity import BaseVersion


class IcebergNamespace(TableOperations):
    """Lance tables in an Iceberg REST catalog, whose server is the root namespace.

    Properties: `uri`, `warehouse`, `token`, `credential`, `root`, `managed_by` and more; docs/reference/iceberg.md has
    them all. Nothing is requested until the first operation. Instances can be pickled, shared by threads, used as
    context managers, and closed.
    """

    def __init__(self, **properties: Any) -> None:
        self._settings = IcebergSettings.from_properties(properties)
        self._properties = dict(properties)
        if self._settings.root is not None:
            self._properties["root"] = make_root_absolute(self._settings.root)
        self._places = Places(IcebergSettings.from_properties(self._properties))
        self._lock = Lock()
        self._opened: Catalog | None = None
        self._closed = False

    def namespace_id(self) -> str:
        """Name this namespace for people; equal for equal servers and warehouses."""
        return f'IcebergNamespace {{ uri: "{self._settings.uri}", warehouse: "{self._settings.warehouse or ""}" }}'

    def __repr__(self) -> str:
        """Show the server and the root, no secrets."""
        given = self._settings
        return f"IcebergNamespace(uri={given.uri!r}, warehouse={given.warehouse!r}, root={given.root!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the properties; the copy opens its own connections."""
        return _rebuilt, (type(self), self._properties)

    def __enter__(self) -> Self:
        """Use the namespace in a with statement."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it at the end."""
        self.close()

    def close(self) -> None:
        """Let go of connections; the namespace cannot be used any more."""
        with self._lock:
            catalog, self._opened = self._opened, None
            self._closed = True
        if catalog is not None:
            catalog.close()
        else:
            self._places.close()

    @property
    def _catalog(self) -> Catalog:
        with self._lock:
            if self._closed:
                raise InvalidInputError(f"{self!r} is closed")
            if self._opened is None:
                self._opened = Catalog(self._settings, RestCatalog(self._settings), self._places)
            return self._opened

    def _open_table(
        self,
        identifier: Identifier,
        *,
        version: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        shared: bool = False,
    ) -> LanceDataset:
        catalog = self._catalog
        selector = VersionSelector.of(format_identifier(identifier), version, tag, branch)
        return handles.opened(catalog, self, catalog.table(identifier), selector, shared=shared)

    def _advance_handle(self, before: LanceDataset, after: LanceDataset) -> None:
        self._catalog.handles.replace_dataset(before, after)

    def _read_base(self, dataset: LanceDataset, branch: str | None) -> BaseVersion:
        return late_commits.base_of(dataset, branch)

    def _require_base(self, identifier: Identifier, base: BaseVersion, made: LanceDataset) -> None:
        late_commits.require_ground(self._catalog, identifier, base, made)

    def _delete_refused_files(self, dataset: LanceDataset, branch: str | None) -> None:
        late_commits.clear_refused(self._catalog, dataset, branch)

    def _fill_table(self, identifier: Identifier, data: pa.Table) -> int:
        return creation.fill(self._catalog, creation.Wanted(identifier, data, None, {}, self))

    def _claim_branch(self, identifier: Identifier, branch: str) -> AbstractContextManager[BranchClaim]:
        catalog = self._catalog
        return claim_branch(catalog.store(catalog.table(identifier)), "", branch, format_identifier(identifier))

    # Namespaces

    @operation(CreateNamespaceRequest)
    def create_namespace(self, request: CreateNamespaceRequest) -> CreateNamespaceResponse:
        """Create a namespace; errors 1 (parent), 2 (exists), 13, 17 (nobody knows)."""
        mode = modes.parse_mode(request.mode, modes.CreateMode.CREATE)
        identifier = namespace_identifier(request.id)
        return CreateNamespaceResponse(
            properties=namespaces.create(self._catalog, identifier, mode, request.properties)
        )

    @operation(ListNamespacesRequest)
    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        """List the names of child namespaces, sorted, in pages; error 1."""
        identifier = namespace_identifier(request.id)
        names, token = namespaces.list_children(self._catalog, identifier, request.page_token, request.limit)
        return ListNamespacesResponse(namespaces=names, page_token=token)

    @operation(DescribeNamespaceRequest)
    def describe_namespace(self, request: DescribeNamespaceRequest) -> DescribeNamespaceResponse:
        """Give a namespace's properties; error 1."""
        return DescribeNamespaceResponse(properties=self._catalog.require_namespace(namespace_identifier(request.id)))

    @operation(DropNamespaceRequest)
    def drop_namespace(self, request: DropNamespaceRequest) -> DropNamespaceResponse:
        """Drop a namespace: mode fail or skip, behavior restrict or cascade; errors 1, 3."""
        mode = modes.parse_mode(request.mode, modes.DropMode.FAIL)
        behavior = modes.parse_mode(request.behavior, modes.DropBehavior.RESTRICT)
        identifier = namespace_identifier(request.id)
        return DropNamespaceResponse(properties=namespaces.drop(self._catalog, identifier, mode, behavior))

    @operation(NamespaceExistsRequest)
    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        """Answer if the namespace is there, raise 1 if not."""
        self._catalog.require_namespace(namespace_identifier(request.id))
        return NamespaceExistsResponse()

    def alter_namespace_properties(
        self,
        id: Sequence[str],
        changes: Mapping[str, str | None],
    ) -> dict[str, str]:
        """Set and remove (None) properties of a namespace; returns those it has then. Errors 1, 13 (the root)."""
        identifier = namespace_identifier(id)
        with translate_errors(f"alter_namespace_properties of {format_identifier(identifier)}"):
            return namespaces.alter_properties(self._catalog, identifier, changes)

    # Tables

    @operation(ListTablesRequest)
    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the names of a namespace's Lance tables, sorted, in pages; error 1."""
        names, token = tables.list_tables(
            self._catalog,
            namespace_identifier(request.id),
            request.page_token,
            request.limit,
            include_declared=request.include_declared is not False,
        )
        return ListTablesResponse(tables=names, page_token=token)

    @operation(ListTablesRequest)
    def list_all_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the full identifiers of all Lance tables at any depth, sorted, in pages."""
        ids, token = tables.list_all_tables(
            self._catalog,
            namespace_identifier(request.id),
            request.page_token,
            request.limit,
            include_declared=request.include_declared is not False,
        )
        return ListTablesResponse(tables=ids, page_token=token)

    @operation(DeclareTableRequest)
    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """Reserve a name and a location without data; errors 0, 1, 5, 13."""
        catalog = self._catalog
        entry = creation.declare(catalog, table_identifier(request.id), request.location, request.properties)
        return DeclareTableResponse(
            location=self._location(entry),
            properties=entry.shown_properties,
            storage_options=self._vended(entry, vend=request.vend_credentials),
            managed_versioning=entry.is_managed or None,
        )

    @operation(CreateTableRequest)
    def create_table(self, request: CreateTableRequest, request_data: bytes) -> CreateTableResponse:
        """Create a table from Arrow IPC data: mode create, exist_ok or overwrite; errors 1, 5, 13, 14."""
        mode = modes.parse_mode(request.mode, modes.CreateMode.CREATE)
        identifier = table_identifier(request.id)
        options = request.storage_options or {}
        wanted = creation.Wanted(identifier, read_ipc(request_data), request.properties, options, self)
        made = creation.create(self._catalog, wanted, mode)
        return CreateTableResponse(
            location=self._location(made.entry), version=made.version, properties=made.entry.shown_properties
        )

    def new_table_location(self, id: Sequence[str]) -> str:
        """Name a place at which a new table may be written before the catalog knows of it; errors 1, 5, 13."""
        identifier = table_identifier(id)
        with translate_errors(f"new_table_location of {format_identifier(identifier)}"):
            return adoption.place(self._catalog, identifier)

    def adopt_table(
        self,
        id: Sequence[str],
        location: str,
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Make what was written at such a place the table; returns its version. Errors 0, 1, 5, 13, 14."""
        identifier = table_identifier(id)
        with translate_errors(f"adopt_table of {format_identifier(identifier)}"):
            return adoption.adopt(self._catalog, self, identifier, location, properties)

    def require_new_table_location(self, id: Sequence[str], location: str) -> None:
        """Raise InvalidTableStateError unless a place is one for this table that the catalog does not refer to."""
        identifier = table_identifier(id)
        with translate_errors(f"require_new_table_location of {format_identifier(identifier)}"):
            adoption.require_unadopted(self._catalog, identifier, location)

    def discard_table_location(self, id: Sequence[str], location: str) -> None:
        """Delete what was written at such a place and did not become a table.

        Raises InvalidTableStateError, before anything is deleted, if it cannot be proven that it is no table's.
        """
        identifier = table_identifier(id)
        with translate_errors(f"discard_table_location of {format_identifier(identifier)}"):
            adoption.discard(self._catalog, identifier, location)

    @operation(RegisterTableRequest)
    def register_table(self, request: RegisterTableRequest) -> RegisterTableResponse:
        """Give data that is there a name: mode create or overwrite; errors 1, 5, 13, 19.

        The context entry `allow_missing=true` accepts a location that holds no table yet.
        """
        entry = creation.register(
            self._catalog,
            table_identifier(request.id),
            request.location,
            modes.parse_mode(request.mode, modes.RegisterMode.CREATE),
            request.properties,
            allow_missing=(request.context or {}).get("allow_missing") == "true",
        )
        return RegisterTableResponse(location=self._location(entry), properties=entry.shown_properties)

    @operation(DescribeTableRequest)
    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        """Tell where a table is and, if asked, what it is; errors 1, 4, 8 (tag), 11 (version), 22 (branch)."""
        identifier = table_identifier(request.id)
        described = describing.describe_table(
            self._catalog,
            self,
            identifier,
            version=request.version,
            tag=request.tag,
            branch=request.branch,
            detailed=bool(request.load_detailed_metadata),
            check_declared=bool(request.check_declared),
        )
        entry, details = described.entry, described.details
        return DescribeTableResponse(
            table=identifier[-1],
            namespace=list(identifier[:-1]),
            location=self._location(entry),
            table_uri=self._catalog.store(entry).uri("").rstrip("/") if request.with_table_uri else None,
            properties=entry.shown_properties,
            storage_options=self._vended(entry, vend=request.vend_credentials),
            is_only_declared=described.only_declared,
            version=None if details is None else details.version,
            schema=None if details is None else details.schema,
            stats=None if details is None else details.stats,
            metadata=None if details is None else details.metadata,
            managed_versioning=entry.is_managed or None,
        )

    @operation(TableExistsRequest)
    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        """Answer if the table is there, raise 1, 4 or 11 if not."""
        describing.describe_table(self._catalog, self, table_identifier(request.id), version=request.version)
        return TableExistsResponse()

    @operation(RenameTableRequest)
    def rename_table(self, request: RenameTableRequest) -> RenameTableResponse:
        """Rename a table, also into another namespace; its data stays where it is. Errors 1, 4, 5."""
        identifier = table_identifier(request.id)
        parent = identifier[:-1] if request.new_namespace_id is None else namespace_identifier(request.new_namespace_id)
        entry = self._catalog.table(identifier)
        entries.rename(self._catalog, entry, table_identifier([*parent, request.new_table_name]))
        return RenameTableResponse()

    @operation(DeregisterTableRequest)
    def deregister_table(self, request: DeregisterTableRequest) -> DeregisterTableResponse:
        """Take a table out of the catalog and keep its data; errors 1, 4."""
        identifier = table_identifier(request.id)
        entry = dropping.deregister(self._catalog, identifier)
        return DeregisterTableResponse(
            id=list(identifier), location=self._location(entry), properties=entry.shown_properties
        )

    @operation(DropTableRequest)
    def drop_table(self, request: DropTableRequest) -> DropTableResponse:
        """Drop a table, whose data stays until it is purged, where the server can rename; errors 1, 4.

        Entries of the context: `ttl` (how long it is kept), `purge=true` (delete entry and data now).
        """
        identifier = table_identifier(request.id)
        context = request.context or {}
        ttl_ms = self._settings.drop_ttl_ms
        if "ttl" in context:
            ttl_ms = durations.parse_milliseconds(context["ttl"], "The context's 'ttl'")
        entry = dropping.drop(self._catalog, identifier, ttl_ms, purge=modes.parse_flag(context, "purge"))
        return DropTableResponse(id=list(identifier), location=self._location(entry), properties=entry.shown_properties)

    # What is dropped

    def undrop_table(
        self,
        id: Sequence[str],
        as_id: Sequence[str] | None = None,
        deletion_id: str | None = None,
    ) -> str:
        """Bring a dropped table back, under its own name or another one; returns its location. Errors 1, 4, 5."""
        identifier = table_identifier(id)
        with translate_errors(f"undrop_table of {format_identifier(identifier)}"):
            target = None if as_id is None else table_identifier(as_id)
            return self._location(dropping.undrop(self._catalog, identifier, target, deletion_id))

    def list_dropped_tables(
        self, namespace: Sequence[str] = (), page_token: str | None = None, limit: int | None = None
    ) -> tuple[list[DroppedTable], str | None]:
        """List a page of the tables that were dropped from a namespace, the oldest drop first, and the next token."""
        identifier = namespace_identifier(namespace)
        with translate_errors(f"list_dropped_tables of {format_identifier(identifier)}"):
            return dropping.list_dropped(self._catalog, identifier, page_token, limit)

    def purge_table(
        self,
        id: Sequence[str],
        deletion_id: str | None = None,
        *,
        force: bool = False,
    ) -> int:
        """Delete what was dropped under a name for good, data below the root included; errors 4, 19 (too early)."""
        identifier = table_identifier(id)
        with translate_errors(f"purge_table of {format_identifier(identifier)}"):
            return dropping.purge(self._catalog, identifier, deletion_id, force=force)

    def purge_tables(self) -> list[DroppedTable]:
        """Delete all dropped tables whose time is over; returns them."""
        with translate_errors("purge_tables"):
            return dropping.purge_expired(self._catalog)

    # Versions

    @operation(CreateTableVersionRequest)
    def create_table_version(self, request: CreateTableVersionRequest) -> CreateTableVersionResponse:
        """Make a staged manifest the next version of a table; errors 1, 4, 13, 14 (also if the version exists), 17."""
        wanted = Staged(request.version, request.manifest_path, request.naming_scheme)
        version = version_operations.create(self._catalog, table_identifier(request.id), wanted, request.branch)
        return CreateTableVersionResponse(version=version)

    @operation(BatchCreateTableVersionsRequest)
    def batch_create_table_versions(self, request: BatchCreateTableVersionsRequest) -> BatchCreateTableVersionsResponse:
        """Create versions of several tables with managed_by=impl, all or none; errors 0, 1, 4, 13, 14."""
        wanted = [
            (table_identifier(one.id), Staged(one.version, one.manifest_path, one.naming_scheme))
            for one in request.entries
        ]
        made = batch.create_together(self._catalog, wanted)
        return BatchCreateTableVersionsResponse(versions=[one.shown(self._catalog.store(entry)) for one, entry in made])

    @operation(ListTableVersionsRequest)
    def list_table_versions(self, request: ListTableVersionsRequest) -> ListTableVersionsResponse:
        """List the versions of a table, the newest first unless `descending` is false, in pages; errors 1, 4."""
        versions, token = version_operations.list_versions(
            self._catalog,
            table_identifier(request.id),
            request.page_token,
            request.limit,
            descending=request.descending is not False,
            branch=request.branch,
        )
        return ListTableVersionsResponse(versions=versions, page_token=token)

    @operation(DescribeTableVersionRequest)
    def describe_table_version(self, request: DescribeTableVersionRequest) -> DescribeTableVersionResponse:
        """Tell where the manifest of a version is, the latest unless one is named; errors 1, 4, 11."""
        version = version_operations.describe(
            self._catalog, table_identifier(request.id), request.version, request.branch
        )
        return DescribeTableVersionResponse(version=version)

    @operation(BatchDeleteTableVersionsRequest)
    def batch_delete_table_versions(self, request: BatchDeleteTableVersionsRequest) -> BatchDeleteTableVersionsResponse:
        """Delete versions by ranges, never the latest (19); errors 1, 4, 11 (`ignore_missing=false`), 13."""
        identifier = table_identifier(request.id)
        chosen = VersionRanges(
            request.ranges, format_identifier(identifier), ignore_missing=ignores_missing(request.context)
        ).select
        deleted = version_operations.delete(self._catalog, identifier, chosen, request.branch)
        return BatchDeleteTableVersionsResponse(deleted_count=deleted)

    @operation(BatchCommitTablesRequest)
    def batch_commit_tables(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        """Create versions of several tables by one transaction; nothing else can be part of one (0)."""
        return batch.commit(self._catalog, request)

    def commit_tables(
        self,
        commits: Sequence[batch.Change | arriving.Arrival],
        check: batch.Check = lambda _: None,
    ) -> dict[tuple[str, ...], int]:
        """Show Lance transactions (`pennon.TableCommit`) and new tables (`pennon.NewTable`) all at once.

        Returns the new versions. All tables need managed_by=impl (0). Each transaction is rebased on what was committed
        meanwhile, or raises 14; a new table that is there raises 5. `check` is told the versions that are about to be
        made, whenever they are staged; what it raises stops the commit.
        """
        with translate_errors("commit_tables"):
            return batch.commit_tables(self._catalog, self, commits, check)

    def require_common_commits(self, ids: Sequence[Sequence[str]]) -> None:
        """Raise 0 unless these tables, of which some may not be there yet, can be part of one `commit_tables`."""
        with translate_errors("require_common_commits"):
            batch.require_managed(self._catalog, [table_identifier(one) for one in ids])

    def latest_table_versions(self, ids: Sequence[Sequence[str]]) -> list[int]:
        """Give the latest versions of several tables as of one moment; errors 0 (not managed), 1, 4, 11.

        Opened at these versions, the tables show every commit of several tables as a whole, if the server's own
        transactions are whole.
        """
        with translate_errors("latest_table_versions"):
            return batch.latest_versions(self._catalog, [table_identifier(one) for one in ids])

    def _location(self, entry: Entry) -> str:
        """Give a table's location as Lance takes it."""
        return self._catalog.store(entry).location("").rstrip("/")

    def _vended(self, entry: Entry, *, vend: bool | None) -> dict[str, str] | None:
        """Give the storage options to callers that do not forbid it, where there are any."""
        return None if vend is False else self._catalog.options(entry) or None


def _rebuilt(kind: type[IcebergNamespace], properties: dict[str, Any]) -> IcebergNamespace:
    return kind(**properties)
