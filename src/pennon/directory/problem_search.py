"""Search a root for entries that cannot be used. Nothing is changed.

Operations skip a bad entry with one warning in the log. This search finds all of them, with the reason and the fix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.lookup.directories import REMOVE_FIX, list_root
from pennon.directory.lookup.resolve import find_location_fault
from pennon.directory.manifest import NAMESPACE, TABLE, TABLE_VERSION, is_live
from pennon.directory.manifest.skipped import REPAIR, create_location_problem, find_skipped_rows, shorten_id
from pennon.directory.manifest_tables import trash
from pennon.directory.markers import claim
from pennon.directory.versions import record
from pennon.identifiers import format_object_id, parent_and_name
from pennon.results import Problem
from pennon.store.root_paths import shorten_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.directories import RootListing
    from pennon.directory.manifest import LoadedSnapshot, Row
    from pennon.directory.markers.claim import StoredMarker

CREATE_NAMESPACE = "create the namespace"


def find_problems(catalog: Catalog) -> list[Problem]:
    """Return the entries of the root that cannot be used, sorted. Costs one listing, and one read for each marker."""
    listing = list_root(catalog.store)
    markers = read_markers(catalog, listing)
    return sort_problems([*find_odd_entries(listing), *find_bad_markers(markers), *find_bad_rows(catalog)])


def sort_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems by their entries, each of them once."""
    return sorted(set(problems), key=lambda problem: (problem.entry, problem.reason))


def read_markers(catalog: Catalog, listing: RootListing) -> list[StoredMarker]:
    """Return all markers of a listing that still exist. Costs one read for each."""
    store = catalog.store
    found = store.map(lambda name: claim.read_marker(store, name), sorted({*listing.markers, *listing.abandoned}))
    return [stored for stored in found if stored is not None]


def find_odd_entries(listing: RootListing) -> Iterator[Problem]:
    """Iterate over entries of the root that are neither files nor directories."""
    for name, why in listing.odd.items():
        yield Problem(shorten_text(name), f"it is left alone: {why}", REMOVE_FIX)


def find_bad_markers(markers: Iterable[StoredMarker]) -> Iterator[Problem]:
    """Iterate over the markers that cannot be read."""
    for stored in markers:
        problem = claim.problem_of_marker(stored)
        if problem is not None:
            yield problem


def find_bad_rows(catalog: Catalog) -> list[Problem]:
    """Return the rows of the manifest that cannot be used."""
    if catalog.manifest is None:
        return []
    return catalog.manifest.read_whole(lambda snapshot: list(_search_rows(snapshot)))


def _search_rows(snapshot: LoadedSnapshot) -> Iterator[Problem]:
    yield from find_skipped_rows(snapshot)
    for location in snapshot.deep_locations():
        for key in snapshot.object_ids_at(location):
            row = snapshot.get(key)
            fault = None if row is None or not is_live(key) else find_location_fault(snapshot, row)
            if fault is not None:
                yield create_location_problem(key, fault)
    for key in snapshot.object_ids():
        row = snapshot.get(key)
        problem = None if row is None or key in snapshot.skipped else find_row_problem(snapshot, row)
        if problem is not None:
            yield problem


def find_row_problem(snapshot: LoadedSnapshot, row: Row) -> Problem | None:
    """Return what is wrong with a row of the manifest and how to fix it, or None if it can be used."""
    entry = shorten_id(row.object_id)
    if row.object_type == TABLE_VERSION:
        table = snapshot.get(parent_and_name(row.object_id)[0])
        if table is None or table.location is None:
            return Problem(entry, "it is a version of a table that does not exist", REPAIR)
        return record.find_version_problem(row, table.location)
    if row.object_type not in {NAMESPACE, TABLE}:
        return Problem(entry, f"its type {row.object_type[:40]!r} is unknown", "upgrade Pennon, or remove the row")
    if not is_live(row.object_id):
        return trash.find_problem(row)
    parent = parent_and_name(row.object_id)[0]
    above = snapshot.get(parent) if parent else row
    if above is None or (parent and above.object_type != NAMESPACE):
        reason = f"it is in {format_object_id(parent)}, which is not a namespace, so nobody finds it"
        return Problem(entry, reason, f"{CREATE_NAMESPACE} {format_object_id(parent)}")
    fault = row.metadata_fault
    return Problem(entry, f"its properties cannot be read: {fault}", REPAIR) if fault else None
