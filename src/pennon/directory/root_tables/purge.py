"""Purge: deleting the data of dropped tables for good, and bringing to rest what dead clients left half done.

Exactly one of purge, undrop and re-creation wins. For tables in hashed directories the manifest's commits decide, and
as directories are never used twice, plain deletes are safe. For root tables the marker decides, and names that come
again are deleted fenced (`Store.purge_tree`), so that a purger which was stopped and goes on later destroys nothing
of a table made since. What is deleted is proven to be a dropped table first (`purge_proof`).
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout, protection, purge_proof
from pennon.directory.claims import claim
from pennon.directory.claims.marker import (
    CREATE,
    DELETED,
    LEASE_SECONDS,
    PURGE,
    PURGING,
    REVIVING,
    UNREADABLE,
    Marker,
    milliseconds,
)
from pennon.directory.lifecycle import deregister
from pennon.directory.lookup.listing import look_at
from pennon.directory.manifest import TABLE, Draft
from pennon.directory.manifest_tables import trash
from pennon.directory.purge_proof import NotProvenError
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableNotFoundError,
    translate_errors,
)
from pennon.identifiers import format_identifier
from pennon.store import Amount, LeaseExpiredError
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    # Before the claim: what cannot be proven to be a table stays as it is, and can be restored.
    proofs = catalog.store.map(lambda entry: _prove(catalog, entry), wanted)

    def claim_all(draft: Draft) -> list[str | LanceNamespaceError | None]:
        return [_claimed(draft, entry, proof=proof, force=force) for entry, proof in zip(wanted, proofs, strict=True)]

    claimed = manifest.mutate(claim_all)
    outcomes = catalog.store.map(lambda location: _deleted(catalog, location), claimed)

    def settle_rows(draft: Draft) -> None:
        for entry, outcome in zip(wanted, outcomes, strict=True):
            row = draft.get(entry.key)
            if row is None:
                continue
            if isinstance(outcome, Amount):
                draft.remove(entry.key)
            elif isinstance(outcome, NotProvenError) and entry.state == trash.DROPPED:
                # Nothing was deleted: it can still be restored.
                draft.put(replace(entry, state=trash.DROPPED).row())

    manifest.mutate(settle_rows)
    return outcomes


def _prove(catalog: Catalog, entry: trash.Trashed) -> str | LanceNamespaceError | None:
    try:
        with translate_errors(f"purge of {format_identifier(entry.identifier)}"):
            return prove_purgeable(catalog, entry.key, entry.original, begun=entry.state == trash.PURGING)
    except LanceNamespaceError as error:
        return error


def prove_purgeable(catalog: Catalog, key: str, row: Row, *, begun: bool = False) -> str | None:
    """Return the directory that goes with a row, or None if nothing goes: it names no place, or one that others name.

    Raises NotProvenError (19) unless the directory is surely a table's. `key` is the row's own.
    """
    if row.object_type != TABLE or row.location is None or not _is_sound(row):
        return None
    location = layout.checked_location(row.location)
    manifest = catalog.require_manifest("purge_table")
    if manifest.peek(lambda snapshot: _is_shared(Draft(snapshot), key, location)):
        return None
    name = former_root_table(row.object_id, location)
    if name is not None:
        _require_no_root_table(catalog.store, name, dropped=not trash.is_live(key))
    purge_proof.require_table(catalog.store, location, begun=begun)
    return location


def _is_shared(draft: Draft, key: str, location: str) -> bool:
    return any(other != key for other in draft.overlapping(location))


def former_root_table(object_id: str, location: str) -> str | None:
    """Give the name that the directory of a table had as a root table before it was renamed; None if it had none."""
    # Other clients choose `<8 hex digits>_t.lance` for a table that is called `t.lance`.
    chosen = purge_proof.is_hashed(location) and location.endswith(f"_{object_id}")
    return None if chosen else layout.root_table_name(location)


def _require_no_root_table(store: Store, name: str, *, dropped: bool) -> None:
    """Refuse the directory of a root table that is live or dropped by itself: rows name it only once it was renamed.

    Dropping the renamed table hides the directory, if that was not done before: once `dropped` it is visible no more.
    """
    directory = look_at(store, layout.root_table(name), name=name)
    standing = claim.read(store, name)
    marker = None if standing is None else standing.marker
    own = marker is not None and (
        marker.state in {DELETED, UNREADABLE} or bool(marker.deletion_id) or marker.prior is not None
    )
    if own or (dropped and directory.visible):
        raise NotProvenError(
            f"{directory.location!r} is the directory of the root table '{name}' and is kept. If it was dropped under "
            f"another name, restore it with undrop_table(..., as_id=['{name}']) and drop it again"
        )


def _claimed(
    draft: Draft, wanted: trash.Trashed, *, proof: str | LanceNamespaceError | None, force: bool
) -> str | LanceNamespaceError | None:
    """Mark one dropped object as being purged; returns the location to delete, if there is one."""
    row = draft.get(wanted.key)
    current = None if row is None else trash.understood(row)
    if row is None or current is None:
        return TableNotFoundError(f"Table {format_identifier(wanted.identifier)} is not dropped any more")
    if isinstance(proof, LanceNamespaceError):
        # Somebody else who purges it takes its files away.
        changed = current.state != wanted.state
        return (
            ConcurrentModificationError(f"Table {format_identifier(wanted.identifier)} is being purged")
            if changed
            else proof
        )
    try:
        protection.require_unprotected(current.original, force=force)
    except InvalidTableStateError as refused:
        return refused
    location = None if row.object_type != TABLE or row.location is None or not _is_sound(row) else row.location
    if location is not None:
        location = layout.checked_location(location)
        if _is_shared(draft, wanted.key, location):
            location = None
        elif location != proof:
            return ConcurrentModificationError(
                f"Table {format_identifier(wanted.identifier)} was changed while it was purged"
            )
    draft.put(replace(current, state=trash.PURGING).row())
    return location


def _deleted(catalog: Catalog, location: str | LanceNamespaceError | None) -> Amount | LanceNamespaceError:
    if isinstance(location, LanceNamespaceError):
        return location
    try:
        with translate_errors(f"purge of {location!r}"):
            return Amount() if location is None else _delete_location(catalog, location)
    except LanceNamespaceError as error:
        return error


def purge_root_table(catalog: Catalog, name: str, deletion_id: str | None = None, *, force: bool = False) -> Amount:
    """Delete a dropped root table. The claim is the swap of its marker from `deleted` to `purging`."""
    catalog.store.require_conditional_writes()
    current = claim.read(catalog.store, name)
    while current is not None and current.marker is not None and current.marker.is_over:
        settle(catalog, current)
        current = claim.read(catalog.store, name)
    if current is None or current.marker is None or current.marker.state != DELETED:
        if current is not None and current.marker is not None:
            raise claim.not_available(current)
        raise TableNotFoundError(f"Table '{name}' is not dropped")
    marker = current.marker
    if deletion_id not in {None, marker.deletion_id}:
        raise TableNotFoundError(f"Table '{name}' is not dropped under the deletion id {deletion_id!r}")
    if not force:
        directory = look_at(catalog.store, layout.root_table(name))
        protection.require_unprotected_directory((name,), directory, force=force)
    try:
        purge_proof.require_table(catalog.store, layout.root_table(name))
    except NotProvenError:
        now = claim.read(catalog.store, name)
        if now is None or now.e_tag != current.e_tag:
            # Somebody else who purges it takes its files away.
            raise claim.held_by_another(name) from None
        raise
    held = claim.move(catalog.store, current, marker.leased(PURGING, PURGE))
    if held is None:
        raise claim.held_by_another(name)
    return _finish(catalog, held, proven=True)


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
            deregister.hide_dropped(catalog, name, restored)
        return
    directory = look_at(store, layout.root_table(name))
    if directory.has_versions or directory.reserved:
        claim.remove(store, current)
    else:
        clear(store, current)


def clear(store: Store, held: claim.Standing) -> None:
    """Delete what a creation on a free name left, under a marker that says so, then the marker.

    Once it says `purging`, the creator cannot be acknowledged any more, and what it commits late goes too. A directory
    that holds what no creation leaves is left alone.
    """
    location = layout.root_table(held.name)
    if purge_proof.foreign_entries(store.list_names(location)):
        claim.remove(store, held)
        return
    moved = None if held.marker is None else claim.move(store, held, Marker(PURGING).leased(PURGING, PURGE))
    if moved is None:
        return
    with _given_up_on_error(store, moved):
        _, moved = _deleted_under(store, moved, location, [layout.declared(location)])
    claim.remove(store, moved)


def _finish(catalog: Catalog, held: claim.Standing, *, proven: bool = False) -> Amount:
    """Delete the directory of a root table under a marker that says `purging`, then the marker."""
    store, name = catalog.store, held.name
    location = layout.root_table(name)
    if not proven:
        with _given_up_on_error(store, held):
            purge_proof.require_table(store, location, begun=True)
    siblings = [layout.deregistered(name), layout.declared(location)]
    if catalog.manifest is not None:
        catalog.manifest.mutate(lambda draft: deregister.take_root_row(draft, name))
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
            except LeaseExpiredError as over:
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
        return catalog.store.delete_tree(location, first=naming.VERSIONS_FOLDER, also=[layout.declared(location)])
    store = catalog.store
    store.require_conditional_writes()
    held = claim.take(store, name, Marker(PURGING).leased(PURGING, PURGE), lambda current: settle(catalog, current))
    prior = None if held.marker is None else held.marker.prior
    if prior is not None or (look_at(store, location).visible and not purge_proof.is_hashed(location)):
        # It has become a root table of its own since it was looked at.
        if prior is None:
            claim.remove(store, held)
        else:
            claim.move(store, held, prior)
        raise NotProvenError(f"{location!r} has become the root table '{name}' and is kept")
    return _finish(catalog, held)
