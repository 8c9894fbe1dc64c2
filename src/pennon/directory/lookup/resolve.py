"""Find the table that an identifier names: by the manifest first, then by the directory.

A manifest table is visible by its row alone. A root table in `<name>.lance` is visible by its directory, so the markers
beside it hide it in every mode, whether or not the manifest has a row for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.directories import TableDirectory, look_at
from pennon.directory.manifest import NAMESPACE, TABLE, Manifest, Row, Snapshot, flags, is_live
from pennon.errors import (
    ConcurrentModificationError,
    UnsupportedOperationError,
    UnusableEntryError,
)
from pennon.identifiers import (
    DELIMITER,
    ROOT,
    Identifier,
    format_identifier,
    format_object_id,
    namespace_not_found,
    object_id,
    quote_identifier,
    split_object_id,
    table_not_found,
)
from pennon.store import call_together
from pennon.store.root_paths import shorten_text

if TYPE_CHECKING:
    from pennon.config import DirectorySettings
    from pennon.store import Store

# How often a root table without a row is looked up again while other clients commit.
_ATTEMPTS = 10


@dataclass(frozen=True)
class ResolvedTable:
    """A table that was found: its location, its row, and what its directory showed if it was looked into."""

    identifier: Identifier
    location: str
    row: Row | None
    directory: TableDirectory | None

    @property
    def object_id(self) -> str:
        """The key of the table's row."""
        return object_id(self.identifier)

    @property
    def is_root_table(self) -> bool:
        """True for a root table, False for a manifest table."""
        return is_root_table(self.identifier, self.location)

    @property
    def is_hidden(self) -> bool:
        """True if markers hide the table. Only root tables have such markers."""
        return self.is_root_table and self.directory is not None and not self.directory.visible

    @property
    def is_only_declared(self) -> bool:
        """True if the table has no data yet."""
        if self.directory is None or not self.directory.is_only_declared:
            return False
        # The markers of a root table mean nothing for a table of another name that kept its directory.
        return not (self.is_root_table and self.directory.deregistered)

    @property
    def is_deregistered(self) -> bool:
        """True if this is a root table that was deregistered."""
        return self.is_root_table and self.directory is not None and self.directory.deregistered

    def properties(self) -> dict[str, str] | None:
        """Return the properties of the row, or None if the table has no row."""
        return None if self.row is None else self.row.properties()


@dataclass(frozen=True)
class _ManifestEntry:
    """What one version of the manifest holds about a name."""

    row: Row | None = None
    directory_is_taken: bool = False
    """The directory `<name>.lance` belongs to a table of another name, or the name has a row."""
    version: int = 0
    managed: bool = False

    @property
    def is_doubtful(self) -> bool:
        """True if the directory must be looked into after the manifest was read.

        A drop writes its marker first and removes the row afterwards. A reader that looked before both and then found
        no row would take a managed table for one without managed versions.
        """
        return self.managed and self.row is None


def is_root_table(identifier: Identifier, location: str) -> bool:
    """Return True if `location` is the directory of the root table with this name."""
    return len(identifier) == 1 and location == layout.root_table(identifier[0])


