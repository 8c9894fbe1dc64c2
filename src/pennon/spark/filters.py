"""Spark's filters as Lance predicates with exactly Spark's meaning; what Lance cannot do so stays with Spark.

Which filters are pushed down is written in docs/reference/spark-types.md.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import Filter

_COMPARISONS = {EqualTo: "=", GreaterThan: ">", GreaterThanOrEqual: ">=", LessThan: "<", LessThanOrEqual: "<="}


def pushed(filter_: Filter, schema: pa.Schema) -> str | None:
    """Give a filter as a Lance predicate on a table with `schema`; None if Lance cannot do exactly what Spark does."""
    attribute = getattr(filter_, "attribute", None)
    if attribute is None or len(attribute) != 1 or attribute[0] not in schema.names:
        return None
    kind = schema.field(attribute[0]).type
    if isinstance(filter_, IsNull):
        return f"{column(attribute)} IS NULL"
    if isinstance(filter_, IsNotNull):
        return f"{column(attribute)} IS NOT NULL"
    sign = _COMPARISONS.get(type(filter_))
    if sign is None or not (pa.types.is_integer(kind) or pa.types.is_string(kind)):
        return None
    return f"{column(attribute)} {sign} {literal(getattr(filter_, 'value', None), kind)}"


def column(path: Sequence[str]) -> str:
    """Name a column, or a field inside of one, in a Lance predicate."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


def literal(value: object, arrow_type: pa.DataType) -> str:
    """Write a value as Lance compares it with a column of an Arrow type."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, decimal.Decimal)):
        return str(value)
    if isinstance(value, (dt.datetime, dt.date)):
        return f"arrow_cast('{value}', '{arrow_type}')"
    return "'" + str(value).replace("'", "''") + "'"
