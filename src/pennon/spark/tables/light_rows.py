"""Sending rows to Python without measuring the size of each batch after every row.

Spark limits the batches for a Python function by rows and by bytes. For the bytes, it adds up the buffers of all
columns after every row, which took half of the processor time of a write of small rows. Here, Spark only limits the
number of rows, and the size of each row is limited by the lengths of its strings and lists. In a larger row, these are
replaced by nulls and the row is flagged. If a task finds such a row, the write restarts and Spark measures batches.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from pennon.spark.quoting import quote_name
from pennon.spark.session_settings import classic_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

_MOST_ROWS, _MOST_BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"
_UNLIMITED = (1 << 31) - 1
ROWS = 1024
ROW_BYTES = 64 * 1024
"""Multiplied by the number of rows, this is Spark's own limit for a batch."""
# Batches are combined up to this size, because each batch costs as much as thousands of rows.
_BATCH_BYTES = 16 * 1024 * 1024
# With more strings and lists than this, checking a row takes longer than measuring batches.
_MOST_LOOKS = 64
_BYTES: dict[type[spark_types.DataType], int] = {
    spark_types.NullType: 0,
    spark_types.BooleanType: 1,
    spark_types.ByteType: 1,
    spark_types.ShortType: 2,
    spark_types.IntegerType: 4,
    spark_types.LongType: 8,
    spark_types.FloatType: 4,
    spark_types.DoubleType: 8,
    spark_types.DecimalType: 16,
    spark_types.DateType: 4,
    spark_types.TimeType: 8,
    spark_types.TimestampType: 8,
    spark_types.TimestampNTZType: 8,
    spark_types.DayTimeIntervalType: 8,
}
_TEXTS = (spark_types.StringType, spark_types.CharType, spark_types.VarcharType, spark_types.BinaryType)


class HeavyRowError(Exception):
    """A row is too large to be sent without measuring batches."""


def mark_light_rows(df: DataFrame) -> DataFrame | None:
    """Return the rows with a last column that is true for light rows; None if Spark has to measure batches.

    Columns are renamed, and strings and lists of rows that are not light are null. Spark has to measure if the size of
    a row is not easy to compute, on Spark Connect, and if the session sets its own limits for batches.
    """
    spark = df.sparkSession
    if classic_context(spark) is None or any(
        spark.conf.get(key, None) is not None for key in (_MOST_ROWS, _MOST_BYTES)
    ):
        return None
    looks: list[Column] = []
    try:
        fixed = sum(_measure_type(field.dataType, (field.name,), looks) for field in df.schema)
    except _UnknownSizeError:
        return None
    if fixed > ROW_BYTES or len(looks) > _MOST_LOOKS:
        return None
    is_light = reduce(add, looks, F.lit(fixed).cast("bigint")) <= ROW_BYTES
    columns = [_keep_if_light(field, is_light).alias(f"c{number}") for number, field in enumerate(df.schema)]
    return df.select(*columns, is_light.alias("light"))


@contextmanager
def without_weighing(spark: SparkSession) -> Iterator[None]:
    """Limit the batches of this thread's jobs only by rows; the settings of the session do not change."""
    context = classic_context(spark)
    assert context is not None
    settings = {_MOST_ROWS: str(ROWS), _MOST_BYTES: str(_UNLIMITED)}
    before = {key: context.getLocalProperty(key) for key in settings}
    _set_properties(context, settings)
    try:
        yield
    finally:
        _set_properties(context, before)


def unpack_light_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the original rows of `mark_light_rows` in larger batches; raises HeavyRowError if a row is not light."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        *columns, light_ones = batch.columns
        if light_ones.false_count:
            raise HeavyRowError
        held.append(pa.RecordBatch.from_arrays(columns, names=batch.schema.names[:-1]))
        size += batch.nbytes
        if size >= _BATCH_BYTES:
            yield from _combine(held)
            held, size = [], 0
    yield from _combine(held)


def _keep_if_light(field: spark_types.StructField, is_light: Column) -> Column:
    value = F.col(quote_name(field.name))
    return value if type(field.dataType) in _BYTES else F.when(is_light, value)


def _combine(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _set_properties(context: object, settings: dict[str, str | None] | dict[str, str]) -> None:
    for key, value in settings.items():
        context.setLocalProperty(key, value)  # type: ignore[attr-defined]  # a SparkContext; None removes a property


class _UnknownSizeError(Exception):
    """The size of a value is not easy to compute."""


def _measure_type(kind: spark_types.DataType, path: tuple[str, ...], looks: list[Column]) -> int:
    """Return the fixed bytes of a value of a type; add to `looks` the expressions for the variable bytes at `path`."""
    if type(kind) in _BYTES:
        return _BYTES[type(kind)]
    if isinstance(kind, spark_types.StructType):
        return sum(_measure_type(field.dataType, (*path, field.name), looks) for field in kind)
    value = F.col(quote_name(*path))
    if isinstance(kind, _TEXTS):
        length = F.octet_length(value).cast("bigint")
    elif isinstance(kind, spark_types.ArrayType) and type(kind.elementType) in _BYTES:
        length = F.array_size(value).cast("bigint") * _BYTES[type(kind.elementType)]
    else:
        raise _UnknownSizeError
    looks.append(F.coalesce(length, F.lit(0)))
    return 0
