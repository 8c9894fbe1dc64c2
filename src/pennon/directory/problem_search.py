"""Looking through a root for entries that cannot be used. Nothing is changed.

One bad entry never hides the others: each is skipped where it is met, with a warning in the log. Here all of them are
found at once, with the reason and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.claims import claim
from pennon.directory.lookup.listing import REMOVE, list_root
from pennon.directory.lookup.resolve import location_fault
from pennon.directory.manifest import NAMESPACE, TABLE, TABLE_VERSION
from pennon.directory.manifest.skipped import REPAIR, create_location_problem, find_skipped_rows, shorten_id
from pennon.directory.manifest_tables import trash
from pennon.directory.problems import Problem
from pennon.directory.versions import record
from pennon.identifiers import parent_and_name
from pennon.store.root_paths import shorten_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.listing import RootListing
    from pennon.directory.manifest import Row, Snapshot


def find_problems(catalog: Catalog) -> list[Problem]:
    """List the entries of the root that cannot be used, sorted: one listing, and one read for each marker."""
    listing = list_root(catalog.store)
    found = {Problem(shorten_text(name), f"it is left alone: {why}", REMOVE) for name, why in listing.odd.items()}
    found |= set(_of_markers(catalog, listing))
    if catalog.manifest is not None:
        found |= set(catalog.manifest.read(lambda snapshot: list(_of_rows(snapshot))))
    return sorted(found, key=lambda problem: (problem.entry, problem.reason))


def _of_markers(catalog: Catalog, listing: RootListing) -> Iterator[Problem]:
    store = catalog.store

    for standing in store.map(lambda name: claim.read(store, name), sorted(listing.markers)):
        problem = None if standing is None else claim.problem_of(standing)
        if problem is not None:
            yield problem


def _of_rows(snapshot: Snapshot) -> Iterator[Problem]:
    yield from find_skipped_rows(snapshot)
    for location in snapshot.deep_locations():
        for key in snapshot.object_ids_at(location):
            row = snapshot.get(key)
            fault = None if row is None or not trash.is_live(key) else location_fault(snapshot, row)
            if fault is not None:
                yield create_location_problem(key, fault)
    for key in snapshot.object_ids():
        row = snapshot.get(key)
        problem = None if row is None or key in snapshot.skipped else problem_of_row(snapshot, row)
        if problem is not None:
            yield problem


def problem_of_row(snapshot: Snapshot, row: Row) -> Problem | None:
    """Return what is wrong with a row of the manifest and how to fix it, or None if it can be used."""
    entry = shorten_id(row.object_id)
    if row.object_type == TABLE_VERSION:
        table = snapshot.get(parent_and_name(row.object_id)[0])
        if table is None or table.location is None:
            return Problem(entry, "it is a version of a table that is not there", REPAIR)
        return record.find_version_problem(row, table.location)
    if row.object_type not in {NAMESPACE, TABLE}:
        return Problem(entry, f"its type {row.object_type[:40]!r} is unknown", "upgrade Pennon, or remove the row")
    if not trash.is_live(row.object_id):
        return trash.problem_of(row)
    fault = row.metadata_fault
    return Problem(entry, f"its properties cannot be read: {fault}", REPAIR) if fault else None
