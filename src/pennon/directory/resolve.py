"""Which table an identifier means: manifest first, then the directory.

A table in a hashed directory is visible by its manifest row alone. A root table in `<name>.lance` is visible by its
directory, so the markers beside it hide it, whichever mode the client is in and whether or not the manifest has a row
for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.listing import TableDirectory, look_at, look_at_root_table
from pennon.directory.manifest import NAMESPACE, TABLE, Manifest, Row, Snapshot
from pennon.errors import NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import DELIMITER, ROOT, Identifier, object_id, shown

if TYPE_CHECKING:
    from pennon.config import DirectorySettings
    from pennon.store import Store


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
            raise NamespaceNotFoundError(f"Namespace not found: {shown(identifier)}")

    def table(self, identifier: Identifier, *, look: bool = False) -> Found:
        """Find a table that is visible, or raise 1 (no such namespace) or 4 (no such table).

        One request when the row names a hashed directory; `look` asks for its directory as well.
        """
        found = self.find(identifier, look=look)
        if found is None or (found.directory is not None and found.is_root_table and not found.directory.visible):
            raise TableNotFoundError(f"Table not found: {shown(identifier)}")
        return found

    def find(self, identifier: Identifier, *, look: bool = False, marker: bool = True) -> Found | None:
        """Find a table whether it is hidden or not; None if there is nothing of that name.

        Without `marker` nobody asks whether a root table is hidden, which the caller finds out by claiming it.
        """

        def root_table(name: str) -> TableDirectory:
            store = self._store
            return look_at_root_table(store, name) if marker else look_at(store, layout.root_table(name))

        row, known_elsewhere = self._row(identifier)
        if row is not None and row.location is not None:
            if is_root_table(identifier, row.location):
                return Found(identifier, row.location, row, root_table(identifier[0]))
            directory = look_at(self._store, row.location) if look else None
            return Found(identifier, row.location, row, directory)
        if len(identifier) != 1 or not self._lists_directories or known_elsewhere:
            return None
        directory = root_table(identifier[0])
        return Found(identifier, directory.location, None, directory) if directory.has_files else None

    def _row(self, identifier: Identifier) -> tuple[Row | None, bool]:
        """Find the row of a table, and tell whether its directory belongs to a table of another name."""
        if self._manifest is None:
            if len(identifier) > 1:
                raise NamespaceNotFoundError(f"Namespace not found: {shown(identifier[:-1])}")
            return None, False

        def look(snapshot: Snapshot) -> tuple[Row | None, bool]:
            if not namespace_exists(snapshot, identifier[:-1]):
                raise NamespaceNotFoundError(f"Namespace not found: {shown(identifier[:-1])}")
            row = snapshot.get(object_id(identifier))
            if row is not None:
                return (row if row.object_type == TABLE else None), True
            return None, len(identifier) == 1 and bool(snapshot.object_ids_at(layout.root_table(identifier[0])))

        return self._manifest.read(look)


def namespace_exists(snapshot: Snapshot, identifier: Identifier) -> bool:
    """Tell whether a namespace and all that are above it are there."""
    joined = ""
    for name in identifier:
        joined = f"{joined}{DELIMITER}{name}" if joined else name
        row = snapshot.get(joined)
        if row is None or row.object_type != NAMESPACE:
            return False
    return True
