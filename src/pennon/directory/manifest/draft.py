"""What a group of mutations wants to change, seen on top of the snapshot that it builds on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.identifiers import DELIMITER, parent_and_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.directory.manifest.row import Row
    from pennon.directory.manifest.snapshot import Snapshot


class Draft:
    """A snapshot with changes on it. Plans read and change it; a plan that raises leaves no change behind."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._changes: dict[str, Row | None] = {}

    def get(self, object_id: str) -> Row | None:
        """Find a row, changes included."""
        if object_id in self._changes:
            return self._changes[object_id]
        return self._snapshot.get(object_id)

    def put(self, row: Row) -> None:
        """Insert a row or replace the one with the same key."""
        self._changes[row.object_id] = row

    def remove(self, object_id: str) -> None:
        """Remove a row that is there."""
        self._changes[object_id] = None

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
            if row is not None and object_id.startswith(prefix) and self._snapshot.get(object_id) is None:
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

    def savepoint(self) -> dict[str, Row | None]:
        """Remember the changes so far."""
        return dict(self._changes)

    def roll_back(self, savepoint: dict[str, Row | None]) -> None:
        """Return to remembered changes."""
        self._changes = savepoint

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
