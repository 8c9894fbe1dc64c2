"""Drop: a table is gone for everybody at once, its data stays until it is purged.

A table in a hashed directory is hidden by its manifest row, which moves to the trash; a root table by the marker
beside it, and the row follows. See docs/concepts/lifecycle.md.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import layout, protection, purge_proof
from pennon.directory.claims import claim
from pennon.directory.claims.marker import DELETED, Marker, milliseconds
from pennon.directory.lifecycle import deregister
from pennon.directory.lookup.listing import look_at
from pennon.directory.lookup.resolve import Found, is_root_table
from pennon.directory.manifest import TABLE, Draft, Row
from pennon.directory.manifest_tables import trash
from pennon.directory.root_tables import purge
from pennon.errors import TableNotFoundError, UnusableEntryError
from pennon.identifiers import Identifier, format_identifier, object_id, table_not_found

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog

_ATTEMPTS = 8


@dataclass(frozen=True)
class Dropped:
    """A table that was dropped just now."""

    location: str
    properties: dict[str, str] | None
    deletion_id: str
    trashed: trash.Trashed | None = None


def drop_for_good(catalog: Catalog, identifier: Identifier, *, force: bool = False) -> Dropped:
    """Drop a table and purge it at once. A crash in between leaves it dropped, with its time over."""
    dropped = drop(catalog, identifier, 0, force=force, for_good=True)
    if dropped.trashed is not None:
        (outcome,) = purge.purge_trashed(catalog, [dropped.trashed], force=True)
        if isinstance(outcome, Exception):
            raise outcome
    else:
        purge.purge_root_table(catalog, identifier[0], dropped.deletion_id, force=True)
    return dropped


def drop(
    catalog: Catalog, identifier: Identifier, ttl_ms: int, *, force: bool = False, for_good: bool = False
) -> Dropped:
    """Drop a table; its data is purgeable after `ttl_ms`. With `for_good`, only what can be purged then is dropped.

    The commit point for a hashed directory is the manifest commit that moves its row to the trash; for a root table it
    is the marker that hides it. After a crash in between, the marker counts, and the row is dead.
    """
    row = _known_row(catalog, identifier)
    if row is not None and not is_root_table(identifier, str(row.location)):
        return _drop_by_row(catalog, identifier, ttl_ms, force=force, for_good=for_good)
    for _ in range(_ATTEMPTS):
        try:
            found = catalog.resolver.find(identifier, marker=False)
        except UnusableEntryError:
            row = _known_row(catalog, identifier)
            if row is None or is_root_table(identifier, str(row.location)):
                raise
            # The row alone goes; its location is left alone, now and when it is purged.
            return _drop_by_row(catalog, identifier, ttl_ms, force=force, for_good=for_good)
        if found is None or _belongs_elsewhere(catalog, found):
            break
        if not found.is_root_table:
            return _drop_by_row(catalog, identifier, ttl_ms, force=force, for_good=for_good)
        if for_good:
            catalog.store.require_conditional_writes()
            if not _prove_root_table(catalog, found):
                continue
        dropped = _drop_root_table(catalog, found, ttl_ms, force=force)
        if dropped is not None:
            return dropped
    raise table_not_found(identifier)


def _known_row(catalog: Catalog, identifier: Identifier) -> Row | None:
    """Find a table's row in memory; the commit that takes it out makes sure of it."""
    if catalog.manifest is None:
        return None
    row = catalog.manifest.peek(lambda snapshot: snapshot.get(object_id(identifier)))
    return row if row is not None and row.object_type == TABLE and row.location is not None else None


def _belongs_elsewhere(catalog: Catalog, found: Found) -> bool:
    deregistered = found.directory is not None and found.directory.deregistered
    return found.row is None and deregistered and deregister.has_moved(catalog, found.identifier[0])


