"""Which table an identifier means: manifest first, then the directory.

A table in a hashed directory is visible by its manifest row alone. A root table in `<name>.lance` is visible by its
directory, so the markers beside it hide it, whichever mode the client is in and whether or not the manifest has a row
for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.listing import TableDirectory, look_at, look_at_root_table
from pennon.directory.manifest import NAMESPACE, TABLE, Manifest, Row, Snapshot, flags
from pennon.directory.manifest_tables import trash
from pennon.errors import (
    ConcurrentModificationError,
    UnusableEntryError,
)
from pennon.identifiers import (
    DELIMITER,
    ROOT,
    Identifier,
    format_identifier,
    namespace_not_found,
    object_id,
    table_not_found,
)
from pennon.store.root_paths import shorten_text

if TYPE_CHECKING:
    from pennon.config import DirectorySettings
    from pennon.store import Store

# How often a root table without a row is looked at anew while others commit.
_ATTEMPTS = 10


@dataclass(frozen=True)
class Found:
    """A table that was found: where, by which row, and what its directory showed if somebody looked."""

    identifier: Identifier
    location: str
    row: Row | None
    directory: TableDirectory | None

    @property
    def is_root_table(self) -> bool:
        """Tell whether a listing of the root finds this table under this very name."""
        return is_root_table(self.identifier, self.location)


@dataclass(frozen=True)
class _Seen:
    """What one version of the manifest says about a name."""

    row: Row | None = None
    known_elsewhere: bool = False
    version: int = 0
    managed: bool = False


def is_root_table(identifier: Identifier, location: str) -> bool:
    """Tell whether `location` is the directory that the name alone leads to."""
    return len(identifier) == 1 and location == layout.root_table(identifier[0])


class Resolver:
    """Finds namespaces and tables of one root in its mode."""

    def __init__(self, settings: DirectorySettings, store: Store, manifest: Manifest | None) -> None:
        self._lists_directories = settings.dir_listing_enabled
        self._store = store
        self._manifest = manifest

    def require_namespace(self, identifier: Identifier) -> None:
        """Raise NamespaceNotFoundError (1) unless the namespace is there; the root always is."""
        if identifier == ROOT:
            return
        if self._manifest is None or not self._manifest.read(lambda snapshot: namespace_exists(snapshot, identifier)):
            raise namespace_not_found(identifier)

    def table(self, identifier: Identifier, *, look: bool = False) -> Found:
        """Find a table that is visible, or raise 1 (no such namespace), 4 (no such table) or 19 (not to be used).

        One request when the row names a hashed directory; `look` asks for its directory as well.
        """
        found = self.find(identifier, look=look)
        if found is None or (found.directory is not None and found.is_root_table and not found.directory.visible):
            raise table_not_found(identifier)
        return found

    def find(self, identifier: Identifier, *, look: bool = False, marker: bool = True) -> Found | None:
        """Find a table whether it is hidden or not; None if there is nothing of that name.

        Without `marker` nobody asks whether a root table is hidden, which the caller finds out by claiming it. Error 14
        if others commit so fast that nobody can tell whether the catalog manages the versions of what is there.
        """
        for _ in range(_ATTEMPTS):
            seen = self._row(identifier)
            found = self._found(identifier, seen, look=look, marker=marker)
            if found is None or found.row is not None or not self._has_changed(seen):
                return found
        raise ConcurrentModificationError(
            f"Table {format_identifier(identifier)} is looked for while others change the catalog"
        )

    def _found(self, identifier: Identifier, seen: _Seen, *, look: bool, marker: bool) -> Found | None:
        def root_table(name: str) -> TableDirectory:
            store = self._store
            return look_at_root_table(store, name) if marker else look_at(store, layout.root_table(name))

        row = seen.row
        if row is not None and row.location is not None:
            if is_root_table(identifier, row.location):
                return Found(identifier, row.location, row, root_table(identifier[0]))
            there = look_at(self._store, row.location) if look else None
            return Found(identifier, row.location, row, there)
        if len(identifier) != 1 or not self._lists_directories or seen.known_elsewhere:
            return None
        directory = root_table(identifier[0])
        return Found(identifier, directory.location, None, directory) if directory.has_files else None

    def _has_changed(self, seen: _Seen) -> bool:
        """Tell whether a table that had no row may have got one since, and so may be one whose versions are managed.

        A table that is restored gets its row first and is shown then: whoever saw neither row nor marker may have seen
        the one from before and the other from after it, and must not take the table for one that nobody manages.
        """
        if self._manifest is None or not seen.managed:
            return False
        return self._manifest.read(lambda snapshot: snapshot.version) != seen.version

    def _row(self, identifier: Identifier) -> _Seen:
        """Find the row of a table, and tell whether its directory belongs to a table of another name."""
        if self._manifest is None:
            if len(identifier) > 1:
                raise namespace_not_found(identifier[:-1])
            return _Seen()

        def look(snapshot: Snapshot) -> _Seen:
            if not namespace_exists(snapshot, identifier[:-1]):
                raise namespace_not_found(identifier[:-1])
            managed = flags.manages_versions(snapshot.metadata)
            row = snapshot.get(object_id(identifier))
            if row is not None:
                found = row if row.object_type == TABLE else None
                fault = None if found is None else location_fault(snapshot, found)
                if fault is not None:
                    raise unusable(row, fault)
                return _Seen(found, known_elsewhere=True, version=snapshot.version, managed=managed)
            other = len(identifier) == 1 and bool(snapshot.object_ids_at(layout.root_table(identifier[0])))
            return _Seen(None, known_elsewhere=other, version=snapshot.version, managed=managed)

        return self._manifest.read(look)


def location_fault(snapshot: Snapshot, row: Row) -> str | None:
    """Say why the location of a table's row cannot be used, by itself or beside the other rows; None if it can."""
    fault = snapshot.location_faults().get(row.object_id)
    if fault is not None or row.location is None or "/" not in row.location:
        return fault
    parts = row.location.split("/")
    for depth in range(1, len(parts)):
        for key in snapshot.object_ids_at("/".join(parts[:depth])):
            if trash.is_live(key):
                return f"it lies inside of the table {shorten_text(key)}"
    return None


def unusable(row: Row, fault: str) -> UnusableEntryError:
    """Say that a table cannot be used because of its row, and how to get rid of that."""
    where = "" if row.location is None else f" {shorten_text(row.location)}"
    return UnusableEntryError(
        f"Table {format_identifier((row.object_id,))} cannot be used: its row has the location{where}, and {fault}. "
        "deregister_table removes the row and touches no file"
    )


def namespace_exists(snapshot: Snapshot, identifier: Identifier) -> bool:
    """Tell whether a namespace and all that are above it are there."""
    joined = ""
    for name in identifier:
        joined = f"{joined}{DELIMITER}{name}" if joined else name
        row = snapshot.get(joined)
        if row is None or row.object_type != NAMESPACE:
            return False
    return True
