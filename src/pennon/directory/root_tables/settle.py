"""Settle expired claims on root tables: complete or undo what a dead client began."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.directories import look_at
from pennon.directory.markers import claim
from pennon.directory.markers.marker import CREATE, PURGE, PURGING, REVIVING, Marker
from pennon.directory.root_tables.deletion import delete_failed_creation, delete_table
from pennon.directory.root_tables.visibility import hide_dropped

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.markers.claim import Claim, StoredMarker


def acquire_claim(catalog: Catalog, name: str, wanted: Marker) -> Claim:
    """Claim a root table, and settle expired claims first.

    Raises ConcurrentModificationError if another client holds it, InvalidTableStateError if its marker cannot be read.
    """
    return claim.acquire(catalog.store, name, wanted, lambda current: settle(catalog, current))


def read_settled_marker(catalog: Catalog, name: str) -> StoredMarker | None:
    """Return the marker of a root table after expired claims were settled, or None if it has none."""
    current = claim.read_marker(catalog.store, name)
    while current is not None and current.marker.is_expired:
        settle(catalog, current)
        current = claim.read_marker(catalog.store, name)
    return current


def settle(catalog: Catalog, current: StoredMarker) -> None:
    """Settle one claim if it has expired. Another client may do so first."""
    store, marker, name = catalog.store, current.marker, current.name
    if not marker.is_expired:
        return
    if marker.state == PURGING:
        held = claim.try_take_over(store, current, marker.with_lease(PURGING, PURGE))
        if held is not None:
            delete_table(catalog, held)
        return
    if marker.state != REVIVING:
        return
    if marker.prior is not None:
        # A dead creator may still commit: then a restoration must replace the version that it would write.
        dropped = replace(marker.prior, burn=marker.prior.burn or marker.what == CREATE)
        if claim.replace_marker(store, current, dropped) is not None:
            hide_dropped(catalog, name, dropped)
        return
    directory = look_at(store, layout.root_table(name))
    if directory.has_versions or directory.reserved:
        claim.remove_marker(store, current)
    else:
        delete_failed_creation(store, current)
