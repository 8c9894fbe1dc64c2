"""What a group of mutations wants to change, seen on top of the snapshot that it builds on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.manifest.row import TABLE_VERSION, version_key
from pennon.identifiers import DELIMITER, parent_and_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pennon.directory.manifest.row import Row
    from pennon.directory.manifest.snapshot import Snapshot

    Savepoint = tuple[dict[str, Row | None], dict[str, dict[int, bool]]]


class Draft:
    """A snapshot with changes on it. Plans read and change it; a plan that raises leaves no change behind."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._changes: dict[str, Row | None] = {}
        self._versions: dict[str, dict[int, bool]] = {}
        """The versions whose rows are changed, by table, and whether they are there then."""

    def get(self, object_id: str) -> Row | None:
        """Find a row, changes included."""
        if object_id in self._changes:
            return self._changes[object_id]
        return self._snapshot.get(object_id)

    def put(self, row: Row) -> None:
        """Insert a row or replace the one with the same key."""
        self._changes[row.object_id] = row
        if row.object_type == TABLE_VERSION:
            table, number = parent_and_name(row.object_id)
            self._versions.setdefault(table, {})[int(number)] = True

    def remove(self, object_id: str) -> None:
        """Remove a row that is there, and the rows of its versions with it."""
        self._changes[object_id] = None
        for version in self.versions_of(object_id):
            self.remove_version(object_id, version)

    def remove_version(self, table: str, version: int) -> None:
        """Remove the row of a version."""
        self._changes[version_key(table, version)] = None
        self._versions.setdefault(table, {})[version] = False

    def move(self, object_id: str, row: Row) -> None:
        """Put a row in the place of another one, under its own key; the rows of versions move along."""
        moved = [self.get(version_key(object_id, version)) for version in self.versions_of(object_id)]
        self.remove(object_id)
        self.put(row)
        for version in moved:
            if version is not None:
                _, number = parent_and_name(version.object_id)
                self.put(replace(version, object_id=version_key(row.object_id, int(number))))

    def versions_of(self, table: str) -> list[int]:
        """List the versions of a table that have rows, sorted, changes included."""
        stored = self._snapshot.versions_of(table)
        changed = self._versions.get(table)
        if not changed:
            return list(stored)
        kept = [version for version in stored if changed.get(version, True)]
        known = set(stored)
        return sorted(kept + [version for version, there in changed.items() if there and version not in known])

    def version_rows(self, table: str, *, newest_first: bool = False) -> Iterator[Row]:
        """Iterate over the version rows of a table, changes included, in the order of their numbers."""
        versions = self.versions_of(table)
        for version in reversed(versions) if newest_first else versions:
            row = self.get(version_key(table, version))
            if row is not None:
                yield row

    def versioned_tables(self) -> list[str]:
        """Name everything that has rows of versions, changes included."""
        return [key for key in {*self._snapshot.versioned_tables(), *self._versions} if self.versions_of(key)]

    @property
    def metadata(self) -> Mapping[str, str]:
        """Give the metadata map of the manifest."""
        return self._snapshot.metadata

    def object_ids_at(self, location: str) -> list[str]:
        """Tell which rows name a location, changes included."""
        place = layout.normalised(location)
        kept = [key for key in self._snapshot.object_ids_at(place) if key not in self._changes]
        return kept + [
            key
            for key, row in self._changes.items()
            if row is not None and row.location is not None and layout.normalised(row.location) == place
        ]

    def overlapping(self, location: str) -> list[str]:
        """Tell which rows name a location, one inside of it, or one that it is inside of."""
        parts = location.split("/")
        owners = self.object_ids_at(location)
        for depth in range(1, len(parts)):
            owners += self.object_ids_at("/".join(parts[:depth]))
        changed = {row.location for row in self._changes.values() if row is not None and row.location is not None}
        for other in self._snapshot.deep_locations() | changed:
            if other.startswith(location + "/"):
                owners += self.object_ids_at(other)
        return owners

    def descendants(self, parent: str) -> Iterator[str]:
        """Iterate over the ids of everything below a namespace, changes included."""
        for object_id in self._snapshot.descendants(parent):
            if self.get(object_id) is not None:
                yield object_id
        prefix = parent + DELIMITER
        for object_id, row in self._changes.items():
            new = row is not None and row.object_type != TABLE_VERSION and self._snapshot.get(object_id) is None
            if new and object_id.startswith(prefix):
                yield object_id

    def has_children(self, parent: str) -> bool:
        """Tell whether anything is below a namespace."""
        return next(self.descendants(parent), None) is not None

    def parent_exists(self, object_id: str) -> bool:
        """Tell whether the namespace that would hold `object_id` is there; the root always is."""
        parent, _ = parent_and_name(object_id)
        if not parent:
            return True
        row = self.get(parent)
        return row is not None and row.object_type == "namespace"

    def savepoint(self) -> Savepoint:
        """Remember the changes so far."""
        return dict(self._changes), {table: dict(versions) for table, versions in self._versions.items()}

    def roll_back(self, savepoint: Savepoint) -> None:
        """Return to remembered changes."""
        self._changes, self._versions = savepoint

    def removed(self) -> list[str]:
        """List the keys whose stored rows go, because they are removed or replaced."""
        return [
            key
            for key, row in self._changes.items()
            if (stored := self._snapshot.get(key)) is not None and stored != row
        ]

    def added(self) -> list[Row]:
        """List the rows that are to be written."""
        return [row for key, row in self._changes.items() if row is not None and self._snapshot.get(key) != row]
