"""Drop a manifest table: move its row to the trash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import protection, purge_proof
from pennon.directory.clock import now_ms
from pennon.directory.lookup.directories import look_at
from pennon.directory.manifest import TABLE, Draft, Row
from pennon.directory.manifest_tables import trash
from pennon.directory.manifest_tables.purge import former_root_table, prove_table
from pennon.directory.markers.deregistration import hide_root_table
from pennon.directory.table_rows import DropResult
from pennon.identifiers import table_not_found

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable
    from pennon.directory.manifest import Manifest


def drop(
    catalog: Catalog, table: ResolvedTable, ttl_ms: int, *, force: bool, for_good: bool
) -> DropResult[trash.TrashEntry]:
    """Drop a manifest table. The commit point is the commit that moves its row to the trash.

    With `for_good` the directory is first proven to be a table that can be purged, or NotProvenError is raised. Raises
    TableNotFoundError if the table does not exist, InvalidTableStateError if it is protected.
    """
    deletion = trash.Deletion(now_ms(), ttl_ms)
    manifest = catalog.require_manifest("drop_table")
    if for_good and table.row is not None:
        _prove_row(catalog, manifest, table.row)

    def plan(draft: Draft) -> trash.TrashEntry:
        row = draft.get(table.object_id)
        if row is None or row.object_type != TABLE or not draft.parent_exists(table.object_id):
            raise table_not_found(table.identifier)
        protection.require_unprotected(row, force=force)
        return trash.move_to_trash(draft, row, deletion)

    entry = manifest.mutate(plan)
    _hide_former_root_table(catalog, entry)
    return DropResult(str(entry.original.location), entry.original.properties(), entry)


def _prove_row(catalog: Catalog, manifest: Manifest, row: Row) -> None:
    try:
        prove_table(catalog, row.object_id, row)
    except purge_proof.NotProvenError:
        # If the row has changed, another client may be purging the table: the commit finds out.
        if manifest.read(lambda snapshot: snapshot.get(row.object_id)) == row:
            raise


def _hide_former_root_table(catalog: Catalog, entry: trash.TrashEntry) -> None:
    """Hide the directory of a renamed root table from listings, in case the client that renamed it died before."""
    location = str(entry.original.location)
    name = former_root_table(entry.original.object_id, location)
    if name is not None and look_at(catalog.store, location, name=name).visible:
        hide_root_table(catalog.store, name, renamed=True)
