"""Several operations on several tables in one commit of the manifest: all of them take effect, or none."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_namespace_urllib3_client.models.batch_commit_tables_response import BatchCommitTablesResponse
from lance_namespace_urllib3_client.models.batch_delete_table_versions_response import BatchDeleteTableVersionsResponse
from lance_namespace_urllib3_client.models.commit_table_result import CommitTableResult
from lance_namespace_urllib3_client.models.create_table_version_response import CreateTableVersionResponse
from lance_namespace_urllib3_client.models.declare_table_response import DeclareTableResponse
from lance_namespace_urllib3_client.models.deregister_table_response import DeregisterTableResponse

from pennon.directory import layout
from pennon.directory.lifecycle import deregister
from pennon.directory.manifest import TABLE, Draft, Row, properties_json
from pennon.directory.manifest_tables import table_rows
from pennon.directory.manifest_tables.reservation import Reservation
from pennon.directory.versions import callback, service, version_adoption, version_rows
from pennon.directory.versions.record import Record
from pennon.errors import InvalidInputError, TableNotFoundError, UnsupportedOperationError
from pennon.identifiers import Identifier, format_identifier, object_id, table_identifier
from pennon.table.version_ranges import VersionRanges, ignores_missing
from pennon.table.version_selector import normalize_branch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_namespace_urllib3_client.models.batch_commit_tables_request import BatchCommitTablesRequest
    from lance_namespace_urllib3_client.models.commit_table_operation import CommitTableOperation

    from pennon.directory.catalog import Catalog


@dataclass(frozen=True)
class _Step:
    """One operation: what it does to the draft, what is left to do afterwards, and what the caller is told."""

    plan: Callable[[Draft], object]
    after: Callable[[object], CommitTableResult]
    table: version_rows.Table | None = None
    """The table that gets a version, whose record is what the plan returns; it is finished before `after`."""


def commit(catalog: Catalog, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
    """Do all operations by one commit, which is the commit point.

    Files of declarations are written before it and taken away if it fails; versions are finished, and files of deleted
    versions deleted, after it.
    """
    manifest = catalog.require_manifest("batch_commit_tables")
    declared: dict[Identifier, str] = {}
    with ExitStack() as undone_on_error:
        steps = [_step(catalog, operation, declared, undone_on_error) for operation in request.operations]
        outcomes = manifest.mutate(lambda draft: [step.plan(draft) for step in steps])
    outcomes = _finished(catalog, steps, outcomes)
    return BatchCommitTablesResponse(
        results=[step.after(outcome) for step, outcome in zip(steps, outcomes, strict=True)]
    )


def _finished(catalog: Catalog, steps: list[_Step], outcomes: list[object]) -> list[object]:
    """Finish all versions that were created, together."""
    created = {
        number: (step.table, outcome)
        for number, (step, outcome) in enumerate(zip(steps, outcomes, strict=True))
        if step.table is not None and isinstance(outcome, Record)
    }
    done = dict(zip(created, version_rows.finish_committed(catalog, list(created.values())), strict=True))
    return [done.get(number, outcome) for number, outcome in enumerate(outcomes)]


def _step(catalog: Catalog, operation: CommitTableOperation, declared: dict[Identifier, str], undo: ExitStack) -> _Step:
    given = [
        name
        for name in ("declare_table", "create_table_version", "delete_table_versions", "deregister_table")
        if getattr(operation, name) is not None
    ]
    if len(given) != 1:
        raise InvalidInputError(f"Each operation of a batch names exactly one thing to do, got {given or 'none'}")
    return _STEPS[given[0]](catalog, getattr(operation, given[0]), declared, undo)


def _declare(catalog: Catalog, request, declared: dict[Identifier, str], undo: ExitStack) -> _Step:  # type: ignore[no-untyped-def]  # noqa: ANN001
    identifier = table_identifier(request.id)
    table_rows.require_free(catalog, identifier)
    table_rows.require_unused(catalog, identifier)
    location = layout.hashed(object_id(identifier))
    declared[identifier] = location
    reserved = Reservation(catalog.store, location)
    reserved.announce()
    undo.enter_context(reserved.undone_on_error())
    reserved.make()
    row = Row(object_id(identifier), TABLE, location, properties_json(request.properties))
    return _Step(
        lambda draft: table_rows.insert_into(draft, row),
        lambda _: CommitTableResult(
            declare_table=DeclareTableResponse(
                location=catalog.store.location(location),
                properties=row.properties(),
                managed_versioning=service.manages(catalog) or None,
            )
        ),
    )


def _create_version(catalog: Catalog, request, declared: dict[Identifier, str], _: ExitStack) -> _Step:  # type: ignore[no-untyped-def]  # noqa: ANN001
    identifier = table_identifier(request.id)
    _require_management(catalog)
    table, record = service.checked(catalog, callback.staged(request, identifier), declared.get(identifier))
    creation = version_rows.Creation(catalog, [version_rows.Wanted(table, record)])

    def after(done: object) -> CommitTableResult:
        shown_version = done.shown(catalog.store) if isinstance(done, Record) else None
        return CommitTableResult(create_table_version=CreateTableVersionResponse(version=shown_version))

    return _Step(lambda draft: creation.plan(draft)[0], after, table)


def _delete_versions(catalog: Catalog, request, _: dict[Identifier, str], __: ExitStack) -> _Step:  # type: ignore[no-untyped-def]  # noqa: ANN001
    identifier = table_identifier(request.id)
    _require_management(catalog)
    found = catalog.resolver.table(identifier)
    table = service.table_of(found)
    if normalize_branch(request.branch) is not None:
        raise UnsupportedOperationError(f"The catalog manages versions of main branches only, not {request.branch!r}")
    ignore_missing = ignores_missing(request.context)
    chosen = VersionRanges(request.ranges, format_identifier(identifier), ignore_missing=ignore_missing).select

    def after(outcome: object) -> CommitTableResult:
        removed = [one for one in outcome if isinstance(one, Record)]  # type: ignore[attr-defined]
        version_rows.delete_files(catalog, found.location, removed)
        return CommitTableResult(delete_table_versions=BatchDeleteTableVersionsResponse(deleted_count=len(removed)))

    return _Step(version_rows.removal_plan(table, chosen), after)


def _deregister(catalog: Catalog, request, _: dict[Identifier, str], __: ExitStack) -> _Step:  # type: ignore[no-untyped-def]  # noqa: ANN001
    identifier = table_identifier(request.id)
    found = catalog.resolver.table(identifier)
    key = object_id(identifier)

    def plan(draft: Draft) -> None:
        row = draft.get(key)
        if row is None or row.object_type != TABLE or row.location != found.location:
            raise TableNotFoundError(f"Table not found: {format_identifier(identifier)}")
        draft.remove(key)

    def after(_: object) -> CommitTableResult:
        home = layout.root_table_name(found.location)
        if home is not None:
            deregister.hide_root_table(catalog, home)
        return CommitTableResult(
            deregister_table=DeregisterTableResponse(
                id=list(identifier),
                location=catalog.shown_location(found.location),
                properties={} if found.row is None else found.row.properties(),
            )
        )

    if found.row is None:
        raise UnsupportedOperationError(
            f"Table {format_identifier(identifier)} is not in the manifest; migrate_to_manifest first"
        )
    version_adoption.finish_all(catalog, key, found.location)
    return _Step(plan, after)


def _require_management(catalog: Catalog) -> None:
    if not service.manages(catalog):
        raise UnsupportedOperationError(
            "Versions of several tables are committed together only where the catalog manages versions; "
            "enable_table_version_management() makes it so"
        )


_STEPS = {
    "declare_table": _declare,
    "create_table_version": _create_version,
    "delete_table_versions": _delete_versions,
    "deregister_table": _deregister,
}
