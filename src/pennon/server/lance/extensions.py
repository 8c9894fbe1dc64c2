"""Operations beyond the specification, under `/v1/pennon`: dropped tables, protection, and care of the catalog.

docs/reference/pennon-openapi.yaml describes them. Requests and results are those of the namespace's methods.
"""

from __future__ import annotations

import os
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from pennon import __version__
from pennon.directory import DirectoryNamespace
from pennon.directory.multi_table import transactions
from pennon.directory.versions import callback
from pennon.errors import UnsupportedOperationError, translate_errors
from pennon.identifiers import table_identifier
from pennon.server.lance import own_creations
from pennon.server.lance.extension_models import (
    Adopt,
    CommitTables,
    DroppedPage,
    ListDropped,
    ListPurgeable,
    Located,
    Location,
    Migrate,
    MigrateMarkers,
    NamespaceProperties,
    Nothing,
    OnObject,
    Problems,
    Properties,
    Protection,
    PurgeTable,
    PurgeTables,
    Restored,
    ServerInfo,
    Tables,
    UndropNamespace,
    UndropTable,
    Version,
    VersionManagement,
    Versions,
)
from pennon.server.lance.needs import on_namespace, on_root, on_table
from pennon.server.lance.operations import Operation
from pennon.server.permissions.rights import Need, Right
from pennon.table_commits import NewTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pennon.catalog_namespace import CatalogNamespace
    from pennon.results import ManagementReport, MarkerReport, MigrationReport, PurgeReport, TableStatusReport

    Namespace = CatalogNamespace[Any]

_INSTANCE = uuid.uuid4().hex
_STATUSES = frozenset({400, 401, 403, 404, 406, 409, 500, 503})


def _undrop_table(namespace: Namespace, request: UndropTable) -> Location:
    return Location(location=namespace.undrop_table(request.id, request.as_id, request.deletion_id))


def _undrop_namespace(namespace: Namespace, request: UndropNamespace) -> Restored:
    found = _directory(namespace, "undrop_namespace").undrop_namespace(request.id, request.deletion_id)
    return Restored(tables=found)


def _purge_table(namespace: Namespace, request: PurgeTable) -> PurgeReport:
    return namespace.purge_table(request.id, request.deletion_id, force=request.force)


def _purge_tables(namespace: Namespace, request: PurgeTables) -> PurgeReport:
    return namespace.purge_tables(request.ids, request.deleted_before, dry_run=request.dry_run, force=request.force)


def _list_dropped(namespace: Namespace, request: ListDropped) -> DroppedPage:
    found, token = namespace.list_dropped_tables(
        request.id, request.page_token, request.limit, detailed=request.detailed
    )
    return DroppedPage(tables=found, page_token=token)


def _list_purgeable(namespace: Namespace, request: ListPurgeable) -> DroppedPage:
    return DroppedPage(tables=namespace.list_purgable_tables(request.deleted_before, detailed=request.detailed))


def _table_status(namespace: Namespace, request: OnObject) -> TableStatusReport:
    return namespace.table_status(request.id)


def _protect_table(namespace: Namespace, request: Protection) -> Nothing:
    _directory(namespace, "set_table_protection").set_table_protection(request.id, request.protected)
    return Nothing()


def _protect_namespace(namespace: Namespace, request: Protection) -> Nothing:
    _directory(namespace, "set_namespace_protection").set_namespace_protection(request.id, request.protected)
    return Nothing()


def _alter_properties(namespace: Namespace, request: NamespaceProperties) -> Properties:
    return Properties(properties=namespace.alter_namespace_properties(request.id, request.changes))


def _new_location(namespace: Namespace, request: OnObject) -> Location:
    return Location(location=namespace.new_table_location(request.id))


def _adopt_table(namespace: Namespace, request: Adopt) -> Version:
    return Version(version=namespace.adopt_table(request.id, request.location, request.properties))


def _require_location(namespace: Namespace, request: Located) -> Nothing:
    namespace.require_new_table_location(request.id, request.location)
    return Nothing()


def _discard_location(namespace: Namespace, request: Located) -> Nothing:
    namespace.discard_table_location(request.id, request.location)
    return Nothing()


def _latest_versions(namespace: Namespace, request: Tables) -> Versions:
    return Versions(versions=namespace.latest_table_versions(request.ids))


def _require_common_commits(namespace: Namespace, request: Tables) -> Nothing:
    namespace.require_common_commits(request.ids)
    return Nothing()


def _commit_tables(namespace: Namespace, request: CommitTables) -> Versions:
    catalog = _directory(namespace, "A common commit with new tables").catalog
    new_tables = [NewTable(one.id, one.location, one.properties) for one in request.new_tables]
    with translate_errors("CommitTables"):
        versions = [callback.parse_version_request(one) for one in request.versions]
        made = transactions.commit_staged(catalog, versions, new_tables)
    ids = [*(one.id for one in request.versions), *(one.id for one in request.new_tables)]
    return Versions(versions=[made[table_identifier(one)] for one in ids])


def _list_problems(namespace: Namespace, _: Nothing) -> Problems:
    return Problems(problems=_directory(namespace, "list_problems").list_problems())


def _migrate(namespace: Namespace, request: Migrate) -> MigrationReport:
    directory = _directory(namespace, "migrate_to_manifest")
    return directory.migrate_to_manifest(dry_run=request.dry_run, names=request.names)


def _migrate_markers(namespace: Namespace, request: MigrateMarkers) -> MarkerReport:
    return _directory(namespace, "migrate_markers").migrate_markers(dry_run=request.dry_run)


