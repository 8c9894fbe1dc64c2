"""IcebergNamespace: the operations on Lance tables in an Iceberg REST catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.catalog_namespace import CatalogNamespace, DropOptions, TableInfo
from pennon.iceberg import (
    adoption,
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
from pennon.iceberg.files import StagedManifest
from pennon.iceberg.places import Places
from pennon.iceberg.reserved import require_not_reserved, table_identifier
from pennon.iceberg.rest import RestCatalog
from pennon.iceberg.settings import IcebergSettings
from pennon.identifiers import Identifier, format_identifier
from pennon.store.root import make_root_absolute
from pennon.table.branches import BranchClaim, claim_branch
from pennon.table.version_ranges import VersionRanges
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    import pyarrow as pa
    from lance import LanceDataset
    from lance_namespace import (
        BatchCommitTablesRequest,
        BatchCommitTablesResponse,
        CreateTableVersionRequest,
        DescribeTableRequest,
    )
    from lance_namespace_urllib3_client.models.create_table_version_entry import CreateTableVersionEntry
    from lance_namespace_urllib3_client.models.table_version import TableVersion
    from lance_namespace_urllib3_client.models.version_range import VersionRange

    from pennon import modes
    from pennon.iceberg.entry import Entry
    from pennon.results import DroppedTable, PurgedTable, PurgeReport, TableStatusReport
    from pennon.table.ipc_file import IpcFile
    from pennon.table.version_identity import BaseVersion
    from pennon.table_commits import NewTable, TableCommit


class IcebergNamespace(CatalogNamespace[Catalog]):
    """Lance tables in an Iceberg REST catalog. The server is the root namespace.

    Properties: `uri`, `warehouse`, `token`, `credential`, `root`, `managed_by` and more; docs/reference/iceberg.md
    describes all of them. No request is sent before the first operation. Instances can be pickled, shared by threads,
    used as context managers, and closed.
    """

    def __init__(self, **properties: Any) -> None:
        self._settings: IcebergSettings = IcebergSettings.from_properties(properties)
        super().__init__(dict(properties))
        if self._settings.root is not None:
            self._properties["root"] = make_root_absolute(self._settings.root)
        self._places = Places(IcebergSettings.from_properties(self._properties))

    def namespace_id(self) -> str:
        """Return a readable id of this namespace. Namespaces on the same server and warehouse have the same id."""
        return f'IcebergNamespace {{ uri: "{self._settings.uri}", warehouse: "{self._settings.warehouse or ""}" }}'

    def __repr__(self) -> str:
        """Return the server and the root, without secrets."""
        settings = self._settings
        return f"IcebergNamespace(uri={settings.uri!r}, warehouse={settings.warehouse!r}, root={settings.root!r})"

    @property
    def catalog(self) -> Catalog:
        """The open catalog: the server and the stores."""
        return self._catalog

    def _open_catalog(self) -> Catalog:
        return Catalog(self._settings, RestCatalog(self._settings), self._places)

    def _close_stores(self) -> None:
        self._places.close()

    def _require_allowed(self, identifier: Identifier) -> Identifier:
        return require_not_reserved(identifier)

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
        catalog = self._catalog
        selector = VersionSelector.of(format_identifier(identifier), version, tag, branch)
        return handles.open_table(catalog, self, catalog.table(identifier), selector, shared=shared)

    def _read_base(self, dataset: LanceDataset, branch: str | None) -> BaseVersion:
        return late_commits.read_base(dataset, branch)

    def _require_base(self, identifier: Identifier, base: BaseVersion, made: LanceDataset) -> None:
        late_commits.require_base(self._catalog, identifier, base, made)

    def _delete_refused_files(self, dataset: LanceDataset, branch: str | None) -> None:
        late_commits.delete_refused_files(self._catalog, dataset, branch)

    def _fill_table(self, identifier: Identifier, data: pa.Table | IpcFile) -> int:
        return creation.fill(self._catalog, creation.EntrySpec(identifier, data, None, {}, self))

    def _claim_branch(self, identifier: Identifier, branch: str) -> AbstractContextManager[BranchClaim]:
        catalog = self._catalog
        return claim_branch(catalog.store(catalog.table(identifier)), "", branch, format_identifier(identifier))

    # Namespaces

    def _create_namespace(
        self, identifier: Identifier, mode: modes.CreateMode, properties: Mapping[str, str] | None
    ) -> dict[str, str] | None:
        return namespaces.create(self._catalog, identifier, mode, properties)

    def _list_namespaces(
        self, identifier: Identifier, token: str | None, limit: int | None
    ) -> tuple[list[str], str | None]:
        return namespaces.list_children(self._catalog, identifier, token, limit)

    def _describe_namespace(self, identifier: Identifier) -> dict[str, str]:
        return self._catalog.require_namespace(identifier)

    def _drop_namespace(
        self, identifier: Identifier, mode: modes.DropMode, behavior: modes.DropBehavior, options: DropOptions
    ) -> dict[str, str] | None:
        return namespaces.drop(self._catalog, identifier, mode, behavior)

    def _require_namespace(self, identifier: Identifier) -> None:
        self._catalog.require_namespace(identifier)

    def _alter_namespace_properties(self, identifier: Identifier, changes: Mapping[str, str | None]) -> dict[str, str]:
        return namespaces.alter_properties(self._catalog, identifier, changes)

    # Tables

    def _list_tables(
        self, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
    ) -> tuple[list[str], str | None]:
        return tables.list_tables(self._catalog, identifier, token, limit, include_declared=include_declared)

    def _list_all_tables(
        self, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
    ) -> tuple[list[str], str | None]:
        return tables.list_all_tables(self._catalog, identifier, token, limit, include_declared=include_declared)

    def _declare_table(
        self,
        identifier: Identifier,
        location: str | None,
        properties: Mapping[str, str] | None,
        *,
        vend: bool | None,
    ) -> TableInfo:
        entry = creation.declare(self._catalog, identifier, location, properties)
        return self._describe_entry(entry, storage_options=self._vended_options(entry, vend=vend))

    def _create_table(
        self,
        identifier: Identifier,
        data: pa.Table | IpcFile,
        mode: modes.CreateMode,
        properties: Mapping[str, str] | None,
        storage_options: Mapping[str, str] | None,
    ) -> TableInfo:
        wanted = creation.EntrySpec(identifier, data, properties, storage_options or {}, self)
        made = creation.create(self._catalog, wanted, mode)
        return self._describe_entry(made.entry, version=made.version)

    def _new_table_location(self, identifier: Identifier) -> str:
        return adoption.new_location(self._catalog, identifier)

    def _adopt_table(self, identifier: Identifier, location: str, properties: Mapping[str, str] | None) -> int:
        return adoption.adopt(self._catalog, self, identifier, location, properties)

    def _require_new_table_location(self, identifier: Identifier, location: str) -> None:
        adoption.require_unadopted(self._catalog, identifier, location)

    def _discard_table_location(self, identifier: Identifier, location: str) -> None:
        adoption.discard(self._catalog, identifier, location)

    def _register_table(
        self,
        identifier: Identifier,
        location: str,
        mode: modes.RegisterMode,
        properties: Mapping[str, str] | None,
        *,
        allow_missing: bool,
    ) -> TableInfo:
        return self._describe_entry(
            creation.register(self._catalog, identifier, location, mode, properties, allow_missing=allow_missing)
        )

    def _deregister_table(self, identifier: Identifier) -> TableInfo:
        return self._describe_entry(dropping.deregister(self._catalog, identifier))

    def _describe_table(self, identifier: Identifier, request: DescribeTableRequest) -> TableInfo:
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
        entry = described.entry
        return self._describe_entry(
            entry,
            storage_options=self._vended_options(entry, vend=request.vend_credentials),
            uri=self._catalog.store(entry).uri("").rstrip("/") if request.with_table_uri else None,
            only_declared=described.only_declared,
            details=described.details,
        )

    def _require_table(self, identifier: Identifier, version: int | None) -> None:
        describing.describe_table(self._catalog, self, identifier, version=version)

    def _rename_table(self, identifier: Identifier, target: Identifier) -> None:
        entries.rename(self._catalog, self._catalog.table(identifier), target)

    def _drop_table(self, identifier: Identifier, options: DropOptions) -> TableInfo:
        return self._describe_entry(dropping.drop(self._catalog, identifier, options.ttl_ms, purge=options.purge))

    # Dropped tables

    def _undrop_table(self, identifier: Identifier, target: Identifier | None, deletion_id: str | None) -> str:
        return self._location(dropping.undrop(self._catalog, identifier, target, deletion_id))

    def _purge_table(self, identifier: Identifier, deletion_id: str | None, *, force: bool) -> PurgeReport:
        return dropping.purge_table(self._catalog, identifier, deletion_id, force=force)

    def _purge_due_tables(
        self,
        deleted_before: datetime | None,
        *,
        dry_run: bool,
        force: bool,
        progress: Callable[[PurgedTable, int, int], None] | None,
    ) -> PurgeReport:
        return dropping.purge_due_tables(self._catalog, deleted_before, dry_run=dry_run, progress=progress)

    def _purge_named_tables(
        self,
        chosen: Sequence[Identifier],
        *,
        dry_run: bool,
        force: bool,
        progress: Callable[[PurgedTable, int, int], None] | None,
    ) -> PurgeReport:
        return dropping.purge_named_tables(self._catalog, chosen, dry_run=dry_run, force=force, progress=progress)

    def _list_purgeable_tables(self, deleted_before: datetime | None, *, detailed: bool) -> list[DroppedTable]:
        return dropping.list_purgeable(self._catalog, deleted_before, detailed=detailed)

    def _list_dropped_tables(
        self, identifier: Identifier, token: str | None, limit: int | None, *, detailed: bool
    ) -> tuple[list[DroppedTable], str | None]:
        return dropping.list_dropped(self._catalog, identifier, token, limit, detailed=detailed)

    def _table_status(self, identifier: Identifier) -> TableStatusReport:
        return dropping.table_status(self._catalog, identifier)

    # Versions

    def _create_table_version(self, request: CreateTableVersionRequest) -> TableVersion:
        staged = StagedManifest(request.version, request.manifest_path, request.naming_scheme)
        return version_operations.create(self._catalog, self._table_identifier(request.id), staged, request.branch)

    def _create_table_versions(self, entries: Sequence[CreateTableVersionEntry]) -> list[TableVersion]:
        staged = [
            (table_identifier(one.id), StagedManifest(one.version, one.manifest_path, one.naming_scheme))
            for one in entries
        ]
        made = batch.create_together(self._catalog, staged)
        return [one.shown(self._catalog.store(entry)) for one, entry in made]

    def _list_table_versions(
        self, identifier: Identifier, token: str | None, limit: int | None, *, descending: bool, branch: str | None
    ) -> tuple[list[TableVersion], str | None]:
        return version_operations.list_versions(
            self._catalog, identifier, token, limit, descending=descending, branch=branch
        )

    def _describe_table_version(self, identifier: Identifier, version: int | None, branch: str | None) -> TableVersion:
        return version_operations.describe(self._catalog, identifier, version, branch)

    def _delete_table_versions(
        self, identifier: Identifier, ranges: Sequence[VersionRange], *, ignore_missing: bool, branch: str | None
    ) -> int:
        chosen = VersionRanges(ranges, format_identifier(identifier), ignore_missing=ignore_missing).select
        return version_operations.delete(self._catalog, identifier, chosen, branch)

    def _commit_batch(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        return batch.commit(self._catalog, request)

    def _commit_tables(
        self, commits: Sequence[TableCommit | NewTable], check: Callable[[Mapping[Identifier, int]], object]
    ) -> dict[Identifier, int]:
        return batch.commit_tables(self._catalog, self, commits, check)

    def _require_common_commits(self, chosen: Sequence[Identifier]) -> None:
        batch.require_managed(self._catalog, chosen)

    def _latest_table_versions(self, chosen: Sequence[Identifier]) -> list[int]:
        return batch.latest_versions(self._catalog, chosen)

    def _describe_entry(self, entry: Entry, **more: Any) -> TableInfo:
        """Return what responses contain about an entry."""
        return TableInfo(
            self._location(entry), entry.shown_properties, managed_versioning=entry.is_managed or None, **more
        )

    def _location(self, entry: Entry) -> str:
        """Return the location of a table as Lance opens it."""
        return self._catalog.store(entry).location("").rstrip("/")

    def _vended_options(self, entry: Entry, *, vend: bool | None) -> dict[str, str] | None:
        """Return the storage options of a table, or None if there are none or the caller does not want them."""
        return None if vend is False else self._catalog.options(entry) or None
