"""Migrate a V1 root: add its tables to the manifest, and add the markers that listings need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.directories import list_root, look_if_usable
from pennon.directory.manifest import TABLE, Draft, Row
from pennon.identifiers import find_name_fault
from pennon.results import MarkerReport, MigratedTable, MigrationReport, SkippedEntry
from pennon.store.root_paths import shorten_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.directories import RootListing


def migrate_to_manifest(catalog: Catalog, *, dry_run: bool, names: Collection[str] | None = None) -> MigrationReport:
    """Add all V1 tables, or those with some names, to the manifest. The commit point is one commit.

    A repeated call changes nothing.
    """
    manifest = catalog.require_manifest("migrate_to_manifest")
    listing = list_root(catalog.store)
    candidates, refused = _split_entries(listing)
    if names is not None:
        candidates = [name for name in candidates if name in names]
        refused = [entry for entry in refused if entry.name in names]
    found = catalog.store.map(lambda name: look_if_usable(catalog.store, layout.root_table(name)), candidates)
    directories = dict(zip(candidates, found, strict=True))
    refused += [
        SkippedEntry(name, "a file or directory in it is a symbolic link, or is too large")
        for name, directory in directories.items()
        if directory is None
    ]
    candidates = [name for name in candidates if directories[name] is not None]
    deregistered = listing.deregistered | {
        name for name, directory in directories.items() if directory is not None and directory.deregistered
    }

    def plan(draft: Draft) -> MigrationReport:
        report = MigrationReport(dry_run, skipped=list(refused))
        for name in candidates:
            location = layout.root_table(name)
            row = draft.get(name)
            if draft.object_ids_at(location):
                report.already.append(name)
            elif name in deregistered:
                report.skipped.append(SkippedEntry(name, "the table is deregistered"))
            elif row is not None:
                what = "table" if row.object_type == TABLE else "namespace"
                report.skipped.append(SkippedEntry(name, f"the manifest has a {what} of that name elsewhere"))
            else:
                report.migrated.append(MigratedTable(name, location))
                if not dry_run:
                    draft.put(Row(name, TABLE, location))
        return report

    return manifest.mutate(plan)


def migrate_markers(catalog: Catalog, *, dry_run: bool) -> MarkerReport:
    """Make the markers beside directories agree with those inside. Costs one look into each directory."""
    if catalog.manifest is not None:
        catalog.manifest.require_writable()
    listing = list_root(catalog.store)
    report = MarkerReport(dry_run)
    names = [
        name
        for name in sorted(listing.directories - listing.markers.keys())
        if find_name_fault(name, at_root=True) is None
    ]
    found = catalog.store.map(lambda name: look_if_usable(catalog.store, layout.root_table(name)), names)
    for name, directory in zip(names, found, strict=True):
        if directory is None:
            continue
        if directory.deregistered and name not in listing.deregistered:
            report.deregistered.append(name)
            if not dry_run:
                catalog.store.put(layout.deregistered_marker(name), layout.MARKER_BODY)
        if not directory.deregistered and name in listing.deregistered:
            report.removed.append(name)
            if not dry_run:
                catalog.store.delete(layout.deregistered_marker(name))
        if directory.is_only_declared and name not in listing.declared:
            report.declared.append(name)
            if not dry_run:
                catalog.store.put(layout.declared_marker(layout.root_table(name)), layout.MARKER_BODY)
    return report


def _split_entries(listing: RootListing) -> tuple[list[str], list[SkippedEntry]]:
    """Return the names of directories that can be added, and the entries that cannot."""
    refused = [SkippedEntry(name, "it is a plain file, not a directory") for name in sorted(listing.plain_files)]
    refused += [SkippedEntry(name, "the directory is empty") for name in sorted(listing.empty)]
    refused += [
        SkippedEntry(shorten_text(name), f"it cannot be a table: {reason}")
        for entry, reason in sorted(listing.odd.items())
        if (name := layout.root_table_name(entry)) is not None
    ]
    candidates = []
    for name in sorted(listing.directories):
        fault = find_name_fault(name, at_root=True)
        if fault is not None:
            refused.append(SkippedEntry(name, f"the name cannot be represented: {fault}"))
        elif name in listing.markers:
            refused.append(SkippedEntry(name, "the table is dropped, or being created, restored or purged"))
        else:
            candidates.append(name)
    return candidates, refused
