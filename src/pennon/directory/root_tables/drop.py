"""Drop a root table: write the marker that hides it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pennon.directory import layout, protection, purge_proof
from pennon.directory.clock import now_ms
from pennon.directory.lookup.directories import look_at
from pennon.directory.markers import claim, deregistration
from pennon.directory.markers.claim import Claim
from pennon.directory.markers.marker import DELETED, Marker
from pennon.directory.root_tables.settle import settle
from pennon.directory.root_tables.visibility import delete_inner_marker, hide_dropped
from pennon.directory.table_rows import DropResult
from pennon.errors import TableNotFoundError
from pennon.identifiers import Identifier, format_identifier, table_not_found
from pennon.store import call_together

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable
    from pennon.directory.markers.claim import StoredMarker


def drop(
    catalog: Catalog, table: ResolvedTable, ttl_ms: int, *, force: bool, for_good: bool
) -> DropResult[StoredMarker] | None:
    """Drop a root table; None if the caller must look it up again because another client changed it.

    The commit point is the marker. A crash after it leaves a dead row. With `for_good` the directory is first proven to
    be a table that can be purged, or NotProvenError is raised. Raises TableNotFoundError if the table does not exist,
    InvalidTableStateError if it is protected, ConcurrentModificationError if another client holds it.
    """
    store, name, directory = catalog.store, table.identifier[0], table.directory
    if directory is None or not directory.has_files or _belongs_to_another(catalog, table):
        raise _not_found(table.identifier)
    if for_good:
        store.require_conditional_writes()
        if not _prove_table(catalog, table):
            return None
    if catalog.manifest is not None:
        catalog.manifest.require_writable(validated=True)
    protection.require_unprotected_directory(table.identifier, directory, force=force)
    marker = Marker(
        DELETED,
        deletion_id=uuid.uuid4().hex,
        deleted_at_ms=now_ms(),
        ttl_ms=ttl_ms,
        properties=table.properties(),
        deregistered=directory.deregistered,
    )
    written = claim.write_if_free(store, name, marker)
    if not isinstance(written, Claim):
        if written is not None:
            _settle_other(catalog, table.identifier, written)
        return None
    if not _hide(catalog, table.location, name, marker) and written.complete():
        # Another client dropped and purged the table before it had this marker. After it, that is no error.
        raise _not_found(table.identifier)
    properties = {} if table.row is None and catalog.manifest is not None else table.properties()
    return DropResult(table.location, properties, written.hand_over())


def _hide(catalog: Catalog, location: str, name: str, marker: Marker) -> bool:
    """Hide a table that has its marker; False if there is no table any more. In a bucket, both run at the same time."""
    store = catalog.store
    if store.is_local or marker.deregistered:
        if not look_at(store, location).has_files:
            return False
        hide_dropped(catalog, name, marker)
        return True
    names, _ = call_together(store, lambda: store.list_names(location), lambda: hide_dropped(catalog, name, marker))
    if names - {layout.DEREGISTERED_MARKER}:
        return True
    delete_inner_marker(store, name, marker)
    return False


def _belongs_to_another(catalog: Catalog, table: ResolvedTable) -> bool:
    """Return True if the directory belongs to a table that was renamed."""
    return table.row is None and table.is_deregistered and deregistration.is_renamed(catalog.store, table.identifier[0])


def _prove_table(catalog: Catalog, table: ResolvedTable) -> bool:
    """Raise NotProvenError unless the directory is a table; False if another client purges or has purged it."""
    store, name = catalog.store, table.identifier[0]
    try:
        purge_proof.require_table(store, table.location)
    except purge_proof.NotProvenError:
        still_there = look_at(store, table.location).has_files
        current = claim.read_marker(store, name)
        if current is None and still_there:
            raise
        if current is not None:
            _settle_other(catalog, table.identifier, current)
        return False
    return True


def _settle_other(catalog: Catalog, identifier: Identifier, current: StoredMarker) -> None:
    """Settle a marker that is in the way, or raise what it means: the table is dropped, or held by another client."""
    if current.marker.state == DELETED:
        raise TableNotFoundError(f"Table not found: {format_identifier(identifier)}; it is dropped already")
    if not current.marker.is_expired:
        raise claim.unavailable_error(current)
    settle(catalog, current)


def _not_found(identifier: Identifier) -> TableNotFoundError:
    return table_not_found(identifier)
