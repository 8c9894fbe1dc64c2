"""V1: what one listing of the root tells, and what a look at one table's directory tells.

Whether a table is deregistered is decided by the marker inside of its directory, which every client knows. The one
beside it only saves listings a look at each table; without its counterpart inside it is left over from something that
did not end. A marker inside that a drop left says so in its body, and counts for nothing here: what is dropped is
decided by the marker `<name>.deleted` alone, so a drop that goes on late hides nothing that was restored since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.directory import layout
from pennon.directory.claims import claim
from pennon.directory.claims.marker import REVIVING, is_at_work
from pennon.directory.problem_log import warn_once
from pennon.directory.problems import Problem
from pennon.errors import UnusableEntryError
from pennon.identifiers import find_name_fault
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pennon.store import FileEntry, Store

REMOVE = "put a table's directory there, or remove what is there"


@dataclass(frozen=True)
class RootListing:
    """Names found by one listing of the root."""

    directories: frozenset[str]
    markers: Mapping[str, FileEntry]
    """Tables that a marker hides, with that marker."""
    deregistered: frozenset[str]
    declared: frozenset[str]
    plain_files: frozenset[str]
    empty: frozenset[str]
    odd: Mapping[str, str]
    """Entries that are neither files nor directories, and why they are left alone: links, pipes, names in no UTF-8."""

    def visible(self) -> list[str]:
        """List the root tables that are neither hidden nor deregistered nor unspeakable, sorted."""
        names = self.directories - self.markers.keys() - self.deregistered
        return sorted([name for name in names if find_name_fault(name, at_root=True) is None])


@dataclass(frozen=True)
class TableDirectory:
    """What is known of one table's directory and of the markers that concern it."""

    location: str
    has_files: bool
    has_versions: bool
    reserved: bool
    deregistered: bool
    hidden: bool
    protected: bool = False

    @property
    def visible(self) -> bool:
        """Tell whether a table is there for everybody to see."""
        return self.has_files and not self.hidden and not self.deregistered

    @property
    def only_declared(self) -> bool:
        """Tell whether the table was declared and has no data yet."""
        return self.reserved and not self.has_versions


def list_root(store: Store) -> RootListing:
    """List the root: one request per 1,000 entries, nothing per table.

    Only tables at which somebody is at work are looked at: a creator may have died and left a marker beside a live one.
    """
    level = store.list_level()
    tables = [entry for entry in level.directories if entry.endswith(layout.TABLE_SUFFIX)]
    empty = store.find_empty_tables(tables)
    markers: dict[str, FileEntry] = {}
    deregistered, declared, plain = set(), set(), set()
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
    directories = _table_names([entry for entry in tables if entry not in empty] if empty else tables)
    busy = [name for name, marker in markers.items() if name in directories and is_at_work(marker.size)]
    for directory in store.map(lambda name: look_if_usable(store, layout.root_table(name), name=name), busy):
        if directory is not None and not directory.hidden:
            del markers[str(layout.root_table_name(directory.location))]
    return RootListing(
        directories,
        markers,
        frozenset(deregistered),
        frozenset(declared),
        frozenset(plain),
        empty=_table_names(empty),
        odd={entry.name: entry.reason for entry in level.unusable},
    )


def look_at(store: Store, location: str, *, name: str | None = None) -> TableDirectory:
    """Look at a table's directory; `name` is the root table whose claim counts too. One request, or two at once."""
    if name is None:
        return _directory(store, location, store.list_names(location), hidden=False)
    # The marker first: of a table that is purged meanwhile, it goes last.
    looks: tuple[Callable[[], Any], ...] = (
        lambda: store.size(layout.deleted(name)),
        lambda: store.list_names(location),
    )
    size, names = store.map(lambda look: look(), looks)
    directory = _directory(store, location, names, hidden=claim.hides(size))
    if directory.hidden and directory.has_versions and _is_abandoned(store, name):
        return replace(directory, hidden=False)
    return directory


def look_at_root_table(store: Store, name: str) -> TableDirectory:
    """Look at a root table by its name."""
    return look_at(store, layout.root_table(name), name=name)


def look_if_usable(store: Store, location: str, *, name: str | None = None) -> TableDirectory | None:
    """Look at a table's directory for a listing, which goes on without it if it cannot be used: None then."""
    try:
        return look_at(store, location, name=name)
    except UnusableEntryError as error:
        warn_once(Problem(location, f"no table can be read there: {error}", REMOVE), store.identity())
        return None


def _is_abandoned(store: Store, name: str) -> bool:
    """Tell whether a marker was left by a creator that died on a name which was free or taken: it hides nothing then.

    Whoever writes next will remove it; whoever only reads need not wait for that.
    """
    current = claim.read(store, name)
    marker = None if current is None else current.marker
    return marker is None or (marker.state == REVIVING and marker.prior is None and marker.is_over)


def _directory(store: Store, location: str, names: set[str], *, hidden: bool) -> TableDirectory:
    has_versions = naming.VERSIONS_FOLDER in names
    if has_versions and store.is_local:
        # On a disk the directory may be there before its first file.
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
    """Take the suffix off names of table directories."""
    cut = -len(layout.TABLE_SUFFIX)
    return frozenset([entry[:cut] for entry in entries if entry != layout.TABLE_SUFFIX])
