"""Setting a dropped root table aside: it gets a name and a directory of its own, and its old name is free.

Whoever declares a table is told a directory and writes the first version there without knowing the catalog, so nothing
of a dropped table may be in it. Where there is a manifest the new table gets another directory; in V1 the directory is
named after the table, so the dropped one makes room.

1. The marker of the dropped table is claimed, as for a restoration: after a crash it is dropped again.
2. Its files are copied within the store, on a disk as links, under a marker that says `purging`: after a crash the copy
   is purged.
3. If nothing was written since, and the claim still stands, the marker of the copy says `deleted`. From then on the
   copy is the dropped table.
4. The claim is given back, with a deletion id of its own, and what it names is purged.

If the last step fails before it deletes anything, the copy goes. A crash between the last two leaves the table dropped
twice, which costs space until one of the two is purged.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.claims import claim
from pennon.directory.claims.marker import (
    DELETED,
    LEASE_SECONDS,
    PURGE,
    PURGING,
    REVIVING,
    UNDROP,
    Marker,
    milliseconds,
)
from pennon.directory.lookup.listing import look_at
from pennon.directory.root_tables import purge
from pennon.errors import ConcurrentModificationError, TableNotFoundError
from pennon.identifiers import MAX_BYTES

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.store import Store

_COPIED_PER_LEASE_SECOND = 20_000_000
_ADDITION = "-dropped-"
_DIGITS = 8


def set_aside(catalog: Catalog, name: str) -> None:
    """Move a dropped root table to a name of its own, under which it is dropped as before.

    Raises ConcurrentModificationError if another client is at work on the table or writes to it, and
    UnsupportedOperationError if the store cannot delete root tables safely.
    """
    store = catalog.store
    store.require_conditional_writes()
    current = claim.read(store, name)
    before = None if current is None else current.marker
    if current is None or before is None:
        return
    if before.state != DELETED:
        raise claim.held_by_another(name)
    location = layout.root_table(name)
    amount = store.measure(location)
    seconds = LEASE_SECONDS + amount.size / _COPIED_PER_LEASE_SECOND
    held = claim.move(store, current, Marker(REVIVING, prior=before).leased(REVIVING, UNDROP, seconds))
    if held is None:
        raise claim.held_by_another(name)
    copy = None
    rest = replace(before, deletion_id=uuid.uuid4().hex)
    try:
        if look_at(store, location).has_files:
            copying = _copied(catalog, name, before, seconds)
            try:
                held = _moved(store, held, held.marker or before)
                copy = _moved(store, copying, before)
            finally:
                if copy is None:
                    purge.clear(store, copying)
        held = _moved(store, held, rest)
        purge.purge_root_table(catalog, name, rest.deletion_id, force=True)
    except BaseException as error:
        claim.move(store, held, before)
        if copy is not None and _is_intact(catalog, name, {before.deletion_id, rest.deletion_id}):
            purge.clear(store, copy)
        if isinstance(error, TableNotFoundError):
            raise claim.held_by_another(name) from error
        raise


def _copied(catalog: Catalog, name: str, before: Marker, seconds: float) -> claim.Standing:
    """Copy a dropped table under a new name, and return the marker of the copy, which says `purging`."""
    store, location = catalog.store, layout.root_table(name)
    aside = _new_name(name)
    target = layout.root_table(aside)
    copying = Marker(PURGING, deletion_id=uuid.uuid4().hex, deleted_at_ms=milliseconds())
    copy = claim.take(
        store, aside, copying.leased(PURGING, PURGE, seconds), lambda standing: purge.settle(catalog, standing)
    )
    try:
        directory = look_at(store, location)
        if directory.reserved:
            store.put(layout.declared(target), layout.MARKER_BODY)
        if before.deregistered:
            store.put(layout.deregistered(aside), layout.MARKER_BODY)
        store.copy_tree(location, target)
        _require_same(store, location, target)
    except BaseException:
        purge.clear(store, copy)
        raise
    return copy


def _require_same(store: Store, location: str, target: str) -> None:
    """Raise ConcurrentModificationError if somebody wrote to the table since it was copied."""
    if store.measure(location) != store.measure(target):
        raise ConcurrentModificationError(f"The dropped table at {location!r} is being written to; try again later")


def _moved(store: Store, held: claim.Standing, to: Marker) -> claim.Standing:
    moved = claim.move(store, held, to)
    if moved is None:
        raise claim.held_by_another(held.name)
    return moved


def _is_intact(catalog: Catalog, name: str, deletion_ids: set[str]) -> bool:
    """Return True if what was copied is still dropped: only then it has all its files, and the copy is one too many."""
    current = claim.read(catalog.store, name)
    marker = None if current is None else current.marker
    dropped = marker if marker is None or marker.state == DELETED else marker.prior
    return dropped is not None and bool(dropped.deletion_id) and dropped.deletion_id in deletion_ids


def _new_name(name: str) -> str:
    addition = f"{_ADDITION}{uuid.uuid4().hex[:_DIGITS]}"
    return name.encode()[: MAX_BYTES - len(addition)].decode(errors="ignore") + addition
