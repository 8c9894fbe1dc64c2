"""Reading rows by their addresses: values that a change keeps do not pass through Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pennon.errors import InternalError
from pennon.identifiers import format_identifier
from pennon.spark import types
from pennon.spark.reading.scan import ROW_ADDRESS
from pennon.spark.types.encodings import bytes_to_blob
from pennon.spark.types.extension import BLOB, known_extension

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset

    from pennon.spark.reading.pinned import PinnedTable

ROW_ID = "_rowid"
FRAGMENT_BITS = 32
# Looking up one row costs about as much as reading this many consecutive bytes.
_LOOKUP_BYTES = 10_000
_STEP_BYTES = 64 * 1024 * 1024
# Blobs can have any size, which the size of a fragment's files does not include.
_BLOB_STEP_ROWS = 64


def read_rows(table: PinnedTable, addresses: pa.Array, columns: Sequence[str], *, row_ids: bool) -> Iterator[pa.Table]:
    """Yield columns of the rows with these ascending addresses, in that order, in tables of limited size.

    With `row_ids`, the last column `_rowid` contains the row ids.
    """
    dataset = table.open()
    step = _step_rows(dataset, columns)
    for start in range(0, len(addresses), step):
        yield _read_step(dataset, table, addresses.slice(start, step), columns, row_ids=row_ids)


def _read_step(
    dataset: LanceDataset, table: PinnedTable, addresses: pa.Array, columns: Sequence[str], *, row_ids: bool
) -> pa.Table:
    scattered: list[pa.Array] = []
    found: list[pa.Table] = []
    for fragment, wanted in split_by_fragment(addresses):
        first, last = wanted[0].as_py(), wanted[-1].as_py()
        width = _row_bytes(dataset, fragment, columns)
        if (last - first + 1) * width > len(wanted) * (width + _LOOKUP_BYTES):
            scattered.append(wanted)
            continue
        condition = f"{ROW_ADDRESS} >= {first} AND {ROW_ADDRESS} <= {last}"
        found.append(_scan_fragments(dataset, [fragment], condition, columns, row_ids=row_ids))
    if scattered:
        wanted = pa.concat_arrays(scattered)
        condition = f"{ROW_ADDRESS} IN ({', '.join(map(str, wanted.to_pylist()))})"
        fragments = [number for number, _ in split_by_fragment(wanted)]
        found.append(_scan_fragments(dataset, fragments, condition, columns, row_ids=row_ids))
    rows = pa.concat_tables(found)
    places = pc.index_in(addresses, value_set=rows.column(ROW_ADDRESS))
    if places.null_count:
        raise InternalError(
            f"Version {table.version} of table {format_identifier(table.identifier)} lacks rows that it had before"
        )
    return rows.drop_columns([ROW_ADDRESS]).take(places)


def cast_to_field(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return values that were read in the type of a field in plain form, in which they are written again."""
    if known_extension(field) == BLOB:
        return bytes_to_blob(array, field.type)
    return array if array.type == field.type else array.cast(field.type)


def split_by_fragment(addresses: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Yield each fragment with its part of the ascending addresses."""
    fragments = pc.shift_right(addresses, pa.scalar(FRAGMENT_BITS, addresses.type))
    runs = pc.run_end_encode(fragments)
    start = 0
    for fragment, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield fragment, addresses.slice(start, end - start)
        start = end


def _scan_fragments(
    dataset: LanceDataset, fragments: Sequence[int], condition: str, columns: Sequence[str], *, row_ids: bool
) -> pa.Table:
    return dataset.scanner(
        columns=list(columns),
        filter=condition,
        fragments=[open_fragment(dataset, number) for number in fragments],
        with_row_address=True,
        with_row_id=row_ids,
        blob_handling="all_binary" if _has_blobs(dataset, columns) else None,
    ).to_table()


def _step_rows(dataset: LanceDataset, columns: Sequence[str]) -> int:
    if _has_blobs(dataset, columns):
        return _BLOB_STEP_ROWS
    widths = [_row_bytes(dataset, fragment.fragment_id, columns) for fragment in dataset.get_fragments()[:1]]
    return max(1, int(_STEP_BYTES / max(widths, default=1.0)))


def _has_blobs(dataset: LanceDataset, columns: Sequence[str]) -> bool:
    return types.has_blobs(dataset.schema.field(name) for name in columns)


def _row_bytes(dataset: LanceDataset, fragment: int, columns: Sequence[str]) -> float:
    """Return an estimate of the bytes of these columns in a row of a fragment."""
    metadata = open_fragment(dataset, fragment).metadata
    size = sum(file.file_size_bytes or 0 for file in metadata.files)
    share = len(columns) / max(1, len(dataset.schema))
    return float(max(1.0, size / max(1, metadata.physical_rows) * share))


def open_fragment(dataset: LanceDataset, number: int) -> Any:
    """Return a fragment that a version is known to have."""
    return dataset.get_fragment(number)
