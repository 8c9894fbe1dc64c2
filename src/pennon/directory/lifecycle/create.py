"""Declare, create and fill tables."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.clock import now_ms
from pennon.directory.lifecycle import overwrite
from pennon.directory.lifecycle.kinds import kind_at, kind_of
from pennon.directory.lookup.directories import look_at
from pennon.directory.lookup.resolve import ResolvedTable, is_root_table, namespace_exists
from pennon.directory.manifest import TABLE, Draft, Row, properties_json
from pennon.directory.manifest_tables import create as manifest_creation
from pennon.directory.manifest_tables import trash
from pennon.directory.manifest_tables.late_versions import delete_if_purged
from pennon.directory.markers import claim
from pennon.directory.markers.marker import DELETED, PURGING
from pennon.directory.root_tables import create as root_creation
from pennon.directory.root_tables.set_aside import set_aside
from pennon.directory.root_tables.settle import retry_without_dead_row
from pennon.directory.table_rows import CreatedTable, TableSpec
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.modes import CreateMode
from pennon.table.writing import VersionExistsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from pennon.directory.catalog import Catalog
    from pennon.table.ipc_file import IpcFile
    from pennon.table.writing import TableData

_PATIENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_ATTEMPTS = 8


def declare(
    catalog: Catalog, identifier: Identifier, location: str | None, properties: Mapping[str, str] | None
) -> CreatedTable:
    """Reserve a name and a location.

    A dropped root table keeps its directory, and the new table gets another one. In V1, where the directory is named
    after the table, the dropped table is set aside.

    Raises TableAlreadyExistsError if the name is taken, NamespaceNotFoundError if the namespace does not exist,
    ConcurrentModificationError if another client is creating or restoring a table of that name.
    """
    _require_property_support(catalog, "declare_table", properties)
    chosen = _check_chosen_location(catalog, identifier, location)
    return retry_without_dead_row(catalog, identifier, lambda: _declare(catalog, identifier, chosen, properties))


def create(
    catalog: Catalog,
    identifier: Identifier,
    data: TableData,
    mode: CreateMode,
    *,
    properties: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None = None,
) -> CreatedTable:
    """Create a table from data or fill a declared one. `mode` decides what happens to an existing table.

    `storage_options` are added to the catalog's own for this write. Raises what `declare` raises.
    """
    _require_property_support(catalog, "create_table", properties)
    options = {**catalog.store.storage_options, **(storage_options or {})}
    spec = TableSpec(identifier, data, properties, options)
    return retry_without_dead_row(catalog, identifier, lambda: _create(catalog, spec, mode))


def fill(catalog: Catalog, identifier: Identifier, data: pa.Table | IpcFile) -> int:
    """Write the first version of a declared table and return its number.

    Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist, TableAlreadyExistsError if it
    already has a version, ConcurrentModificationError if it was dropped while it was written.
    """
    table = catalog.resolver.table(identifier, look=True)
    spec = TableSpec(identifier, data, None, dict(catalog.store.storage_options))
    try:
        if table.is_only_declared:
            return kind_of(table).fill(catalog, table, spec).version or 1
    except VersionExistsError as error:
        raise _already_exists(identifier) from error
    raise _already_exists(identifier)


def _declare(
    catalog: Catalog, identifier: Identifier, chosen: str | None, properties: Mapping[str, str] | None
) -> CreatedTable:
    location = chosen or _choose_location(catalog, identifier)
    row = Row(object_id(identifier), TABLE, location, properties_json(properties))
    is_root = is_root_table(identifier, location)
    if is_root:
        if _declare_root_table(catalog, identifier, row, may_move=chosen is None):
            return CreatedTable.of(catalog, row)
        row = replace(row, location=layout.new_hashed_directory(object_id(identifier)))
    manifest_creation.declare(catalog, identifier, row, contested=chosen is not None)
    if is_root:
        _require_no_root_table_since(catalog, identifier, row)
    return CreatedTable.of(catalog, row)


def _declare_root_table(catalog: Catalog, identifier: Identifier, row: Row, *, may_move: bool) -> bool:
    """Declare a table in the directory of its name; False if a dropped table is there and another directory will do."""
    for _ in range(_ATTEMPTS):
        try:
            root_creation.declare(catalog, identifier, row)
        except root_creation.DroppedTableError:
            if catalog.manifest is not None and may_move:
                return False
            set_aside(catalog, identifier[0])
        else:
            return True
    raise ConcurrentModificationError(
        f"Table {format_identifier(identifier)} is dropped again and again; try again later"
    )


def _require_no_root_table_since(catalog: Catalog, identifier: Identifier, row: Row) -> None:
    """Undo a declaration and raise ConcurrentModificationError if a root table of that name was restored or created.

    Such a table may have no row. A client that restores it claims the marker and then reads rows; a client that
    declares commits the row and then reads the marker. One of the two sees the other.
    """
    current = claim.read_marker(catalog.store, identifier[0])
    if current is not None and current.marker.state in {DELETED, PURGING}:
        return
    if current is None and not look_at(catalog.store, layout.root_table(identifier[0])).visible:
        return

    def move_to_trash(draft: Draft) -> None:
        stored = draft.get(row.object_id)
        if stored is not None and stored.location == row.location:
            # A client may have written data to it already, so it can be restored.
            trash.move_to_trash(draft, stored, trash.Deletion(now_ms(), catalog.settings.drop_ttl_ms))

    catalog.require_manifest("declare_table").mutate(move_to_trash)
    raise ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was restored or created by another client"
    )


def _create(catalog: Catalog, spec: TableSpec, mode: CreateMode) -> CreatedTable:
    # If the name is free in memory, the creation starts at once: the claim or the row detects a conflict.
    optimistic = mode is CreateMode.CREATE
    deadline = time.monotonic() + _PATIENCE_SECONDS
    identifier = spec.identifier
    while True:
        existing = None if optimistic and _seems_free(catalog, identifier) else _find_existing(catalog, identifier)
        if existing is not None and not existing.is_only_declared:
            return _use_existing(catalog, existing, spec, mode)
        try:
            return _write(catalog, spec, existing)
        except (TableAlreadyExistsError, VersionExistsError) as error:
            if mode is CreateMode.CREATE and not optimistic:
                raise _already_exists(identifier) from error
            if time.monotonic() > deadline:
                raise ConcurrentModificationError(
                    f"Table {format_identifier(identifier)} is created and dropped by other clients; try again"
                ) from error
        except ConcurrentModificationError:
            # The other modes accept an existing table, so they wait for the one that is being created.
            if mode is CreateMode.CREATE or time.monotonic() > deadline:
                raise
        if not optimistic:
            time.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 - jitter, not a secret
        optimistic = False


def _write(catalog: Catalog, spec: TableSpec, declared: ResolvedTable | None) -> CreatedTable:
    """Write a new table, or the first version of a declared one."""
    if declared is not None and not declared.is_root_table:
        return manifest_creation.fill(catalog, declared, spec)
    location = _choose_location(catalog, spec.identifier) if declared is None else declared.location
    return kind_at(spec.identifier, location).create(catalog, spec, location)


def _seems_free(catalog: Catalog, identifier: Identifier) -> bool:
    if catalog.manifest is None:
        return len(identifier) == 1
    return catalog.manifest.peek(
        lambda snapshot: namespace_exists(snapshot, identifier[:-1]) and snapshot.get(object_id(identifier)) is None
    )


def _find_existing(catalog: Catalog, identifier: Identifier) -> ResolvedTable | None:
    """Return the table that has the name. One that is being created or dropped is left to the claim."""
    table = catalog.resolver.find(identifier, look=True)
    if table is None:
        _require_no_namespace(catalog, identifier)
        return None
    directory = table.directory
    if table.is_root_table and directory is not None and (directory.hidden or not directory.has_files):
        return None
    return table


def _use_existing(catalog: Catalog, table: ResolvedTable, spec: TableSpec, mode: CreateMode) -> CreatedTable:
    if table.is_deregistered and table.directory is not None:
        raise root_creation.already_exists(table.identifier, table.directory)
    if mode is CreateMode.CREATE:
        raise _already_exists(table.identifier)
    if mode is CreateMode.EXIST_OK:
        return CreatedTable.of(catalog, table.row or Row(table.object_id, TABLE, table.location))
    version = overwrite.overwrite_table(catalog, table, spec.data, spec.storage_options)
    row = spec.row(table.location)
    if catalog.manifest is not None:
        try:
            row = catalog.manifest.mutate(lambda draft: _update_properties(draft, row, had_row=table.row is not None))
        except ConcurrentModificationError:
            delete_if_purged(catalog, table.location, version)
            raise
    return CreatedTable.of(catalog, row, version)


def _update_properties(draft: Draft, row: Row, *, had_row: bool) -> Row:
    """Set the properties of an overwritten table, which may have been renamed. A table without a row gets one."""
    owners = trash.live_owners(draft, str(row.location))
    key = row.object_id if row.object_id in owners or not owners else owners[0]
    existing = draft.get(key)
    if existing is None and not had_row and draft.parent_exists(key):
        draft.put(row)
        return row
    if existing is None or not owners:
        raise overwrite.replaced_error(row.object_id)
    stored = existing.with_properties(row.metadata)
    draft.put(stored)
    return stored


def _choose_location(catalog: Catalog, identifier: Identifier) -> str:
    """Return the directory of the name for a root table, if no other table uses it; otherwise a new hashed one."""
    if len(identifier) == 1 and catalog.lists_directories:
        location = layout.root_table(identifier[0])
        if catalog.manifest is None or not catalog.manifest.peek(
            lambda snapshot: any(key != identifier[0] for key in snapshot.object_ids_at(location))
        ):
            return location
    return layout.new_hashed_directory(object_id(identifier))


def _check_chosen_location(catalog: Catalog, identifier: Identifier, location: str | None) -> str | None:
    """Return the location that a caller chose for a new table. Raises InvalidInputError if it cannot be there."""
    if location is None:
        return None
    relative = catalog.store.relative(location)
    chosen = layout.check_location(location if relative is None else relative)
    name = layout.root_table_name(chosen)
    if catalog.manifest is None and chosen != layout.root_table(identifier[0]):
        raise InvalidInputError(
            f"Without a manifest table {format_identifier(identifier)} can only be at {identifier[0]}.lance, "
            f"not {chosen}"
        )
    if name is not None and not is_root_table(identifier, chosen):
        raise InvalidInputError(f"The location {chosen!r} is reserved for the root table '{name}'")
    if is_root_table(identifier, chosen) and not catalog.lists_directories:
        raise InvalidInputError(f"The location {chosen!r} needs dir_listing_enabled=true")
    return chosen


def _require_no_namespace(catalog: Catalog, identifier: Identifier) -> None:
    try:
        catalog.resolver.require_namespace(identifier)
    except NamespaceNotFoundError:
        return
    raise TableAlreadyExistsError(f"A namespace of that name already exists: {format_identifier(identifier)}")


def _require_property_support(catalog: Catalog, operation: str, properties: Mapping[str, str] | None) -> None:
    if properties and catalog.manifest is None:
        raise UnsupportedOperationError(f"{operation} with properties needs the manifest (manifest_enabled=true)")


def _already_exists(identifier: Identifier) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")
