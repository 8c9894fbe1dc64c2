"""Purge dropped manifest tables: delete their data permanently.

Commits of the manifest decide whether a purge or a restoration wins. Directories with hashed names are never used
twice, so plain deletes are safe. A renamed root table keeps its directory `<name>.lance` (ADR 0005), which is deleted
under a claim on that name. Each directory is proven to be a dropped table first (`purge_proof`).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout, protection, purge_proof
from pennon.directory.lookup.directories import look_at
from pennon.directory.manifest import TABLE, Draft, is_live
from pennon.directory.manifest_tables import trash
from pennon.directory.markers import claim
from pennon.directory.markers.marker import DELETED, UNREADABLE
from pennon.directory.purge_proof import NotProvenError
from pennon.directory.root_tables.purge import purge_renamed
from pennon.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableNotFoundError,
    translate_errors,
)
from pennon.identifiers import format_identifier
from pennon.store import Amount
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Row
    from pennon.store import Store

_log = logging.getLogger(__name__)


def purge(
    catalog: Catalog, dropped: Sequence[trash.TrashEntry], *, force: bool = False
) -> list[Amount | LanceNamespaceError]:
    """Purge dropped tables and namespaces of the manifest; returns for each what was deleted, or why nothing was.

    The commit point is the commit that sets their state to `purging`: then no client can restore them. A crash leaves
    those rows, and the next purge continues. A last commit removes the rows of everything that was deleted.
    """
    manifest = catalog.require_manifest("purge_table")
    # The proof comes before the claim: what cannot be proven to be a table can still be restored.
    proofs = catalog.store.map(lambda entry: _prove_entry(catalog, entry), dropped)

    def claim_all(draft: Draft) -> list[str | LanceNamespaceError | None]:
        return [
            _claim_entry(draft, entry, proof=proof, force=force) for entry, proof in zip(dropped, proofs, strict=True)
        ]

    claimed = manifest.mutate(claim_all)
    outcomes = catalog.store.map(lambda location: _delete_claimed(catalog, location), claimed)

    def remove_rows(draft: Draft) -> None:
        for entry, outcome in zip(dropped, outcomes, strict=True):
            if draft.get(entry.key) is None:
                continue
            if isinstance(outcome, Amount):
                draft.remove(entry.key)
            elif isinstance(outcome, NotProvenError) and entry.state == trash.DROPPED:
                # Nothing was deleted: the table can be restored.
                draft.put(replace(entry, state=trash.DROPPED).row())

    manifest.mutate(remove_rows)
    return outcomes


def prove_table(catalog: Catalog, key: str, row: Row, *, begun: bool = False) -> str | None:
    """Return the directory that belongs to a table's row alone, or None if no directory does.

    `key` is the id under which the row is stored. Raises NotProvenError if the directory may be something else.
    """
    location = _usable_location(row)
    if location is None:
        return None
    manifest = catalog.require_manifest("purge_table")
    if manifest.peek(lambda snapshot: _is_shared(Draft(snapshot), key, location)):
        return None
    name = former_root_table(row.object_id, location)
    if name is not None:
        _require_no_root_table(catalog.store, name, is_dropped=not is_live(key))
    purge_proof.require_table(catalog.store, location, begun=begun)
    return location


def former_root_table(object_id: str, location: str) -> str | None:
    """Return the name that a renamed table had as a root table, by its directory; None if it was none."""
    # Other clients choose `<8 hex digits>_t.lance` for a table with the name `t.lance`.
    is_hashed = purge_proof.is_hashed_directory(location) and location.endswith(f"_{object_id}")
    return None if is_hashed else layout.root_table_name(location)


def _prove_entry(catalog: Catalog, entry: trash.TrashEntry) -> str | LanceNamespaceError | None:
    try:
        with translate_errors(f"purge of {format_identifier(entry.identifier)}"):
            return prove_table(catalog, entry.key, entry.original, begun=entry.state == trash.PURGING)
    except LanceNamespaceError as error:
        return error


def _is_shared(draft: Draft, key: str, location: str) -> bool:
    return any(other != key for other in draft.overlapping(location))


def _require_no_root_table(store: Store, name: str, *, is_dropped: bool) -> None:
    """Raise NotProvenError if the directory of a renamed table belongs to a root table that is live or dropped.

    A drop of the renamed table hides the directory: if it is visible afterwards, another table uses it.
    """
    directory = look_at(store, layout.root_table(name), name=name)
    stored = claim.read_marker(store, name)
    marker = None if stored is None else stored.marker
    has_own_drop = marker is not None and (
        marker.state in {DELETED, UNREADABLE} or bool(marker.deletion_id) or marker.prior is not None
    )
    if has_own_drop or (is_dropped and directory.visible):
        raise NotProvenError(
            f"{directory.location!r} is the directory of the root table '{name}' and is kept. If it was dropped under "
            f"another name, restore it with undrop_table(..., as_id=['{name}']) and drop it again"
        )


def _claim_entry(
    draft: Draft, dropped: trash.TrashEntry, *, proof: str | LanceNamespaceError | None, force: bool
) -> str | LanceNamespaceError | None:
    """Set the state of a dropped object to `purging`; returns the location to delete, if there is one."""
    row = draft.get(dropped.key)
    current = None if row is None else trash.parse_entry(row)
    if row is None or current is None:
        return TableNotFoundError(f"Table {format_identifier(dropped.identifier)} is not dropped any more")
    if isinstance(proof, LanceNamespaceError):
        if current.state != dropped.state:
            # Another client purges the table and deletes its files.
            return ConcurrentModificationError(f"Table {format_identifier(dropped.identifier)} is being purged")
        return proof
    try:
        protection.require_unprotected(current.original, force=force)
    except InvalidTableStateError as refused:
        return refused
    location = _usable_location(row)
    if location is not None:
        if _is_shared(draft, dropped.key, location):
            location = None
        elif location != proof:
            return ConcurrentModificationError(
                f"Table {format_identifier(dropped.identifier)} was changed while it was purged"
            )
    draft.put(replace(current, state=trash.PURGING).row())
    return location


def _delete_claimed(catalog: Catalog, location: str | LanceNamespaceError | None) -> Amount | LanceNamespaceError:
    if isinstance(location, LanceNamespaceError):
        return location
    try:
        with translate_errors(f"purge of {location!r}"):
            return Amount() if location is None else _delete_directory(catalog, location)
    except LanceNamespaceError as error:
        return error


def _delete_directory(catalog: Catalog, location: str) -> Amount:
    name = layout.root_table_name(location)
    if name is not None:
        return purge_renamed(catalog, name)
    return catalog.store.delete_tree(location, first=naming.VERSIONS_FOLDER, also=[layout.declared_marker(location)])


def _usable_location(row: Row) -> str | None:
    """Return the location of a table's row; None, with a warning, if no table can be there."""
    if row.object_type != TABLE or row.location is None:
        return None
    if layout.find_location_fault(row.location.rstrip("/") or row.location) is not None:
        _log.warning("table %r had the location %r, which is left alone", row.object_id, row.location)
        return None
    return layout.check_location(row.location)
