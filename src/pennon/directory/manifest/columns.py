"""Many rows of the manifest as sorted columns, without a Python object for each row.

A million rows take about 60 MB. A lookup is a binary search in the keys. The objects directly below a namespace are a
range of the keys, restricted to one depth and one type.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pennon.directory import layout
from pennon.directory.manifest.name_list import NameList
from pennon.directory.manifest.row import SCHEMA, TABLE, TABLE_VERSION, TRASH, Row, table_to_rows
from pennon.directory.manifest.scan import ADDRESS
from pennon.directory.manifest.snapshot import AFTER_DELIMITER
from pennon.identifiers import DELIMITER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    ReadColumns = Callable[[list[str]], pa.Table]

FRAGMENT_SHIFT = 32
OFFSET_MASK = 0xFFFFFFFF
_NAME = "[0-9A-Za-z][0-9A-Za-z_.-]*"
_ORDINARY_KEY = rf"^({TRASH}\$)?{_NAME}(\${_NAME})*$"
_ORDINARY_VERSION = r"\$[1-9][0-9]{0,17}$"
_ORDINARY_LOCATION = r"^([0-9a-f]{8}_[0-9A-Za-z$_-]+|[0-9A-Za-z][0-9A-Za-z_-]*\.lance)$"
_TYPES_IN_A_BYTE = 256
_ORDINARY_LENGTH = 200
"""Rows with such keys and locations need no further check. All others are checked one by one."""


class TextColumn:
    """A column of texts: one buffer of UTF-8, and where each text starts."""

    def __init__(self, array: pa.Array) -> None:
        array = array.cast(pa.large_string()) if array.offset else array
        self._type = array.type
        validity, offsets, data = array.buffers()
        self._length = len(array)
        self._validity = validity if array.null_count else None
        self._valid = np.asarray(array.is_valid()) if array.null_count else None
        self.offsets: NDArray[Any] = np.frombuffer(
            offsets, dtype=np.int64 if pa.types.is_large_string(array.type) else np.int32, count=self._length + 1
        )
        self._starts: memoryview = self.offsets.data
        self.data: bytes = b"" if data is None else data.to_pybytes()

    def __len__(self) -> int:
        """Return the number of texts."""
        return self._length

    def encoded(self, position: int) -> bytes:
        """Return a text as UTF-8; null is empty."""
        return self.data[self._starts[position] : self._starts[position + 1]]

    def get(self, position: int) -> str | None:
        """Return a text, or None if it is null."""
        if self._valid is not None and not self._valid[position]:
            return None
        return self.encoded(position).decode()

    def decode(self, positions: NDArray[Any], start: int = 0) -> list[str]:
        """Return the texts at some positions, without their first `start` bytes."""
        begins, ends = (self.offsets[positions] + start).tolist(), self.offsets[positions + 1].tolist()
        data = self.data
        return [data[begin:end].decode() for begin, end in zip(begins, ends, strict=True)]

    def to_arrow(self) -> pa.Array:
        """Return the column as Arrow, without a copy."""
        buffers = [self._validity, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(self._type, self._length, buffers)


class RowColumns:
    """Rows of one version of the manifest, sorted by their keys. They never change."""

    def __init__(self, read: ReadColumns, extra: Sequence[str] = ()) -> None:
        """Read and sort rows. Rows without an id or a type are left out, and counted.

        `read` returns some columns, always in the same order. It is called once for each large column, so that only
        one of them is in memory twice.
        """
        table = read(["object_id", "object_type", ADDRESS])
        keys, types = _combine(table["object_id"]), _combine(table["object_type"])
        addresses = np.asarray(_combine(table[ADDRESS]), dtype=np.uint64)
        order, self.unreadable = _sort(keys, types, addresses)
        del table
        self.addresses: NDArray[np.uint64] = addresses[np.asarray(order)]
        """The addresses of the rows."""
        keys = keys.take(order)
        self.keys = TextColumn(keys)
        encoded_types = types.take(order).dictionary_encode()
        self._type_names: list[str] = encoded_types.dictionary.to_pylist()
        smallest = np.uint8 if len(self._type_names) < _TYPES_IN_A_BYTE else np.int32
        self._types = np.asarray(encoded_types.indices).astype(smallest)
        locations = _combine(read(["location"])["location"]).take(order)
        self.suspects: NDArray[Any] = np.flatnonzero(_find_suspects(keys, encoded_types.cast(pa.string()), locations))
        """The positions of rows whose key or location needs a check."""
        self._locations = TextColumn(locations)
        del keys, types, encoded_types, locations
        self._metadata = TextColumn(_combine(read(["metadata"])["metadata"]).take(order))
        bases = _combine(read(["base_objects"])["base_objects"]).take(order)
        self._bases = None if bases.null_count == len(bases) else bases
        self._extra = {name: _combine(read([name])[name]).take(order) for name in extra}
        self._unlisted: NDArray[Any] = np.empty(0, dtype=np.int64)
        self._depths: NDArray[np.int32] | None = None
        self._by_location: NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.keys)

    def find(self, key: str) -> int | None:
        """Return the position of a key, or None."""
        encoded = key.encode(errors="surrogatepass")
        position = self._first(encoded)
        return position if position < len(self) and self.keys.encoded(position) == encoded else None

    def key(self, position: int) -> str:
        """Return the key at a position."""
        return self.keys.encoded(position).decode()

    def row(self, position: int) -> Row:
        """Return the row at a position."""
        location = self._locations.get(position)
        bases = None if self._bases is None else self._bases[position].as_py()
        return Row(
            self.key(position),
            self._type_names[self._types[position]],
            None if location is None else layout.normalise_stored_location(location),
            self._metadata.get(position),
            None if bases is None else tuple(bases),
            tuple(column[position] for column in self._extra.values()),
        )

    def place(self, position: int) -> tuple[int, int]:
        """Return the fragment and the offset of a row."""
        address = int(self.addresses[position])
        return address >> FRAGMENT_SHIFT, address & OFFSET_MASK

    def exclude_from_names(self, positions: Sequence[int]) -> None:
        """Leave rows out of `names`: no identifier leads to them."""
        self._unlisted = np.asarray(sorted(positions), dtype=np.int64)

    def positions_of_type(self, object_type: str, low: int = 0, high: int | None = None) -> NDArray[Any]:
        """Return the positions of the rows of a type, in a range."""
        if object_type not in self._type_names:
            return np.empty(0, dtype=np.int64)
        code = self._type_names.index(object_type)
        return np.flatnonzero(self._types[low : len(self) if high is None else high] == code) + low

    def range_below(self, parent: str) -> tuple[int, int]:
        """Return the range of the positions of everything below a namespace, at any depth."""
        if not parent:
            return 0, len(self)
        encoded = parent.encode(errors="surrogatepass")
        return self._first(encoded + DELIMITER.encode()), self._first(encoded + AFTER_DELIMITER.encode())

    def names(self, parent: str, object_type: str) -> NameList:
        """Return the names of the objects of a type directly below a namespace, sorted."""
        low, high = self.range_below(parent)
        positions = self.positions_of_type(object_type, low, high)
        depth = parent.count(DELIMITER) + 1 if parent else 0
        positions = positions[self._key_depths()[positions] == depth]
        if len(self._unlisted):
            positions = np.setdiff1d(positions, self._unlisted, assume_unique=True)
        start = len(parent.encode(errors="surrogatepass")) + 1 if parent else 0
        return NameList(positions, lambda some: self.keys.decode(some, start))

    def positions_at(self, location: str) -> list[int]:
        """Return the positions of the table rows that store exactly this location."""
        order = self._location_order()
        encoded = location.encode(errors="surrogatepass")
        text = self._locations.encoded
        first = bisect_left(order, encoded, key=text)
        found = []
        while first < len(order) and text(order[first]) == encoded:
            found.append(int(order[first]))
            first += 1
        return found

    def positions_in(self, fragments: Collection[int]) -> NDArray[Any]:
        """Return the positions of the rows of some fragments."""
        if not fragments:
            return np.empty(0, dtype=np.int64)
        numbers = self.addresses >> np.uint64(FRAGMENT_SHIFT)
        if len(fragments) == 1:
            return np.flatnonzero(numbers == np.uint64(next(iter(fragments))))
        return np.flatnonzero(np.isin(numbers, np.asarray(sorted(fragments), dtype=np.uint64)))

    def to_table(self, without: Sequence[int]) -> pa.Table:
        """Return the rows as an Arrow table with their addresses, without those at some positions."""
        kept = np.ones(len(self), dtype=bool)
        kept[np.asarray(without, dtype=np.int64)] = False
        types = pa.DictionaryArray.from_arrays(pa.array(self._types.astype(np.int32)), pa.array(self._type_names))
        list_type = SCHEMA.field("base_objects").type
        columns = {
            "object_id": self.keys.to_arrow(),
            "object_type": types.cast(pa.string()),
            "location": self._locations.to_arrow(),
            "metadata": self._metadata.to_arrow(),
            "base_objects": pa.nulls(len(self), list_type) if self._bases is None else self._bases,
            **self._extra,
            ADDRESS: pa.array(self.addresses),
        }
        return pa.table(columns).filter(pa.array(kept))

    def _first(self, encoded: bytes) -> int:
        """Return the position of the first key that is not less than this one."""
        return bisect_left(range(len(self)), encoded, key=self.keys.encoded)

    def _key_depths(self) -> NDArray[np.int32]:
        """Return the number of delimiters in each key."""
        if self._depths is None:
            delimiters = np.flatnonzero(np.frombuffer(self.keys.data, dtype=np.uint8) == ord(DELIMITER))
            self._depths = np.diff(np.searchsorted(delimiters, self.keys.offsets)).astype(np.int32)
        return self._depths

    def _location_order(self) -> NDArray[np.uint32]:
        """Return the positions of the tables, sorted by location."""
        if self._by_location is None:
            tables = self.positions_of_type(TABLE)
            locations = self._locations.to_arrow().take(pa.array(tables))
            present = pc.is_valid(locations)
            order = np.asarray(pc.sort_indices(locations.filter(present)))
            self._by_location = tables[np.asarray(present)][order].astype(np.uint32)
        return self._by_location


@cache
def empty_columns() -> RowColumns:
    """Return columns without rows, the same object each time."""
    table = SCHEMA.append(pa.field(ADDRESS, pa.uint64())).empty_table()
    return RowColumns(table.select)


def iterate_rows(table: pa.Table, extra: Sequence[str]) -> Iterator[tuple[Row | None, tuple[int, int]]]:
    """Iterate over the rows of an Arrow table with their fragments and offsets. An unreadable row is None."""
    for address, row in zip(table[ADDRESS].to_pylist(), table_to_rows(table, extra), strict=True):
        yield row, (address >> FRAGMENT_SHIFT, address & OFFSET_MASK)


def _combine(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array. Texts of more than 2 GiB get offsets of eight bytes."""
    if isinstance(column, pa.Array):
        return column
    if pa.types.is_string(column.type) and column.nbytes > 1 << 30:
        column = column.cast(pa.large_string())
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _sort(keys: pa.Array, types: pa.Array, addresses: NDArray[np.uint64]) -> tuple[pa.Array, dict[int, int]]:
    """Return the order of the rows by key, and the number of unreadable rows in each fragment.

    Of several rows with one key, the last one counts.
    """
    readable = np.flatnonzero(np.asarray(pc.and_(pc.is_valid(keys), pc.is_valid(types))))
    unreadable: dict[int, int] = {}
    if len(readable) == len(keys):
        order = pc.sort_indices(keys)
    else:
        broken = np.delete(addresses, readable)
        fragments, counts = np.unique(broken >> np.uint64(FRAGMENT_SHIFT), return_counts=True)
        unreadable = dict(zip(fragments.tolist(), counts.tolist(), strict=True))
        order = pa.array(readable[np.asarray(pc.sort_indices(keys.take(pa.array(readable))))])
    ordered = keys.take(order)
    if len(ordered) > 1:
        is_repeated = np.asarray(pc.equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)))
        if is_repeated.any():
            order = _keep_last(np.asarray(order), is_repeated, addresses)
    return order, unreadable


