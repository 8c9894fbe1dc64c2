"""Purge: deleting the data of dropped tables for good, and bringing to rest what dead clients left half done.

Exactly one of purge, undrop and re-creation wins. For tables in hashed directories the manifest's commits decide, and
as directories are never used twice, plain deletes are safe. For root tables the marker decides, and names that come
again are deleted fenced (`Store.purge_tree`), so that a purger which was stopped and goes on later destroys nothing
of a table made since.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import claim, layout, protection, removal, trash
from pennon.directory.listing import look_at
from pennon.directory.manifest import TABLE, Draft
from pennon.directory.marker import CREATE, DELETED, LEASE_SECONDS, PURGE, PURGING, REVIVING, Marker, milliseconds
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableNotFoundError,
    translated,
)
from pennon.identifiers import shown
from pennon.store import Amount, LeaseOver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Row
    from pennon.store import Store

_log = logging.getLogger(__name__)


def purge_trashed(
    catalog: Catalog, wanted: Sequence[trash.Trashed], *, force: bool = False
) -> list[Amount | LanceNamespaceError]:
    """Delete dropped tables and namespaces that the manifest knows; says for each what went, or why nothing did.

    The claim is the manifest commit that says `purging`: from then on nobody can restore them. A crash leaves those
    rows, and the next purge goes on. A last commit removes the rows of those that are gone.
    """
    manifest = catalog.require_manifest("purge_table")
    claimed = manifest.mutate(lambda draft: [_claimed(draft, entry, force=force) for entry in wanted])

    def deleting(location: str | LanceNamespaceError | None) -> Callable[[], Amount | LanceNamespaceError]:
        return lambda: _deleted(catalog, location)

    outcomes: list[Amount | LanceNamespaceError] = catalog.store.concurrently(
        [deleting(location) for location in claimed]
    )
    gone = [entry.key for entry, done in zip(wanted, outcomes, strict=True) if isinstance(done, Amount)]

    def forget(draft: Draft) -> None:
        for key in gone:
            if draft.get(key) is not None:
                draft.remove(key)

    manifest.mutate(forget)
    return outcomes


def _claimed(draft: Draft, wanted: trash.Trashed, *, force: bool) -> str | LanceNamespaceError | None:
    """Mark one dropped object as being purged; returns the location to delete, if there is one."""
    row = draft.get(wanted.key)
    current = None if row is None else trash.understood(row)
    if row is None or current is None:
        return TableNotFoundError(f"Table {shown(wanted.identifier)} is not dropped any more")
    try:
        protection.require_unprotected(current.original, force=force)
    except InvalidTableStateError as refused:
        return refused
    draft.put(replace(current, state=trash.PURGING).row())
    if row.object_type != TABLE or row.location is None or not _is_sound(row):
        return None
    shared = any(key != wanted.key for key in draft.overlapping(row.location))
    return None if shared else row.location


def _deleted(catalog: Catalog, location: str | LanceNamespaceError | None) -> Amount | LanceNamespaceError:
    if isinstance(location, LanceNamespaceError):
        return location
    try:
        with translated(f"purge of {location!r}"):
            return Amount() if location is None else _delete_location(catalog, location)
    except LanceNamespaceError as error:
        return error


def purge_root_table(catalog: Catalog, name: str, deletion_id: str | None = None, *, force: bool = False) -> Amount:
    """Delete a dropped root table. The claim is the swap of its marker from `deleted` to `purging`."""
    catalog.store.require_guard()
    current = claim.read(catalog.store, name)
    while current is not None and current.marker is not None and current.marker.is_over:
        settle(catalog, current)
        current = claim.read(catalog.store, name)
    if current is None or current.marker is None or current.marker.state != DELETED:
        if current is not None and current.marker is not None:
            raise claim.held_by_another(name)
        raise TableNotFoundError(f"Table '{name}' is not dropped")
    marker = current.marker
    if deletion_id not in {None, marker.deletion_id}:
        raise TableNotFoundError(f"Table '{name}' is not dropped under the deletion id {deletion_id!r}")
    if not force:
        directory = look_at(catalog.store, layout.root_table(name))
        protection.require_unprotected_directory((name,), directory, force=force)
    held = claim.move(catalog.store, current, marker.leased(PURGING, PURGE))
    if held is None:
        raise claim.held_by_another(name)
    return _finish(catalog, held)


def settle(catalog: Catalog, current: claim.Standing) -> None:
    """Bring a marker whose owner is dead, or has had its time, to rest; somebody else may do so first."""
    store, marker, name = catalog.store, current.marker, current.name
    if marker is None or not marker.is_over:
        return
    if marker.state == PURGING:
        held = claim.move(store, current, marker.leased(PURGING, PURGE))
        if held is not None:
            _finish(catalog, held)
        return
    if marker.state != REVIVING:
        return
    if marker.prior is not None:
        # Whoever was creating may still commit; a restoration has to burn the version that it would take.
        restored = replace(marker.prior, burn=marker.prior.burn or marker.what == CREATE)
        if claim.move(store, current, restored) is not None:
            removal.hide_dropped(catalog, name, restored)
        return
    directory = look_at(store, layout.root_table(name))
    if directory.has_versions or directory.reserved:
        claim.remove(store, current)
    else:
        clear(store, current)


def clear(store: Store, held: claim.Standing) -> None:
    """Delete what a creation on a free name left, under a marker that says so, then the marker.

    Once it says `purging`, the creator cannot be acknowledged any more, and what it commits late goes too.
    """
    location = layout.root_table(held.name)
    moved = None if held.marker is None else claim.move(store, held, Marker(PURGING).leased(PURGING, PURGE))
    if moved is None:
        return
    with _given_up_on_error(store, moved):
        _, moved = _deleted_under(store, moved, location, [layout.declared(location)])
    claim.remove(store, moved)


def _finish(catalog: Catalog, held: claim.Standing) -> Amount:
    """Delete the directory of a root table under a marker that says `purging`, then the marker."""
    store, name = catalog.store, held.name
    location = layout.root_table(name)
    siblings = [layout.deregistered(name), layout.declared(location)]
    if catalog.manifest is not None:
        catalog.manifest.mutate(lambda draft: removal.take_root_row(draft, name))
    with _given_up_on_error(store, held):
        removed, held = _deleted_under(store, held, location, siblings)
    claim.remove(store, held)
    return removed


@contextmanager
def _given_up_on_error(store: Store, held: claim.Standing) -> Iterator[None]:
    """Leave the marker in place, but to be taken over at once, if the deletion fails half-way."""
    try:
        yield
    except BaseException:
        if held.marker is not None:
            claim.move(store, held, replace(held.marker, lease_until_ms=0, owner=""))
        raise


def _deleted_under(
    store: Store, held: claim.Standing, location: str, siblings: list[str]
) -> tuple[Amount, claim.Standing]:
    """Delete a directory while the claim stands, renewing it as long as that takes."""
    name = held.name
    removed = Amount()
    while True:
        with store.exclusive(name):
            if not claim.is_mine(store, held):
                raise ConcurrentModificationError(f"The purge of table '{name}' was taken over by another client")
            try:
                part = store.purge_tree(
                    location,
                    also=siblings,
                    seconds=seconds_left(held),
                    still_mine=lambda held=held: claim.is_mine(store, held),  # type: ignore[misc]
                )
            except LeaseOver as over:
                removed += over.removed
            else:
                return removed + part, held
        renewed = None if held.marker is None else claim.move(store, held, held.marker.leased(PURGING, PURGE))
        if renewed is None:
            raise ConcurrentModificationError(f"The purge of table '{name}' was taken over by another client")
        held = renewed


def seconds_left(held: claim.Standing) -> float:
    """Tell for how long a claim may be relied on without looking again."""
    until = 0 if held.marker is None else held.marker.lease_until_ms
    return min(max((until - milliseconds()) / 1000, 0.0), LEASE_SECONDS)


def _is_sound(row: Row) -> bool:
    """Tell whether a row names a place that is a table's alone: another client may have written anything there."""
    try:
        layout.checked_location(str(row.location))
    except InvalidInputError:
        _log.warning("table %r had the location %r, which is left alone", row.object_id, row.location)
        return False
    return True


def _delete_location(catalog: Catalog, location: str) -> Amount:
    """Delete the directory of a row that is gone; one that carries a root table's name needs the claim on it."""
    name = layout.root_table_name(location)
    if name is None:
        return catalog.store.delete_tree(location, first=layout.VERSIONS, also=[layout.declared(location)])
    catalog.store.require_guard()
    held = claim.take(
        catalog.store, name, Marker(PURGING).leased(PURGING, PURGE), lambda current: settle(catalog, current)
    )
    return _finish(catalog, held)
