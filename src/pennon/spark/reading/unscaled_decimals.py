"""Decimals of up to 18 digits, which Spark receives as whole numbers.

Spark makes several objects of each decimal in an Arrow batch, but only one if it makes the decimal of a whole number.
The expression for that, `MakeDecimal`, is internal to Spark. If a version of Spark lacks it, and on Spark Connect,
decimals are sent as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from pennon.spark.quoting import quote_name
from pennon.spark.session_settings import classic_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

_LONG_DIGITS = 18  # of a number of 64 bits
_WHOLE = pa.decimal128(38, 0)
# Each column takes a fraction of a millisecond when the query is planned.
_LEAST_ROWS, _MOST_COLUMNS = 50_000, 64
_CHECKED_SESSIONS = 16


@dataclass(frozen=True)
class UnscaledDecimals:
    """Columns that are sent as whole numbers."""

    columns: frozenset[str] = frozenset()

    def sent_schema(self, schema: StructType) -> StructType:
        """Return the schema in which Spark receives the batches."""
        return StructType([StructField(one.name, self._sent_type(one), one.nullable, one.metadata) for one in schema])

    def to_sent(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with whole numbers; raises ArrowInvalid if one has more than 64 bits."""
        for name in self.columns:
            number = batch.schema.get_field_index(name)
            field, values = batch.schema.field(number), batch.column(number).view(_WHOLE).cast(pa.int64())
            batch = batch.set_column(number, field.with_type(pa.int64()), values)
        return batch

    def restore_schema(self, frame: DataFrame, schema: StructType) -> DataFrame:
        """Return a frame with the original schema."""
        if not self.columns:
            return frame
        return frame.select(*(self._restore_column(frame.sparkSession, field) for field in schema))

    def _sent_type(self, field: StructField) -> Any:
        return LongType() if field.name in self.columns else field.dataType

    def _restore_column(self, spark: SparkSession, field: StructField) -> Column:
        column = F.col(quote_name(field.name))
        if field.name not in self.columns:
            return column
        assert isinstance(field.dataType, DecimalType)
        made = _make_decimal(spark, column, field.dataType)
        return made.alias(field.name, metadata=field.metadata)


def find_unscaled_decimals(spark: SparkSession, schema: StructType, rows: int) -> UnscaledDecimals:
    """Return the decimals that are sent as whole numbers, if that is worth it for so many rows."""
    names = [
        one.name for one in schema if isinstance(one.dataType, DecimalType) and one.dataType.precision <= _LONG_DIGITS
    ]
    if not 0 < len(names) <= _MOST_COLUMNS or rows < _LEAST_ROWS or not _are_distinct(schema.names):
        return UnscaledDecimals()
    return UnscaledDecimals(frozenset(names)) if _can_make_decimals(spark) else UnscaledDecimals()


def _are_distinct(names: Sequence[str]) -> bool:
    """Return True if Spark can distinguish these names."""
    return len({name.casefold() for name in names}) == len(names)


@lru_cache(maxsize=_CHECKED_SESSIONS)
def _can_make_decimals(spark: SparkSession) -> bool:
    """Return True if Spark's internal expression can be used in a session."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    if classic_context(spark) is None:
        return False
    kind = DecimalType(_LONG_DIGITS, 2)
    try:
        made = spark.range(1).select(_make_decimal(spark, F.col("id"), kind).alias("made"))
        return bool(made.schema["made"].dataType == kind)
    except (Py4JError, TypeError, AttributeError):
        return False


def _make_decimal(spark: SparkSession, column: Any, kind: DecimalType) -> Column:
    """Return the decimals with these unscaled values; a value with too many digits is an error of Spark."""
    from pyspark.sql.classic.column import Column

    java: Any = spark.sparkContext._jvm.org.apache.spark.sql  # type: ignore[union-attr]  # noqa: SLF001 - there is no other way
    child = java.classic.ExpressionUtils.expression(column._jc)  # noqa: SLF001 - as above
    null_on_overflow = False
    made = java.catalyst.expressions.MakeDecimal(child, kind.precision, kind.scale, null_on_overflow)
    return Column(java.classic.ExpressionUtils.column(made))
