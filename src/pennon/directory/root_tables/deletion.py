"""Delete the directory of a root table under a claim on its name.

The name can be used again, so everything is deleted fenced (`Store.purge_tree`): a client that was stopped and
continues late destroys nothing of a table that was created since.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout, purge_proof, table_rows
from pennon.directory.markers import claim
from pennon.directory.markers.marker import PURGE, PURGING, Marker
from pennon.errors import ConcurrentModificationError
from pennon.store import Amount, LeaseExpiredError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.markers.claim import Claim, StoredMarker
    from pennon.store import Store


def delete_table(catalog: Catalog, held: Claim, *, proven: bool = False) -> Amount:
    """Delete a root table under a claim with the state `purging`: its row, its directory, then the marker.

    Raises NotProvenError if the directory may be something else, unless that was `proven` before.
    """
    store, name = catalog.store, held.name
    location = layout.root_table(name)
    with _expire_on_error(held):
        if not proven:
            purge_proof.require_table(store, location, begun=True)
        if catalog.manifest is not None:
            catalog.manifest.mutate(lambda draft: table_rows.remove_root_row(draft, name))
        removed = _delete_directory(
            store, held, location, [layout.deregistered_marker(name), layout.declared_marker(location)]
        )
    held.remove()
    return removed


def delete_failed_creation(store: Store, current: StoredMarker) -> None:
    """Delete what a creation on a free name left, then the marker.

    First the marker gets the state `purging`: then the creator can no longer succeed, and what it commits late is
    deleted too. A directory with anything that no creation leaves is kept.
    """
    location = layout.root_table(current.name)
    if purge_proof.foreign_entries(store.list_names(location)):
        claim.remove_marker(store, current)
        return
    held = claim.try_take_over(store, current, Marker(PURGING).with_lease(PURGING, PURGE))
    if held is None:
        return
    with _expire_on_error(held):
        _delete_directory(store, held, location, [layout.declared_marker(location)])
    held.remove()


def delete_entry(store: Store, held: Claim, path: str) -> None:
    """Delete a file or directory of a root table, if the claim is still held and its lease is long enough."""
    with store.exclusive(held.name):
        if not held.is_held():
            return
        try:
            store.purge_tree(path, also=[], seconds=held.seconds_left(), still_mine=held.is_held)
        except LeaseExpiredError:
            raise claim.held_by_another(held.name) from None


def delete_leftovers(store: Store, location: str, error: BaseException) -> None:
    """Delete the data files that a failed write left in a table's directory, as its error lists them."""
    files = [layout.inside(location, path) for path in getattr(error, "leftovers", ())]
    if files:
        store.delete(*files)


@contextmanager
def _expire_on_error(held: Claim) -> Iterator[None]:
    """If the deletion fails, keep the marker and let its lease expire, so that the next client continues."""
    try:
        yield
    except BaseException:
        held.end(replace(held.marker, lease_until_ms=0, owner=""))
        raise


def _delete_directory(store: Store, held: Claim, location: str, siblings: Sequence[str]) -> Amount:
    """Delete a directory and the files beside it, and renew the lease for as long as that takes."""
    removed = Amount()
    while True:
        with store.exclusive(held.name):
            if not held.is_held():
                raise _taken_over(held)
            try:
                part = store.purge_tree(location, also=siblings, seconds=held.seconds_left(), still_mine=held.is_held)
            except LeaseExpiredError as over:
                removed += over.removed
            else:
                return removed + part
        held.update(held.marker.with_lease(PURGING, PURGE))


def _taken_over(held: Claim) -> ConcurrentModificationError:
    return ConcurrentModificationError(f"The purge of table '{held.name}' was taken over by another client")
