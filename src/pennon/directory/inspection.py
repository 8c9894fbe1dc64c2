"""Compare the manifest with the directories of the root. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.directories import list_root
from pennon.directory.manifest import TABLE
from pennon.directory.versions import service, version_rows
from pennon.identifiers import Identifier, find_name_fault, split_object_id

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import LoadedSnapshot
    from pennon.directory.versions.record import VersionRecord


@dataclass(frozen=True)
class Inspection:
    """Differences between rows and directories."""

    without_directory: dict[Identifier, str]
    """Tables whose directory does not exist, with its location."""
    without_row: list[str]
    """Directories that belong to no row, no root table and no marker. No client finds what they hold."""


def inspect(catalog: Catalog) -> Inspection:
    """Compare the manifest with one listing of the root.

    If the root has a manifest that this client does not use, nothing is reported: the manifest may explain everything.
    """
    level = catalog.store.list_level()
    existing = set(level.directories)
    rows: dict[str, str] = {}
    if catalog.manifest is not None:
        rows = catalog.manifest.read_whole(_locations)
    elif layout.MANIFEST in existing:
        return Inspection({}, [])
    gone = {split_object_id(key): location for key, location in rows.items() if location.split("/")[0] not in existing}
    known = {location.split("/")[0] for location in rows.values()}
    listing = list_root(catalog.store)
    marked = listing.markers.keys() | listing.deregistered
    unknown = []
    for directory in sorted(existing - known):
        name = layout.root_table_name(directory)
        is_table = name is not None and find_name_fault(name, at_root=True) is None
        if directory.startswith(("__", ".")) or (is_table and (catalog.lists_directories or name in marked)):
            continue
        unknown.append(directory)
    visible = {key: location for key, location in gone.items() if not find_name_fault(key[0], at_root=True)}
    return Inspection(visible, unknown)


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
