"""DirectoryNamespace: the operations of the Lance namespace interface, each handed to the module that does it."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
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
from pennon.config import EXPIRY, DirectorySettings
from pennon.directory import migrate, namespaces, problem_search, protection, version_management
from pennon.directory.catalog import open_catalog
from pennon.directory.lifecycle import adopt, create, deregister, drop, dropped, late_commits, purge, register, undrop
from pennon.directory.lookup import describe, opening
from pennon.directory.multi_table import batch, transactions
from pennon.directory.versions import callback, managed, service
from pennon.errors import InvalidInputError, translate_errors
from pennon.identifiers import Identifier, format_identifier, namespace_identifier, table_identifier
from pennon.requests import OperationCounter, operation
from pennon.store import open_store
from pennon.store.root import make_root_absolute
from pennon.table.branches import BranchClaim, claim_branch
from pennon.table.ipc import read_ipc
from pennon.table.operations import TableOperations
from pennon.table.version_identity import BaseVersion
from pennon.table.version_ranges import ignores_missing
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from types import TracebackType

    import pyarrow as pa
    from lance import LanceDataset
    from typing_extensions import Self

    from pennon.directory.catalog import Catalog
    from pennon.directory.problems import Problem
    from pennon.results import (
        DroppedTable,
        MarkerReport,
        MigrationReport,
        PurgedTable,
        PurgeReport,
        TableStatusReport,
    )


_CLEANS_ITSELF = "lance.auto_cleanup."


class DirectoryNamespace(TableOperations):
    """A catalog of Lance tables in one directory on a disk or in an object store.

    Properties: `root`, `manifest_enabled`, `dir_listing_enabled`, `legacy_markers`, `storage.*`;
    docs/reference/properties.md has them all. Nothing is requested until the first operation. Instances can be
    pickled, shared by threads, used as context managers, and closed.
    """

    def __init__(self, **properties: Any) -> None:
        self._settings = DirectorySettings.from_properties(properties)
        self._properties = {**properties, "root": make_root_absolute(self._settings.root)}
        self._store = open_store(self._properties["root"], self._settings.storage_options)
        self._lock = Lock()
        self._opened: Catalog | None = None
        self._closed = False
        self._ops_metrics = OperationCounter() if self._settings.ops_metrics_enabled else None

    def namespace_id(self) -> str:
        """Name this namespace for people; equal for equal roots."""
        return f'DirectoryNamespace {{ root: "{self._store.identity()}" }}'

    def __repr__(self) -> str:
        """Show the root and the mode, no secrets."""
        flags = self._settings
        return (
            f"DirectoryNamespace(root={self._store.identity()!r}, manifest_enabled={flags.manifest_enabled}, "
            f"dir_listing_enabled={flags.dir_listing_enabled})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the properties; the copy opens its own store."""
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
        """Finish upkeep and let go of threads and connections; the namespace cannot be used any more."""
        with self._lock:
            catalog, self._opened = self._opened, None
            self._closed = True
        if catalog is not None:
            catalog.close()
        else:
            self._store.close()

    def retrieve_ops_metrics(self) -> dict[str, int]:
        """Return how often each operation was called on this object, also in vain; {} unless `ops_metrics_enabled`."""
        return {} if self._ops_metrics is None else self._ops_metrics.counts()

    def reset_ops_metrics(self) -> None:
        """Begin to count operations from zero."""
        if self._ops_metrics is not None:
            self._ops_metrics.reset()

    @property
    def _catalog(self) -> Catalog:
        with self._lock:
            if self._closed:
                raise InvalidInputError(f"{self!r} is closed")
            if self._opened is None:
                self._opened = open_catalog(self._settings, self._store)
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
        selector = VersionSelector.of(format_identifier(identifier), version, tag, branch)
        return opening.opened(self._catalog, identifier, selector, shared=shared)

    def _advance_handle(self, before: LanceDataset, after: LanceDataset) -> None:
        self._catalog.handles.replace_dataset(before, after)

    def _read_base(self, dataset: LanceDataset, branch: str | None) -> BaseVersion:
        if self._store.is_local and any(key.startswith(_CLEANS_ITSELF) for key in dataset.config()):
            # A commit to such a table deletes files that it finds, also behind links.
            self._store.resolve(str(self._store.relative(dataset.uri)), deeply=True)
        return BaseVersion.of(dataset, branch, self._catalog.handles.stamp_of(dataset))

    def _require_base(self, identifier: Identifier, base: BaseVersion, made: LanceDataset) -> None:
        late_commits.require_ground(self._catalog, identifier, base, made)

    def _delete_refused_files(self, dataset: LanceDataset, branch: str | None) -> None:
        late_commits.clear_refused(self._catalog, dataset, branch)

    def _fill_table(self, identifier: Identifier, data: pa.Table) -> int:
        return create.fill(self._catalog, identifier, data)

    def _claim_branch(self, identifier: Identifier, branch: str) -> AbstractContextManager[BranchClaim]:
        location = self._catalog.resolver.table(identifier).location
        return claim_branch(self._store, location, branch, format_identifier(identifier))

    # Namespaces

    @operation(CreateNamespaceRequest)
    def create_namespace(self, request: CreateNamespaceRequest) -> CreateNamespaceResponse:
        """Create a namespace; errors 1 (parent), 2 (exists), 13."""
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
        return DescribeNamespaceResponse(
            properties=namespaces.describe(self._catalog, namespace_identifier(request.id))
        )

    @operation(DropNamespaceRequest)
    def drop_namespace(self, request: DropNamespaceRequest) -> DropNamespaceResponse:
        """Drop a namespace: mode fail or skip, behavior restrict or cascade; errors 1, 3."""
        mode = modes.parse_mode(request.mode, modes.DropMode.FAIL)
        behavior = modes.parse_mode(request.behavior, modes.DropBehavior.RESTRICT)
        identifier = namespace_identifier(request.id)
        wish = _Wish.of(request.context, self._settings.drop_ttl_ms)
        properties = namespaces.drop(self._catalog, identifier, mode, behavior, ttl_ms=wish.ttl_ms, force=wish.force)
        return DropNamespaceResponse(properties=properties)

    @operation(NamespaceExistsRequest)
    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        """Answer if the namespace is there, raise 1 if not."""
        self._catalog.resolver.require_namespace(namespace_identifier(request.id))
        return NamespaceExistsResponse()

    def alter_namespace_properties(
        self,
        id: Sequence[str],
        changes: Mapping[str, str | None],
    ) -> dict[str, str]:
        """Set and remove (None) properties of a namespace, the root included; returns those it has then."""
        identifier = namespace_identifier(id)
        with translate_errors(f"alter_namespace_properties of {format_identifier(identifier)}"):
            return namespaces.alter_properties(self._catalog, identifier, changes)

    # Tables

    @operation(ListTablesRequest)
    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the names of a namespace's tables, sorted, in pages; error 1."""
        names, token = describe.list_tables(
            self._catalog,
            namespace_identifier(request.id),
            request.page_token,
            request.limit,
            include_declared=request.include_declared is not False,
        )
        return ListTablesResponse(tables=names, page_token=token)

    @operation(ListTablesRequest)
    def list_all_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the full identifiers of all tables at any depth, sorted, in pages."""
        ids, token = describe.list_all_tables(
            self._catalog,
            namespace_identifier(request.id),
            request.page_token,
            request.limit,
            include_declared=request.include_declared is not False,
        )
        return ListTablesResponse(tables=ids, page_token=token)

    @operation(DeclareTableRequest)
    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """Reserve a name and a location without data; errors 1, 5, 13, 14."""
        made = create.declare(self._catalog, table_identifier(request.id), request.location, request.properties)
        return DeclareTableResponse(
            location=self._store.resolve(made.location),
            properties=made.properties,
            storage_options=self._vended(vend=request.vend_credentials),
            managed_versioning=self._commits_come_here(managed.manages_versions(self._catalog)),
        )

    @operation(CreateTableRequest)
    def create_empty_table(self, request: CreateTableRequest) -> CreateTableResponse:
        """Reserve a name as declare_table does, which is to be used in its place; errors 1, 5, 13, 14."""
        warnings.warn("create_empty_table is deprecated, use declare_table instead", DeprecationWarning, stacklevel=3)
        if modes.parse_mode(request.mode, modes.CreateMode.CREATE) is not modes.CreateMode.CREATE:
            raise InvalidInputError(f"An empty table is made by the mode create, got {request.mode!r}")
        made = self.declare_table(DeclareTableRequest(id=request.id, properties=request.properties))
        return CreateTableResponse(
            location=made.location, properties=made.properties, storage_options=made.storage_options
        )

    @operation(CreateTableRequest)
    def create_table(self, request: CreateTableRequest, request_data: bytes) -> CreateTableResponse:
        """Create a table from Arrow IPC data: mode create, exist_ok or overwrite; errors 1, 5, 13, 14."""
        mode = modes.parse_mode(request.mode, modes.CreateMode.CREATE)
        identifier = table_identifier(request.id)
        made = create.create(
            self._catalog,
            identifier,
            read_ipc(request_data),
            mode,
            properties=request.properties,
            storage_options=request.storage_options,
        )
        return CreateTableResponse(
            location=self._store.resolve(made.location),
            version=made.version,
            properties=made.properties,
            storage_options=self._vended(vend=None),
        )

    def new_table_location(self, id: Sequence[str]) -> str:
        """Name a place at which a new table may be written before the catalog knows of it; errors 1, 5."""
        identifier = table_identifier(id)
        with translate_errors(f"new_table_location of {format_identifier(identifier)}"):
            return self._store.location(adopt.place(self._catalog, identifier))

    def adopt_table(
        self,
        id: Sequence[str],
        location: str,
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Make what was written at such a place the table, in one commit; returns its version. Errors 1, 5, 13, 14."""
        identifier = table_identifier(id)
        with translate_errors(f"adopt_table of {format_identifier(identifier)}"):
            inside = self._store.relative(location)
            if inside is None:
                raise InvalidInputError(
                    f"The location {location!r} of {format_identifier(identifier)} is not in the root"
                )
            made = adopt.adopt(self._catalog, identifier, inside, properties)
            return made.version or 1

    def require_new_table_location(self, id: Sequence[str], location: str) -> None:
        """Raise InvalidTableStateError unless a place is one for this table that the catalog does not refer to."""
        identifier = table_identifier(id)
        with translate_errors(f"require_new_table_location of {format_identifier(identifier)}"):
            adopt.require_unadopted(self._catalog, identifier, location)

    def discard_table_location(self, id: Sequence[str], location: str) -> None:
        """Delete what was written at such a place and did not become a table.

        Raises InvalidTableStateError, before anything is deleted, if it cannot be proven that it is no table's.
        """
        identifier = table_identifier(id)
        with translate_errors(f"discard_table_location of {format_identifier(identifier)}"):
            adopt.discard(self._catalog, identifier, location)

    @operation(RegisterTableRequest)
    def register_table(self, request: RegisterTableRequest) -> RegisterTableResponse:
        """Give data that is in the root a name: mode create or overwrite; errors 1, 5, 13.

        The context entry `allow_missing=true` accepts a location that holds no table yet.
        """
        location, properties = register.register(
            self._catalog,
            table_identifier(request.id),
            request.location,
            modes.parse_mode(request.mode, modes.RegisterMode.CREATE),
            request.properties,
            allow_missing=(request.context or {}).get("allow_missing") == "true",
        )
        return RegisterTableResponse(location=location, properties=properties)

    @operation(DeregisterTableRequest)
    def deregister_table(self, request: DeregisterTableRequest) -> DeregisterTableResponse:
        """Take a table out of the catalog and keep its data; errors 1, 4."""
        identifier = table_identifier(request.id)
        location, properties = deregister.deregister(self._catalog, identifier)
        return DeregisterTableResponse(
            id=list(identifier), location=self._catalog.shown_location(location), properties=properties
        )

    @operation(DescribeTableRequest)
    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        """Tell where a table is and, if asked, what it is; errors 1, 4, 8 (tag), 11 (version), 22 (branch)."""
        identifier = table_identifier(request.id)
        described = describe.describe_table(
            self._catalog,
            identifier,
            version=request.version,
            tag=request.tag,
            branch=request.branch,
            detailed=bool(request.load_detailed_metadata),
            check_declared=bool(request.check_declared),
        )
        found, details = described.found, described.details
        properties = None if self._catalog.manifest is None else {} if found.row is None else found.row.properties()
        return DescribeTableResponse(
            table=identifier[-1],
            namespace=list(identifier[:-1]),
            location=self._store.resolve(found.location),
            table_uri=self._store.uri(found.location) if request.with_table_uri else None,
            properties=properties,
            storage_options=self._vended(vend=request.vend_credentials),
            is_only_declared=described.only_declared,
            version=None if details is None else details.version,
            schema=None if details is None else details.schema,
            stats=None if details is None else details.stats,
            metadata=None if details is None else details.metadata,
            managed_versioning=self._commits_come_here(service.is_managed(self._catalog, found)),
        )

    @operation(TableExistsRequest)
    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        """Answer if the table is there, raise 1 or 4 if not."""
        identifier = table_identifier(request.id)
        if request.version is not None:
            describe.describe_table(self._catalog, identifier, version=request.version)
        else:
            describe.exists(self._catalog, identifier)
        return TableExistsResponse()

    @operation(DropTableRequest)
    def drop_table(self, request: DropTableRequest) -> DropTableResponse:
        """Drop a table, whose data stays until it is purged; errors 1, 4, 14, 19.

        Entries of the context: `ttl` (how long it is kept), `purge=true` (delete the data now), `force=true` (also if
        the table is protected).
        """
        identifier = table_identifier(request.id)
        wish = _Wish.of(request.context, self._settings.drop_ttl_ms)
        if wish.purge:
            gone = drop.drop_for_good(self._catalog, identifier, force=wish.force)
        else:
            gone = drop.drop(self._catalog, identifier, wish.ttl_ms, force=wish.force)
        return DropTableResponse(
            id=list(identifier), location=self._catalog.shown_location(gone.location), properties=gone.properties
        )

    # Versions

    @operation(CreateTableVersionRequest)
    def create_table_version(self, request: CreateTableVersionRequest) -> CreateTableVersionResponse:
        """Make a staged manifest the next version of a table; errors 4, 13, 14 (also if the version exists)."""
        return callback.create_version(self._catalog, request)

    @operation(BatchCreateTableVersionsRequest)
    def batch_create_table_versions(self, request: BatchCreateTableVersionsRequest) -> BatchCreateTableVersionsResponse:
        """Create versions of several tables: all or none if the catalog manages versions, else one after the other."""
        requests = [callback.parse_version_request(entry) for entry in request.entries]
        records = service.create_versions(self._catalog, requests)
        return BatchCreateTableVersionsResponse(versions=[record.to_response(self._store) for record in records])

    @operation(ListTableVersionsRequest)
    def list_table_versions(self, request: ListTableVersionsRequest) -> ListTableVersionsResponse:
        """List a table's versions, the newest first unless `descending` is false, in pages; errors 1, 4, 13, 22."""
        return callback.list_versions(self._catalog, request)

    @operation(DescribeTableVersionRequest)
    def describe_table_version(self, request: DescribeTableVersionRequest) -> DescribeTableVersionResponse:
        """Tell where the manifest of a version is, the latest unless one is named; errors 1, 4, 11, 22."""
        return callback.describe_version(self._catalog, request)

    @operation(BatchDeleteTableVersionsRequest)
    def batch_delete_table_versions(self, request: BatchDeleteTableVersionsRequest) -> BatchDeleteTableVersionsResponse:
        """Delete versions by ranges, never the latest (19); errors 1, 4, 13, 22.

        The context entry `ignore_missing=false` makes a version that is not there an error (11).
        """
        deleted = service.delete_versions(
            self._catalog,
            table_identifier(request.id),
            request.ranges,
            ignore_missing=ignores_missing(request.context),
            branch=request.branch,
        )
        return BatchDeleteTableVersionsResponse(deleted_count=deleted)

    @operation(BatchCommitTablesRequest)
    def batch_commit_tables(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        """Declare and deregister tables, create and delete versions, all in one commit; errors of each, and 0 in V1."""
        return batch.commit(self._catalog, request)

    def commit_tables(
        self,
        commits: Sequence[transactions.TableCommit | transactions.NewTable],
        check: Callable[[Mapping[tuple[str, ...], int]], object] = lambda _: None,
    ) -> dict[tuple[str, ...], int]:
        """Show prepared Lance transactions of several tables, and new tables, all at once or not at all.

        Returns the new versions. Needs the management of versions. Each transaction is rebased on what was committed
        meanwhile, or raises 14; a new table that is there raises 5. `check` is told the versions that are about to be
        made, whenever they are staged; what it raises stops the commit.
        """
        with translate_errors("commit_tables"):
            return transactions.commit_tables(self._catalog, commits, check)

    def require_common_commits(self, ids: Sequence[Sequence[str]]) -> None:
        """Raise 0 unless these tables, of which some may not be there yet, can be part of one `commit_tables`."""
        with translate_errors("require_common_commits"):
            transactions.require_management(self._catalog, ids)

    def latest_table_versions(self, ids: Sequence[Sequence[str]]) -> list[int]:
        """Give the latest versions of several tables as of one moment; errors 0 (not managed), 1, 4, 11.

        Opened at these versions, the tables show every commit of several tables as a whole.
        """
        with translate_errors("latest_table_versions"):
            identifiers = [table_identifier(one) for one in ids]
            return [record.version for record in service.latest_versions(self._catalog, identifiers)]

    def enable_table_version_management(
        self, progress: Callable[[int, int], None] | None = None
    ) -> version_management.ManagementReport:
        """Make the catalog the manifest store of all its tables; safe to interrupt and to repeat. Not in V1 (0)."""
        with translate_errors("enable_table_version_management"):
            return version_management.enable(self._catalog, progress)

    def disable_table_version_management(self) -> version_management.ManagementReport:
        """Let the files of tables alone decide about their versions again."""
        with translate_errors("disable_table_version_management"):
            return version_management.disable(self._catalog)

    @operation(RenameTableRequest)
    def rename_table(self, request: RenameTableRequest) -> RenameTableResponse:
        """Rename a table, also into another namespace; errors 1, 4, 5. Not in V1 (0)."""
        identifier = table_identifier(request.id)
        parent = identifier[:-1] if request.new_namespace_id is None else namespace_identifier(request.new_namespace_id)
        register.rename(self._catalog, identifier, table_identifier([*parent, request.new_table_name]))
        return RenameTableResponse()

    # What is dropped. Identifiers are lists of names, as in the SDK's requests.

    def undrop_table(
        self,
        id: Sequence[str],
        as_id: Sequence[str] | None = None,
        deletion_id: str | None = None,
    ) -> str:
        """Bring a dropped table back, under its own name or another one; returns its location. Errors 1, 4, 5, 14.

        The latest drop of the name is restored unless a deletion id names another one.
        """
        identifier = table_identifier(id)
        with translate_errors(f"undrop_table of {format_identifier(identifier)}"):
            target = None if as_id is None else table_identifier(as_id)
            return self._catalog.shown_location(undrop.undrop(self._catalog, identifier, target, deletion_id))

    def undrop_namespace(
        self,
        id: Sequence[str],
        deletion_id: str | None = None,
    ) -> list[list[str]]:
        """Bring a dropped namespace back with all that was dropped along with it; returns the tables. Errors 1, 2."""
        identifier = namespace_identifier(id)
        with translate_errors(f"undrop_namespace of {format_identifier(identifier)}"):
            return [list(table) for table in undrop.undrop_namespace(self._catalog, identifier, deletion_id)]

    def purge_table(
        self,
        id: Sequence[str],
        deletion_id: str | None = None,
        *,
        force: bool = False,
    ) -> PurgeReport:
        """Delete what was dropped under a name for good; errors 4, 13 (it is live), 14, and 0 where the store is unfit.

        Before its time, or protected, a table is purged only if forced (19).
        """
        identifier = table_identifier(id)
        with translate_errors(f"purge_table of {format_identifier(identifier)}"):
            return purge.purge_one(self._catalog, identifier, deletion_id, force=force)

    def purge_tables(
        self,
        ids: Sequence[Sequence[str]] | None = None,
        deleted_before: datetime | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        progress: Callable[[PurgedTable, int, int], None] | None = None,
    ) -> PurgeReport:
        """Delete dropped tables for good: all whose time is over, or exactly those given; reports each."""
        with translate_errors("purge_tables"):
            if ids is None:
                return purge.purge_all(self._catalog, deleted_before, dry_run=dry_run, force=force, progress=progress)
            identifiers = [table_identifier(one) for one in ids]
            return purge.purge_these(self._catalog, identifiers, dry_run=dry_run, force=force, progress=progress)

    def list_purgable_tables(
        self, deleted_before: datetime | None = None, *, detailed: bool = False
    ) -> list[DroppedTable]:
        """List the dropped tables whose time is over, or those dropped before a moment; `detailed` as below."""
        with translate_errors("list_purgable_tables"):
            return dropped.list_purgeable(self._catalog, deleted_before, detailed=detailed)

    def list_dropped_tables(
        self,
        namespace: Sequence[str] = (),
        page_token: str | None = None,
        limit: int | None = None,
        *,
        detailed: bool = False,
    ) -> tuple[list[DroppedTable], str | None]:
        """List a page of the tables that were dropped from a namespace, and the token of the next page.

        `detailed` opens each table of the page to count its rows, and lists its files to add up their bytes.
        """
        identifier = namespace_identifier(namespace)
        with translate_errors(f"list_dropped_tables of {format_identifier(identifier)}"):
            return dropped.list_dropped(self._catalog, identifier, page_token, limit, detailed=detailed)

    def table_status(self, id: Sequence[str]) -> TableStatusReport:
        """Tell whether a table is there, dropped, or neither."""
        identifier = table_identifier(id)
        with translate_errors(f"table_status of {format_identifier(identifier)}"):
            return dropped.status(self._catalog, identifier)

    def set_table_protection(self, id: Sequence[str], protected: bool) -> None:  # noqa: FBT001 - a setter
        """Protect a table from drop and purge, or lift the protection; errors 1, 4."""
        identifier = table_identifier(id)
        with translate_errors(f"set_table_protection of {format_identifier(identifier)}"):
            protection.set_on_table(self._catalog, identifier, protected=protected)

    def set_namespace_protection(self, id: Sequence[str], protected: bool) -> None:  # noqa: FBT001 - a setter
        """Protect a namespace from drop, or lift the protection; error 1."""
        identifier = namespace_identifier(id)
        with translate_errors(f"set_namespace_protection of {format_identifier(identifier)}"):
            protection.set_on_namespace(self._catalog, identifier, protected=protected)

    # Care of the catalog

    def list_problems(self) -> list[Problem]:
        """List the entries of the root that cannot be used and are skipped, each with the reason and what to do."""
        with translate_errors("list_problems"):
            return problem_search.find_problems(self._catalog)

    def migrate_to_manifest(self, *, dry_run: bool = False, names: Collection[str] | None = None) -> MigrationReport:
        """Register every V1 directory, or those of some names, in one commit; safe to repeat and to interrupt."""
        with translate_errors("migrate_to_manifest"):
            return version_management.migrate_tables(self._catalog, dry_run=dry_run, names=names)

    def migrate_markers(self, *, dry_run: bool = False) -> MarkerReport:
        """Lift markers that other clients left inside of directories to the root, where listings see them."""
        with translate_errors("migrate_markers"):
            return migrate.migrate_markers(self._catalog, dry_run=dry_run)

    def _vended(self, *, vend: bool | None) -> dict[str, str] | None:
        """Give the storage options to callers that ask for them, or where the namespace is set up to."""
        if not (vend or self._settings.vend_input_storage_options):
            return None
        options = dict(self._settings.storage_options)
        interval = self._settings.vend_input_storage_options_refresh_interval_millis
        if interval is not None:
            options[EXPIRY] = str(int(time.time() * 1000) + interval)
        return options

    def _commits_come_here(self, is_managed: bool) -> bool | None:  # noqa: FBT001 - an answer, passed on
        """Return True if Lance is to commit through this client: the catalog manages versions, or it was asked to."""
        return is_managed or self._settings.table_version_tracking_enabled or None


@dataclass(frozen=True)
class _Wish:
    """How a drop was asked for, in the context of its request."""

    ttl_ms: int
    purge: bool
    force: bool

    @classmethod
    def of(cls, context: Mapping[str, str] | None, default_ttl_ms: int) -> _Wish:
        given = context or {}
        ttl = durations.parse_milliseconds(given["ttl"], "The context's 'ttl'") if "ttl" in given else default_ttl_ms
        return cls(ttl, modes.parse_flag(given, "purge"), modes.parse_flag(given, "force"))


def _rebuilt(kind: type[DirectoryNamespace], properties: dict[str, Any]) -> DirectoryNamespace:
    return kind(**properties)
