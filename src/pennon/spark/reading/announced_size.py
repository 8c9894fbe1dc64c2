"""The size that Spark assumes for a scan, from which it chooses how to join.

Spark assumes that a Python function returns as many rows as it gets. So the function gets numbers that are as large as
the rows, and a filter keeps only one number for each split. docs/adr/0011-spark-reads.md has the details.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

# Numbers take time too, so their size is at most this many times the threshold for broadcasts.
_BEYOND_BROADCAST = 8
_ALWAYS_LARGE = 256 * 1024 * 1024
# Sizes in Spark's settings.
_SIZE = re.compile(r"(-?\d+)\s*([kmgtp])?b?")
# What Spark assumes for a number, for a row besides its values, and for values of other types than eight bytes.
_NUMBER_BYTES = 8
_ROW_BYTES = 8
_VALUE_BYTES = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "float": 4, "date": 4, "string": 20, "binary": 100}
_LONG_DIGITS = 18


def size_to_announce(spark: SparkSession, size: int, measure: Callable[[], int] | None = None) -> int:
    """Return the size of a result, as far as it matters to Spark.

    `measure` returns a better estimate than `size`. It takes time, so it is called only if Spark would not broadcast
    `size` bytes, but might broadcast fewer.
    """
    # No default here: PySpark would return it instead of Spark's own default.
    setting = _SIZE.fullmatch(str(spark.conf.get("spark.sql.autoBroadcastJoinThreshold")).strip().lower())
    if setting is None:
        return min(size, _ALWAYS_LARGE)
    threshold = max(int(setting[1]), 0) * int(1024 ** " kmgtp".index(setting[2] or " "))
    if measure is not None and size > threshold > 0:
        size = measure()
    return min(size, _BEYOND_BROADCAST * threshold)


def numbers_per_split(size: int, splits: int, schema: StructType) -> int:
    """Return how many numbers represent a split, so that Spark assumes at least `size` bytes for rows of `schema`."""
    announced_by_number = _NUMBER_BYTES * (_ROW_BYTES + _value_bytes(schema)) / (_ROW_BYTES + _NUMBER_BYTES)
    return max(math.ceil(size / announced_by_number / splits), 1)


def _value_bytes(kind: DataType) -> int:
    """Return what Spark assumes for a value of a type."""
    if isinstance(kind, StructType):
        return sum(_value_bytes(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _value_bytes(kind.elementType)
    if isinstance(kind, MapType):
        return _value_bytes(kind.keyType) + _value_bytes(kind.valueType)
    if isinstance(kind, DecimalType):
        return 8 if kind.precision <= _LONG_DIGITS else 16
    return _VALUE_BYTES.get(kind.typeName(), 8)
