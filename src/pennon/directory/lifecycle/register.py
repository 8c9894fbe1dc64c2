"""Register existing data under a name, and rename tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.directories import TableDirectory, look_at, look_at_root_table
from pennon.directory.lookup.resolve import is_root_table
from pennon.directory.manifest import TABLE, Draft, Row, properties_json
from pennon.directory.markers.deregistration import hide_root_table, show_root_table
from pennon.directory.root_tables.settle import retry_without_dead_row
from pennon.directory.table_rows import require_no_root_table
from pennon.directory.versions import managed, version_rows
from pennon.errors import (
    InvalidInputError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from pennon.identifiers import (
    Identifier,
    format_identifier,
    namespace_not_found,
    object_id,
    parent_not_found,
    table_not_found,
)
from pennon.modes import RegisterMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.directory.catalog import Catalog


def register(
    catalog: Catalog,
    identifier: Identifier,
    location: str,
    mode: RegisterMode,
    properties: Mapping[str, str] | None,
    *,
    allow_missing: bool = False,
) -> tuple[str, dict[str, str] | None]:
    """Register the table at a location under a name; returns the location and the properties.

    The commit point is the commit of its row, or for a deregistered root table the deletion of the marker beside it.
    `allow_missing` accepts a location without a table. Raises InvalidInputError if there is no table at the location
    or another name owns it, TableAlreadyExistsError if the name is taken, NamespaceNotFoundError.
    """
    chosen = layout.check_location(location)
    if catalog.manifest is None:
        return _register_again(catalog, identifier, chosen, mode, properties)
    owner = layout.root_table_name(chosen)
    directory = look_at(catalog.store, chosen, name=owner)
    if not (directory.has_versions or directory.reserved or allow_missing):
        raise InvalidInputError(
            f"There is no Lance table at the location {chosen!r} given for {format_identifier(identifier)}"
        )
    _require_no_other_root_table(catalog, identifier, directory, mode)
    if mode is RegisterMode.CREATE and not is_root_table(identifier, chosen):
        require_no_root_table(catalog, identifier)
    row = Row(object_id(identifier), TABLE, chosen, properties_json(properties))

    def plan(draft: Draft) -> Row | None:
        if not draft.parent_exists(row.object_id):
            raise parent_not_found(identifier)
        existing = draft.get(row.object_id)
        is_home = is_root_table(identifier, chosen)
        returns = is_home and existing is not None and existing.location == chosen and directory.deregistered
        if existing is not None and not returns and (mode is RegisterMode.CREATE or existing.object_type != TABLE):
            what = "Table" if existing.object_type == TABLE else "A namespace of that name"
            raise TableAlreadyExistsError(f"{what} already exists: {format_identifier(identifier)}")
        others = [key for key in draft.overlapping(chosen) if key != row.object_id]
        if others:
            raise InvalidInputError(f"The location {chosen!r} belongs to table '{others[0]}'; rename that one instead")
        if existing is not None:
            draft.remove(row.object_id)
        draft.put(row if existing is None else replace(row, extra=existing.extra))
        version_rows.import_rows(draft, row.object_id, versions)
        return existing

    manifest = catalog.manifest
    managed.finish_replaced_table(catalog, row.object_id)
    versions = managed.list_versions_to_import(catalog, chosen)
    replaced = retry_without_dead_row(catalog, identifier, lambda: manifest.mutate(plan))
    _update_markers(catalog, identifier, chosen)
    if mode is RegisterMode.OVERWRITE and not is_root_table(identifier, chosen):
        _hide_replaced(catalog, identifier, replaced)
    return chosen, row.properties()


def rename(catalog: Catalog, identifier: Identifier, target: Identifier) -> None:
    """Rename a table, also into another namespace. The commit point is one commit of the manifest; no data moves.

    A root table keeps its directory and is found by its row from then on. Markers hide the directory from clients that
    only list the root. They are written after the commit, so a crash in between leaves them out. Raises
    NamespaceNotFoundError or TableNotFoundError if something does not exist, TableAlreadyExistsError.
    """
    manifest = catalog.require_manifest("rename_table")
    table = catalog.resolver.table(identifier)
    old, new = object_id(identifier), object_id(target)
    if old == new:
        return
    require_no_root_table(catalog, target)

    def plan(draft: Draft) -> None:
        row = draft.get(old)
        if table.row is not None and (row is None or row.location != table.location):
            raise table_not_found(identifier)
        if not draft.parent_exists(new):
            raise parent_not_found(target)
        if draft.get(new) is not None:
            raise TableAlreadyExistsError(
                f"Cannot rename {format_identifier(identifier)}: {format_identifier(target)} already exists"
            )
        if row is None:
            draft.put(Row(new, TABLE, table.location))
        else:
            draft.move(old, replace(row, object_id=new))

    retry_without_dead_row(catalog, target, lambda: manifest.mutate(plan))
    if table.is_root_table:
        hide_root_table(catalog.store, identifier[0], renamed=True)
    elif is_root_table(target, table.location):
        show_root_table(catalog.store, target[0])


def _update_markers(catalog: Catalog, identifier: Identifier, location: str) -> None:
    """Make the markers of root tables agree with the manifest."""
    if is_root_table(identifier, location):
        show_root_table(catalog.store, identifier[0])
        return
    owner = layout.root_table_name(location)
    if owner is not None:
        hide_root_table(catalog.store, owner, renamed=True)


def _hide_replaced(catalog: Catalog, identifier: Identifier, replaced: Row | None) -> None:
    """Hide the directory of the root table that a registration replaced."""
    name = identifier[0]
    location = layout.root_table(name)
    was_used = catalog.lists_directories if replaced is None else replaced.location == location
    if len(identifier) > 1 or not was_used or not look_at(catalog.store, location).visible:
        return
    manifest = catalog.manifest
    has_row = manifest is not None and manifest.peek(lambda snapshot: bool(snapshot.object_ids_at(location)))
    hide_root_table(catalog.store, name, renamed=has_row)


def _register_again(
    catalog: Catalog, identifier: Identifier, location: str, mode: RegisterMode, properties: Mapping[str, str] | None
) -> tuple[str, None]:
    """Register a deregistered table again in V1, where nothing else can be registered."""
    if len(identifier) > 1:
        raise namespace_not_found(identifier[:-1])
    if properties:
        raise UnsupportedOperationError("register_table with properties needs the manifest (manifest_enabled=true)")
    if not is_root_table(identifier, location):
        raise InvalidInputError(
            f"Without a manifest table {format_identifier(identifier)} can only be at {identifier[0]}.lance, "
            f"not {location}"
        )
    directory = look_at_root_table(catalog.store, identifier[0])
    marker = catalog.store.get(layout.deregistered_marker(identifier[0]))
    moved = marker is not None and marker.body == layout.RENAMED_BODY
    if not directory.has_files or directory.hidden or moved:
        raise InvalidInputError(
            f"There is no Lance table at the location {location!r} given for {format_identifier(identifier)}"
        )
    if not directory.deregistered and marker is None and mode is RegisterMode.CREATE:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")
    show_root_table(catalog.store, identifier[0])
    return location, None


def _require_no_other_root_table(
    catalog: Catalog, identifier: Identifier, directory: TableDirectory, mode: RegisterMode
) -> None:
    """Raise if a listing of the root shows the directory as a table, unless it is this table and may be replaced."""
    owner = layout.root_table_name(directory.location)
    if owner is None:
        return
    if directory.hidden:
        raise InvalidInputError(f"The table at {directory.location!r} is dropped, or being created, restored or purged")
    if not (catalog.lists_directories and directory.visible):
        return
    if identifier != (owner,):
        raise InvalidInputError(
            f"The location {directory.location!r} belongs to table '{owner}'; rename that one instead"
        )
    if mode is RegisterMode.CREATE and catalog.store.size(layout.deregistered_marker(owner)) is None:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")
