"""Taking tables away: drop (with the data) and deregister (without)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pennon.directory import claim, layout
from pennon.directory.manifest import TABLE, Draft, Row
from pennon.directory.resolve import Found, is_root_table
from pennon.errors import ConcurrentModificationError, InvalidInputError, TableNotFoundError
from pennon.identifiers import Identifier, object_id, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pennon.directory.catalog import Catalog
    from pennon.store import Store

_log = logging.getLogger(__name__)


def drop(catalog: Catalog, identifier: Identifier) -> tuple[str, dict[str, str] | None]:
    """Drop a table with its data; returns its location and properties.

    The commit point for a hashed directory is the manifest commit that removes its row; for a root table it is the
    marker that hides it. A crash after it leaves nothing visible: the next caller that wants the name, or cleaning,
    takes the files away.
    """
    row = _known_row(catalog, identifier)
    if row is None:
        found = catalog.resolver.find(identifier)
        if found is None or _belongs_elsewhere(catalog, found):
            raise TableNotFoundError(f"Table not found: {shown(identifier)}")
        row = found.row
    if row is None or is_root_table(identifier, str(row.location)):
        return _drop_root_table(catalog, identifier[0], row)
    return _drop_by_row(catalog, identifier)


def deregister(catalog: Catalog, identifier: Identifier) -> tuple[str, dict[str, str] | None]:
    """Take a table out of the catalog and keep its data; returns its location and properties.

    The commit point for a root table is the marker beside it, for any other the manifest commit that removes its row.
    After a crash in between, asking again completes it.
    """
    found = catalog.resolver.table(identifier)
    properties = None if found.row is None else found.row.properties()
    if found.is_root_table:
        _require_writable(catalog)
        hide_root_table(catalog, identifier[0])
    if found.row is not None:
        _remove_row(catalog, identifier, found)
    home = layout.root_table_name(found.location)
    if home is not None and not found.is_root_table:
        # It had been renamed, and its directory is free to be registered or dropped by the name that leads to it.
        hide_root_table(catalog, home)
    return found.location, properties


def hide_root_table(catalog: Catalog, name: str, *, moved: bool = False) -> None:
    """Mark a root table as deregistered: beside it for listings, inside of it for clients that look there."""
    catalog.store.put(layout.deregistered(name), layout.MOVED_BODY if moved else layout.MARKER_BODY)
    catalog.store.put(layout.inside(layout.root_table(name), layout.DEREGISTERED_MARKER), layout.MARKER_BODY)


def has_moved(catalog: Catalog, name: str) -> bool:
    """Tell whether the directory of a root table belongs to a table that was renamed."""
    marker = catalog.store.get(layout.deregistered(name))
    return marker is not None and marker.body == layout.MOVED_BODY


def delete_data(catalog: Catalog, rows: Iterable[Row]) -> None:
    """Delete the data of tables whose rows are gone. What cannot be deleted is unreachable and stays for cleaning."""
    for row in rows:
        try:
            _delete_directory(catalog, str(row.location))
        except Exception:  # noqa: BLE001 - the drop has succeeded; the specification says so of this very case
            _log.warning("the data of dropped table %r could not be deleted", row.object_id, exc_info=True)


def unreachable_after(draft: Draft, removed: Iterable[Row]) -> list[Row]:
    """Choose the tables among removed rows whose data may go: at a sound location that no other row touches."""
    chosen = []
    for row in removed:
        if row.object_type != TABLE or row.location is None:
            continue
        try:
            layout.checked_location(row.location)
        except InvalidInputError:
            _log.warning("table %r had the location %r, which is left alone", row.object_id, row.location)
            continue
        if not draft.overlapping(row.location):
            chosen.append(row)
    return chosen


def finish_purge(catalog: Catalog, held: claim.Claim) -> None:
    """Delete what a drop that died left of a root table; the caller holds its marker."""
    if catalog.manifest is not None:
        catalog.manifest.mutate(lambda draft: take_root_row(draft, held.name))
    _delete_root_directory(catalog, held)


def _belongs_elsewhere(catalog: Catalog, found: Found) -> bool:
    deregistered = found.directory is not None and found.directory.deregistered
    return found.row is None and deregistered and has_moved(catalog, found.identifier[0])


def _known_row(catalog: Catalog, identifier: Identifier) -> Row | None:
    """Find a table's row in memory; the commit that takes it out makes sure of it."""
    if catalog.manifest is None:
        return None
    row = catalog.manifest.peek(lambda snapshot: snapshot.get(object_id(identifier)))
    return row if row is not None and row.object_type == TABLE and row.location is not None else None


