"""Match values with columns of a table: the columns of an INSERT, and the assignments of a SET."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import types
from pennon.spark.quoting import find_name, fold_name, quote_name
from pennon.spark.statements import ddl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_TIMES = (spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType)


@dataclass(frozen=True)
class Target:
    """The table that a statement changes: its identifier, its name as it is written, and its alias."""

    table: Identifier
    parts: tuple[str, ...]
    alias: str | None = None

    @property
    def name(self) -> str:
        """The name that may qualify the table's columns in the statement."""
        return self.parts[-1] if self.alias is None else self.alias

    @property
    def relation(self) -> str:
        """The table with its alias, as in a FROM clause."""
        name = quote_name(*self.parts)
        return name if self.alias is None else f"{name} AS {quote_name(self.alias)}"


@dataclass(frozen=True)
class Assignment:
    """`column = expression`."""

    column: tuple[str, ...]
    expression: str


def name_columns(
    table: Identifier, frame: DataFrame, names: Sequence[str], listed: Sequence[str] | None, *, keep_others: bool
) -> DataFrame:
    """Rename the columns of a query to the table's columns at the same positions.

    The positions are those of the `listed` columns, by default of all columns, `names`. Raises InvalidInputError if a
    listed column does not exist or is listed twice, and if the numbers of columns differ. If `keep_others` is True, the
    query may have more.
    """
    subject = f"INSERT into table {format_identifier(table)}"
    wanted = list(names)
    if listed is not None:
        matches = [find_name(name, names) for name in listed]
        for name, match in zip(listed, matches, strict=True):
            if match is None or matches.count(match) > 1:
                raise InvalidInputError(
                    f"{subject}: column {name!r} does not exist or is named twice; the table has {', '.join(names)}"
                )
        wanted = [match for match in matches if match is not None]
    given = frame.columns
    if len(given) < len(wanted) or (len(given) > len(wanted) and not keep_others):
        raise InvalidInputError(
            f"{subject} needs {len(wanted)} columns ({', '.join(wanted)}), but the query returns {len(given)}"
        )
    return frame.toDF(*wanted, *given[len(wanted) :])


def align_columns(
    table: Identifier, frame: DataFrame, schema: spark_types.StructType, *, keep_others: bool
) -> DataFrame:
    """Return the rows with the columns of the table: in its order, cast as SQL casts, null where missing.

    Raises InvalidInputError if the query has a column that the table lacks, unless `keep_others` is True: such columns
    then come last. Raises InvalidInputError if two columns have the same name.
    """
    subject = f"INSERT into table {format_identifier(table)}"
    given = {fold_name(field.name): field for field in frame.schema}
    if len(given) != len(frame.columns):
        raise InvalidInputError(f"{subject}: the query has two columns with the same name")
    columns = [_convert_column(given.pop(fold_name(field.name), None), field) for field in schema]
    others = [field.name for field in given.values()]
    if others and not keep_others:
        raise InvalidInputError(
            f"{subject}: the table has no column {', '.join(others)}; it has {', '.join(schema.names)}"
        )
    return frame.select(*columns, *(F.col(quote_name(name)) for name in others))


def fit_columns(table: Identifier, frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """Return the rows with the types of the table, which an overwrite would change otherwise.

    Raises InvalidInputError if a column does not fit.
    """
    try:
        types.plan_write(frame.schema, schema)
    except InvalidInputError as error:
        raise InvalidInputError(f"Table {format_identifier(table)} cannot be written: {error}") from error
    wanted = types.spark_schema(schema)
    return frame.select(*(F.col(quote_name(one.name)).cast(one.dataType).alias(one.name) for one in wanted))


def build_assignments(
    target: Target, schema: pa.Schema, assignments: Sequence[Assignment], rewrite: Callable[[str], str]
) -> dict[str, str]:
    """Return the expression that each column is set to. A struct is rebuilt to set one of its fields.

    `rewrite` prepares an expression for Spark. Raises TableColumnNotFoundError for a column that does not exist, and
    InvalidInputError for a column that is set twice.
    """
    changes: dict[tuple[str, ...], str] = {}
    for one in assignments:
        path = _resolve_path(target, schema, one.column)
        if any(path[: len(other)] == other[: len(path)] for other in changes):
            raise InvalidInputError(f"Column {'.'.join(path)} of table {format_identifier(target.table)} is set twice")
        changes[path] = rewrite(one.expression)
    return {
        column: _build_value(schema.field(column), (), f"{quote_name(target.name)}.{quote_name(column)}", changes)
        for column in dict.fromkeys(path[0] for path in changes)
    }


def _resolve_path(target: Target, schema: pa.Schema, column: Sequence[str]) -> tuple[str, ...]:
    """Return the path of the column or struct field that an assignment sets. The table's name may qualify it."""
    qualified = len(column) > 1 and fold_name(column[0]) == fold_name(target.name)
    path = (ddl.find_path(schema, column[1:]) if qualified else None) or ddl.find_path(schema, column)
    if path is None:
        raise ddl.column_not_found(target.table, schema, column)
    return path


def _build_value(field: pa.Field, parent: tuple[str, ...], text: str, changes: Mapping[tuple[str, ...], str]) -> str:
    """Return an expression for a column or field, `text`, with the changes to itself or to its fields."""
    path = (*parent, field.name)
    if path in changes:
        return changes[path] if not parent else f"({changes[path]})"
    if not any(other[: len(path)] == path for other in changes):
        return text
    fields = [
        f"{ddl.quote_string(one.name)}, {_build_value(one, path, f'{text}.{quote_name(one.name)}', changes)}"
        for one in ddl.list_fields(field.type)
    ]
    return f"named_struct({', '.join(fields)})"


def _convert_column(given: spark_types.StructField | None, field: spark_types.StructField) -> Column:
    if given is None:
        return F.lit(None).cast(field.dataType).alias(field.name)
    column = F.col(quote_name(given.name))
    return (column.cast(field.dataType) if _needs_cast(given.dataType, field.dataType) else column).alias(field.name)


def _needs_cast(source: spark_types.DataType, target: spark_types.DataType) -> bool:
    """Return True if INSERT casts a value that a plain write would reject.

    As in Spark, INSERT casts NULL to any type, simple values to strings, dates and timestamps to each other, and
    floating-point numbers to integers and decimals. It never casts strings.
    """
    if isinstance(source, spark_types.NullType):
        return True
    if isinstance(target, spark_types.StringType):
        uncast = (spark_types.ArrayType, spark_types.MapType, spark_types.StructType, spark_types.BinaryType)
        return not isinstance(source, (*uncast, spark_types.StringType))
    if isinstance(source, _TIMES) and isinstance(target, _TIMES):
        return type(source) is not type(target)
    fractional = isinstance(source, (spark_types.FloatType, spark_types.DoubleType))
    return fractional and isinstance(target, (spark_types.IntegralType, spark_types.DecimalType))