def _manage_versions(namespace: Namespace, request: VersionManagement) -> ManagementReport:
    directory = _directory(namespace, "table version management")
    if request.enabled:
        return directory.enable_table_version_management()
    return directory.disable_table_version_management()


def _server_info(namespace: Namespace, _: Nothing) -> ServerInfo:
    return ServerInfo(
        version=__version__,
        idempotency_keys=True,
        instance=f"{_INSTANCE}-{os.getpid()}",
        creation_keys=own_creations.are_recognized(namespace),
    )


def _directory(namespace: Namespace, what: str) -> DirectoryNamespace:
    if not isinstance(namespace, DirectoryNamespace):
        raise UnsupportedOperationError(f"{what} is only for directory namespaces")
    return namespace


def _to_undrop(request: UndropTable) -> Iterable[Need]:
    identifier = table_identifier(request.id)
    yield Need(Right.MANAGE, "table", identifier)
    if request.as_id is not None:
        yield Need(Right.CREATE, "table", table_identifier(request.as_id))


def _to_purge(request: PurgeTables) -> Iterable[Need]:
    if request.ids is None:
        return [Need(Right.ADMINISTER, "namespace", ())]
    return [Need(Right.ADMINISTER, "table", table_identifier(one)) for one in request.ids]


def _to_create(request: OnObject) -> Iterable[Need]:
    return [Need(Right.CREATE, "table", table_identifier(request.id))]


def _to_commit_tables(request: CommitTables) -> Iterable[Need]:
    for version in request.versions:
        yield Need(Right.WRITE, "table", table_identifier(version.id))
    for new in request.new_tables:
        yield Need(Right.CREATE, "table", table_identifier(new.id))


def _on_each(right: Right) -> Callable[[Tables], Iterable[Need]]:
    return lambda request: [Need(right, "table", table_identifier(one)) for one in request.ids]


_change = partial(Operation, changes=True, errors=_STATUSES)
_read = partial(Operation, changes=False, errors=_STATUSES)
_TABLE, _NAMESPACE = "/pennon/table/{id}", "/pennon/namespace/{id}"
_ROOT = on_root(Right.ADMINISTER)
_ADMINISTER, _MANAGE = on_table(Right.ADMINISTER), on_table(Right.MANAGE)

EXTENSIONS: tuple[Operation, ...] = (
    _read("ServerInfo", "/pennon", Nothing, lambda _: (), perform=_server_info, method="GET"),
    _change("UndropTable", f"{_TABLE}/undrop", UndropTable, _to_undrop, perform=_undrop_table),
    _change(
        "UndropNamespace",
        f"{_NAMESPACE}/undrop",
        UndropNamespace,
        on_namespace(Right.MANAGE),
        perform=_undrop_namespace,
    ),
    _change("PurgeTable", f"{_TABLE}/purge", PurgeTable, _ADMINISTER, perform=_purge_table),
    _change("PurgeTables", "/pennon/table/purge", PurgeTables, _to_purge, perform=_purge_tables),
    _read(
        "ListDroppedTables",
        f"{_NAMESPACE}/dropped",
        ListDropped,
        on_namespace(Right.MANAGE),
        perform=_list_dropped,
        method="GET",
    ),
    _read(
        "ListPurgeableTables", "/pennon/table/purgeable", ListPurgeable, _ROOT, perform=_list_purgeable, method="GET"
    ),
    _read("TableStatus", f"{_TABLE}/status", OnObject, on_table(Right.SEE), perform=_table_status),
    _change("SetTableProtection", f"{_TABLE}/protection", Protection, _ADMINISTER, perform=_protect_table),
    _change(
        "SetNamespaceProtection",
        f"{_NAMESPACE}/protection",
        Protection,
        on_namespace(Right.ADMINISTER),
        perform=_protect_namespace,
    ),
    _change(
        "AlterNamespaceProperties",
        f"{_NAMESPACE}/properties",
        NamespaceProperties,
        on_namespace(Right.MANAGE),
        perform=_alter_properties,
    ),
    _read("NewTableLocation", f"{_TABLE}/new-location", OnObject, _to_create, perform=_new_location),
    _change("AdoptTable", f"{_TABLE}/adopt", Adopt, _to_create, perform=_adopt_table),
    _read("RequireNewTableLocation", f"{_TABLE}/require-new-location", Located, _to_create, perform=_require_location),
    _change("DiscardTableLocation", f"{_TABLE}/discard-location", Located, _to_create, perform=_discard_location),
    _read(
        "LatestTableVersions", "/pennon/table/latest-versions", Tables, _on_each(Right.READ), perform=_latest_versions
    ),
    _read(
        "RequireCommonCommits",
        "/pennon/table/require-common-commits",
        Tables,
        _on_each(Right.WRITE),
        perform=_require_common_commits,
    ),
    _change("CommitTables", "/pennon/table/commit", CommitTables, _to_commit_tables, perform=_commit_tables),
    _read("ListProblems", "/pennon/problems", Nothing, _ROOT, perform=_list_problems, method="GET"),
    _change("MigrateToManifest", "/pennon/migrate", Migrate, _ROOT, perform=_migrate),
    _change("MigrateMarkers", "/pennon/migrate-markers", MigrateMarkers, _ROOT, perform=_migrate_markers),
    _change("ManageVersions", "/pennon/version-management", VersionManagement, _ROOT, perform=_manage_versions),
)
"""All operations beyond the specification."""
