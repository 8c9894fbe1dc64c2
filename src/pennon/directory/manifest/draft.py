"""The changes that a group of mutations makes to a snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from pennon.directory import layout
from pennon.directory.manifest.row import TABLE_VERSION, version_key
from pennon.identifiers import DELIMITER, parent_and_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pennon.directory.manifest.row import Row

_ABSENT = object()


class StoredRows(Protocol):
    """What a draft asks about the version below it. See `Snapshot`."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata map of the manifest."""

    def expect(self, *object_ids: str) -> None:
        """Prepare for questions about some rows."""

    def get(self, object_id: str) -> Row | None:
        """Return a row by its key, or None."""

    def versions_of(self, table: str) -> Sequence[int]:
        """Return the versions of a table that have rows, sorted."""

    def versioned_tables(self) -> list[str]:
        """Return the keys of everything that has version rows."""

    def object_ids_at(self, location: str) -> tuple[str, ...]:
        """Return the keys of the rows with this location."""

    def locations_below(self, location: str) -> Sequence[str]:
        """Return the locations of tables that are inside this one."""

    def descendants(self, parent: str) -> Iterator[str]:
        """Iterate over the ids of everything below a namespace."""


class Draft:
    """A snapshot with changes. Plans read and change it. The changes of a plan that raises an error are undone."""

    def __init__(self, snapshot: StoredRows) -> None:
        self._snapshot = snapshot
        self._changes: dict[str, Row | None] = {}
        self._versions: dict[str, dict[int, bool]] = {}
        """The versions whose rows are changed, by table: True if the row exists after the change."""
        self._log: list[tuple[dict[Any, Any], Any, Any]] = []
        """Each write to one of these maps: the map, the key, and the value before."""

    def expect(self, *object_ids: str) -> None:
        """Prepare for questions about some rows, if that saves time."""
        self._snapshot.expect(*object_ids)

    def get(self, object_id: str) -> Row | None:
        """Return a row by its key, changes included, or None."""
        if object_id in self._changes:
            return self._changes[object_id]
        return self._snapshot.get(object_id)

    def put(self, row: Row) -> None:
        """Insert a row or replace the one with the same key."""
        self._write(self._changes, row.object_id, row)
        if row.object_type == TABLE_VERSION:
            table, number = parent_and_name(row.object_id)
            self._write(self._versions.setdefault(table, {}), int(number), value=True)

    def remove(self, object_id: str) -> None:
        """Remove an existing row and its version rows."""
        self._write(self._changes, object_id, None)
        for version in self.versions_of(object_id):
            self.remove_version(object_id, version)

    def remove_version(self, table: str, version: int) -> None:
        """Remove a version row."""
        self._write(self._changes, version_key(table, version), None)
        self._write(self._versions.setdefault(table, {}), version, value=False)

    def move(self, object_id: str, row: Row) -> None:
        """Replace the row of `object_id` by a row with another key, and move its version rows to that key."""
        moved = [self.get(version_key(object_id, version)) for version in self.versions_of(object_id)]
        self.remove(object_id)
        self.put(row)
        for version in moved:
            if version is not None:
                _, number = parent_and_name(version.object_id)
                self.put(replace(version, object_id=version_key(row.object_id, int(number))))

    def versions_of(self, table: str) -> list[int]:
        """Return the versions of a table that have rows, sorted, changes included."""
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
        """Return the keys of everything that has version rows, changes included."""
        return [key for key in {*self._snapshot.versioned_tables(), *self._versions} if self.versions_of(key)]

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata map of the manifest."""
        return self._snapshot.metadata

    def object_ids_at(self, location: str) -> list[str]:
        """Return the keys of the rows with this location, changes included."""
        place = layout.normalise_location(location)
        kept = [key for key in self._snapshot.object_ids_at(place) if key not in self._changes]
        return kept + [
            key
            for key, row in self._changes.items()
            if row is not None and row.location is not None and layout.normalise_location(row.location) == place
        ]

    def overlapping(self, location: str) -> list[str]:
        """Return the keys of the rows whose location is this one, below it, or above it."""
        parts = location.split("/")
        owners = self.object_ids_at(location)
        for depth in range(1, len(parts)):
            owners += self.object_ids_at("/".join(parts[:depth]))
        changed = {row.location for row in self._changes.values() if row is not None and row.location is not None}
        below = {other for other in changed if other.startswith(location + "/")}
        for other in below.union(self._snapshot.locations_below(location)):
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
        """Return True if anything is below a namespace."""
        return next(self.descendants(parent), None) is not None

    def parent_exists(self, object_id: str) -> bool:
        """Return True if the parent namespace of `object_id` exists; the root always does."""
        parent, _ = parent_and_name(object_id)
        if not parent:
            return True
        row = self.get(parent)
        return row is not None and row.object_type == "namespace"

    def savepoint(self) -> int:
        """Return the number of changes so far, for `roll_back`."""
        return len(self._log)

    def roll_back(self, savepoint: int) -> None:
        """Undo all changes since a savepoint."""
        while len(self._log) > savepoint:
            target, key, before = self._log.pop()
            if before is _ABSENT:
                del target[key]
            else:
                target[key] = before

    def _write(self, target: dict[Any, Any], key: object, value: object) -> None:
        self._log.append((target, key, target.get(key, _ABSENT)))
        target[key] = value

    @property
    def changes(self) -> Mapping[str, Row | None]:
        """The rows after the change, by key. None for those that are removed."""
        return self._changes

    def removed(self) -> list[str]:
        """Return the keys whose stored rows are removed or replaced."""
        return [
            key
            for key, row in self._changes.items()
            if (stored := self._snapshot.get(key)) is not None and stored != row
        ]

    def added(self) -> list[Row]:
        """Return the rows to be written."""
        return [row for key, row in self._changes.items() if row is not None and self._snapshot.get(key) != row]
