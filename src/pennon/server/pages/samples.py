"""Some rows of a version, within limits of columns, rows and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.server.pages.cells import Cell, convert_values, describe_type, make_blob_cell, make_cell
from pennon.table.blobs import is_blob_column

if TYPE_CHECKING:
    from lance import LanceDataset

SAMPLE_ROWS = 20
MOST_COLUMNS = 40
MOST_BYTES = 16 << 20
"""How much is read at most, beside one row that is larger."""
_FIRST_BYTES = 64


@dataclass(frozen=True)
class SampleColumn:
    """A column of a sample."""

    name: str
    type: str
    is_number: bool


@dataclass(frozen=True)
class Sample:
    """Some rows, and what was left out of them."""

    columns: tuple[SampleColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    start: int
    total: int
    left_columns: int
    is_cut: bool
    """Whether there are fewer rows than asked for, because they are large."""

    @property
    def end(self) -> int:
        """The number of the row after the last one."""
        return self.start + len(self.rows)


def read_sample(dataset: LanceDataset, start: int, limit: int = SAMPLE_ROWS) -> Sample:
    """Return some rows, beginning with a number."""
    fields = list(dataset.schema)[:MOST_COLUMNS]
    blobs = [field.name for field in fields if is_blob_column(field)]
    plain = [field for field in fields if field.name not in blobs]
    total = int(dataset.count_rows())
    count = max(0, min(limit, total - start))
    values = _read_values(dataset, [field.name for field in plain], start, count)
    count = len(values)
    cells = {field.name: [make_cell(row[number], field.type) for row in values] for number, field in enumerate(plain)}
    cells |= {name: _read_blobs(dataset, name, start, count) for name in blobs}
    return Sample(
        tuple(SampleColumn(field.name, describe_type(field), _is_number(field.type)) for field in fields),
        tuple(tuple(cells[field.name][row] for field in fields) for row in range(count)),
        start,
        total,
        len(dataset.schema) - len(fields),
        count < max(0, min(limit, total - start)),
    )


def _read_values(dataset: LanceDataset, columns: list[str], start: int, count: int) -> list[list[object]]:
    if not columns or not count:
        return [[]] * count
    # One row at a time, so that large values stop the scan early.
    scanner = dataset.scanner(columns=columns, offset=start, limit=count, batch_size=1, batch_readahead=1)
    rows: list[list[object]] = []
    size = 0
    for batch in scanner.to_batches():
        size += batch.nbytes
        rows += [list(row) for row in zip(*map(convert_values, batch.columns), strict=True)]
        if size > MOST_BYTES:
            break
    return rows


def _read_blobs(dataset: LanceDataset, column: str, start: int, count: int) -> list[Cell]:
    if not count:
        return []
    cells = []
    for blob in dataset.take_blobs(column, indices=list(range(start, start + count))):
        if blob is None:
            cells.append(Cell("null", "null"))
            continue
        with blob:
            cells.append(make_blob_cell(bytes(blob.read(_FIRST_BYTES)), int(blob.size())))
    return cells


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
