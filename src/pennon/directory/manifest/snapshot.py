"""One version of the manifest in memory, with an index for each kind of lookup.

Lookups are dictionary lookups and pages are slices of sorted lists, so reads cost the same with a thousand and with a
million entries. The snapshot knows the fragment and the offset of each row. So `loading` can advance it by reading only
what changed, and `commit` can delete rows without searching for them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.directory import layout
from pennon.directory.manifest.row import NAMESPACE, TABLE, TABLE_VERSION, Row, version_key
from pennon.identifiers import DELIMITER, RESERVED_PREFIX, find_name_fault, parent_and_name, split_object_id
from pennon.stored_json import parse_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_BULK = 64
"""With at least this many new entries, sorting once is cheaper than inserting one by one."""
_LAST_VERSION = (1 << 64) - 1


@dataclass(slots=True)
class Fragment:
    """A fragment of the table: its files, its deletions, and the object id at each offset (None if deleted)."""

    files: str
    deletions: str | None
    ids: list[str | None]
    live: int
    unreadable: int = 0
    """The number of unreadable rows. They are skipped, and preserved because the fragment is never rewritten."""


@dataclass(slots=True)
class Children:
    """Names directly below a namespace, sorted."""

    namespaces: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)

    def of(self, object_type: str) -> list[str] | None:
        """Return the list for an object type, or None for types that are not listed."""
        return self.namespaces if object_type == NAMESPACE else self.tables if object_type == TABLE else None


_NO_CHILDREN = Children()


class Snapshot:
    """The rows of one version. It is not thread-safe: its owner locks it."""

    def __init__(self) -> None:
        self.version = 0
        self.metadata: Mapping[str, str] = {}
        self.fragments: dict[int, Fragment] = {}
        self.highest_fragment = -1
        """The highest fragment id ever seen: ids of removed fragments are not used again."""
        self._rows: dict[str, Row] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._children: dict[str, Children] = {}
        self._locations: dict[str, tuple[str, ...]] = {}
        self._deep_locations: set[str] = set()
        self._versions: dict[str, list[int]] = {}
        self._faults: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        """Ids that no identifier leads to, and why."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def get(self, object_id: str) -> Row | None:
        """Return a row by its key, or None."""
        return self._rows.get(object_id)

    def object_ids(self) -> list[str]:
        """Return the keys of all rows."""
        return list(self._rows)

    def unreadable_rows(self) -> int:
        """Return the number of rows that were skipped because they are unreadable."""
        return sum(fragment.unreadable for fragment in self.fragments.values())

    def place(self, object_id: str) -> tuple[int, int]:
        """Return the fragment and the offset of a row."""
        return self._places[object_id]

    def namespace_names(self, parent: str) -> list[str]:
        """Return the namespaces directly below `parent`, sorted. Do not change the list."""
        return self._children.get(parent, _NO_CHILDREN).namespaces

    def table_names(self, parent: str) -> list[str]:
        """Return the usable tables directly below `parent`, sorted. Do not change the list."""
        names = self._children.get(parent, _NO_CHILDREN).tables
        if not self._faults:
            return names
        prefix = parent + DELIMITER if parent else ""
        return [name for name in names if prefix + name not in self._faults]

    def location_faults(self) -> Mapping[str, str]:
        """Return why the locations of some table rows are unusable, by key. Do not change the map."""
        return self._faults

    def versions_of(self, table: str) -> list[int]:
        """Return the versions of a table that have rows, sorted. Do not change the list."""
        return self._versions.get(table, [])

    def version_rows(self, table: str, *, newest_first: bool = False) -> Iterator[Row]:
        """Iterate over the version rows of a table, in the order of their numbers."""
        versions = self.versions_of(table)
        for version in reversed(versions) if newest_first else versions:
            row = self.get(version_key(table, version))
            if row is not None:
                yield row

    def versioned_tables(self) -> list[str]:
        """Return the keys of everything that has version rows."""
        return list(self._versions)

    def object_ids_at(self, location: str) -> tuple[str, ...]:
        """Return the keys of the rows with this location."""
        return self._locations.get(layout.normalise_location(location), ())

    def deep_locations(self) -> set[str]:
        """Return the locations that are more than one directory deep, which are few, if any."""
        return self._deep_locations

    def table_ids(self, below: str = "") -> list[str]:
        """Return the ids of all usable tables below a namespace, at any depth, sorted, without reserved rows."""
        prefix = below + DELIMITER if below else ""
        return sorted(
            object_id
            for object_id, row in self._rows.items()
            if row.object_type == TABLE
            and object_id.startswith(prefix)
            and object_id not in self._faults
            and not any(
                find_name_fault(name, at_root=level == 0) for level, name in enumerate(split_object_id(object_id))
            )
        )

    def descendants(self, parent: str) -> Iterator[str]:
        """Iterate over the ids of everything below a namespace, parents before children."""
        # Not recursive: rows of other clients may be nested more deeply than the stack allows.
        waiting = [parent]
        while waiting:
            above = waiting.pop()
            if above != parent:
                yield above
            children = self._children.get(above, _NO_CHILDREN)
            for name in children.tables:
                yield f"{above}{DELIMITER}{name}"
            waiting += [f"{above}{DELIMITER}{name}" for name in reversed(children.namespaces)]

    def live_rows(self, fragment_id: int) -> list[Row]:
        """Return the rows of a fragment, in order."""
        return [self._rows[object_id] for object_id in self.fragments[fragment_id].ids if object_id is not None]

    def drop_fragment(self, fragment_id: int) -> None:
        """Remove a fragment and its rows."""
        fragment = self.fragments[fragment_id]
        self.drop_offsets(fragment_id, [offset for offset, key in enumerate(fragment.ids) if key is not None])
        del self.fragments[fragment_id]

    def drop_offsets(self, fragment_id: int, offsets: Iterable[int]) -> None:
        """Remove the rows at some offsets of a fragment."""
        fragment = self.fragments[fragment_id]
        for offset in offsets:
            object_id = fragment.ids[offset]
            if object_id is None:
                continue
            fragment.ids[offset] = None
            fragment.live -= 1
            if self._places.get(object_id) == (fragment_id, offset):
                self._remove_row(object_id)

    def add_fragment(self, fragment_id: int, fragment: Fragment, rows: Mapping[int, Row]) -> None:
        """Add a new fragment with its live rows, by offset."""
        self.fragments[fragment_id] = fragment
        self.highest_fragment = max(self.highest_fragment, fragment_id)
        unsorted: dict[int, list[Any]] = {}
        bulk = len(rows) >= _BULK
        # Changed rows are removed first, while all lists are sorted.
        for row in rows.values():
            before = self._rows.get(row.object_id)
            if before is not None and before != row:
                self._remove_row(row.object_id)
        for offset, row in rows.items():
            self._places[row.object_id] = (fragment_id, offset)
            if row.object_id in self._rows:
                continue
            names, name = self._index_row(row)
            if names is None:
                continue
            if bulk:
                names.append(name)
                unsorted[id(names)] = names
            else:
                insort(names, name)
        for names in unsorted.values():
            names.sort()

    def _index_row(self, row: Row) -> tuple[list[Any] | None, str | int]:
        """Index a row by key and location, and return its name and the list of names it belongs to, if it is listed."""
        self._rows[row.object_id] = row
        if row.object_type == TABLE and row.location is not None:
            location = layout.normalise_location(row.location)
            self._locations[location] = (*self._locations.get(location, ()), row.object_id)
            if "/" in location:
                self._deep_locations.add(location)
        fault = find_location_fault(row)
        if fault is not None:
            self._faults[row.object_id] = fault
        parent, name = parent_and_name(row.object_id)
        if row.object_type == TABLE_VERSION:
            if is_version(name):
                return self._versions.setdefault(parent, []), int(name)
            self.skipped[row.object_id] = "it does not end with the number of a version"
            return None, name
        fault = find_name_fault(name, at_root=not parent)
        if fault is not None:
            if parent or not name.startswith(RESERVED_PREFIX):
                self.skipped[row.object_id] = f"its name cannot be used: {fault}"
            return None, name
        children = self._children.get(parent)
        if children is None:
            children = self._children[parent] = Children()
        return children.of(row.object_type), name

    def _remove_row(self, object_id: str) -> None:
        row = self._rows.pop(object_id)
        self.skipped.pop(object_id, None)
        del self._places[object_id]
        self._faults.pop(object_id, None)
        if row.object_type == TABLE and row.location is not None:
            location = layout.normalise_location(row.location)
            left = tuple(other for other in self._locations[location] if other != object_id)
            if left:
                self._locations[location] = left
            else:
                del self._locations[location]
                self._deep_locations.discard(location)
        parent, name = parent_and_name(object_id)
        if row.object_type == TABLE_VERSION:
            _remove_sorted(self._versions.get(parent), int(name) if is_version(name) else -1)
            if not self._versions.get(parent):
                self._versions.pop(parent, None)
            return
        _remove_sorted(self._children.get(parent, _NO_CHILDREN).of(row.object_type), name)


def find_location_fault(row: Row) -> str | None:
    """Return why the location of a table row is unusable, or None if it is usable or the row is not of a table."""
    if row.object_type != TABLE or row.location is None:
        return None
    return layout.find_location_fault(row.location)


def is_version(name: str) -> bool:
    """Return True if the last part of a key is a version number as `version_key` formats it."""
    number = parse_digits(name)
    return number is not None and 0 < number <= _LAST_VERSION and name[0] != "0"


def _remove_sorted(names: list[Any] | None, name: str | int) -> None:
    """Remove a value from a sorted list."""
    if names is None:
        return
    position = bisect_left(names, name)
    if position < len(names) and names[position] == name:
        del names[position]