def _drop_by_row(catalog: Catalog, identifier: Identifier, ttl_ms: int, *, force: bool, for_good: bool) -> Dropped:
    key = object_id(identifier)
    deletion = trash.Deletion(milliseconds(), ttl_ms)
    manifest = catalog.require_manifest("drop_table")
    if for_good:
        known = manifest.peek(lambda snapshot: snapshot.get(key))
        if known is not None:
            try:
                purge.prove_purgeable(catalog, key, known)
            except purge_proof.NotProvenError:
                # If the row has changed since, another caller may be purging the table: the plan below finds out.
                if manifest.read(lambda snapshot: snapshot.get(key)) == known:
                    raise

    def plan(draft: Draft) -> trash.Trashed:
        row = draft.get(key)
        if row is None or row.object_type != TABLE or not draft.parent_exists(key):
            raise table_not_found(identifier)
        protection.require_unprotected(row, force=force)
        return trash.put_into(draft, row, deletion)

    trashed = manifest.mutate(plan)
    _hide_former_root_table(catalog, identifier, trashed)
    return Dropped(str(trashed.original.location), trashed.original.properties(), trashed.deletion_id, trashed)


def _hide_former_root_table(catalog: Catalog, identifier: Identifier, trashed: trash.Trashed) -> None:
    """Hide the directory of a renamed root table from listings of the root, if whoever renamed it died before."""
    location = str(trashed.original.location)
    name = purge.former_root_table(object_id(identifier), location)
    if name is not None and look_at(catalog.store, location, name=name).visible:
        deregister.hide_root_table(catalog, name, moved=True)


def _prove_root_table(catalog: Catalog, found: Found) -> bool:
    """Raise NotProvenError unless the directory is a table; False if another caller is purging it or has purged it."""
    try:
        purge_proof.require_table(catalog.store, found.location)
    except purge_proof.NotProvenError:
        still_there = look_at(catalog.store, found.location).has_files
        if claim.read(catalog.store, found.identifier[0]) is None and still_there:
            raise
        _settle_other(catalog, found.identifier)
        return False
    return True


def _drop_root_table(catalog: Catalog, found: Found, ttl_ms: int, *, force: bool) -> Dropped | None:
    """Hide a root table by its marker; None if a dead client's work had to be settled first."""
    name, directory = found.identifier[0], found.directory
    if directory is None or not directory.has_files:
        raise table_not_found(found.identifier)
    if catalog.manifest is not None:
        catalog.manifest.require_writable(validated=True)
    protection.require_unprotected_directory(found.identifier, directory, force=force)
    marker = Marker(
        DELETED,
        deletion_id=uuid.uuid4().hex,
        deleted_at_ms=milliseconds(),
        ttl_ms=ttl_ms,
        properties=None if found.row is None else found.row.properties(),
        deregistered=directory.deregistered,
    ).renewed()
    e_tag = catalog.store.create(layout.deleted(name), marker.body())
    if e_tag is None:
        _settle_other(catalog, found.identifier, marker)
        return None
    if not look_at(catalog.store, found.location).has_files:
        # Somebody else has dropped and purged it since it was found.
        claim.remove(catalog.store, claim.Standing(name, marker, e_tag))
        raise table_not_found(found.identifier)
    deregister.hide_dropped(catalog, name, marker)
    properties = found.row.properties() if found.row is not None else None if catalog.manifest is None else {}
    return Dropped(found.location, properties, marker.deletion_id)


def _settle_other(catalog: Catalog, identifier: Identifier, wanted: Marker | None = None) -> None:
    """Find out what marker is in the way of `wanted`: a drop that came first, somebody at work, or somebody dead."""
    name = identifier[0]
    current = claim.read(catalog.store, name)
    if current is None:
        return
    if current.marker is None:
        # A body that counts as absent is in the way of put-if-absent, and nothing else.
        claim.remove(catalog.store, current)
        return
    if current.marker.state == DELETED and (wanted is None or current.marker.nonce != wanted.nonce):
        raise TableNotFoundError(f"Table not found: {format_identifier(identifier)}; it is dropped already")
    if current.marker.state != DELETED and not current.marker.is_over:
        raise claim.not_available(current)
    purge.settle(catalog, current)
