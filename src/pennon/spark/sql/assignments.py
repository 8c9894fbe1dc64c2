"""Match values with columns of a table: the columns of an INSERT, and the assignments of a SET."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark_types

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.quoting import find_name, fold_name, quote_name
from pennon.spark.sql.ddl import quote_string

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from pennon.spark.sql.statements import Assignment

_TIMES = (spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType)


def align_columns(
    table: Identifier, frame: DataFrame, schema: spark_types.StructType, *, keep_others: bool
) -> DataFrame:
    """Return the rows with the columns of the table: in its order, cast as SQL casts, null where missing.

    Raises InvalidInputError if the query has a column that the table lacks, unless `keep_others` is True: such columns
    then come last. Raises InvalidInputError if two columns have the same name.
    """
    positions = {fold_name(name): number for number, name in enumerate(frame.columns)}
    if len(positions) != len(frame.columns):
        raise InvalidInputError(
            f"INSERT into table {format_identifier(table)}: the query has two columns with the same name"
        )
    columns = [_convert_column(frame, positions.pop(fold_name(field.name), None), field) for field in schema]
    if positions and not keep_others:
        extra = ", ".join(frame.columns[number] for number in positions.values())
        raise InvalidInputError(
            f"INSERT into table {format_identifier(table)}: the table has no column {extra}; "
            f"it has {', '.join(schema.names)}"
        )
    others = [_get_column(frame, number) for number in sorted(positions.values())]
    return frame.select(*columns, *others)


def build_assignments(
    table: Identifier,
    assignments: Sequence[Assignment],
    name: str,
    schema: spark_types.StructType,
    rewrite: Callable[[str], str],
) -> dict[str, str]:
    """Return the expression that each column is set to. A struct is rebuilt to set one of its fields.

    `name` is the name of the table in the statement, and may qualify a column. `rewrite` prepares an expression for
    Spark. Raises TableColumnNotFoundError for a column that does not exist, and InvalidInputError for a column that is
    set twice.
    """
    expressions: dict[str, str] = {}
    parts: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for one in assignments:
        path = _resolve_path(table, one.column, name, schema)
        clash = path[0] in expressions or (len(path) == 1 and path[0] in parts)
        if clash or any(path[: len(other)] == other[: len(path)] for other, _ in parts.get(path[0], ())):
            raise InvalidInputError(f"Column {'.'.join(path)} of table {format_identifier(table)} is set twice")
        if len(path) == 1:
            expressions[path[0]] = rewrite(one.expression)
        else:
            parts.setdefault(path[0], []).append((path, rewrite(one.expression)))
    for column, changes in parts.items():
        expressions[column] = _rebuild_struct(
            schema[column].dataType, (column,), f"{quote_name(name)}.{quote_name(column)}", changes
        )
    return expressions


def _resolve_path(
    table: Identifier, column: Sequence[str], name: str, schema: spark_types.StructType
) -> tuple[str, ...]:
    """Return the path of the column or struct field that an assignment sets."""
    for parts in (column[1:] if fold_name(column[0]) == fold_name(name) else (), column):
        path = _find_path(parts, schema) if parts else None
        if path is not None:
            return path
    raise TableColumnNotFoundError(
        f"Table {format_identifier(table)} has no column {'.'.join(column)!r} to set; it has {', '.join(schema.names)}"
    )


def _find_path(parts: Sequence[str], schema: spark_types.DataType) -> tuple[str, ...] | None:
    path: list[str] = []
    for part in parts:
        names = schema.names if isinstance(schema, spark_types.StructType) else []
        name = find_name(part, names)
        if name is None or not isinstance(schema, spark_types.StructType):
            return None
        path.append(name)
        schema = schema[name].dataType
    return tuple(path)


def _rebuild_struct(
    kind: spark_types.DataType,
    path: tuple[str, ...],
    text: str,
    changes: Sequence[tuple[tuple[str, ...], str]],
) -> str:
    """Return an expression for a struct with some of its fields changed."""
    assert isinstance(kind, spark_types.StructType)
    fields = []
    for field in kind:
        here = (*path, field.name)
        below = [(target, value) for target, value in changes if target[: len(here)] == here]
        value = f"{text}.{quote_name(field.name)}"
        if below and below[0][0] == here:
            value = f"({below[0][1]})"
        elif below:
            value = _rebuild_struct(field.dataType, here, value, below)
        fields.append(f"{quote_string(field.name)}, {value}")
    return f"named_struct({', '.join(fields)})"


def _convert_column(frame: DataFrame, number: int | None, field: spark_types.StructField) -> Column:
    from pyspark.sql import functions as F

    if number is None:
        return F.lit(None).cast(field.dataType).alias(field.name)
    source = frame.schema.fields[number].dataType
    column = _get_column(frame, number)
    return (column.cast(field.dataType) if _needs_cast(source, field.dataType) else column).alias(field.name)


def _get_column(frame: DataFrame, number: int) -> Column:
    from pyspark.sql import functions as F

    return F.col(quote_name(frame.columns[number]))


def _needs_cast(source: spark_types.DataType, target: spark_types.DataType) -> bool:
    """Return True if INSERT casts a value that a plain write would reject.

    As in Spark, INSERT casts simple values to strings, dates and timestamps to each other, and floating-point numbers
    to integers and decimals. It never casts strings.
    """
    if isinstance(target, spark_types.StringType):
        uncast = (spark_types.ArrayType, spark_types.MapType, spark_types.StructType, spark_types.StringType)
        return not isinstance(source, (*uncast, spark_types.NullType, spark_types.BinaryType))
    if isinstance(source, _TIMES) and isinstance(target, _TIMES):
        return type(source) is not type(target)
    fractional = isinstance(source, (spark_types.FloatType, spark_types.DoubleType))
    return fractional and isinstance(target, (spark_types.IntegralType, spark_types.DecimalType))
