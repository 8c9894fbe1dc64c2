"""One version of the manifest that stays in storage: each question is a query of Lance.

A client that has just started answers its first questions so, by the index on `object_id`, without reading all rows.
Answers are kept, because a version never changes.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pennon.directory import layout
from pennon.directory.manifest.columns import iterate_rows
from pennon.directory.manifest.loading import describe_fragment
from pennon.directory.manifest.row import COLUMNS, NAMESPACE, TABLE, TABLE_VERSION, Row, extra_columns, version_key
from pennon.directory.manifest.scan import ADDRESS, scan
from pennon.directory.manifest.snapshot import AFTER_DELIMITER, Snapshot, find_location_fault, is_version
from pennon.errors import is_not_found
from pennon.identifiers import DELIMITER, find_name_fault, parent_and_name, split_object_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import lance

    from pennon.directory.manifest.snapshot import Fragment

    Place = tuple[int, int]

_FEW_KEYS = 500
_IS_ODD_LOCATION = "location LIKE '%./%' OR location LIKE '%//%' OR location LIKE '%/.%'"
"""The condition for locations that have other spellings."""


class VersionGoneError(Exception):
    """The files of a version no longer exist. A later version has been opened, or the root was created again."""


class QueriedSnapshot(Snapshot):
    """The rows of one version, in storage. Any thread can use it.

    Every question raises VersionGoneError if the version was removed. If another client has written several rows with
    one key, the last one counts, but listings may show any of them.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        super().__init__()
        self._dataset = dataset
        self._extra = extra_columns(dataset.schema)
        self.version = dataset.version
        self.metadata = dataset.metadata
        self._rows: dict[str, tuple[Row, Place] | None] = {}
        self._versions: dict[str, list[int]] = {}
        self._object_ids_at: dict[str, tuple[str, ...]] = {}
        self._locations_below: dict[str, list[str]] = {}
        self.seconds = 0.0
        """How long all queries took, together."""

    @cached_property
    def fragments(self) -> dict[int, Fragment]:  # type: ignore[override]  # its first use sets it
        """The fragments of the table. Most questions do not need them, and there may be many."""
        found = self._dataset.get_fragments()
        return {fragment.fragment_id: describe_fragment(fragment.metadata) for fragment in found}

    @cached_property
    def highest_fragment(self) -> int:  # type: ignore[override]
        """The highest fragment id of this version."""
        return max(self.fragments, default=-1)

    def expect(self, *object_ids: str) -> None:
        """Fetch rows that will be asked for, with one query."""
        wanted = [key for key in object_ids if key not in self._rows]
        for start in range(0, len(wanted), _FEW_KEYS):
            keys = wanted[start : start + _FEW_KEYS]
            found = dict(self._fetch(f"object_id IN ({', '.join(map(_quote, keys))})"))
            self._rows.update({key: found.get(key) for key in keys})

    def expect_locations(self, *locations: str) -> None:
        """Fetch the rows at some locations, with one query."""
        places = [layout.normalise_location(location) for location in locations]
        wanted = [place for place in places if place not in self._object_ids_at]
        for start in range(0, len(wanted), _FEW_KEYS):
            some = wanted[start : start + _FEW_KEYS]
            found: dict[str, list[str]] = {place: [] for place in some}
            for row in self._rows_located(_has_location(*some)):
                found.setdefault(_normalise(row), []).append(row.object_id)
            self._object_ids_at.update({place: tuple(sorted(found[place])) for place in some})

    def get(self, object_id: str) -> Row | None:
        """Return a row by its key, or None."""
        self.expect(object_id)
        found = self._rows[object_id]
        return None if found is None else found[0]

    def place(self, object_id: str) -> Place:
        """Return the fragment and the offset of an existing row."""
        self.expect(object_id)
        found = self._rows[object_id]
        if found is None:
            raise KeyError(object_id)
        return found[1]

    def namespace_names(self, parent: str, after: str = "", limit: int | None = None) -> list[str]:
        """Return the namespaces directly below `parent`, sorted."""
        return self._page(parent, NAMESPACE, after, limit, usable=False)

    def table_names(self, parent: str, after: str = "", limit: int | None = None) -> list[str]:
        """Return the usable tables directly below `parent`, sorted."""
        return self._page(parent, TABLE, after, limit, usable=True)

    def listed_table_names(self, parent: str) -> list[str]:
        """Return the tables directly below `parent`, sorted, also those with unusable locations."""
        return self._page(parent, TABLE, "", None, usable=False)

    def versions_of(self, table: str) -> list[int]:
        """Return the versions of a table that have rows, sorted. Do not change the list."""
        if table not in self._versions:
            where = f"{_is_below(table)} AND object_type = {_quote(TABLE_VERSION)}"
            names = []
            for key, found in self._fetch(where):
                parent, name = parent_and_name(key)
                if parent == table and is_version(name):
                    self._rows[version_key(table, int(name))] = found
                    names.append(int(name))
            self._versions[table] = sorted(names)
        return self._versions[table]

    def versioned_tables(self) -> list[str]:
        """Return the keys of everything that has version rows."""
        keys = self._scan(["object_id"], f"object_type = {_quote(TABLE_VERSION)}")["object_id"].to_pylist()
        return sorted({parent for parent, name in map(parent_and_name, keys) if is_version(name)})

    def object_ids_at(self, location: str) -> tuple[str, ...]:
        """Return the keys of the rows with this location."""
        self.expect_locations(location)
        return self._object_ids_at[layout.normalise_location(location)]

    def locations_below(self, location: str) -> list[str]:
        """Return the locations of tables that are inside this one."""
        if location not in self._locations_below:
            prefix = location + "/"
            where = f"starts_with(location, {_quote(prefix)}) OR {_IS_ODD_LOCATION}"
            places = {_normalise(row) for row in self._rows_located(where)}
            self._locations_below[location] = sorted(place for place in places if place.startswith(prefix))
        return self._locations_below[location]

    def table_ids(self, below: str = "") -> list[str]:
        """Return the ids of all usable tables below a namespace, at any depth, sorted, without reserved rows."""
        where = f"object_type = {_quote(TABLE)}" + f" AND {_is_below(below)}"
        table = self._scan(["object_id", "location"], where)
        pairs = zip(table["object_id"].to_pylist(), table["location"].to_pylist(), strict=True)
        return sorted({key for key, location in pairs if key is not None and _is_usable(key, location)})

    def unreadable_in(self, fragment_id: int) -> int:
        """Return the number of rows of a fragment that cannot be read."""
        return self.fragments[fragment_id].live - len(self.live_rows(fragment_id))

    def live_rows(self, fragment_id: int) -> list[Row]:
        """Return the readable rows of a fragment."""
        found = dict(self._fetch(None, fragments=[self._dataset.get_fragment(fragment_id)]))
        self.expect(*found)
        return [row for row, _ in found.values()]

    def _page(self, parent: str, object_type: str, after: str, limit: int | None, *, usable: bool) -> list[str]:
        """Return sorted names below a key, after one of them. Rows that no identifier leads to are left out."""
        prefix = parent + DELIMITER if parent else ""
        names: list[str] = []
        while True:
            missing = None if limit is None else limit - len(names)
            found = self._query_names(prefix, object_type, after, missing)
            names += [
                name
                for name, location in found.items()
                if not find_name_fault(name, at_root=not parent)
                and not (usable and _has_bad_location(prefix + name, object_type, location))
            ]
            if missing is None or len(found) < missing or len(names) >= (limit or 0):
                return names
            after = next(reversed(found))

    def _query_names(self, prefix: str, object_type: str, after: str, limit: int | None) -> dict[str, str | None]:
        """Return the names directly below a prefix, sorted, with the locations of their rows."""
        start = len(prefix) + 1
        conditions = [f"object_type = {_quote(object_type)}", f"strpos(substr(object_id, {start}), '{DELIMITER}') = 0"]
        if prefix:
            conditions.append(f"object_id < {_quote(prefix[:-1] + AFTER_DELIMITER)}")
        if prefix or after:
            conditions.append(f"object_id {'>' if after else '>='} {_quote(prefix + after)}")
        table = self._scan(["object_id", "location"], " AND ".join(conditions), limit=limit)
        pairs = zip(table["object_id"].to_pylist(), table["location"].to_pylist(), strict=True)
        return {key[len(prefix) :]: location for key, location in sorted(pairs, key=lambda pair: pair[0])}

    def _rows_located(self, where: str) -> Iterator[Row]:
        """Iterate over the table rows whose location meets a condition."""
        for _, (row, _) in self._fetch(f"object_type = {_quote(TABLE)} AND ({where})"):
            if row.location is not None:
                yield row

    def _fetch(
        self, where: str | None, *, fragments: Iterable[Any] | None = None
    ) -> Iterator[tuple[str, tuple[Row, Place]]]:
        """Iterate over the rows that a condition selects, with their places, by address."""
        table = self._scan([*COLUMNS, *self._extra, ADDRESS], where, fragments=fragments)
        found = [(place, row) for row, place in iterate_rows(table, self._extra) if row is not None]
        found.sort(key=lambda pair: pair[0])
        for place, row in found:
            yield row.object_id, (row, place)

    def _scan(
        self,
        columns: list[str],
        where: str | None,
        *,
        fragments: Iterable[Any] | None = None,
        limit: int | None = None,
    ) -> Any:
        started = time.monotonic()
        try:
            return scan(
                self._dataset,
                columns,
                fragments=None if fragments is None else list(fragments),
                where=where,
                first=None if limit is None else ("object_id", limit),
            )
        except (OSError, ValueError) as error:
            if is_not_found(error):
                raise VersionGoneError from error
            raise
        finally:
            self.seconds += time.monotonic() - started


def _quote(text: str) -> str:
    """Return a text as a literal of Lance's filters."""
    return "'" + text.replace("'", "''") + "'"


def _has_location(*places: str) -> str:
    """Return the condition for rows that may be at one of these places, in any spelling."""
    spellings = (text for place in places for text in (place, f"./{place}", f"{place}/"))
    return f"location IN ({', '.join(map(_quote, spellings))}) OR {_IS_ODD_LOCATION}"


def _is_below(parent: str) -> str:
    """Return the condition for keys below a key, at any depth."""
    if not parent:
        return "true"
    return f"object_id >= {_quote(parent + DELIMITER)} AND object_id < {_quote(parent + AFTER_DELIMITER)}"


def _normalise(row: Row) -> str:
    return layout.normalise_location(str(row.location))


def _is_usable(key: str, location: str | None) -> bool:
    return not _has_bad_location(key, TABLE, location) and not any(
        find_name_fault(name, at_root=level == 0) for level, name in enumerate(split_object_id(key))
    )


def _has_bad_location(key: str, object_type: str, location: str | None) -> bool:
    if location is None:
        return False
    return find_location_fault(Row(key, object_type, layout.normalise_stored_location(location))) is not None
