"""Purge dropped root tables: delete their data permanently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout, protection, purge_proof
from pennon.directory.lookup.directories import look_at
from pennon.directory.markers import claim
from pennon.directory.markers.marker import DELETED, PURGE, PURGING, Marker
from pennon.directory.purge_proof import NotProvenError
from pennon.directory.root_tables.deletion import delete_table
from pennon.directory.root_tables.settle import acquire_claim, read_settled_marker
from pennon.errors import LanceNamespaceError, TableNotFoundError, translate_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.markers.claim import StoredMarker
    from pennon.store import Amount


def purge(
    catalog: Catalog, dropped: Sequence[StoredMarker], *, force: bool = False
) -> list[Amount | LanceNamespaceError]:
    """Purge dropped root tables; returns for each what was deleted, or why nothing was."""
    return [purge_name(catalog, one.name, one.deletion_id, force=force) for one in dropped]


def purge_name(
    catalog: Catalog, name: str, deletion_id: str | None, *, force: bool = False
) -> Amount | LanceNamespaceError:
    """Purge the dropped root table with this name; returns what was deleted, or why nothing was."""
    try:
        with translate_errors(f"purge of '{name}'"):
            return purge_table(catalog, name, deletion_id, force=force)
    except LanceNamespaceError as error:
        return error


def purge_table(catalog: Catalog, name: str, deletion_id: str | None = None, *, force: bool = False) -> Amount:
    """Purge a dropped root table and return what was deleted.

    The commit point is the change of its marker from `deleted` to `purging`: then no client can restore the table. A
    crash leaves that marker, and the next purge continues. The directory is proven to be a table first.

    Raises TableNotFoundError if the table is not dropped, InvalidTableStateError if it is protected, NotProvenError if
    the directory may be something else, ConcurrentModificationError if another client holds the table.
    """
    store, location = catalog.store, layout.root_table(name)
    store.require_conditional_writes()
    current = read_settled_marker(catalog, name)
    if current is None:
        raise TableNotFoundError(f"Table '{name}' is not dropped")
    if current.marker.state != DELETED:
        raise claim.unavailable_error(current)
    if deletion_id not in {None, current.deletion_id}:
        raise TableNotFoundError(f"Table '{name}' is not dropped under the deletion id {deletion_id!r}")
    if not force:
        protection.require_unprotected_directory((name,), look_at(store, location), force=force)
    try:
        purge_proof.require_table(store, location)
    except NotProvenError:
        now = claim.read_marker(store, name)
        if now is None or now.e_tag != current.e_tag:
            # Another client purges the table and deletes its files.
            raise claim.held_by_another(name) from None
        raise
    held = claim.take_over(store, current, current.marker.with_lease(PURGING, PURGE))
    return delete_table(catalog, held, proven=True)


def purge_renamed(catalog: Catalog, name: str) -> Amount:
    """Purge the directory `<name>.lance` of a table that was renamed, and is in the trash under another name.

    Raises NotProvenError if a root table uses the directory again.
    """
    store, location = catalog.store, layout.root_table(name)
    store.require_conditional_writes()
    held = acquire_claim(catalog, name, Marker(PURGING).with_lease(PURGING, PURGE))
    is_used = held.prior is not None or (
        look_at(store, location).visible and not purge_proof.is_hashed_directory(location)
    )
    if is_used:
        held.release()
        raise NotProvenError(f"{location!r} has become the root table '{name}' and is kept")
    return delete_table(catalog, held)
