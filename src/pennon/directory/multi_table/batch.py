"""Several operations on several tables in one commit of the manifest: all of them take effect, or none."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_namespace_urllib3_client.models.batch_commit_tables_response import BatchCommitTablesResponse
from lance_namespace_urllib3_client.models.batch_delete_table_versions_response import BatchDeleteTableVersionsResponse
from lance_namespace_urllib3_client.models.commit_table_result import CommitTableResult
from lance_namespace_urllib3_client.models.create_table_version_response import CreateTableVersionResponse
from lance_namespace_urllib3_client.models.declare_table_response import DeclareTableResponse
from lance_namespace_urllib3_client.models.deregister_table_response import DeregisterTableResponse

from pennon.directory import layout, table_rows
from pennon.directory.manifest import TABLE, Draft, Row, properties_json
from pennon.directory.markers import deregistration
from pennon.directory.markers.reservation import Reservation
from pennon.directory.versions import callback, managed, service, version_commit, version_rows
from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.identifiers import Identifier, format_identifier, object_id, table_identifier
from pennon.modes import parse_flag
from pennon.table.version_ranges import VersionRanges
from pennon.table.version_selector import normalize_branch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_namespace_urllib3_client.models.batch_commit_tables_request import BatchCommitTablesRequest
    from lance_namespace_urllib3_client.models.commit_table_operation import CommitTableOperation

    from pennon.directory.catalog import Catalog
    from pennon.directory.versions.record import VersionRecord


@dataclass(frozen=True)
class _PreparedOperation:
    """One operation of a batch."""

    plan: Callable[[Draft], Any]
    respond: Callable[[Any], CommitTableResult]
    """Completes the operation after the commit and returns the response; it gets what the plan returned."""
    table: version_rows.ManagedTable | None = None
    """The table that gets a version. The plan returns the version's record, which is finished before `respond`."""


def commit(catalog: Catalog, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
    """Perform all operations of a batch.

    The commit point is one commit of the manifest. Files of declared tables are written before it, and deleted if it
    certainly failed. Versions are finished, and files of deleted versions are deleted, after it.
    """
    manifest = catalog.require_manifest("batch_commit_tables")
    declared: dict[Identifier, str] = {}
    with ExitStack() as undo:
        operations = [_prepare(catalog, operation, declared, undo) for operation in request.operations]
        results = manifest.mutate(lambda draft: [operation.plan(draft) for operation in operations])
    created = {
        number: (operation.table, results[number])
        for number, operation in enumerate(operations)
        if operation.table is not None
    }
    for number, record in zip(created, managed.finish_committed(catalog, list(created.values())), strict=True):
        results[number] = record
    return BatchCommitTablesResponse(
        results=[operation.respond(result) for operation, result in zip(operations, results, strict=True)]
    )


def _prepare(
    catalog: Catalog, operation: CommitTableOperation, declared: dict[Identifier, str], undo: ExitStack
) -> _PreparedOperation:
    present = [name for name in _OPERATIONS if getattr(operation, name) is not None]
    if len(present) != 1:
        raise InvalidInputError(f"Each operation of a batch names exactly one thing to do, got {present or 'none'}")
    return _OPERATIONS[present[0]](catalog, getattr(operation, present[0]), declared, undo)


def _prepare_declare(
    catalog: Catalog, request: Any, declared: dict[Identifier, str], undo: ExitStack
) -> _PreparedOperation:
    identifier = table_identifier(request.id)
    table_rows.require_free(catalog, identifier)
    table_rows.require_no_root_table(catalog, identifier)
    location = layout.new_hashed_directory(object_id(identifier))
    declared[identifier] = location
    reservation = Reservation(catalog.store, location)
    reservation.announce()
    undo.enter_context(reservation.undo_on_error(catalog.manifest))
    reservation.commit()
    row = Row(object_id(identifier), TABLE, location, properties_json(request.properties))
    response = DeclareTableResponse(
        location=catalog.store.location(location),
        properties=row.properties(),
        managed_versioning=managed.manages_versions(catalog) or None,
    )
    return _PreparedOperation(
        lambda draft: table_rows.insert_into(draft, row), lambda _: CommitTableResult(declare_table=response)
    )


def _prepare_create_version(
    catalog: Catalog, request: Any, declared: dict[Identifier, str], _: ExitStack
) -> _PreparedOperation:
    service.require_management(catalog, "create_table_version in a batch")
    version = callback.parse_version_request(request)
    staged = service.check_staged_version(catalog, version, declared.get(version.identifier))
    prepared = version_commit.prepare(catalog, [staged])

    def respond(record: VersionRecord) -> CommitTableResult:
        response = CreateTableVersionResponse(version=record.to_response(catalog.store))
        return CommitTableResult(create_table_version=response)

    return _PreparedOperation(lambda draft: prepared.plan(draft)[0], respond, staged.table)


def _prepare_delete_versions(
    catalog: Catalog, request: Any, _: dict[Identifier, str], __: ExitStack
) -> _PreparedOperation:
    service.require_management(catalog, "delete_table_versions in a batch")
    identifier = table_identifier(request.id)
    found = catalog.resolver.table(identifier)
    if normalize_branch(request.branch) is not None:
        raise UnsupportedOperationError(f"The catalog manages versions of main branches only, not {request.branch!r}")
    ignore_missing = parse_flag(request.context, "ignore_missing", default=True)
    choose = VersionRanges(request.ranges, format_identifier(identifier), ignore_missing=ignore_missing).select

    def respond(removed: list[VersionRecord]) -> CommitTableResult:
        managed.delete_files(catalog, found.location, removed)
        return CommitTableResult(delete_table_versions=BatchDeleteTableVersionsResponse(deleted_count=len(removed)))

    return _PreparedOperation(version_rows.plan_removal(service.managed_table(found), choose), respond)


def _prepare_deregister(catalog: Catalog, request: Any, _: dict[Identifier, str], __: ExitStack) -> _PreparedOperation:
    identifier = table_identifier(request.id)
    found = catalog.resolver.table(identifier)
    if found.row is None:
        raise UnsupportedOperationError(
            f"Table {format_identifier(identifier)} is not in the manifest; migrate_to_manifest first"
        )
    row, table = found.row, service.managed_table(found)

    def plan(draft: Draft) -> None:
        version_rows.require_table(draft, table)
        draft.remove(table.key)

    def respond(_: None) -> CommitTableResult:
        root_table = layout.root_table_name(found.location)
        if root_table is not None:
            deregistration.hide_root_table(catalog.store, root_table)
        response = DeregisterTableResponse(
            id=list(identifier), location=catalog.format_location(found.location), properties=row.properties()
        )
        return CommitTableResult(deregister_table=response)

    managed.finish_table(catalog, table.key, table.location, tidy=True)
    return _PreparedOperation(plan, respond)


_OPERATIONS = {
    "declare_table": _prepare_declare,
    "create_table_version": _prepare_create_version,
    "delete_table_versions": _prepare_delete_versions,
    "deregister_table": _prepare_deregister,
}
