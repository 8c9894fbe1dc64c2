"""Hide a dropped root table from clients that do not know its marker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout, table_rows
from pennon.directory.markers import claim
from pennon.directory.markers.marker import DELETED
from pennon.directory.versions import managed

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.markers.marker import Marker


def hide_dropped(catalog: Catalog, name: str, dropped: Marker) -> None:
    """Write the marker that all Lance clients know into a dropped table, and remove the table's row.

    If the table was restored or purged at the same time, the marker is deleted again.
    """
    store, location = catalog.store, layout.root_table(name)
    path = layout.inside(location, layout.DEREGISTERED_MARKER)
    body = layout.MARKER_BODY if dropped.deregistered else layout.DROPPED_BODY + dropped.deletion_id.encode()
    store.put(path, body)
    if catalog.manifest is not None:
        managed.finish_table(catalog, name, location, tidy=True)
        catalog.manifest.mutate(lambda draft: table_rows.remove_root_row(draft, name))
    current = claim.read_marker(store, name)
    if current is not None and current.marker.state == DELETED and current.deletion_id == dropped.deletion_id:
        return
    written = store.get(path)
    if written is not None and written.body == body:
        store.delete_if(path, written.e_tag)
        store.prune(location)
