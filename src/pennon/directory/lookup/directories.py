"""What one listing of the root shows, and what one table's directory shows.

The marker inside a directory decides whether its table is deregistered, because every Lance client knows it. The one
beside the directory only saves listings a look into each directory; alone it is left over from an unfinished operation.
A marker inside that a drop wrote is recognised by its body and ignored here: only `<name>.deleted` decides what is
dropped, so a drop that continues late cannot hide a table that was restored since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.markers import claim
from pennon.directory.markers.marker import REVIVING, is_claim_size
from pennon.directory.problems import warn_once
from pennon.errors import UnusableEntryError
from pennon.identifiers import find_name_fault
from pennon.results import Problem
from pennon.store import PROBE_PREFIX, call_together
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pennon.store import FileEntry, Store

REMOVE_FIX = "replace it with a table's directory, or remove it"


@dataclass(frozen=True)
class RootListing:
    """What one listing of the root shows, by the names of root tables."""

    directories: frozenset[str]
    markers: Mapping[str, FileEntry]
    """The markers that hide tables."""
    deregistered: frozenset[str]
    declared: frozenset[str]
    plain_files: frozenset[str]
    empty: frozenset[str]
    odd: Mapping[str, str]
    """Entries that are neither files nor directories, with the reason: links, pipes, names that are not UTF-8."""
    subdirectories: frozenset[str] = frozenset()
    """The names of all directories in the root, as they are."""
    probes: frozenset[str] = frozenset()
    """Files and directories with which clients probe the store; a client that was killed has left them."""
    abandoned: frozenset[str] = frozenset()
    """Root tables beside which a dead creator has left its marker, which hides nothing."""

    def visible_tables(self) -> list[str]:
        """Return the names of the visible root tables, sorted. Directories with invalid names are not tables."""
        names = self.directories - self.markers.keys() - self.deregistered
        return sorted([name for name in names if find_name_fault(name, at_root=True) is None])


@dataclass(frozen=True)
class TableDirectory:
    """What a table's directory and the markers beside it show."""

    location: str
    has_files: bool
    has_versions: bool
    reserved: bool
    deregistered: bool
    hidden: bool
    protected: bool = False

    @property
    def visible(self) -> bool:
        """Return True if there is a table that nothing hides."""
        return self.has_files and not self.hidden and not self.deregistered

    @property
    def is_only_declared(self) -> bool:
        """Return True if the table was declared and has no data yet."""
        return self.reserved and not self.has_versions


def list_root(store: Store) -> RootListing:
    """List the root with one request for each 1,000 entries.

    Only directories with a claim are looked into: a dead creator may have left its marker beside a live table.
    """
    level = store.list_level()
    tables = [entry for entry in level.directories if entry.endswith(layout.TABLE_SUFFIX)]
    empty = store.find_empty_tables(tables, subdirectories=len(level.directories))
    markers: dict[str, FileEntry] = {}
    deregistered, declared, plain = set(), set(), set()
    probes = {name for name in level.directories if name.startswith(PROBE_PREFIX)}
    for file in level.files:
        if file.name.endswith(layout.DELETED_SUFFIX):
            if claim.hides(file.size):
                markers[file.name.removesuffix(layout.DELETED_SUFFIX)] = file
        elif file.name.endswith(layout.DEREGISTERED_SUFFIX):
            deregistered.add(file.name.removesuffix(layout.DEREGISTERED_SUFFIX))
        elif file.name.endswith(layout.DECLARED_SUFFIX):
            declared.add(file.name.removesuffix(layout.DECLARED_SUFFIX))
        elif (name := layout.root_table_name(file.name)) is not None:
            plain.add(name)
        elif file.name.startswith(PROBE_PREFIX):
            probes.add(file.name)
    directories = _table_names([entry for entry in tables if entry not in empty] if empty else tables)
    abandoned = _find_abandoned(store, markers, directories)
    for name in abandoned:
        del markers[name]
    return RootListing(
        directories,
        markers,
        frozenset(deregistered),
        frozenset(declared),
        frozenset(plain),
        empty=_table_names(empty),
        odd={entry.name: entry.reason for entry in level.unusable},
        subdirectories=frozenset(level.directories),
        probes=frozenset(probes),
        abandoned=abandoned,
    )


