"""Drop, restore and purge for the commands of `trash`. All checks come before the first change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pennon import addresses
from pennon.cli.table_access import namespace_exists
from pennon.directory import namespaces, protection
from pennon.directory.clock import to_datetime
from pennon.directory.lifecycle import drop as tables_dropping
from pennon.directory.lifecycle import dropped
from pennon.directory.lifecycle import purge as catalog_purge
from pennon.directory.lookup.directories import look_at
from pennon.directory.manifest import NAMESPACE
from pennon.directory.manifest_tables import trash
from pennon.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from pennon.identifiers import ROOT, Identifier, object_id
from pennon.modes import DropBehavior, DropMode
from pennon.results import TableStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pennon.directory.catalog import Catalog
    from pennon.results import PurgeReport

_ALWAYS = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class DropCommand:
    """The options of a drop."""

    cascade: bool
    ttl_ms: int | None
    """How long what is dropped is kept; None if a server decides."""
    purge: bool
    force: bool


@dataclass(frozen=True)
class PurgeSelection:
    """What to purge: named tables, or all tables that are due."""

    identifiers: Sequence[Identifier]
    drop_id: str | None
    before: datetime | None
    force: bool


def require_droppable(
    catalog: Catalog, identifiers: Sequence[Identifier], *, namespace: bool, if_exists: bool, options: DropCommand
) -> list[Identifier]:
    """Return the objects to drop, after a check that all of them exist and may be dropped.

    With `if_exists`, those that do not exist are left out.
    """
    found = []
    for identifier in dict.fromkeys(identifiers):
        try:
            if namespace:
                _require_droppable_namespace(catalog, identifier, options)
            else:
                _require_droppable_table(catalog, identifier, options)
        except (TableNotFoundError, NamespaceNotFoundError):
            if not if_exists:
                raise
            continue
        found.append(identifier)
    return found


def drop_object(catalog: Catalog, identifier: Identifier, *, namespace: bool, options: DropCommand) -> dict[str, Any]:
    """Drop one object and return a document about it."""
    ttl_ms = catalog.settings.drop_ttl_ms if options.ttl_ms is None else options.ttl_ms
    if namespace:
        behavior = DropBehavior.CASCADE if options.cascade else DropBehavior.RESTRICT
        namespaces.drop(catalog, identifier, DropMode.FAIL, behavior, ttl_ms=ttl_ms, force=options.force)
        return {"id": list(identifier)}
    if options.purge:
        gone = tables_dropping.drop_and_purge(catalog, identifier, force=options.force)
    else:
        gone = tables_dropping.drop(catalog, identifier, ttl_ms, force=options.force)
    return {
        "id": list(identifier),
        "location": catalog.format_location(gone.location),
        "drop_id": None if options.purge else gone.record.deletion_id,
    }


def list_trash(catalog: Catalog, below: Identifier, *, due: bool, detailed: bool) -> list[dict[str, Any]]:
    """Return what was dropped from a namespace and those below it: namespaces, then tables, by name and time."""
    found = dropped.list_purgeable(catalog) if due else dropped.list_everything(catalog)
    tables = [table for table in found if tuple(table.id[: len(below)]) == below]
    if detailed:
        tables = dropped.measure_tables(catalog, tables)
    content = [
        {
            "type": "table",
            "id": table.id,
            "drop_id": table.deletion_id,
            "dropped_at": table.dropped_at,
            "purgeable_at": None if table.fault is not None else table.purgeable_at,
            "being_purged": table.being_purged,
            "kept_because": table.fault,
            "location": table.location,
            "rows": table.rows,
            "bytes": table.bytes,
        }
        for table in tables
    ]
    return [*_dropped_namespaces(catalog, below, due=due), *content]


def purge_selected(
    catalog: Catalog, selection: PurgeSelection, *, dry_run: bool, progress: Callable[..., None] | None = None
) -> PurgeReport:
    """Purge the selected tables and return the report. A dry run only reports what would be purged."""
    if selection.identifiers:
        return catalog_purge.purge_these(
            catalog, selection.identifiers, selection.drop_id, dry_run=dry_run, force=selection.force, progress=progress
        )
    return catalog_purge.purge_all(catalog, selection.before, dry_run=dry_run, force=False, progress=progress)


def require_restorable(
    catalog: Catalog, identifier: Identifier, target: Identifier | None, drop_id: str | None, *, namespace: bool
) -> dict[str, Any]:
    """Return what would be restored. Raises the errors that a restore would, as far as it can check."""
    wanted = target or identifier
    if namespace:
        entries = [] if catalog.manifest is None else catalog.manifest.read(trash.list_entries)
        drops = [
            entry
            for entry in entries
            if entry.original.object_type == NAMESPACE
            and entry.identifier == identifier
            and drop_id in {None, entry.deletion_id, entry.deletion.group}
        ]
        if not drops:
            raise NamespaceNotFoundError(f"Namespace '{addresses.format_address(identifier)}' is not dropped")
        if namespace_exists(catalog, identifier):
            raise NamespaceAlreadyExistsError(f"The name '{addresses.format_address(identifier)}' is in use again")
        return {}
    found = dropped.list_drops(catalog, identifier, drop_id)
    if not found:
        raise TableNotFoundError(f"Table '{addresses.format_address(identifier)}' is not dropped")
    catalog.resolver.require_namespace(wanted[:-1])
    if dropped.status(catalog, wanted).status == TableStatus.EXISTS or namespace_exists(catalog, wanted):
        raise TableAlreadyExistsError(
            f"The name '{addresses.format_address(wanted)}' is in use again: choose another one with --as"
        )
    return {"location": max(found, key=lambda table: table.dropped_at).location}


def _require_droppable_table(catalog: Catalog, identifier: Identifier, options: DropCommand) -> None:
    found = catalog.resolver.table(identifier)
    if found.row is not None:
        protection.require_unprotected(found.row, force=options.force)
    directory = found.directory or look_at(catalog.store, found.location)
    protection.require_unprotected_directory(identifier, directory, force=options.force)


def _require_droppable_namespace(catalog: Catalog, identifier: Identifier, options: DropCommand) -> None:
    if identifier == ROOT:
        raise InvalidInputError("The root namespace cannot be dropped")
    manifest = catalog.require_manifest("drop --namespace")
    catalog.resolver.require_namespace(identifier)
    key = object_id(identifier)
    rows = manifest.read_whole(lambda snapshot: [snapshot.get(one) for one in (key, *snapshot.descendants(key))])
    if len(rows) > 1 and not options.cascade:
        raise NamespaceNotEmptyError(
            f"Namespace '{addresses.format_address(identifier)}' is not empty: use --cascade to drop its contents, too"
        )
    for row in rows:
        if row is not None:
            protection.require_unprotected(row, force=options.force)


def _dropped_namespaces(catalog: Catalog, below: Identifier, *, due: bool) -> list[dict[str, Any]]:
    if catalog.manifest is None:
        return []
    now = datetime.now(timezone.utc)
    found = []
    for entry in catalog.manifest.read(trash.list_entries):
        fault = entry.deletion.fault
        until = _ALWAYS if fault else to_datetime(entry.deletion.deleted_at_ms + entry.deletion.ttl_ms)
        if entry.original.object_type != NAMESPACE or entry.identifier[: len(below)] != below or (due and until > now):
            continue
        found.append(
            {
                "type": "namespace",
                "id": list(entry.identifier),
                "drop_id": entry.deletion_id,
                "dropped_at": to_datetime(entry.deletion.deleted_at_ms),
                "purgeable_at": None if fault else until,
                "being_purged": entry.state == trash.PURGING,
                "kept_because": fault or None,
                "location": None,
                "rows": None,
                "bytes": None,
            }
        )
    return sorted(found, key=lambda one: (one["id"], one["dropped_at"]))