class Resolver:
    """Finds the namespaces and tables of one root."""

    def __init__(self, settings: DirectorySettings, store: Store, manifest: Manifest | None) -> None:
        self._lists_directories = settings.dir_listing_enabled
        self._store = store
        self._manifest = manifest

    def require_namespace(self, identifier: Identifier) -> None:
        """Raise NamespaceNotFoundError unless the namespace exists. The root always does."""
        if identifier == ROOT:
            return
        if self._manifest is None or not self._manifest.read(lambda snapshot: namespace_exists(snapshot, identifier)):
            raise namespace_not_found(identifier)

    def table(self, identifier: Identifier, *, look: bool = False) -> ResolvedTable:
        """Return a visible table.

        Costs one request if it is a manifest table; `look` reads its directory as well. Raises NamespaceNotFoundError
        or TableNotFoundError if it does not exist, UnusableEntryError if its row cannot be used.
        """
        found = self.find(identifier, look=look)
        if found is None or found.is_hidden:
            raise table_not_found(identifier)
        return found

    def find(self, identifier: Identifier, *, look: bool = False, marker: bool = True) -> ResolvedTable | None:
        """Return a table whether it is hidden or not, or None if there is nothing under the name.

        Without `marker` the marker of a root table is not read: the caller is about to claim it. Raises
        ConcurrentModificationError if other clients commit so often that it stays unclear whether the catalog manages
        the table's versions.
        """
        for _ in range(_ATTEMPTS):
            entry, directory = self._read(identifier, look=look, marker=marker)
            found = self._resolve(identifier, entry, directory)
            if found is None or found.row is not None or not self._has_changed(entry):
                return found
        raise ConcurrentModificationError(
            f"Table {format_identifier(identifier)} cannot be looked up while others change the catalog; try again"
        )

    def _read(
        self, identifier: Identifier, *, look: bool, marker: bool
    ) -> tuple[_ManifestEntry, TableDirectory | None]:
        """Return what the manifest holds about a name, and what the directory that it points to shows.

        A warm client knows which directory that is, and looks into it while the manifest is validated.
        """

        def look_into(location: str | None) -> TableDirectory | None:
            if location is None:
                return None
            name = identifier[0] if marker and is_root_table(identifier, location) else None
            return look_at(self._store, location, name=name)

        def look_ahead() -> TableDirectory | None:
            try:
                return look_into(expected)
            except UnusableEntryError:
                return None  # raised below, if the manifest still points there

        row, expected = self._expect(identifier, look=look)
        directory = None
        if expected is None:
            entry = self._manifest_entry(identifier)
        else:
            entry, directory = call_together(self._store, lambda: self._manifest_entry(identifier), look_ahead)
        location = self._directory_of(identifier, entry, look=look)
        if directory is None or location != expected or entry.row != row or entry.is_doubtful:
            directory = look_into(location)
        return entry, directory

    def _expect(self, identifier: Identifier, *, look: bool) -> tuple[Row | None, str | None]:
        """Return the row in memory and the directory to look into by it.

        Returns no directory where it would save no time: on a disk, and without a manifest.
        """
        if self._manifest is None or self._store.is_local:
            return None, None

        def peek(snapshot: Snapshot) -> _ManifestEntry:
            row = snapshot.get(object_id(identifier))
            is_table = row is not None and row.object_type == TABLE and find_location_fault(snapshot, row) is None
            return _ManifestEntry(
                row if is_table else None,
                directory_is_taken=row is not None or _is_directory_taken(snapshot, identifier),
            )

        try:
            entry = self._manifest.peek(peek)
        except UnsupportedOperationError:
            return None, None  # the snapshot may be outdated: the validated read decides
        return entry.row, self._directory_of(identifier, entry, look=look)

    def _directory_of(self, identifier: Identifier, entry: _ManifestEntry, *, look: bool) -> str | None:
        """Return the directory that must be looked into to resolve a name, or None if the row is enough."""
        row = entry.row
        if row is not None and row.location is not None:
            return row.location if look or is_root_table(identifier, row.location) else None
        if len(identifier) != 1 or not self._lists_directories or entry.directory_is_taken:
            return None
        return layout.root_table(identifier[0])

    def _resolve(
        self, identifier: Identifier, entry: _ManifestEntry, directory: TableDirectory | None
    ) -> ResolvedTable | None:
        row = entry.row
        if row is not None and row.location is not None:
            return ResolvedTable(identifier, row.location, row, directory)
        if directory is None or not directory.has_files:
            return None
        return ResolvedTable(identifier, directory.location, None, directory)

    def _has_changed(self, entry: _ManifestEntry) -> bool:
        """Return True if a table without a row may have got one since, and so may have managed versions.

        A restored table gets its row first and is shown afterwards. A reader that saw neither row nor marker may have
        seen the row's absence before, and the marker's absence after the restoration.
        """
        if self._manifest is None or not entry.managed:
            return False
        return self._manifest.read(lambda snapshot: snapshot.version) != entry.version

    def _manifest_entry(self, identifier: Identifier) -> _ManifestEntry:
        if self._manifest is None:
            if len(identifier) > 1:
                raise namespace_not_found(identifier[:-1])
            return _ManifestEntry()

        keys = [object_id(identifier[: depth + 1]) for depth in range(len(identifier))]

        def look(snapshot: Snapshot) -> _ManifestEntry:
            snapshot.expect(*keys)
            if not namespace_exists(snapshot, identifier[:-1]):
                raise namespace_not_found(identifier[:-1])
            managed = flags.manages_versions(snapshot.metadata)
            row = snapshot.get(object_id(identifier))
            if row is None:
                taken = _is_directory_taken(snapshot, identifier)
                return _ManifestEntry(None, directory_is_taken=taken, version=snapshot.version, managed=managed)
            is_table = row.object_type == TABLE
            fault = find_location_fault(snapshot, row) if is_table else None
            if fault is not None:
                raise _unusable_row_error(row, fault)
            return _ManifestEntry(
                row if is_table else None, directory_is_taken=True, version=snapshot.version, managed=managed
            )

        return self._manifest.read(look)


def _is_directory_taken(snapshot: Snapshot, identifier: Identifier) -> bool:
    """Return True if the directory `<name>.lance` belongs to a table of another name."""
    return len(identifier) == 1 and bool(snapshot.object_ids_at(layout.root_table(identifier[0])))


def find_location_fault(snapshot: Snapshot, row: Row) -> str | None:
    """Return why a row's location cannot be used, by itself or beside other rows; None if it can."""
    fault = None if row.location is None else layout.find_location_fault(row.location)
    if fault is not None or row.location is None or "/" not in row.location:
        return fault
    parts = row.location.split("/")
    for depth in range(1, len(parts)):
        for key in snapshot.object_ids_at("/".join(parts[:depth])):
            if is_live(key):
                return f"it is inside the table {shorten_text(quote_identifier(split_object_id(key)))}"
    return None


def _unusable_row_error(row: Row, fault: str) -> UnusableEntryError:
    where = "" if row.location is None else f" {shorten_text(row.location)}"
    return UnusableEntryError(
        f"Table {format_object_id(row.object_id)} cannot be used: its row has the location{where}, and {fault}. "
        "deregister_table removes the row and touches no file"
    )


def namespace_exists(snapshot: Snapshot, identifier: Identifier) -> bool:
    """Return True if a namespace and all its parents exist."""
    joined = ""
    for name in identifier:
        joined = f"{joined}{DELIMITER}{name}" if joined else name
        row = snapshot.get(joined)
        if row is None or row.object_type != NAMESPACE:
            return False
    return True
