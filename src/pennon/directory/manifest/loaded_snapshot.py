"""One version of the manifest in memory: columns of many rows, and an overlay of the rows that changed since.

`loading` advances it by reading only what changed. Once the overlay is a fair share of all rows, it is merged into new
columns.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pennon.directory import layout
from pennon.directory.manifest.columns import FRAGMENT_SHIFT, RowColumns, empty_columns
from pennon.directory.manifest.name_list import NameList, select_names
from pennon.directory.manifest.row import NAMESPACE, TABLE, TABLE_VERSION, Row, extra_columns, rows_to_table
from pennon.directory.manifest.scan import ADDRESS
from pennon.directory.manifest.snapshot import LISTED_TYPES, Snapshot, find_location_fault, is_version
from pennon.identifiers import DELIMITER, RESERVED_PREFIX, find_name_fault, parent_and_name, split_object_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    Place = tuple[int, int]

_SMALLEST_MERGE = 4_096
_MERGED_SHARE = 16
_RECENT_ROWS = 4_096
_RECENT_NAMES = 1_000_000
_MANY_NAMES = 10_000
"""Longer lists of names stay columns."""


class LoadedSnapshot(Snapshot):
    """The rows of one version, all in memory. It is not thread-safe: its owner locks it."""

    def __init__(self) -> None:
        super().__init__()
        self.fragments = {}
        self.highest_fragment = -1
        self._changes: dict[str, Row | None] = {}
        """Rows that are not as in the columns, by key. None if the row of the columns is gone."""
        self._places: dict[str, Place] = {}
        self._added_names: dict[tuple[str, str], set[str]] = {}
        self._changed_locations: dict[str, set[str]] = {}
        self._deep_locations: set[str] = set()
        self._names: dict[tuple[str, str], list[Any] | NameList] = {}
        """Lists of names, or of version numbers, that were asked for. Changes update them."""
        self._listed = 0
        self._rows: dict[str, Row] = {}
        """Rows of the columns that were asked for."""
        self._odd_locations: dict[str, set[str]] = {}
        """Keys in the columns whose stored location is not the one spelling of it, by that spelling."""
        self._faults: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        """Ids that no identifier leads to, and why."""
        self._size = 0

    @cached_property
    def _columns(self) -> RowColumns:
        """The columns. An empty snapshot makes none before the first question: it is often replaced without one.

        The first use of Arrow's functions takes milliseconds, for which a client that has just started would wait.
        """
        return empty_columns()

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._size

    def load(self, columns: RowColumns) -> None:
        """Replace all rows."""
        self._columns = columns
        self._size = len(self._columns)
        for cache in (self._changes, self._places, self._added_names, self._changed_locations, self._names, self._rows):
            cache.clear()
        self._listed = 0
        self._deep_locations.clear()
        self._odd_locations.clear()
        self._faults.clear()
        self.skipped.clear()
        unlisted = []
        for position in self._columns.suspects.tolist():
            row = self._columns.row(position)
            if not self._record_faults(row):
                unlisted.append(position)
            if row.object_type == TABLE and row.location is not None:
                self._record_odd_location(row.object_id, row.location)
        self._columns.exclude_from_names(unlisted)

    def expect(self, *object_ids: str) -> None:
        """Do nothing: all rows are in memory."""

    def expect_locations(self, *locations: str) -> None:
        """Do nothing: all rows are in memory."""

    def get(self, object_id: str) -> Row | None:
        """Return a row by its key, or None."""
        if object_id in self._changes:
            return self._changes[object_id]
        row = self._rows.get(object_id)
        if row is None:
            position = self._columns.find(object_id)
            if position is None:
                return None
            row = self._columns.row(position)
            if len(self._rows) >= _RECENT_ROWS:
                self._rows.clear()
            self._rows[object_id] = row
        return row

    def object_ids(self) -> list[str]:
        """Return the keys of all rows."""
        kept = (self._columns.key(position) for position in range(len(self._columns)))
        changed = self._changes
        return [key for key in kept if key not in changed] + [key for key, row in changed.items() if row is not None]

    def unreadable_rows(self) -> int:
        """Return the number of rows that were skipped because they are unreadable."""
        return sum(fragment.unreadable for fragment in self.fragments.values())

    def place(self, object_id: str) -> Place:
        """Return the fragment and the offset of an existing row."""
        if object_id in self._places:
            return self._places[object_id]
        position = self._columns.find(object_id)
        if position is None:
            raise KeyError(object_id)
        return self._columns.place(position)

    def namespace_names(self, parent: str, after: str = "", limit: int | None = None) -> Sequence[str]:
        """Return the namespaces directly below `parent`, sorted. Do not change the list."""
        return select_names(self._list_names(parent, NAMESPACE), after, limit)

    def table_names(self, parent: str, after: str = "", limit: int | None = None) -> Sequence[str]:
        """Return the usable tables directly below `parent`, sorted. Do not change the list."""
        names = self.listed_table_names(parent)
        if self._faults:
            prefix = parent + DELIMITER if parent else ""
            names = [name for name in names if prefix + name not in self._faults]
        return select_names(names, after, limit)

    def listed_table_names(self, parent: str) -> Sequence[str]:
        """Return the tables directly below `parent`, sorted, also those with unusable locations."""
        names: Sequence[str] = self._list_names(parent, TABLE)
        return names

    def location_faults(self) -> Mapping[str, str]:
        """Return why the locations of some table rows are unusable, by key. Do not change the map."""
        return self._faults

    def versions_of(self, table: str) -> list[int]:
        """Return the versions of a table that have rows, sorted. Do not change the list."""
        versions: list[int] = self._list_names(table, TABLE_VERSION)
        return versions

    def versioned_tables(self) -> list[str]:
        """Return the keys of everything that has version rows."""
        stored = (self._columns.key(position) for position in self._columns.positions_of_type(TABLE_VERSION).tolist())
        parents = {parent_and_name(key)[0] for key in stored if key not in self._changes}
        parents |= {parent for parent, object_type in self._added_names if object_type == TABLE_VERSION}
        return [parent for parent in sorted(parents) if self.versions_of(parent)]

    def object_ids_at(self, location: str) -> tuple[str, ...]:
        """Return the keys of the rows with this location."""
        place = layout.normalise_location(location)
        stored = {self._columns.key(position) for position in self._columns.positions_at(place)}
        stored |= self._odd_locations.get(place, set())
        kept = [key for key in stored if key not in self._changes]
        return tuple(sorted([*kept, *self._changed_locations.get(place, ())]))

    def locations_below(self, location: str) -> list[str]:
        """Return the locations of tables that are inside this one."""
        return [other for other in self.deep_locations() if other.startswith(location + "/")]

    def deep_locations(self) -> set[str]:
        """Return the locations that are more than one directory deep, which are few, if any."""
        return {other for other in self._deep_locations if self.object_ids_at(other)}

    def table_ids(self, below: str = "") -> list[str]:
        """Return the ids of all usable tables below a namespace, at any depth, sorted, without reserved rows."""
        columns, prefix = self._columns, below + DELIMITER if below else ""
        positions = columns.positions_of_type(TABLE, *columns.range_below(below))
        suspects = set(columns.suspects.tolist())
        ids = [
            key
            for position, key in zip(positions.tolist(), columns.keys.decode(positions), strict=True)
            if key not in self._changes
            and (position not in suspects or self._is_usable(key))
            and not key.startswith(RESERVED_PREFIX)
        ]
        ids += [
            key
            for key, row in self._changes.items()
            if row is not None and row.object_type == TABLE and key.startswith(prefix) and self._is_usable(key)
        ]
        return sorted(ids)

    def unreadable_in(self, fragment_id: int) -> int:
        """Return the number of rows of a fragment that cannot be read."""
        return self.fragments[fragment_id].unreadable

    def live_rows(self, fragment_id: int) -> list[Row]:
        """Return the readable rows of a fragment, in order."""
        keys = {offset: key for key, (fragment, offset) in self._places.items() if fragment == fragment_id}
        for position in self._columns.positions_in([fragment_id]).tolist():
            key = self._columns.key(position)
            if key not in self._changes:
                keys[self._columns.place(position)[1]] = key
        rows = (self.get(keys[offset]) for offset in sorted(keys))
        return [row for row in rows if row is not None]

    def keys_in(self, fragments: Collection[int]) -> list[str]:
        """Return the keys of the rows of some fragments."""
        stored = (self._columns.key(position) for position in self._columns.positions_in(fragments).tolist())
        kept = [key for key in stored if key not in self._changes]
        return kept + [key for key, (fragment, _) in self._places.items() if fragment in fragments]

    def keys_at(self, fragment_id: int, offsets: Iterable[int]) -> list[str]:
        """Return the keys of the rows at some offsets of a fragment."""
        wanted = sorted({(fragment_id << FRAGMENT_SHIFT) | offset for offset in offsets})
        positions = np.flatnonzero(np.isin(self._columns.addresses, np.asarray(wanted, dtype=np.uint64)))
        stored = (self._columns.key(position) for position in positions.tolist())
        found = set(wanted)
        return [key for key in stored if key not in self._changes] + [
            key for key, (fragment, offset) in self._places.items() if (fragment << FRAGMENT_SHIFT) | offset in found
        ]

    def put(self, row: Row, place: Place) -> None:
        """Add a row, or replace the one with the same key."""
        key, before = row.object_id, self.get(row.object_id)
        if before is not None and before != row:
            self.remove(key)
            before = None
        self._places[key] = place
        if key in self._changes and before is not None:
            return
        self._changes[key] = row
        self._rows.pop(key, None)
        parent, name = parent_and_name(key)
        if self._record_faults(row):
            self._added_names.setdefault((parent, row.object_type), set()).add(name)
            names = self._names.get((parent, row.object_type))
            if before is None and names is not None:
                _insert_sorted(names, row.object_type, name)
        if row.object_type == TABLE and row.location is not None:
            location = layout.normalise_location(row.location)
            self._changed_locations.setdefault(location, set()).add(key)
            if "/" in location:
                self._deep_locations.add(location)
        if before is None:
            self._size += 1

    def remove(self, object_id: str) -> None:
        """Remove an existing row."""
        row = self.get(object_id)
        if row is None:
            return
        self._size -= 1
        self._rows.pop(object_id, None)
        self._places.pop(object_id, None)
        if self._columns.find(object_id) is None:
            self._changes.pop(object_id, None)
        else:
            self._changes[object_id] = None
        self._faults.pop(object_id, None)
        self.skipped.pop(object_id, None)
        parent, name = parent_and_name(object_id)
        added = self._added_names.get((parent, row.object_type))
        if added is not None:
            added.discard(name)
            if not added:
                del self._added_names[parent, row.object_type]
        _remove_sorted(self._names.get((parent, row.object_type)), row.object_type, name)
        if row.object_type == TABLE and row.location is not None:
            location = layout.normalise_location(row.location)
            keys = self._changed_locations.get(location, set())
            keys.discard(object_id)
            if not keys:
                self._changed_locations.pop(location, None)

    @property
    def needs_merge(self) -> bool:
        """True if so many rows changed that the columns should be built again."""
        return len(self._changes) > max(_SMALLEST_MERGE, len(self._columns) // _MERGED_SHARE)

    def merge(self, schema: pa.Schema) -> None:
        """Merge all changes into the columns. `schema` is that of the manifest table."""
        positions = [position for key in self._changes if (position := self._columns.find(key)) is not None]
        kept = self._columns.to_table(positions)
        changed = {key: row for key, row in self._changes.items() if row is not None}
        addresses = [
            (fragment << FRAGMENT_SHIFT) | offset for fragment, offset in map(self._places.__getitem__, changed)
        ]
        added = rows_to_table(list(changed.values()), schema).append_column(ADDRESS, pa.array(addresses, pa.uint64()))
        table = added if not len(kept) else pa.concat_tables([kept, added.select(kept.schema.names).cast(kept.schema)])
        self.load(RowColumns(table.select, extra_columns(schema)))

    def _list_names(self, parent: str, object_type: str) -> Any:
        """Return the sorted names, or version numbers, of the rows of a type directly below a key."""
        key = (parent, object_type)
        found = self._names.get(key)
        if found is not None:
            return found
        stored = self._columns.names(parent, object_type)
        names: list[Any] | NameList
        if len(stored) > _MANY_NAMES and object_type != TABLE_VERSION:
            names = self._update(stored, key)
        else:
            prefix = parent + DELIMITER if parent else ""
            names = [name for name in stored if prefix + name not in self._changes]
            names += self._added_names.get(key, ())
            if object_type == TABLE_VERSION:
                names = [int(name) for name in names]
            names.sort()
        self._listed += 1 + len(names)
        if self._listed > _RECENT_NAMES:
            self._names.clear()
            self._listed = 1 + len(names)
        self._names[key] = names
        return names

    def _update(self, names: NameList, key: tuple[str, str]) -> NameList:
        """Apply the changes since the columns to a long list of names."""
        parent, _ = key
        for changed in self._changes:
            above, name = parent_and_name(changed)
            if above == parent and self._columns.find(changed) is not None:
                names.remove(name)
        for name in self._added_names.get(key, ()):
            names.add(name)
        return names

    def _record_faults(self, row: Row) -> bool:
        """Record what is wrong with a row, and return True if it has a name in listings."""
        fault = find_location_fault(row)
        if fault is not None:
            self._faults[row.object_id] = fault
        parent, name = parent_and_name(row.object_id)
        if row.object_type == TABLE_VERSION:
            if is_version(name):
                return True
            self.skipped[row.object_id] = "it does not end with the number of a version"
            return False
        fault = find_name_fault(name, at_root=not parent)
        if fault is not None:
            if parent or not name.startswith(RESERVED_PREFIX):
                self.skipped[row.object_id] = f"its name cannot be used: {fault}"
            return False
        return row.object_type in LISTED_TYPES

    def _record_odd_location(self, key: str, location: str) -> None:
        place = layout.normalise_location(location)
        self._odd_locations.setdefault(place, set()).add(key)
        if "/" in place:
            self._deep_locations.add(place)

    def _is_usable(self, key: str) -> bool:
        return key not in self._faults and not any(
            find_name_fault(name, at_root=level == 0) for level, name in enumerate(split_object_id(key))
        )


def _insert_sorted(names: list[Any] | NameList, object_type: str, name: str) -> None:
    """Insert a name into a sorted list."""
    if isinstance(names, NameList):
        names.add(name)
    else:
        insort(names, int(name) if object_type == TABLE_VERSION else name)


def _remove_sorted(names: list[Any] | NameList | None, object_type: str, name: str) -> None:
    """Remove a name from a sorted list, if it is there."""
    if names is None or (object_type == TABLE_VERSION and not is_version(name)):
        return
    if isinstance(names, NameList):
        names.remove(name)
        return
    value = int(name) if object_type == TABLE_VERSION else name
    position = bisect_left(names, value)
    if position < len(names) and names[position] == value:
        del names[position]
