"""Values on their way into columns: those that INSERT casts, and those that SET puts into fields of structs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark_types

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.quoting import quote_name
from pennon.spark.sql.ddl import quote_string
from pennon.spark.sql.references import fold_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from pennon.spark.lake import Lake
    from pennon.spark.sql.statements import Assignment

_TIMES = (spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType)


def align_columns(
    lake: Lake, table: Identifier, frame: DataFrame, schema: spark_types.StructType, *, keep_others: bool
) -> DataFrame:
    """Bring the columns of a query to those of a table: in its order, cast where SQL casts, null where missing.

    Columns that the table does not have raise 13 unless they are kept, for it to get them.
    """
    given = {fold_name(name): number for number, name in enumerate(frame.columns)}
    if len(given) != len(frame.columns):
        raise InvalidInputError(f"INSERT into table {format_identifier(table)}: the query has two columns of one name")
    columns = [_column(frame, given.pop(fold_name(field.name), None), field) for field in schema]
    if given and not keep_others:
        extra = ", ".join(frame.columns[number] for number in given.values())
        raise InvalidInputError(
            f"INSERT into table {format_identifier(table)}: it has no column {extra}; it has {', '.join(schema.names)}"
        )
    others = [_at(frame, number) for number in sorted(given.values())]
    del lake
    return frame.select(*columns, *others)


def build_assignments(
    table: Identifier,
    assignments: Sequence[Assignment],
    name: str,
    schema: spark_types.StructType,
    rewrite: Callable[[str], str],
) -> dict[str, str]:
    """Give what each column is set to; a field of a struct is set by making the struct anew.

    `name` is what the table is called, and may stand before a column. `rewrite` makes expressions fit for Spark.
    """
    whole: dict[str, str] = {}
    parts: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for one in assignments:
        path = _path(table, one.column, name, schema)
        clash = path[0] in whole or (len(path) == 1 and path[0] in parts)
        if clash or any(path[: len(other)] == other[: len(path)] for other, _ in parts.get(path[0], ())):
            raise InvalidInputError(f"Column {'.'.join(path)} of table {format_identifier(table)} is set twice")
        if len(path) == 1:
            whole[path[0]] = rewrite(one.expression)
        else:
            parts.setdefault(path[0], []).append((path, rewrite(one.expression)))
    for column, changes in parts.items():
        whole[column] = _struct(schema[column].dataType, (column,), f"{quote_name(name)}.{quote_name(column)}", changes)
    return whole


def _path(table: Identifier, column: Sequence[str], name: str, schema: spark_types.StructType) -> tuple[str, ...]:
    """Find the column, or the field inside of one, that is set."""
    for parts in (column[1:] if fold_name(column[0]) == fold_name(name) else (), column):
        found = _found(parts, schema) if parts else None
        if found is not None:
            return found
    raise TableColumnNotFoundError(
        f"Table {format_identifier(table)} has no column {'.'.join(column)!r} to set; it has {', '.join(schema.names)}"
    )


def _found(parts: Sequence[str], schema: spark_types.DataType) -> tuple[str, ...] | None:
    path: list[str] = []
    for part in parts:
        names = schema.names if isinstance(schema, spark_types.StructType) else []
        same = [one for one in names if one == part] or [one for one in names if fold_name(one) == fold_name(part)]
        if len(same) != 1 or not isinstance(schema, spark_types.StructType):
            return None
        path.append(same[0])
        schema = schema[same[0]].dataType
    return tuple(path)


def _struct(
    kind: spark_types.DataType,
    path: tuple[str, ...],
    text: str,
    changes: Sequence[tuple[tuple[str, ...], str]],
) -> str:
    """Write a struct with some of its fields changed."""
    assert isinstance(kind, spark_types.StructType)
    fields = []
    for field in kind:
        here = (*path, field.name)
        below = [(target, value) for target, value in changes if target[: len(here)] == here]
        value = f"{text}.{quote_name(field.name)}"
        if below and below[0][0] == here:
            value = f"({below[0][1]})"
        elif below:
            value = _struct(field.dataType, here, value, below)
        fields.append(f"{quote_string(field.name)}, {value}")
    return f"named_struct({', '.join(fields)})"


def _column(frame: DataFrame, number: int | None, field: spark_types.StructField) -> Column:
    from pyspark.sql import functions as F

    if number is None:
        return F.lit(None).cast(field.dataType).alias(field.name)
    given = frame.schema.fields[number].dataType
    column = _at(frame, number)
    return (column.cast(field.dataType) if _casts(given, field.dataType) else column).alias(field.name)


def _at(frame: DataFrame, number: int) -> Column:
    from pyspark.sql import functions as F

    return F.col(quote_name(frame.columns[number]))


def _casts(given: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    """Tell whether SQL's INSERT casts where a plain write would refuse.

    As in Spark, everything becomes a text, and dates and timestamps become each other; a text becomes nothing else.
    """
    if isinstance(wanted, spark_types.StringType):
        atomic = (spark_types.ArrayType, spark_types.MapType, spark_types.StructType, spark_types.StringType)
        return not isinstance(given, (*atomic, spark_types.NullType, spark_types.BinaryType))
    if isinstance(given, _TIMES) and isinstance(wanted, _TIMES):
        return type(given) is not type(wanted)
    fractional = isinstance(given, (spark_types.FloatType, spark_types.DoubleType))
    return fractional and isinstance(wanted, (spark_types.IntegralType, spark_types.DecimalType))
