"""Set a dropped root table aside, so that its directory is free for a new declaration.

A client that declares a table gets a directory and writes the first version there without asking the catalog, so
nothing of a dropped table may be in it. With a manifest the new table gets another directory. In V1 the directory is
named after the table, so the dropped table moves to another name:

1. The marker of the dropped table is claimed, as for a restoration. After a crash the table is dropped as before.
2. Its files are copied within the store, as links on a disk, under a marker with the state `purging`. After a crash the
   copy is purged.
3. If nothing was written since, and the claim is still held, the marker of the copy gets the state `deleted`. From then
   on the copy is the dropped table.
4. The claim ends with a new deletion id, and what has that id is purged.

If the last step fails before it deletes anything, the copy is deleted. A crash between the last two steps leaves the
table dropped twice, which costs space until one of the two is purged.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.clock import now_ms
from pennon.directory.lookup.directories import look_at
from pennon.directory.markers import claim
from pennon.directory.markers.marker import DELETED, LEASE_SECONDS, PURGE, PURGING, REVIVING, UNDROP, Marker
from pennon.directory.root_tables.deletion import delete_failed_creation
from pennon.directory.root_tables.purge import purge_table
from pennon.directory.root_tables.settle import acquire_claim
from pennon.errors import ConcurrentModificationError, TableNotFoundError
from pennon.identifiers import MAX_BYTES

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.markers.claim import Claim, StoredMarker
    from pennon.store import Store

_COPIED_PER_LEASE_SECOND = 20_000_000
_ADDITION = "-dropped-"
_DIGITS = 8


def set_aside(catalog: Catalog, name: str) -> None:
    """Move a dropped root table to a new name, under which it is dropped as before.

    Raises ConcurrentModificationError if another client holds the table or writes to it, UnsupportedOperationError if
    the store cannot delete root tables safely.
    """
    store = catalog.store
    store.require_conditional_writes()
    current = claim.read_marker(store, name)
    if current is None:
        return
    before = current.marker
    if before.state != DELETED:
        raise claim.held_by_another(name)
    location = layout.root_table(name)
    seconds = LEASE_SECONDS + store.measure(location).size / _COPIED_PER_LEASE_SECOND
    held = claim.take_over(store, current, Marker(REVIVING, prior=before).with_lease(REVIVING, UNDROP, seconds))
    copy: StoredMarker | None = None
    obsolete = replace(before, deletion_id=uuid.uuid4().hex)
    try:
        if look_at(store, location).has_files:
            copying = _copy(catalog, name, before, seconds)
            try:
                held.renew()
                copy = _publish(copying, before)
            finally:
                if copy is None:
                    delete_failed_creation(store, copying.hand_over())
        held.update(obsolete)
        purge_table(catalog, name, obsolete.deletion_id, force=True)
    except BaseException as error:
        held.end(before)
        if copy is not None and _is_intact(catalog, name, {before.deletion_id, obsolete.deletion_id}):
            delete_failed_creation(store, copy)
        if isinstance(error, TableNotFoundError):
            raise claim.held_by_another(name) from error
        raise


def _copy(catalog: Catalog, name: str, before: Marker, seconds: float) -> Claim:
    """Copy a dropped table under a new name, and return the claim on the copy, which has the state `purging`."""
    store, location = catalog.store, layout.root_table(name)
    new_name = _choose_name(name)
    target = layout.root_table(new_name)
    marker = Marker(PURGING, deletion_id=uuid.uuid4().hex, deleted_at_ms=now_ms())
    copying = acquire_claim(catalog, new_name, marker.with_lease(PURGING, PURGE, seconds))
    try:
        if look_at(store, location).reserved:
            store.put(layout.declared_marker(target), layout.MARKER_BODY)
        if before.deregistered:
            store.put(layout.deregistered_marker(new_name), layout.MARKER_BODY)
        store.copy_tree(location, target)
        _require_same(store, location, target)
    except BaseException:
        delete_failed_creation(store, copying.hand_over())
        raise
    return copying


def _publish(copying: Claim, dropped: Marker) -> StoredMarker:
    """Make the copy a dropped table."""
    published = copying.end(dropped)
    if published is None:
        raise claim.held_by_another(copying.name)
    return published


def _require_same(store: Store, location: str, target: str) -> None:
    """Raise ConcurrentModificationError if the table was written to since it was copied."""
    if store.measure(location) != store.measure(target):
        raise ConcurrentModificationError(f"The dropped table at {location!r} is being written to; try again later")


def _is_intact(catalog: Catalog, name: str, deletion_ids: set[str]) -> bool:
    """Return True if the original is still dropped. Then it has all its files, and the copy is not needed."""
    current = claim.read_marker(catalog.store, name)
    marker = None if current is None else current.marker
    dropped = marker if marker is None or marker.state == DELETED else marker.prior
    return dropped is not None and bool(dropped.deletion_id) and dropped.deletion_id in deletion_ids


def _choose_name(name: str) -> str:
    addition = f"{_ADDITION}{uuid.uuid4().hex[:_DIGITS]}"
    return name.encode()[: MAX_BYTES - len(addition)].decode(errors="ignore") + addition
