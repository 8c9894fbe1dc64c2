"""Settle what dead clients left of root tables: expired claims, and rows whose directory is gone.

An expired claim is completed or undone. A root table exists by its directory: if another client dropped or deregistered
it, its row is dead, does not keep the name, and is removed when the name is needed again (ADR 0006).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pennon.directory import layout, table_rows
from pennon.directory.lookup.directories import look_at, look_at_root_table
from pennon.directory.lookup.resolve import is_root_table
from pennon.directory.manifest import TABLE, Row, properties_json
from pennon.directory.markers import claim
from pennon.directory.markers.marker import CREATE, PURGE, PURGING, REVIVING, UNDROP, Marker
from pennon.directory.root_tables.deletion import delete_failed_creation, delete_table
from pennon.directory.root_tables.visibility import hide_dropped
from pennon.errors import NamespaceAlreadyExistsError, TableAlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pennon.directory.catalog import Catalog
    from pennon.directory.markers.claim import Claim, StoredMarker
    from pennon.identifiers import Identifier

T = TypeVar("T")


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
        if not directory.has_versions:
            # In a bucket, both files of a declaration are written at the same time: one may be missing.
            store.put(layout.declared_marker(directory.location), layout.MARKER_BODY)
        if marker.properties and catalog.manifest is not None:
            _complete_row(catalog, name, marker.properties, was_declared=directory.reserved)
        claim.remove_marker(store, current)
    else:
        delete_failed_creation(store, current)


def _complete_row(catalog: Catalog, name: str, properties: Mapping[str, str], *, was_declared: bool) -> None:
    """Commit the row of a root table whose creator died after it had written the table."""
    row = Row(name, TABLE, layout.root_table(name), properties_json(properties))
    # If another object has the name, the table stays without a row.
    with suppress(TableAlreadyExistsError):
        table_rows.update_root_row(catalog, row, was_declared=was_declared)


def retry_without_dead_row(catalog: Catalog, identifier: Identifier, act: Callable[[], T]) -> T:
    """Call a function that needs a name; if a dead row is in the way, remove the row and call it again."""
    try:
        return act()
    except (TableAlreadyExistsError, NamespaceAlreadyExistsError):
        if not _remove_dead_row(catalog, identifier):
            raise
    return act()


def _remove_dead_row(catalog: Catalog, identifier: Identifier) -> bool:
    """Remove the row of a root table that does not exist, under a claim that excludes creators. False if it exists."""
    manifest = catalog.manifest
    if manifest is None or len(identifier) != 1:
        return False
    name = identifier[0]
    row = manifest.read(lambda snapshot: snapshot.get(name))
    if row is None or row.object_type != TABLE or not is_root_table(identifier, str(row.location)):
        return False
    if look_at_root_table(catalog.store, name).visible:
        return False
    with acquire_claim(catalog, name, Marker(REVIVING).with_lease(REVIVING, UNDROP)) as held:
        if held.prior is None and look_at(catalog.store, layout.root_table(name)).visible:
            return False
        manifest.mutate(lambda draft: table_rows.remove_root_row(draft, name))
    return True
