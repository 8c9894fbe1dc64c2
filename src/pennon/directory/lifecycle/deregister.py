"""Deregister a table: remove it from the catalog and keep its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout, table_rows
from pennon.directory.manifest import TABLE, Draft, Row
from pennon.directory.markers.deregistration import hide_root_table
from pennon.directory.versions import managed
from pennon.errors import UnusableEntryError
from pennon.identifiers import Identifier, object_id

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog


def deregister(catalog: Catalog, identifier: Identifier) -> tuple[str, dict[str, str] | None]:
    """Remove a table from the catalog; returns its location and properties.

    The commit point for a root table is the marker beside it, for a manifest table the commit that removes its row.
    After a crash in between, a repeated call completes it. Raises NamespaceNotFoundError or TableNotFoundError.
    """
    try:
        table = catalog.resolver.table(identifier)
    except UnusableEntryError as error:
        return _remove_unusable_row(catalog, identifier, error)
    if table.is_root_table:
        if catalog.manifest is not None:
            catalog.manifest.require_writable()
        hide_root_table(catalog.store, identifier[0])
    if table.row is not None:
        managed.finish_table(catalog, table.object_id, table.location, tidy=True)
        catalog.require_manifest("deregister_table").mutate(
            lambda draft: table_rows.remove_row(draft, identifier, table.location)
        )
    former_name = layout.root_table_name(table.location)
    if former_name is not None and not table.is_root_table:
        # A renamed root table: its directory can be registered or dropped again under the name of the directory.
        hide_root_table(catalog.store, former_name)
    return table.location, table.properties()


def _remove_unusable_row(
    catalog: Catalog, identifier: Identifier, error: UnusableEntryError
) -> tuple[str, dict[str, str] | None]:
    """Remove the row of a table that cannot be used, and touch no file. Raises the error if there is no row."""
    key = object_id(identifier)

    def plan(draft: Draft) -> Row | None:
        row = draft.get(key)
        if row is None or row.object_type != TABLE:
            return None
        draft.remove(key)
        return row

    row = None if catalog.manifest is None else catalog.manifest.mutate(plan)
    if row is None:
        raise error
    return row.location or "", row.properties()
