"""One version of the manifest: what plans and readers ask about its rows.

`LoadedSnapshot` answers from memory, `QueriedSnapshot` by queries of Lance. Callers do not need to know which one they
have, except for questions about all rows (`Manifest.read` with `whole`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.manifest.row import NAMESPACE, TABLE, Row, version_key
from pennon.identifiers import DELIMITER
from pennon.stored_json import parse_digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

AFTER_DELIMITER = chr(ord(DELIMITER) + 1)
"""Everything below a key is less than the key with this character."""
_LAST_VERSION = (1 << 64) - 1


@dataclass(slots=True)
class Fragment:
    """A fragment of the table: its files, its deletions, and the number of its rows that are not deleted."""

    files: str
    deletions: str | None
    live: int
    unreadable: int = 0
    """The number of unreadable rows. They are skipped, and preserved because the fragment is never rewritten."""


class Snapshot(ABC):
    """The rows of one version."""

    fragments: dict[int, Fragment]
    highest_fragment: int
    """The highest fragment id ever seen: ids of removed fragments are not used again."""

    def __init__(self) -> None:
        self.version = 0
        self.metadata: Mapping[str, str] = {}

    @abstractmethod
    def expect(self, *object_ids: str) -> None:
        """Prepare for questions about some rows, if that saves time."""

    @abstractmethod
    def expect_locations(self, *locations: str) -> None:
        """Prepare for questions which rows have these locations, if that saves time."""

    @abstractmethod
    def get(self, object_id: str) -> Row | None:
        """Return a row by its key, or None."""

    @abstractmethod
    def place(self, object_id: str) -> tuple[int, int]:
        """Return the fragment and the offset of an existing row."""

    @abstractmethod
    def namespace_names(self, parent: str, after: str = "", limit: int | None = None) -> Sequence[str]:
        """Return the namespaces directly below `parent`, sorted: those after a name, and not more than the limit.

        Do not change the list.
        """

    @abstractmethod
    def table_names(self, parent: str, after: str = "", limit: int | None = None) -> Sequence[str]:
        """Return the usable tables directly below `parent`, sorted: those after a name, and not more than the limit.

        Do not change the list.
        """

    @abstractmethod
    def listed_table_names(self, parent: str) -> Sequence[str]:
        """Return the tables directly below `parent`, sorted, also those with unusable locations."""

    @abstractmethod
    def versions_of(self, table: str) -> Sequence[int]:
        """Return the versions of a table that have rows, sorted. Do not change the list."""

    @abstractmethod
    def object_ids_at(self, location: str) -> tuple[str, ...]:
        """Return the keys of the rows with this location."""

    @abstractmethod
    def locations_below(self, location: str) -> Sequence[str]:
        """Return the locations of tables that are inside this one, which are few, if any."""

    @abstractmethod
    def table_ids(self, below: str = "") -> list[str]:
        """Return the ids of all usable tables below a namespace, at any depth, sorted, without reserved rows."""

    @abstractmethod
    def unreadable_in(self, fragment_id: int) -> int:
        """Return the number of rows of a fragment that cannot be read."""

    @abstractmethod
    def live_rows(self, fragment_id: int) -> list[Row]:
        """Return the readable rows of a fragment."""

    @abstractmethod
    def versioned_tables(self) -> list[str]:
        """Return the keys of everything that has version rows."""

    def version_rows(self, table: str, *, newest_first: bool = False) -> Iterator[Row]:
        """Iterate over the version rows of a table, in the order of their numbers."""
        versions = self.versions_of(table)
        for version in reversed(versions) if newest_first else versions:
            row = self.get(version_key(table, version))
            if row is not None:
                yield row

    def descendants(self, parent: str) -> Iterator[str]:
        """Iterate over the ids of everything below a namespace, parents before children."""
        # Not recursive: rows of other clients may be nested more deeply than the stack allows.
        waiting = [parent]
        while waiting:
            above = waiting.pop()
            if above != parent:
                yield above
            for name in self.listed_table_names(above):
                yield f"{above}{DELIMITER}{name}"
            waiting += [f"{above}{DELIMITER}{name}" for name in reversed(self.namespace_names(above))]


def find_location_fault(row: Row) -> str | None:
    """Return why the location of a table row is unusable, or None if it is usable or the row is not of a table."""
    if row.object_type != TABLE or row.location is None:
        return None
    return layout.find_location_fault(row.location)


def is_version(name: str) -> bool:
    """Return True if the last part of a key is a version number as `version_key` formats it."""
    number = parse_digits(name)
    return number is not None and 0 < number <= _LAST_VERSION and name[0] != "0"


LISTED_TYPES = (NAMESPACE, TABLE)
"""The types of rows that have names in listings."""
