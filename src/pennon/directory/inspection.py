"""Compare the manifest with the directories of the root. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.directories import list_root
from pennon.directory.manifest import TABLE, is_live
from pennon.directory.versions import service, version_rows
from pennon.identifiers import Identifier, find_name_fault, split_object_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.directories import RootListing
    from pennon.directory.manifest import LoadedSnapshot
    from pennon.directory.versions.record import VersionRecord


@dataclass(frozen=True)
class Inspection:
    """Differences between rows and directories."""

    without_directory: dict[Identifier, str]
    """Tables whose directory does not exist, with its location."""
    without_row: list[str]
    """Directories that belong to no row, no root table and no marker. No client finds what they hold."""
    dropped_without_directory: dict[str, str] = field(default_factory=dict)
    """Dropped tables whose directory does not exist: the keys of their rows, with the location."""


def inspect(catalog: Catalog, listing: RootListing | None = None) -> Inspection:
    """Compare the manifest with one listing of the root, and once more if a directory seems to be gone.

    The listing must be older than this call. A table that was created after it is not reported, and one whose location
    is deeper costs a listing of the directory above. If the root has a manifest that this client does not use, nothing
    is reported: the manifest may explain everything.
    """
    listing = list_root(catalog.store) if listing is None else listing
    if catalog.manifest is None and layout.MANIFEST in listing.subdirectories:
        return Inspection({}, [])
    rows = {} if catalog.manifest is None else catalog.manifest.read_whole(_locations)
    gone = _find_gone(catalog, rows, listing)
    if gone:
        # A table may have been created after the root was listed, or purged since.
        again = {} if catalog.manifest is None else catalog.manifest.read_whole(_locations)
        same = {key: location for key, location in gone.items() if again.get(key) == location}
        gone = _find_gone(catalog, same, list_root(catalog.store)) if same else {}
    known = {location.split("/")[0] for location in rows.values()}
    marked = listing.markers.keys() | listing.deregistered
    unknown = []
    for directory in sorted(listing.subdirectories - known):
        name = layout.root_table_name(directory)
        is_table = name is not None and find_name_fault(name, at_root=True) is None
        if directory.startswith(("__", ".")) or (is_table and (catalog.lists_directories or name in marked)):
            continue
        unknown.append(directory)
    live = {split_object_id(key): location for key, location in gone.items() if is_live(key)}
    visible = {identifier: location for identifier, location in live.items() if not _is_reserved(identifier)}
    return Inspection(visible, unknown, {key: location for key, location in gone.items() if not is_live(key)})


def find_shared_locations(snapshot: LoadedSnapshot) -> dict[str, list[str]]:
    """Return the locations that several live tables have, with the ids of these tables."""
    first: dict[str, str] = {}
    shared: dict[str, list[str]] = {}
    for key, location in _locations(snapshot).items():
        if is_live(key) and first.setdefault(location, key) != key:
            shared.setdefault(location, [first[location]]).append(key)
    return shared


def _find_gone(catalog: Catalog, rows: Mapping[str, str], listing: RootListing) -> dict[str, str]:
    """Return the rows whose directory does not exist."""
    deep = sorted({location.rpartition("/")[0] for location in rows.values() if "/" in location})
    above = [parent for parent in deep if parent.split("/")[0] in listing.subdirectories]
    found = catalog.store.map(lambda parent: catalog.store.list_level(parent).directories, above)
    inner = {f"{parent}/{name}" for parent, names in zip(above, found, strict=True) for name in names}
    return {
        key: location
        for key, location in rows.items()
        if location not in (inner if "/" in location else listing.subdirectories)
    }


def _is_reserved(identifier: Identifier) -> bool:
    return find_name_fault(identifier[0], at_root=True) is not None


def list_version_rows(catalog: Catalog, identifier: Identifier) -> dict[int, VersionRecord] | None:
    """Return the version rows of a table, or None if the catalog does not manage its versions."""
    resolved = catalog.resolver.table(identifier)
    if not service.is_managed(catalog, resolved):
        return None
    table = service.managed_table(resolved)
    return catalog.require_manifest("verify").read(lambda snapshot: version_rows.list_records(snapshot, table))


def _locations(snapshot: LoadedSnapshot) -> dict[str, str]:
    """Return the locations of all tables, including dropped ones."""
    rows = [snapshot.get(key) for key in snapshot.object_ids()]
    return {
        row.object_id: layout.normalise_location(row.location)
        for row in rows
        if row is not None
        and row.object_type == TABLE
        and row.location is not None
        and row.object_id not in snapshot.location_faults()
    }
