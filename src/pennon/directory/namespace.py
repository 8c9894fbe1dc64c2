"""DirectoryNamespace: the operations on a catalog in one directory. Each calls the module that implements it."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from lance_namespace import (
    BatchCommitTablesRequest,
    BatchCommitTablesResponse,
    CreateTableRequest,
    CreateTableResponse,
    CreateTableVersionRequest,
    DeclareTableRequest,
    DescribeTableRequest,
)

from pennon import modes
from pennon.catalog_namespace import CatalogNamespace, DropOptions, TableInfo
from pennon.config import EXPIRY, DirectorySettings
from pennon.directory import managed_append, migrate, namespaces, problem_search, version_management
from pennon.directory.catalog import Catalog, open_catalog
from pennon.directory.lifecycle import (
    adopt,
    create,
    deregister,
    drop,
    dropped,
    late_commits,
    protect,
    purge,
    register,
    undrop,
)
from pennon.directory.lookup import describe, listing, opening
from pennon.directory.multi_table import batch, transactions
from pennon.directory.versions import callback, managed, service
from pennon.errors import InvalidInputError, translate_errors
from pennon.identifiers import Identifier, format_identifier, namespace_identifier, table_identifier
from pennon.requests import OperationCounter, operation
from pennon.store import open_store
from pennon.store.root import make_root_absolute
from pennon.table.branches import BranchClaim, claim_branch
from pennon.table.local_append import AUTO_CLEANUP
from pennon.table.version_identity import BaseVersion
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    import pyarrow as pa
    from lance import LanceDataset
    from lance_namespace_urllib3_client.models.create_table_version_entry import CreateTableVersionEntry
    from lance_namespace_urllib3_client.models.table_version import TableVersion
    from lance_namespace_urllib3_client.models.version_range import VersionRange

    from pennon.results import (
        DroppedTable,
        ManagementReport,
        MarkerReport,
        MigrationReport,
        Problem,
        PurgedTable,
        PurgeReport,
        TableStatusReport,
    )
    from pennon.table.ipc_file import IpcFile
    from pennon.table.mutations import ChangeResult
    from pennon.table_commits import NewTable, TableCommit


class DirectoryNamespace(CatalogNamespace[Catalog]):
    """A catalog of Lance tables in one directory on a disk or in an object store.

    Properties: `root`, `manifest_enabled`, `dir_listing_enabled`, `legacy_markers`, `storage.*`;
    docs/reference/properties.md describes all of them. No request is sent before the first operation. Instances can be
    pickled, shared by threads, used as context managers, and closed.
    """

    def __init__(self, **properties: Any) -> None:
        self._settings: DirectorySettings = DirectorySettings.from_properties(properties)
        super().__init__({**properties, "root": make_root_absolute(self._settings.root)})
        self._store = open_store(self._properties["root"], self._settings.storage_options)
        self._ops_metrics = OperationCounter() if self._settings.ops_metrics_enabled else None

    @property
    def catalog(self) -> Catalog:
        """The open catalog, for a server in this process. It is closed with the namespace."""
        return self._catalog

    def namespace_id(self) -> str:
        """Return a readable id of this namespace. Namespaces with the same root have the same id."""
        return f'DirectoryNamespace {{ root: "{self._store.identity()}" }}'

    def __repr__(self) -> str:
        """Return the root and the mode, without secrets."""
        flags = self._settings
        return (
            f"DirectoryNamespace(root={self._store.identity()!r}, manifest_enabled={flags.manifest_enabled}, "
            f"dir_listing_enabled={flags.dir_listing_enabled})"
        )

    def retrieve_ops_metrics(self) -> dict[str, int]:
        """Return how often each operation was called on this object, failed calls included.

        The result is empty unless `ops_metrics_enabled` is set.
        """
        return {} if self._ops_metrics is None else self._ops_metrics.counts()

    def reset_ops_metrics(self) -> None:
        """Set all counts of operations to zero."""
        if self._ops_metrics is not None:
            self._ops_metrics.reset()

    def _open_catalog(self) -> Catalog:
        return open_catalog(self._settings, self._store)

    def _close_stores(self) -> None:
        self._store.close()

    # Opening and changing tables

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
        return opening.open_table(self._catalog, identifier, selector, shared=shared)

    def _read_base(self, dataset: LanceDataset, branch: str | None) -> BaseVersion:
        if self._store.is_local and any(key.startswith(AUTO_CLEANUP) for key in dataset.config()):
            # Lance deletes old files when it commits to such a table, and follows links on the way.
            self._store.resolve(str(self._store.relative(dataset.uri)), deeply=True)
        return BaseVersion.of(dataset, branch, self._catalog.handles.stamp_of(dataset))

    def _require_base(self, identifier: Identifier, base: BaseVersion, made: LanceDataset) -> None:
        late_commits.require_ground(self._catalog, identifier, base, made)

    def _delete_refused_files(self, dataset: LanceDataset, branch: str | None) -> None:
        late_commits.delete_after_refusal(self._catalog, dataset, branch)

    def _append_rows(self, identifier: Identifier, rows: pa.Table) -> ChangeResult | None:
        return managed_append.append(self._catalog, identifier, rows)

    def _fill_table(self, identifier: Identifier, data: pa.Table | IpcFile) -> int:
        return create.fill(self._catalog, identifier, data)

    def _claim_branch(self, identifier: Identifier, branch: str) -> AbstractContextManager[BranchClaim]:
        location = self._catalog.resolver.table(identifier).location
        return claim_branch(self._store, location, branch, format_identifier(identifier))

    # Namespaces

    def _create_namespace(
        self, identifier: Identifier, mode: modes.CreateMode, properties: Mapping[str, str] | None
    ) -> dict[str, str] | None:
        return namespaces.create(self._catalog, identifier, mode, properties)

    def _list_namespaces(
        self, identifier: Identifier, token: str | None, limit: int | None
    ) -> tuple[list[str], str | None]:
        return namespaces.list_children(self._catalog, identifier, token, limit)

    def _describe_namespace(self, identifier: Identifier) -> dict[str, str] | None:
        return namespaces.describe(self._catalog, identifier)

    def _drop_namespace(
        self, identifier: Identifier, mode: modes.DropMode, behavior: modes.DropBehavior, options: DropOptions
    ) -> dict[str, str] | None:
        return namespaces.drop(self._catalog, identifier, mode, behavior, ttl_ms=options.ttl_ms, force=options.force)

    def _require_namespace(self, identifier: Identifier) -> None:
        self._catalog.resolver.require_namespace(identifier)

    def _alter_namespace_properties(self, identifier: Identifier, changes: Mapping[str, str | None]) -> dict[str, str]:
        return namespaces.alter_properties(self._catalog, identifier, changes)

    # Tables

    def _list_tables(
        self, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
    ) -> tuple[list[str], str | None]:
        return listing.list_tables(self._catalog, identifier, token, limit, include_declared=include_declared)

    def _list_all_tables(
        self, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
    ) -> tuple[list[str], str | None]:
        return listing.list_all_tables(self._catalog, identifier, token, limit, include_declared=include_declared)

    def _declare_table(
        self,
        identifier: Identifier,
        location: str | None,
        properties: Mapping[str, str] | None,
        *,
        vend: bool | None,
    ) -> TableInfo:
        made = create.declare(self._catalog, identifier, location, properties)
        return TableInfo(
            self._store.resolve(made.location),
            made.properties,
            storage_options=self._vended_options(vend=vend),
            managed_versioning=self._commits_come_here(managed.manages_versions(self._catalog)),
        )

    @operation(CreateTableRequest)
    def create_empty_table(self, request: CreateTableRequest) -> CreateTableResponse:
        """Declare a table. Deprecated: use `declare_table`.

        Raises NamespaceNotFoundError, TableAlreadyExistsError, InvalidInputError, ConcurrentModificationError.
        """
        warnings.warn("create_empty_table is deprecated, use declare_table instead", DeprecationWarning, stacklevel=3)
        if modes.parse_mode(request.mode, modes.CreateMode.CREATE) is not modes.CreateMode.CREATE:
            raise InvalidInputError(f"create_empty_table needs the mode create, got {request.mode!r}")
        made = self.declare_table(DeclareTableRequest(id=request.id, properties=request.properties))
        return CreateTableResponse(
            location=made.location, properties=made.properties, storage_options=made.storage_options
        )

    def _create_table(
        self,
        identifier: Identifier,
        data: pa.Table | IpcFile,
        mode: modes.CreateMode,
        properties: Mapping[str, str] | None,
        storage_options: Mapping[str, str] | None,
    ) -> TableInfo:
        made = create.create(
            self._catalog, identifier, data, mode, properties=properties, storage_options=storage_options
        )
        return TableInfo(
            self._store.resolve(made.location),
            made.properties,
            made.version,
            storage_options=self._vended_options(vend=None),
        )

    def _new_table_location(self, identifier: Identifier) -> str:
        return self._store.location(adopt.choose_location(self._catalog, identifier))

    def _adopt_table(self, identifier: Identifier, location: str, properties: Mapping[str, str] | None) -> int:
        path = self._store.relative(location)
        if path is None:
            raise InvalidInputError(f"The location {location!r} of {format_identifier(identifier)} is not in the root")
        return adopt.adopt(self._catalog, identifier, path, properties).version or 1

    def _require_new_table_location(self, identifier: Identifier, location: str) -> None:
        adopt.require_unadopted(self._catalog, identifier, location)

    def _discard_table_location(self, identifier: Identifier, location: str) -> None:
        adopt.discard(self._catalog, identifier, location)

    def _register_table(
        self,
        identifier: Identifier,
        location: str,
        mode: modes.RegisterMode,
        properties: Mapping[str, str] | None,
        *,
        allow_missing: bool,
    ) -> TableInfo:
        return TableInfo(
            *register.register(self._catalog, identifier, location, mode, properties, allow_missing=allow_missing)
        )

    def _deregister_table(self, identifier: Identifier) -> TableInfo:
        location, properties = deregister.deregister(self._catalog, identifier)
        return TableInfo(self._catalog.format_location(location), properties)

    def _describe_table(self, identifier: Identifier, request: DescribeTableRequest) -> TableInfo:
        described = describe.describe_table(
            self._catalog,
            identifier,
            version=request.version,
            tag=request.tag,
            branch=request.branch,
            detailed=bool(request.load_detailed_metadata),
            check_declared=bool(request.check_declared),
        )
        found = described.table
        properties = None if self._catalog.manifest is None else {} if found.row is None else found.row.properties()
        return TableInfo(
            self._store.resolve(found.location),
            properties,
            storage_options=self._vended_options(vend=request.vend_credentials),
            managed_versioning=self._commits_come_here(service.is_managed(self._catalog, found)),
            uri=self._store.uri(found.location) if request.with_table_uri else None,
            only_declared=described.is_only_declared,
            details=described.details,
        )

    def _require_table(self, identifier: Identifier, version: int | None) -> None:
        if version is not None:
            describe.describe_table(self._catalog, identifier, version=version)
        else:
            describe.require_table(self._catalog, identifier)

    def _rename_table(self, identifier: Identifier, target: Identifier) -> None:
        register.rename(self._catalog, identifier, target)

    def _drop_table(self, identifier: Identifier, options: DropOptions) -> TableInfo:
        if options.purge:
            gone = drop.drop_and_purge(self._catalog, identifier, force=options.force)
        else:
            gone = drop.drop(self._catalog, identifier, options.ttl_ms, force=options.force)
        return TableInfo(self._catalog.format_location(gone.location), gone.properties)

    # Dropped tables and namespaces

    def _undrop_table(self, identifier: Identifier, target: Identifier | None, deletion_id: str | None) -> str:
        return self._catalog.format_location(undrop.undrop(self._catalog, identifier, target, deletion_id))

    def undrop_namespace(self, id: Sequence[str], deletion_id: str | None = None) -> list[list[str]]:
        """Restore a dropped namespace with everything that was dropped with it, and return the restored tables.

        Raises NamespaceNotFoundError if there is no such dropped namespace, NamespaceAlreadyExistsError if the name is
        taken.
        """
        identifier = namespace_identifier(id)
        with translate_errors(f"undrop_namespace of {format_identifier(identifier)}"):
            return [list(table) for table in undrop.undrop_namespace(self._catalog, identifier, deletion_id)]

    def _purge_table(self, identifier: Identifier, deletion_id: str | None, *, force: bool) -> PurgeReport:
        return purge.purge_one(self._catalog, identifier, deletion_id, force=force)

    def _purge_due_tables(
        self,
        deleted_before: datetime | None,
        *,
        dry_run: bool,
        force: bool,
        progress: Callable[[PurgedTable, int, int], None] | None,
    ) -> PurgeReport:
        return purge.purge_all(self._catalog, deleted_before, dry_run=dry_run, force=force, progress=progress)

    def _purge_named_tables(
        self,
        chosen: Sequence[Identifier],
        *,
        dry_run: bool,
        force: bool,
        progress: Callable[[PurgedTable, int, int], None] | None,
    ) -> PurgeReport:
        return purge.purge_these(self._catalog, chosen, dry_run=dry_run, force=force, progress=progress)

    def _list_purgeable_tables(self, deleted_before: datetime | None, *, detailed: bool) -> list[DroppedTable]:
        return dropped.list_purgeable(self._catalog, deleted_before, detailed=detailed)

    def _list_dropped_tables(
        self, identifier: Identifier, token: str | None, limit: int | None, *, detailed: bool
    ) -> tuple[list[DroppedTable], str | None]:
        return dropped.list_dropped(self._catalog, identifier, token, limit, detailed=detailed)

    def _table_status(self, identifier: Identifier) -> TableStatusReport:
        return dropped.status(self._catalog, identifier)

    def set_table_protection(self, id: Sequence[str], protected: bool) -> None:  # noqa: FBT001 - a setter
        """Protect a table from drop and purge, or remove the protection.

        Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist.
        """
        identifier = table_identifier(id)
        with translate_errors(f"set_table_protection of {format_identifier(identifier)}"):
            protect.protect_table(self._catalog, identifier, protected=protected)

    def set_namespace_protection(self, id: Sequence[str], protected: bool) -> None:  # noqa: FBT001 - a setter
        """Protect a namespace from drop, or remove the protection.

        Raises NamespaceNotFoundError if the namespace does not exist.
        """
        identifier = namespace_identifier(id)
        with translate_errors(f"set_namespace_protection of {format_identifier(identifier)}"):
            protect.protect_namespace(self._catalog, identifier, protected=protected)

    # Versions

    def _create_table_version(self, request: CreateTableVersionRequest) -> TableVersion:
        return self._create_staged([request])[0]

    def _create_table_versions(self, entries: Sequence[CreateTableVersionEntry]) -> list[TableVersion]:
        return self._create_staged(entries)

    def _create_staged(
        self, entries: Sequence[CreateTableVersionRequest | CreateTableVersionEntry]
    ) -> list[TableVersion]:
        requests = [callback.parse_version_request(entry) for entry in entries]
        return [record.to_response(self._store) for record in service.create_versions(self._catalog, requests)]

    def _list_table_versions(
        self, identifier: Identifier, token: str | None, limit: int | None, *, descending: bool, branch: str | None
    ) -> tuple[list[TableVersion], str | None]:
        records, following = service.list_versions(
            self._catalog, identifier, token, limit, descending=descending, branch=branch
        )
        return [record.to_response(self._store) for record in records], following

    def _describe_table_version(self, identifier: Identifier, version: int | None, branch: str | None) -> TableVersion:
        return service.describe_version(self._catalog, identifier, version, branch).to_response(self._store)

    def _delete_table_versions(
        self, identifier: Identifier, ranges: Sequence[VersionRange], *, ignore_missing: bool, branch: str | None
    ) -> int:
        return service.delete_versions(self._catalog, identifier, ranges, ignore_missing=ignore_missing, branch=branch)

    def _commit_batch(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        return batch.commit(self._catalog, request)

    def _commit_tables(
        self, commits: Sequence[TableCommit | NewTable], check: Callable[[Mapping[Identifier, int]], object]
    ) -> dict[Identifier, int]:
        return transactions.commit_tables(self._catalog, commits, check)

    def _require_common_commits(self, chosen: Sequence[Identifier]) -> None:
        transactions.require_management(self._catalog, chosen)

    def _latest_table_versions(self, chosen: Sequence[Identifier]) -> list[int]:
        return [record.version for record in service.latest_versions(self._catalog, chosen)]

    def enable_table_version_management(self, progress: Callable[[int, int], None] | None = None) -> ManagementReport:
        """Let the catalog manage the versions of all its tables. Safe to interrupt and to repeat.

        Raises UnsupportedOperationError in V1, which has no manifest.
        """
        with translate_errors("enable_table_version_management"):
            return version_management.enable(self._catalog, progress)

    def disable_table_version_management(self) -> ManagementReport:
        """Stop managing versions. Afterwards, the files of each table decide about its versions."""
        with translate_errors("disable_table_version_management"):
            return version_management.disable(self._catalog)

    # Maintenance of the catalog

    def list_problems(self) -> list[Problem]:
        """List the entries of the root that cannot be used and are skipped, each with the reason and the fix."""
        with translate_errors("list_problems"):
            return problem_search.find_problems(self._catalog)

    def migrate_to_manifest(self, *, dry_run: bool = False, names: Collection[str] | None = None) -> MigrationReport:
        """Register every V1 directory, or those with certain names, in one commit. Safe to interrupt and to repeat."""
        with translate_errors("migrate_to_manifest"):
            return version_management.migrate_tables(self._catalog, dry_run=dry_run, names=names)

    def migrate_markers(self, *, dry_run: bool = False) -> MarkerReport:
        """Copy markers that other clients left inside table directories to the root, where listings find them."""
        with translate_errors("migrate_markers"):
            return migrate.migrate_markers(self._catalog, dry_run=dry_run)

    def _vended_options(self, *, vend: bool | None) -> dict[str, str] | None:
        """Return the storage options if the caller asks for them or the settings include them, otherwise None."""
        if not (vend or self._settings.vend_input_storage_options):
            return None
        options = dict(self._settings.storage_options)
        interval = self._settings.vend_input_storage_options_refresh_interval_millis
        if interval is not None:
            options[EXPIRY] = str(int(time.time() * 1000) + interval)
        return options

    def _commits_come_here(self, is_managed: bool) -> bool | None:  # noqa: FBT001 - a result that is passed on
        """Return True if Lance must commit through this client, otherwise None."""
        return is_managed or self._settings.table_version_tracking_enabled or None