def _find_abandoned(store: Store, markers: Mapping[str, FileEntry], directories: frozenset[str]) -> frozenset[str]:
    """Return the tables beside which a dead creator has left its marker."""
    claimed = [name for name, marker in markers.items() if name in directories and is_claim_size(marker.size)]
    found = store.map(lambda name: look_if_usable(store, layout.root_table(name), name=name), claimed)
    return frozenset(str(layout.root_table_name(one.location)) for one in found if one is not None and not one.hidden)


def look_at(store: Store, location: str, *, name: str | None = None, ignoring: str = "") -> TableDirectory:
    """Return what a directory shows, with one request.

    With the `name` of a root table its marker counts too, which is read at the same time. Without it, an entry that
    the caller writes at the same time can be ignored.
    """
    if name is None:
        return _directory(store, location, store.list_names(location) - {ignoring}, hidden=False)
    # The marker first: a purge deletes it last.
    size, names = call_together(
        store, lambda: store.size(layout.deleted_marker(name)), lambda: store.list_names(location)
    )
    directory = _directory(store, location, names, hidden=claim.hides(size))
    if directory.hidden and directory.has_versions and _is_abandoned(store, name):
        return replace(directory, hidden=False)
    return directory


def look_at_root_table(store: Store, name: str) -> TableDirectory:
    """Return what the directory of a root table and its marker show."""
    return look_at(store, layout.root_table(name), name=name)


def look_if_usable(store: Store, location: str, *, name: str | None = None) -> TableDirectory | None:
    """Return what a directory shows, or None, with a warning, if it cannot be used."""
    try:
        return look_at(store, location, name=name)
    except UnusableEntryError as error:
        warn_once(Problem(location, f"no table can be read there: {error}", REMOVE_FIX), store.identity())
        return None


def _is_abandoned(store: Store, name: str) -> bool:
    """Return True if a dead creator left the marker on a name that was not dropped: it hides nothing.

    The next writer removes it. Readers do not wait for that.
    """
    current = claim.read_marker(store, name)
    if current is None:
        return True
    marker = current.marker
    return marker.state == REVIVING and marker.prior is None and marker.is_expired


def _directory(store: Store, location: str, names: set[str], *, hidden: bool) -> TableDirectory:
    has_versions = naming.VERSIONS_FOLDER in names
    if has_versions and store.is_local:
        # On a disk the directory can exist before its first file.
        versions = store.list_names(layout.inside(location, naming.VERSIONS_FOLDER))
        has_versions = any(name.endswith(layout.VERSION_SUFFIX) for name in versions)
    reserved = layout.RESERVED_MARKER in names
    deregistered = layout.DEREGISTERED_MARKER in names
    if deregistered:
        marker = store.get(layout.inside(location, layout.DEREGISTERED_MARKER))
        deregistered = marker is not None and not marker.body.startswith(layout.DROPPED_BODY)
        names = names - {layout.DEREGISTERED_MARKER}
    return TableDirectory(
        location=location,
        has_files=has_versions or reserved or deregistered or (bool(names) and store.has_files(location)),
        has_versions=has_versions,
        reserved=reserved,
        deregistered=deregistered,
        hidden=hidden,
        protected=layout.PROTECTED_MARKER in names,
    )


def _table_names(entries: Iterable[str]) -> frozenset[str]:
    """Return the names of the root tables in these directories."""
    cut = -len(layout.TABLE_SUFFIX)
    return frozenset([entry[:cut] for entry in entries if entry != layout.TABLE_SUFFIX])
