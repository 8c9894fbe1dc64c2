"""Checks of a directory catalog: its manifest, markers, trash, directories and versions.

Only what is recorded as begun is repaired: purges, claims of dead clients, versions that are committed, upkeep, and
what killed processes left half deleted. Data without a row is kept and reported.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import lance

from pennon import addresses
from pennon.directory import inspection, layout, problem_search, retention, version_management
from pennon.directory.lifecycle import dropped, purge
from pennon.directory.lookup.directories import RootListing, list_root, look_if_usable
from pennon.directory.lookup.resolve import is_root_table
from pennon.directory.manifest import history
from pennon.directory.manifest_tables import trash
from pennon.directory.markers.deregistration import is_renamed
from pennon.directory.markers.marker import DELETED, PURGING, REVIVING
from pennon.directory.root_tables.settle import settle
from pennon.directory.versions import file_comparison, managed
from pennon.doctor import store_checks, table_checks
from pennon.doctor.checking import ERROR, NOTE, WARNING, Check, SkippedCheckError
from pennon.doctor.store_checks import Measurements
from pennon.errors import InvalidInputError, LanceNamespaceError, translate_errors
from pennon.identifiers import DELIMITER, find_name_fault, parent_and_name, split_object_id
from pennon.results import Finding
from pennon.store.probing import MOST_SECONDS
from pennon.store.root_paths import shorten_text
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pennon.directory import DirectoryNamespace
    from pennon.directory.catalog import Catalog
    from pennon.directory.markers.claim import StoredMarker
    from pennon.directory.versions.record import VersionRecord
    from pennon.directory.versions.version_rows import ManagedTable
    from pennon.identifiers import Identifier
    from pennon.results import Problem
    from pennon.store import FileEntry

_RECENT_SECONDS = 24 * 3600.0
"""A client may be about to add a directory to the catalog that was written to so recently."""
_TRIED_VERSIONS = 24
_FOLDERS = (naming.VERSIONS_FOLDER, "data", "_transactions")
_FINISHED_BY_FIX = "the next client that uses it finishes this; so does: pennon doctor --fix"
_FROM_BACKUP = "restore the directory from a backup"


@dataclass
class RootExamination:
    """A root while it is examined: what several checks need is read once."""

    namespace: DirectoryNamespace
    probes: bool = True
    deep: bool = False
    measured: Measurements = field(default_factory=Measurements)
    unreadable: str = ""
    """Why the manifest cannot be read, or an empty text."""

    @property
    def catalog(self) -> Catalog:
        """The open catalog."""
        return self.namespace.catalog

    @cached_property
    def listing(self) -> RootListing:
        """One listing of the root."""
        return list_root(self.catalog.store)

    @cached_property
    def markers(self) -> list[StoredMarker]:
        """All markers of the listing."""
        return problem_search.read_markers(self.catalog, self.listing)

    def renew(self) -> None:
        """Read everything again when it is needed."""
        for name in ("listing", "markers"):
            self.__dict__.pop(name, None)

    def require_manifest(self) -> None:
        """Raise SkippedCheckError if the catalog has no manifest, or one that cannot be read."""
        if self.catalog.manifest is None:
            raise SkippedCheckError("there is no manifest in V1")
        if self.unreadable:
            raise SkippedCheckError("the manifest cannot be read")

    @property
    def has_wrong_clock(self) -> bool:
        """True if this machine cannot tell which claims have expired."""
        return abs(float(self.measured.figures.get("clock_ahead_seconds", 0))) > MOST_SECONDS


# The root


def find_root_faults(root: RootExamination) -> Iterator[Finding]:
    """List the root, and find whether it holds a catalog of another mode."""
    store = root.catalog.store
    if store.is_local and not Path(store.identity()).is_dir():
        raise InvalidInputError(f"there is no directory {store.identity()!r}")
    listing, settings = root.listing, root.catalog.settings
    root.measured.figures["directories"] = len(listing.subdirectories)
    has_manifest = layout.MANIFEST in listing.subdirectories
    if not settings.manifest_enabled and has_manifest:
        problem = "the root has a manifest, which is not used with manifest_enabled=false: most tables are not seen"
        yield Finding(NOTE, layout.MANIFEST, problem, "leave out the property manifest_enabled")
    own = [name for name in listing.subdirectories if not name.startswith(".")]
    if not own and not listing.markers:
        yield Finding(NOTE, "/", "the root is empty: there is no catalog yet", "create a table or a namespace")


# The store


def find_store_faults(root: RootExamination) -> Iterable[Finding]:
    """Probe the store."""
    if not root.probes:
        raise SkippedCheckError("not asked for")
    return store_checks.probe(root.catalog.store, root.measured, pages=root.deep)


def find_leftovers(root: RootExamination) -> Iterable[Finding]:
    """Find what killed processes left."""
    return store_checks.find_leftovers(root.catalog.store, root.listing.probes)


def remove_leftovers(root: RootExamination, findings: Sequence[Finding]) -> Iterable[str]:
    """Delete what killed processes left."""
    return store_checks.remove_leftovers(root.catalog.store, findings)


# The manifest


def find_manifest_faults(root: RootExamination) -> Iterator[Finding]:
    """Read the whole manifest, and look whether upkeep is due."""
    manifest = root.catalog.manifest
    if manifest is None:
        raise SkippedCheckError("there is no manifest in V1")
    try:
        with translate_errors("the manifest"):
            root.measured.figures["manifest_rows"] = manifest.read_whole(len)
            state = manifest.find_upkeep()
    except LanceNamespaceError as error:
        root.unreadable = str(error)
        yield Finding(ERROR, layout.MANIFEST, f"it cannot be read: {error}", _advise_restoration(root.catalog))
        return
    if state is None:
        return
    root.measured.figures |= {"manifest_versions": state.versions, "manifest_fragments": state.fragments}
    try:
        manifest.require_writable()
    except LanceNamespaceError as error:
        yield Finding(WARNING, layout.MANIFEST, str(error), "upgrade Pennon; until then this client can only read")
    if state.is_overdue:
        parts = [f"{state.removable:,} old versions are not removed"] if state.removable else []
        parts += [f"the index {name} is missing" for name in state.missing_indexes]
        parts += [f"{state.unindexed_rows:,} of {state.rows:,} rows are not indexed"] if state.is_unindexed else []
        advice = "run the upkeep: pennon doctor --fix"
        yield Finding(WARNING, layout.MANIFEST, f"upkeep is overdue: {', '.join(parts)}", advice, fixable=True)


def run_upkeep(root: RootExamination, _: Sequence[Finding]) -> Iterator[str]:
    """Remove old versions of the manifest, and build its indexes."""
    root.catalog.require_manifest("doctor").run_upkeep()
    yield from ()


def _advise_restoration(catalog: Catalog) -> str:
    """Return what to do about a manifest that cannot be read: which older version can be."""
    store = catalog.store
    options = store.storage_options or None
    try:
        with translate_errors("the versions of the manifest"):
            versions = sorted(history.list_versions(store), reverse=True)[:_TRIED_VERSIONS]
    except LanceNamespaceError:
        return _FROM_BACKUP
    for version in versions:
        try:
            rows = lance.dataset(store.location(layout.MANIFEST), version=version, storage_options=options).to_table()
        except (OSError, ValueError, RuntimeError):
            continue
        return (
            f"version {version} of it can be read, with {len(rows):,} rows: keep a copy of {layout.MANIFEST!r}, then "
            f"restore that version with lance.dataset({store.location(layout.MANIFEST)!r}, version={version}).restore()"
        )
    return _FROM_BACKUP


# Rows


def find_row_faults(root: RootExamination) -> Iterator[Finding]:
    """Find rows that cannot be used, and tables that share a directory."""
    root.require_manifest()
    catalog = root.catalog
    yield from map(_describe_problem, problem_search.sort_problems(problem_search.find_bad_rows(catalog)))
    shared = catalog.require_manifest("doctor").read_whole(inspection.find_shared_locations)
    for location, keys in sorted(shared.items()):
        names = " and ".join(repr(_format_key(key)) for key in keys)
        problem = f"the tables {names} share this directory: a change of one is a change of the other"
        yield Finding(WARNING, location, problem, "drop all but one of them; the data is kept for the one that remains")


def _describe_problem(problem: Problem) -> Finding:
    command = None
    name = layout.root_table_name(problem.entry.removesuffix(layout.DELETED_SUFFIX) + layout.TABLE_SUFFIX)
    if problem.fix == retention.FIX and problem.entry.endswith(layout.DELETED_SUFFIX) and name:
        command = f"pennon purge {_quote(addresses.format_address((name,)))} --force"
    elif problem.fix.startswith(problem_search.CREATE_NAMESPACE):
        command = f"pennon create-namespace {_quote(_format_key(parent_and_name(problem.entry)[0]))} --parents"
    return Finding(WARNING, problem.entry, problem.reason, problem.fix, command)


# Directories


def find_directory_faults(root: RootExamination) -> Iterator[Finding]:
    """Compare rows with directories. Costs a few requests for each directory without a row."""
    if root.unreadable:
        raise SkippedCheckError("the manifest cannot be read")
    catalog = root.catalog
    found = inspection.inspect(catalog, root.listing)
    for identifier, location in sorted(found.without_directory.items()):
        yield _describe_gone(catalog, identifier, location)
    entries = {entry.key: entry for entry in _list_trash(catalog)} if found.dropped_without_directory else {}
    for key, location in sorted(found.dropped_without_directory.items()):
        entry = entries.get(key)
        if entry is None or entry.state == trash.PURGING:
            continue
        name = _quote(addresses.format_address(entry.identifier))
        problem = f"its directory {location!r} is gone: it cannot be restored"
        command = f"pennon purge {name} --id {entry.deletion_id} --force"
        yield Finding(WARNING, name, f"the table was dropped, and {problem}", "purge it", command)
    for finding in catalog.store.map(lambda name: _describe_orphan(catalog, name), found.without_row):
        if finding is not None:
            yield finding


def _describe_gone(catalog: Catalog, identifier: Identifier, location: str) -> Finding:
    name = addresses.format_address(identifier)
    problem = f"its directory {location!r} is gone"
    if catalog.lists_directories and is_root_table(identifier, location):
        advice = f"{_FROM_BACKUP}; a new table of this name replaces the row"
        return Finding(WARNING, name, f"{problem}: nobody finds the table any more", advice)
    return Finding(ERROR, name, problem, f"{_FROM_BACKUP}, or drop the table", f"pennon drop {_quote(name)}")


def _describe_orphan(catalog: Catalog, directory: str) -> Finding | None:
    """Return what is to be known about a directory without a row, or None if it is gone by now."""
    store = catalog.store
    names = store.list_names(directory)
    if not names and not store.is_local:
        return None
    shown = shorten_text(directory)
    if not store.has_files(directory):
        return Finding(NOTE, directory, "no table of the catalog is in this directory, which is empty", "delete it")
    times = [file.modified for path in ("", *_FOLDERS) for file in _list_some_files(catalog, directory, path)]
    if times and store.now() - max(times) < _RECENT_SECONDS:
        problem = "no table of the catalog is in this directory, which was written to within a day"
        return Finding(NOTE, directory, problem, "look again tomorrow: a client may be about to add it")
    if naming.VERSIONS_FOLDER not in names:
        problem = "no table of the catalog is in this directory, and it has no version of a table; it is kept"
        return Finding(WARNING, directory, problem, f"delete {shown} if nobody needs it")
    problem = "a table is in this directory that the catalog does not have; it is kept"
    name = layout.root_table_name(directory)
    if name is not None and find_name_fault(name, at_root=True) is None:
        return Finding(WARNING, directory, problem, "add it to the manifest", "pennon migrate")
    _, _, key = directory.partition("_")
    names_of_table = split_object_id(key) if layout.is_hashed_directory_of(directory, key) else (directory,)
    request = json.dumps({"id": list(names_of_table), "location": directory}, ensure_ascii=False)
    advice = f"look into it; to keep it, pennon.connect(...).register_table({request}); to remove it, delete {shown}"
    return Finding(WARNING, directory, problem, advice)


def _list_some_files(catalog: Catalog, directory: str, path: str) -> Sequence[FileEntry]:
    files, _ = catalog.store.list_first_files(layout.inside(directory, path) if path else directory)
    return files


# Markers


def find_marker_faults(root: RootExamination) -> Iterator[Finding]:
    """Find entries beside tables that cannot be used, claims of dead clients, and markers that belong to nothing."""
    catalog, listing = root.catalog, root.listing
    problems = [*problem_search.find_odd_entries(listing), *problem_search.find_bad_markers(root.markers)]
    yield from map(_describe_problem, problem_search.sort_problems(problems))
    for stored in root.markers:
        finding = _describe_marker(root, stored)
        if finding is not None:
            yield finding
    for name in sorted(listing.deregistered - listing.directories - listing.empty):
        problem = "it hides a directory that does not exist"
        yield Finding(NOTE, layout.deregistered_marker(name), problem, "delete it; it has no effect")
    for base in sorted(listing.declared):
        # The names of markers of nested tables are hashes.
        if not {base, layout.root_table(base)} & listing.subdirectories and not base.startswith(DELIMITER):
            problem = "it declares a table whose directory does not exist"
            yield Finding(NOTE, base + layout.DECLARED_SUFFIX, problem, "delete it; it has no effect")
    beside = sorted((listing.deregistered & listing.directories) - listing.markers.keys())
    for name in catalog.store.map(lambda name: _find_wrongly_hidden(catalog, name), beside):
        if name:
            problem = "it hides a table that is not deregistered"
            advice = "make the markers agree"
            yield Finding(WARNING, layout.deregistered_marker(name), problem, advice, "pennon migrate --markers")


def _describe_marker(root: RootExamination, stored: StoredMarker) -> Finding | None:
    marker, store = stored.marker, root.catalog.store
    path, name = layout.deleted_marker(stored.name), _quote(addresses.format_address((stored.name,)))
    if marker.state in {REVIVING, PURGING} and marker.is_expired:
        doing = {REVIVING: "created or restored", PURGING: "purged"}[marker.state]
        problem = f"the client that {doing} the table ended before it was done"
        if root.has_wrong_clock:
            return Finding(NOTE, path, f"{problem}, by a clock that is wrong", "correct the clock, and look again")
        return Finding(WARNING, path, problem, _FINISHED_BY_FIX, fixable=True)
    if marker.state == DELETED and not marker.fault and stored.name not in root.listing.directories:
        if stored.name in root.listing.empty or store.has_files(layout.root_table(stored.name)):
            return None
        problem = "the table was dropped, and its directory is gone: it cannot be restored"
        return Finding(WARNING, path, problem, "purge it", f"pennon purge {name} --force")
    return None


def _find_wrongly_hidden(catalog: Catalog, name: str) -> str:
    found = look_if_usable(catalog.store, layout.root_table(name))
    is_wrong = found is not None and found.has_files and not found.deregistered and not is_renamed(catalog.store, name)
    return name if is_wrong else ""


def settle_claims(root: RootExamination, findings: Sequence[Finding]) -> Iterator[str]:
    """Complete or undo what dead clients left, as the next client would."""
    root.catalog.store.require_conditional_writes()
    wanted = {finding.subject for finding in findings}
    for stored in root.markers:
        path = layout.deleted_marker(stored.name)
        if path in wanted:
            try:
                with translate_errors(path):
                    settle(root.catalog, stored)
            except LanceNamespaceError as error:
                yield f"{path}: {error}"


# The trash


def find_trash_faults(root: RootExamination) -> Iterator[Finding]:
    """Find purges that have begun, and what is due."""
    if root.unreadable:
        raise SkippedCheckError("the manifest cannot be read")
    for entry in purge.list_begun(root.catalog):
        name = addresses.format_address(entry.identifier)
        problem = f"a purge of what was dropped as {name!r} has begun; unless it is running, it was interrupted"
        yield Finding(WARNING, entry.key, problem, "finish it: pennon doctor --fix", fixable=True)
    due = [table for table in dropped.list_purgeable(root.catalog) if not table.being_purged]
    if due:
        problem = f"{len(due):,} dropped tables are due to be purged, the first of them {'.'.join(due[0].id)!r}"
        yield Finding(NOTE, "trash", problem, "purge them to free their space", "pennon purge")


def finish_purges(root: RootExamination, _: Sequence[Finding]) -> Iterator[str]:
    """Finish the purges that have begun."""
    yield from map(str, purge.finish_begun(root.catalog))


# Versions


def find_version_faults(root: RootExamination) -> Iterator[Finding]:
    """Find versions that are committed and whose manifests are not at their final names."""
    root.require_manifest()
    catalog = root.catalog
    if not managed.manages_versions(catalog):
        raise SkippedCheckError("the catalog does not manage versions")
    unfinished = _list_unfinished(catalog)
    present = catalog.store.map(lambda pair: _has_file(catalog, *pair), unfinished)
    for (table, record), has_file in zip(unfinished, present, strict=True):
        name = f"{_format_key(table.key)}, version {record.version}"
        if has_file:
            yield Finding(NOTE, name, "it is committed and not finished", _FINISHED_BY_FIX, fixable=True)
        else:
            yield Finding(ERROR, name, f"it is committed, but its file {record.path!r} is gone", _FROM_BACKUP)


def finish_versions(root: RootExamination, _: Sequence[Finding]) -> Iterator[str]:
    """Copy the manifests of committed versions to their final names."""
    managed.finish(root.catalog, _list_unfinished(root.catalog), tidy=True)
    yield from ()


def _list_unfinished(catalog: Catalog) -> list[tuple[ManagedTable, VersionRecord]]:
    manifest = catalog.require_manifest("doctor")
    return manifest.read_whole(version_management.list_unfinished_versions)


def _has_file(catalog: Catalog, table: ManagedTable, record: VersionRecord) -> bool:
    store = catalog.store
    return store.size(record.path) is not None or store.size(record.final_path(table.location)) is not None


# Tables


def find_table_faults(root: RootExamination) -> Iterable[Finding]:
    """Open every table, and compare the version rows of managed tables with their files."""
    if not root.deep:
        raise SkippedCheckError("only with --deep, which opens every table")
    if root.unreadable:
        raise SkippedCheckError("the manifest cannot be read")
    catalog = root.catalog
    compare = find_table_version_faults if catalog.manifest and managed.manages_versions(catalog) else None
    return table_checks.find_table_faults(root.namespace, catalog.store.map, root.measured.figures, compare=compare)


def find_table_version_faults(namespace: DirectoryNamespace, identifier: Identifier) -> list[str]:
    """Return how the version rows of a table differ from its files."""
    catalog = namespace.catalog
    rows = inspection.list_version_rows(catalog, identifier)
    if rows is None:
        return []
    location = catalog.resolver.table(identifier).location
    files = catalog.store.list_level(layout.inside(location, naming.VERSIONS_FOLDER)).files
    sizes = {parsed[0]: file.size for file in files if (parsed := naming.parse_name(file.name)) is not None}
    return file_comparison.compare_with_files(rows, sizes).faults


# Helpers


def _list_trash(catalog: Catalog) -> list[trash.TrashEntry]:
    return [] if catalog.manifest is None else catalog.manifest.read(trash.list_entries)


def _format_key(key: str) -> str:
    return addresses.format_address(split_object_id(key))


def _quote(text: str) -> str:
    """Return a text as a word for a shell."""
    import shlex  # noqa: PLC0415 - only for findings

    return shlex.quote(text)


CHECKS: tuple[Check[RootExamination], ...] = (
    Check("root", "Root", find_root_faults, vital=True),
    Check("store", "Promises of the store", find_store_faults),
    Check("leftovers", "Leftovers of killed processes", find_leftovers, remove_leftovers),
    Check("manifest", "Manifest", find_manifest_faults, run_upkeep),
    Check("rows", "Rows of the manifest", find_row_faults),
    Check("markers", "Markers", find_marker_faults, settle_claims),
    Check("trash", "Trash", find_trash_faults, finish_purges),
    Check("directories", "Directories", find_directory_faults),
    Check("versions", "Committed versions", find_version_faults, finish_versions),
    Check("tables", "Tables", find_table_faults),
)
