"""Partial aggregates, which a task computes from the rows that it reads, so that Spark gets fewer rows.

Spark aggregates the partial results again. A single row is a partial result too: rows are passed on unaggregated if
Arrow would compute something else than Spark, or if aggregation does not reduce their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.types import DataType, StructType

SUM, TOTAL, COUNT, MIN, MAX = "sum", "total", "count", "min", "max"
"""The functions that can be computed in parts; `total` is a sum as double, from which averages are computed."""

_LONGS = 1 << 63
# Rows are grouped if the groups are at most this share of the rows.
_WORTH = 0.5


@dataclass(frozen=True)
class Measure:
    """A column of the partial results: a function of a table's column; COUNT of None counts rows."""

    name: str
    function: str
    column: str | None = None


@dataclass(frozen=True)
class PartialAggregates:
    """Aggregates of rows, grouped by the columns `keys`."""

    keys: tuple[str, ...]
    measures: tuple[Measure, ...]

    def spark_schema(self, read: StructType) -> StructType:
        """Return the schema of the partial results of rows with the schema `read`."""
        from pyspark.sql.types import StructField, StructType

        measures = [StructField(one.name, _spark_type(one, read)) for one in self.measures]
        return StructType([*(read[key] for key in self.keys), *measures])

    def aggregate(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the partial results of each batch."""
        worth = True
        for batch in batches:
            if not batch.num_rows:
                continue
            rows = self._to_partial_rows(batch)
            if not worth or not self._is_exact(batch):
                yield rows
                continue
            grouped = self._group(rows)
            worth = grouped.num_rows <= rows.num_rows * _WORTH
            yield grouped

    def _to_partial_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return each row as a partial result."""
        arrays = [batch.column(key) for key in self.keys] + [_measure_rows(one, batch) for one in self.measures]
        fields = [batch.schema.field(key) for key in self.keys]
        fields += [
            pa.field(one.name, array.type) for one, array in zip(self.measures, arrays[len(fields) :], strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _group(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        again = [(one.name, _AGAIN.get(one.function, one.function)) for one in self.measures]
        found = pa.Table.from_batches([rows]).group_by(list(self.keys), use_threads=False).aggregate(again)
        named = [found.column(key) for key in self.keys] + [found.column(f"{name}_{word}") for name, word in again]
        made = pa.Table.from_arrays(named, schema=rows.schema).combine_chunks()
        return made.to_batches()[0]

    def _is_exact(self, batch: pa.RecordBatch) -> bool:
        """Return True if Arrow computes the same as Spark: no sum overflows, and no NaN is compared."""
        for one in self.measures:
            column = None if one.column is None else batch.column(one.column)
            if column is None or one.function in {COUNT, TOTAL}:
                continue
            if one.function == SUM and column.type == pa.int64() and not _sums_fit(column):
                return False
            if one.function in {MIN, MAX} and pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                return False
        return True


_AGAIN = {TOTAL: "sum", COUNT: "sum"}


def _measure_rows(measure: Measure, batch: pa.RecordBatch) -> pa.Array:
    if measure.column is None:
        return pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
    column = batch.column(measure.column)
    if measure.function == COUNT:
        return column.is_valid().cast(pa.int64())
    if measure.function == TOTAL:
        return column.cast(pa.float64(), safe=False)
    if measure.function == SUM:
        return column.cast(pa.float64() if pa.types.is_floating(column.type) else pa.int64())
    return column


def _sums_fit(column: pa.Array) -> bool:
    """Return True if no sum of some of the values can exceed 64 bits."""
    ends = pc.min_max(column).as_py()
    return ends["min"] is None or max(abs(ends["min"]), abs(ends["max"])) * len(column) < _LONGS


def _spark_type(measure: Measure, read: StructType) -> DataType:
    from pyspark.sql.types import DoubleType, FractionalType, LongType

    if measure.function == COUNT or measure.column is None:
        return LongType()
    kind = read[measure.column].dataType
    if measure.function in {MIN, MAX}:
        return kind
    return DoubleType() if measure.function == TOTAL or isinstance(kind, FractionalType) else LongType()
