"""Drop, restore and purge for the commands of `trash`. All checks come before the first change."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import lance_namespace as sdk

from pennon import addresses
from pennon.catalog_pages import iterate_namespaces, iterate_tables
from pennon.cli.session import find_directory
from pennon.directory import protection
from pennon.directory.clock import to_datetime
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
    UnsupportedOperationError,
)
from pennon.identifiers import ROOT, Identifier, object_id
from pennon.results import PurgeReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.api import LakeCatalog
    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Row
    from pennon.directory.manifest_tables.trash import TrashEntry
    from pennon.results import DroppedTable

_ALWAYS = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class DropCommand:
    """The options of a drop."""

    namespace: bool
    cascade: bool
    ttl: str | None
    """How long what is dropped is kept; None if the catalog decides."""
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
    lake: LakeCatalog, identifiers: Sequence[Identifier], *, if_exists: bool, options: DropCommand
) -> list[Identifier]:
    """Return the objects to drop, after a check that all of them exist and may be dropped.

    With `if_exists`, those that do not exist are left out. A server checks itself what protects them.
    """
    found = []
    for identifier in dict.fromkeys(identifiers):
        try:
            if options.namespace:
                _require_droppable_namespace(lake, identifier, options)
            else:
                _require_droppable_table(lake, identifier, options)
        except (TableNotFoundError, NamespaceNotFoundError):
            if not if_exists:
                raise
            continue
        found.append(identifier)
    return found


def drop_object(lake: LakeCatalog, identifier: Identifier, options: DropCommand) -> dict[str, Any]:
    """Drop one object and return a document about it."""
    if options.namespace:
        lake.drop_namespace(identifier, cascade=options.cascade, ttl=options.ttl, force=options.force)
        return {"id": list(identifier)}
    location = lake.namespace.describe_table(sdk.DescribeTableRequest(id=list(identifier))).location
    lake.drop(identifier, ttl=options.ttl, purge=options.purge, force=options.force)
    drop_id = None
    if not options.purge:
        # An Iceberg server may keep what is dropped itself.
        with suppress(UnsupportedOperationError):
            drop_id = lake.namespace.table_status(identifier).deletion_id
    return {"id": list(identifier), "location": location, "drop_id": drop_id}


def list_trash(lake: LakeCatalog, below: Identifier, *, due: bool, detailed: bool) -> list[dict[str, Any]]:
    """Return what was dropped from a namespace and those below it: namespaces, then tables, by name and time."""
    namespaces = _dropped_namespaces(lake, below, due=due)
    tables: Sequence[DroppedTable] = ()
    if due:
        purgeable = lake.namespace.list_purgable_tables(detailed=detailed)
        tables = [table for table in purgeable if tuple(table.id[: len(below)]) == below]
    elif not namespaces or lake.has_namespace(below):
        tables = lake.trash(below, detailed=detailed)
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
    return [*namespaces, *content]


def purge_selected(lake: LakeCatalog, selection: PurgeSelection, *, dry_run: bool) -> PurgeReport:
    """Purge the selected tables and return the report. A dry run only reports what would be purged."""
    if not selection.identifiers:
        return lake.purge(before=selection.before, dry_run=dry_run)
    reports = [
        lake.purge(one, drop_id=selection.drop_id, force=selection.force, dry_run=dry_run)
        for one in selection.identifiers
    ]
    return PurgeReport(
        dry_run,
        [table for report in reports for table in report.tables],
        [table for report in reports for table in report.kept],
    )


def require_restorable(
    lake: LakeCatalog, identifier: Identifier, target: Identifier | None, drop_id: str | None
) -> dict[str, Any]:
    """Return what restoring a table would do. Raises the errors that a restore would, as far as it can check."""
    wanted = target or identifier
    found = [table for table in lake.trash() if tuple(table.id) == identifier and drop_id in {None, table.deletion_id}]
    if not found:
        raise TableNotFoundError(f"Table '{addresses.format_address(identifier)}' is not dropped")
    if not lake.has_namespace(wanted[:-1]):
        raise NamespaceNotFoundError(f"Namespace not found: '{addresses.format_address(wanted[:-1])}'")
    if wanted in lake or lake.has_namespace(wanted):
        raise TableAlreadyExistsError(
            f"The name '{addresses.format_address(wanted)}' is in use again: choose another one with --as"
        )
    return {"location": max(found, key=lambda table: table.dropped_at).location}


def require_restorable_namespace(lake: LakeCatalog, identifier: Identifier, drop_id: str | None) -> None:
    """Raise the errors that restoring a namespace would, as far as a directory can check."""
    catalog = find_directory(lake)
    if catalog is None:
        raise UnsupportedOperationError("Only a directory can tell what restoring a namespace would do: omit --dry-run")
    shown = addresses.format_address(identifier)
    drops = [
        entry
        for entry in _list_dropped_namespaces(catalog)
        if entry.identifier == identifier and drop_id in {None, entry.deletion_id, entry.deletion.group}
    ]
    if not drops:
        raise NamespaceNotFoundError(f"Namespace '{shown}' is not dropped")
    if lake.has_namespace(identifier):
        raise NamespaceAlreadyExistsError(f"The name '{shown}' is in use again")


def _require_droppable_table(lake: LakeCatalog, identifier: Identifier, options: DropCommand) -> None:
    try:
        lake.table(identifier)
    except (TableNotFoundError, NamespaceNotFoundError) as error:
        if not lake.has_namespace(identifier):
            raise
        shown = addresses.format_address(identifier)
        raise InvalidInputError(
            f"'{shown}' is a namespace: drop it with 'pennon drop {shown} --namespace', and with --cascade if it has "
            "contents"
        ) from error
    catalog = find_directory(lake)
    if catalog is not None:
        found = catalog.resolver.table(identifier)
        if found.row is not None:
            protection.require_unprotected(found.row, force=options.force)
        directory = found.directory or look_at(catalog.store, found.location)
        protection.require_unprotected_directory(identifier, directory, force=options.force)


def _require_droppable_namespace(lake: LakeCatalog, identifier: Identifier, options: DropCommand) -> None:
    if identifier == ROOT:
        raise InvalidInputError("The root namespace cannot be dropped")
    shown = addresses.format_address(identifier)
    if not lake.has_namespace(identifier):
        if identifier in lake:
            raise InvalidInputError(f"'{shown}' is a table: drop it with 'pennon drop {shown}'")
        raise NamespaceNotFoundError(f"Namespace not found: '{shown}'{lake.suggest_similar(identifier)}")
    inside = next(iterate_tables(lake.namespace, identifier), None) or next(
        iterate_namespaces(lake.namespace, identifier, recursive=False), None
    )
    if inside is not None and not options.cascade:
        raise NamespaceNotEmptyError(f"Namespace '{shown}' is not empty: use --cascade to drop its contents, too")
    catalog = find_directory(lake)
    if catalog is not None:
        for row in _load_rows(catalog, identifier):
            protection.require_unprotected(row, force=options.force)


def _load_rows(catalog: Catalog, identifier: Identifier) -> list[Row]:
    """Return the rows of a namespace and everything in it."""
    key = object_id(identifier)
    rows = catalog.require_manifest("drop --namespace").read_whole(
        lambda snapshot: [snapshot.get(one) for one in (key, *snapshot.descendants(key))]
    )
    return [row for row in rows if row is not None]


def _list_dropped_namespaces(catalog: Catalog) -> Iterator[TrashEntry]:
    if catalog.manifest is None:
        return
    for entry in catalog.manifest.read(trash.list_entries):
        if entry.original.object_type == NAMESPACE:
            yield entry


def _dropped_namespaces(lake: LakeCatalog, below: Identifier, *, due: bool) -> list[dict[str, Any]]:
    """Return the dropped namespaces of a directory. Other catalogs do not list them."""
    catalog = find_directory(lake)
    if catalog is None:
        return []
    now = datetime.now(timezone.utc)
    found = []
    for entry in _list_dropped_namespaces(catalog):
        fault = entry.deletion.fault
        until = _ALWAYS if fault else to_datetime(entry.deletion.deleted_at_ms + entry.deletion.ttl_ms)
        if entry.identifier[: len(below)] != below or (due and until > now):
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
