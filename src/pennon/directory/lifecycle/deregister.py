"""Taking tables out of the catalog without their data, and the markers that hide root tables."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.claims import claim
from pennon.directory.claims.marker import DELETED
from pennon.directory.manifest import TABLE, Draft, Row
from pennon.directory.versions import managed
from pennon.errors import UnusableEntryError
from pennon.identifiers import Identifier, object_id, table_not_found

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.claims.marker import Marker
    from pennon.directory.lookup.resolve import Found
    from pennon.store import Store

_log = logging.getLogger(__name__)


def deregister(catalog: Catalog, identifier: Identifier) -> tuple[str, dict[str, str] | None]:
    """Take a table out of the catalog and keep its data; returns its location and properties.

    The commit point for a root table is the marker beside it, for any other the manifest commit that removes its row.
    After a crash in between, asking again completes it.
    """
    try:
        found = catalog.resolver.table(identifier)
    except UnusableEntryError as error:
        return _deregister_unusable(catalog, identifier, error)
    properties = None if found.row is None else found.row.properties()
    if found.is_root_table:
        _require_writable(catalog)
        hide_root_table(catalog, identifier[0])
    if found.row is not None:
        managed.finish_table(catalog, object_id(identifier), found.location, tidy=True)
        _remove_row(catalog, identifier, found)
    home = layout.root_table_name(found.location)
    if home is not None and not found.is_root_table:
        # It had been renamed, and its directory is free to be registered or dropped by the name that leads to it.
        hide_root_table(catalog, home)
    return found.location, properties


def _deregister_unusable(
    catalog: Catalog, identifier: Identifier, error: UnusableEntryError
) -> tuple[str, dict[str, str] | None]:
    """Remove the row of a table that cannot be used, and touch no file; raises the error if it has none."""
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


def hide_root_table(catalog: Catalog, name: str, *, moved: bool = False) -> None:
    """Mark a root table as deregistered: beside it for listings, inside of it for clients that look there."""
    catalog.store.put(layout.deregistered(name), layout.MOVED_BODY if moved else layout.MARKER_BODY)
    catalog.store.put(layout.inside(layout.root_table(name), layout.DEREGISTERED_MARKER), layout.MARKER_BODY)


def has_moved(catalog: Catalog, name: str) -> bool:
    """Tell whether the directory of a root table belongs to a table that was renamed."""
    marker = catalog.store.get(layout.deregistered(name))
    return marker is not None and marker.body == layout.MOVED_BODY


def hide_dropped(catalog: Catalog, name: str, dropped: Marker) -> None:
    """Hide a dropped root table from clients that know nothing of markers, and take its row out of the manifest.

    If this comes late, and the table is restored or purged by then, what was written is taken back.
    """
    store = catalog.store
    inside = layout.inside(layout.root_table(name), layout.DEREGISTERED_MARKER)
    body = layout.MARKER_BODY if dropped.deregistered else layout.DROPPED_BODY + dropped.deletion_id.encode()
    store.put(inside, body)
    if catalog.manifest is not None:
        managed.finish_table(catalog, name, layout.root_table(name), tidy=True)
        catalog.manifest.mutate(lambda draft: take_root_row(draft, name))
    current = claim.read(store, name)
    now = None if current is None else current.marker
    if now is None or now.state != DELETED or now.deletion_id != dropped.deletion_id:
        written = store.get(inside)
        if written is not None and written.body == body:
            store.delete_if(inside, written.e_tag)
            store.prune(layout.root_table(name))


def show_root_table(catalog: Catalog, name: str) -> None:
    """Take the markers of a deregistered table away, the one inside first, so that asking again completes it."""
    catalog.store.delete(layout.inside(layout.root_table(name), layout.DEREGISTERED_MARKER))
    catalog.store.delete(layout.deregistered(name))


def _require_writable(catalog: Catalog) -> None:
    if catalog.manifest is not None:
        catalog.manifest.require_writable()


def delete_leftovers(store: Store, location: str, error: BaseException) -> None:
    """Delete the data files that an error says were written in vain."""
    files = [layout.inside(location, path) for path in getattr(error, "leftovers", ())]
    if files:
        store.delete(*files)


def take_root_row(draft: Draft, name: str) -> bool:
    """Remove the row that stands for the directory of a root table; False if there is none."""
    row = draft.get(name)
    if row is None or row.object_type != TABLE or row.location != layout.root_table(name):
        return False
    draft.remove(name)
    return True


def _remove_row(catalog: Catalog, identifier: Identifier, found: Found) -> None:
    key = object_id(identifier)

    def plan(draft: Draft) -> None:
        row = draft.get(key)
        if row is None or row.location != found.location:
            raise table_not_found(identifier)
        draft.remove(key)

    catalog.require_manifest("deregister_table").mutate(plan)