def _drop_by_row(catalog: Catalog, identifier: Identifier) -> tuple[str, dict[str, str]]:
    key = object_id(identifier)
    unreachable: list[Row] = []

    def plan(draft: Draft) -> Row:
        unreachable.clear()
        row = draft.get(key)
        if row is None or row.object_type != TABLE or not draft.parent_exists(key):
            raise TableNotFoundError(f"Table not found: {shown(identifier)}")
        draft.remove(key)
        unreachable.extend(unreachable_after(draft, [row]))
        return row

    row = catalog.require_manifest("drop_table").mutate(plan)
    delete_data(catalog, unreachable)
    return str(row.location), row.properties()


def _drop_root_table(catalog: Catalog, name: str, row: Row | None) -> tuple[str, dict[str, str] | None]:
    """Hide, forget, delete, release. A table that is deregistered goes as well."""
    location = layout.root_table(name)
    _require_writable(catalog)
    held = claim.take(catalog.store, name, claim.PURGING)
    there = False
    if catalog.manifest is not None:
        there = catalog.manifest.mutate(lambda draft: take_root_row(draft, name))
        if catalog.manifest.peek(lambda snapshot: bool(snapshot.object_ids_at(location))):
            # The directory belongs to a table of another name: only the name goes.
            claim.release(catalog.store, held)
            if not there:
                raise TableNotFoundError(f"Table not found: '{name}'")
            return location, None if row is None else row.properties()
    with claim.given_up_on_error(catalog.store, held):
        removed = _delete_root_directory(catalog, held)
    claim.release(catalog.store, held)
    if not (there or removed or held.took_over == claim.PURGING):
        raise TableNotFoundError(f"Table not found: '{name}'")
    return location, None if row is None else row.properties()


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


def _delete_root_directory(catalog: Catalog, held: claim.Claim) -> int:
    """Delete a root table's directory; on local disk exactly while the claim stands."""
    location = layout.root_table(held.name)
    siblings = [layout.deregistered(held.name), layout.declared(location)]
    with catalog.store.exclusive(held.name):
        if catalog.store.is_local and not claim.is_mine(catalog.store, held):
            raise ConcurrentModificationError(f"The claim on table '{held.name}' was taken over; nothing was deleted")
        return catalog.store.delete_tree(location, first=layout.VERSIONS, also=siblings).files


def _delete_directory(catalog: Catalog, location: str) -> None:
    name = layout.root_table_name(location)
    if name is None:
        catalog.store.delete_tree(location, also=[layout.declared(location)])
        return
    # A root directory may be wanted by a new table of its name: deleting it needs the marker.
    held = claim.take(catalog.store, name, claim.PURGING)
    with claim.given_up_on_error(catalog.store, held):
        _delete_root_directory(catalog, held)
    claim.release(catalog.store, held)


def _remove_row(catalog: Catalog, identifier: Identifier, found: Found) -> None:
    key = object_id(identifier)

    def plan(draft: Draft) -> None:
        row = draft.get(key)
        if row is None or row.location != found.location:
            raise TableNotFoundError(f"Table not found: {shown(identifier)}")
        draft.remove(key)

    catalog.require_manifest("deregister_table").mutate(plan)
