"""Hide a dropped root table from clients that do not know its marker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout, table_rows
from pennon.directory.markers import claim
from pennon.directory.markers.marker import DELETED
from pennon.directory.versions import managed
from pennon.store import call_together

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.markers.marker import Marker
    from pennon.store import Store


def hide_dropped(catalog: Catalog, name: str, dropped: Marker) -> None:
    """Write the marker that all Lance clients know into a dropped table, and remove the table's row.

    If the table was restored or purged at the same time, the marker is deleted again.
    """
    call_together(
        catalog.store,
        lambda: _write_inner_marker(catalog.store, name, dropped),
        lambda: _remove_row(catalog, name),
    )


def delete_inner_marker(store: Store, name: str, dropped: Marker) -> None:
    """Delete the marker that `hide_dropped` wrote into a directory, unless another one is there."""
    location = layout.root_table(name)
    path = layout.inside(location, layout.DEREGISTERED_MARKER)
    written = store.get(path)
    if written is not None and written.body == _inner_body(dropped):
        store.delete_if(path, written.e_tag)
        store.prune(location)


def _write_inner_marker(store: Store, name: str, dropped: Marker) -> None:
    store.put(layout.inside(layout.root_table(name), layout.DEREGISTERED_MARKER), _inner_body(dropped))
    current = claim.read_marker(store, name)
    if current is None or current.marker.state != DELETED or current.deletion_id != dropped.deletion_id:
        delete_inner_marker(store, name, dropped)


def _inner_body(dropped: Marker) -> bytes:
    return layout.MARKER_BODY if dropped.deregistered else layout.DROPPED_BODY + dropped.deletion_id.encode()


def _remove_row(catalog: Catalog, name: str) -> None:
    if catalog.manifest is not None:
        managed.finish_table(catalog, name, layout.root_table(name), tidy=True)
        catalog.manifest.mutate(lambda draft: table_rows.remove_root_row(draft, name))