def _keep_last(order: NDArray[Any], is_repeated: NDArray[np.bool_], addresses: NDArray[np.uint64]) -> pa.Array:
    """Return an order with only the last row, by address, of each run of equal keys."""
    run = np.concatenate([[0], np.cumsum(~is_repeated)])
    ordered = order[np.lexsort((addresses[order], run))]
    return pa.array(ordered[np.append(~is_repeated, True)])


def _find_suspects(keys: pa.Array, types: pa.Array, locations: pa.Array) -> NDArray[np.bool_]:
    """Return which rows have a key or a location that needs a check by itself."""
    ordinary = pc.and_(
        pc.match_substring_regex(keys, _ORDINARY_KEY), pc.less_equal(pc.binary_length(keys), _ORDINARY_LENGTH)
    )
    is_table = pc.equal(types, TABLE)
    location_is_ordinary = pc.or_(
        pc.invert(is_table),
        pc.fill_null(
            pc.and_(
                pc.match_substring_regex(locations, _ORDINARY_LOCATION),
                pc.less_equal(pc.binary_length(locations), _ORDINARY_LENGTH),
            ),
            fill_value=True,
        ),
    )
    ordinary = pc.and_(ordinary, location_is_ordinary)
    is_version = pc.equal(types, TABLE_VERSION)
    if pc.any(is_version).as_py():
        ordinary = pc.and_(ordinary, pc.or_(pc.invert(is_version), pc.match_substring_regex(keys, _ORDINARY_VERSION)))
    return ~np.asarray(ordinary, dtype=bool)
