"""Restore a dropped root table, under its own name or another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout, table_rows
from pennon.directory.lookup.directories import look_at
from pennon.directory.lookup.resolve import is_root_table
from pennon.directory.manifest import TABLE, Draft, Row, properties_json
from pennon.directory.markers import claim
from pennon.directory.markers.deregistration import hide_root_table
from pennon.directory.markers.marker import DELETED, REVIVING, UNDROP, Marker
from pennon.directory.versions import managed, version_rows
from pennon.errors import ConcurrentModificationError, TableNotFoundError
from pennon.identifiers import Identifier, object_id
from pennon.table.writing import find_last_version_before, read_latest_version, restore_version

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.markers.claim import Claim, StoredMarker


def undrop(catalog: Catalog, dropped: StoredMarker, target: Identifier) -> str:
    """Restore a dropped root table and return its location.

    The commit point is the deletion of the marker, which comes last. A crash before it leaves the table dropped, with a
    lease that expires. Raises TableNotFoundError if no table is left, TableAlreadyExistsError if the name is taken,
    ConcurrentModificationError if another client holds the table.
    """
    store, name, before = catalog.store, dropped.name, dropped.marker
    location = layout.root_table(name)
    if before.state != DELETED:
        raise claim.held_by_another(name)
    is_home = is_root_table(target, location)
    if not is_home:
        catalog.require_manifest("undrop_table under another name")
        table_rows.require_no_root_table(catalog, target)
    with claim.take_over(store, dropped, Marker(REVIVING, prior=before).with_lease(REVIVING, UNDROP)) as held:
        _require_table(catalog, held)
        managed.finish_replaced_table(catalog, name)
        if before.burn and before.version is not None:
            _restore_version(catalog, held, before.version, before.writers)
        _restore_row(catalog, before, location, target)
        if is_home and not before.deregistered:
            store.delete(layout.inside(location, layout.DEREGISTERED_MARKER), layout.deregistered_marker(name))
        elif not is_home:
            hide_root_table(store, name, renamed=True)
        if not held.complete():
            raise ConcurrentModificationError(f"Restoring table '{name}' took too long: another client took over")
    return location


def _require_table(catalog: Catalog, held: Claim) -> None:
    """Raise TableNotFoundError unless the directory holds a table. A marker without any files is deleted."""
    directory = look_at(catalog.store, layout.root_table(held.name))
    if directory.has_versions or directory.reserved:
        return
    if not directory.has_files:
        held.remove()
    raise TableNotFoundError(f"There is no table to restore under '{held.name}'")


def _restore_version(catalog: Catalog, held: Claim, version: int, writers: tuple[str, ...]) -> None:
    """Commit the dropped table as the latest version, with the number that a dead creator would have used.

    What was appended after the drop, by a client that had the table open, is kept. The version to build on is read
    while the claim is held, and the commit is strict: it fails if another client has committed that version.
    """
    store, location = catalog.store, catalog.store.resolve(layout.root_table(held.name), deeply=True)
    base = read_latest_version(location, store.storage_options)
    version = find_last_version_before(location, version, base, writers, store.storage_options)
    held.renew()
    if not restore_version(location, version, store.storage_options, after=base):
        raise ConcurrentModificationError(f"Table '{held.name}' was changed while it was restored; try again")


def _restore_row(catalog: Catalog, before: Marker, location: str, target: Identifier) -> None:
    """Commit the row of the restored table. A root table that had no row gets none."""
    if catalog.manifest is None:
        return
    row = Row(object_id(target), TABLE, location, properties_json(before.properties))
    needs_row = before.properties is not None or not is_root_table(target, location)
    versions = managed.list_versions_to_import(catalog, location)

    def plan(draft: Draft) -> None:
        existing = draft.get(row.object_id)
        if existing is not None and existing.location == location:
            draft.remove(row.object_id)
        table_rows.require_restorable(draft, target)
        if needs_row:
            draft.put(row)
            version_rows.import_rows(draft, row.object_id, versions)

    catalog.manifest.mutate(plan)
