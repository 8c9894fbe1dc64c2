"""Restore a dropped manifest table: move its row out of the trash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import table_rows
from pennon.directory.lookup.resolve import is_root_table
from pennon.directory.manifest_tables import trash
from pennon.directory.markers.deregistration import show_root_table
from pennon.errors import ConcurrentModificationError, TableNotFoundError
from pennon.identifiers import Identifier, format_identifier

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Draft, Row


def undrop(catalog: Catalog, dropped: trash.TrashEntry, target: Identifier) -> str:
    """Restore a dropped manifest table and return its location. The commit point is one commit of the manifest.

    Raises TableNotFoundError if it is not dropped any more, TableAlreadyExistsError if the name is taken,
    NamespaceNotFoundError if the namespace does not exist, ConcurrentModificationError if it is being purged.
    """

    def plan(draft: Draft) -> Row:
        row = draft.get(dropped.key)
        current = None if row is None else trash.parse_entry(row)
        if current is None:
            raise TableNotFoundError(f"Table {format_identifier(dropped.identifier)} is not dropped any more")
        if current.state != trash.DROPPED:
            raise ConcurrentModificationError(f"Table {format_identifier(dropped.identifier)} is being purged")
        table_rows.require_restorable(draft, target)
        return trash.restore_row(draft, current, target)

    table_rows.require_no_root_table(catalog, target)
    row = catalog.require_manifest("undrop_table").mutate(plan)
    if is_root_table(target, str(row.location)):
        show_root_table(catalog.store, target[0])
    return str(row.location)
