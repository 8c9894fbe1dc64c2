"""Convert columns between SQL text, Spark's types and Arrow's types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark_types

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.spark import types
from pennon.spark.quoting import quote_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pennon.spark.lake import Lake
    from pennon.spark.statements.model import ColumnDefinition

_COMMENT = "comment"


def build_spark_schema(lake: Lake, table: Identifier, columns: Sequence[ColumnDefinition]) -> spark_types.StructType:
    """Return the Spark schema of new columns. Spark parses the types.

    Raises InvalidInputError, with the name of the column, if Spark does not know a type.
    """
    return spark_types.StructType([_build_spark_field(lake, table, column) for column in columns])


def _build_spark_field(lake: Lake, table: Identifier, column: ColumnDefinition) -> spark_types.StructField:
    from pyspark.errors import PySparkException

    try:
        parsed = lake.spark.createDataFrame([], f"{quote_name(column.name)} {column.type}").schema.fields[0]
    except PySparkException as error:
        raise InvalidInputError(
            f"Column {column.name!r} of table {format_identifier(table)} has the type "
            f"{column.type}, which Spark rejects: {error}"
        ) from error
    metadata: dict[str, object] = {}
    if column.width is not None:
        metadata[types.VECTOR_WIDTH] = column.width
    if not column.nullable:
        metadata[types.NOT_NULL] = True
    if column.comment is not None:
        metadata[_COMMENT] = column.comment
    return spark_types.StructField(column.name, parsed.dataType, column.nullable, metadata)


def build_arrow_field(lake: Lake, table: Identifier, column: ColumnDefinition) -> pa.Field:
    """Return the Arrow field of a new column."""
    return types.table_schema(build_spark_schema(lake, table, [column])).field(0)


def format_create_table(table: Identifier, schema: pa.Schema, properties: Mapping[str, str]) -> str:
    """Return the CREATE TABLE statement that creates a table with these columns and properties."""
    columns = ",\n".join(f"  {_format_column(field)}" for field in schema)
    text = f"CREATE TABLE {quote_identifier(table)} (\n{columns})\nUSING lance"
    comment = properties.get(_COMMENT)
    if comment is not None:
        text += f"\nCOMMENT {quote_string(comment)}"
    others = {key: value for key, value in sorted(properties.items()) if key != _COMMENT}
    if others:
        pairs = ",\n".join(f"  {quote_string(key)} = {quote_string(value)}" for key, value in others.items())
        text += f"\nTBLPROPERTIES (\n{pairs})"
    return text


def format_type(kind: spark_types.DataType) -> str:
    """Return a type as SQL that Spark can parse. Names of fields are quoted."""
    if isinstance(kind, spark_types.ArrayType):
        return f"ARRAY<{format_type(kind.elementType)}>"
    if isinstance(kind, spark_types.MapType):
        return f"MAP<{format_type(kind.keyType)}, {format_type(kind.valueType)}>"
    if isinstance(kind, spark_types.StructType):
        return f"STRUCT<{', '.join(f'{quote_name(field.name)}: {format_type(field.dataType)}' for field in kind)}>"
    return kind.simpleString().upper()


def quote_string(text: str) -> str:
    """Return a text as a string literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def _format_column(field: pa.Field) -> str:
    kind = types.spark_schema(pa.schema([field])).fields[0].dataType
    text = format_type(kind)
    if pa.types.is_fixed_size_list(field.type) and isinstance(kind, spark_types.ArrayType):
        text = f"VECTOR({format_type(kind.elementType)}, {field.type.list_size})"
    parts = [quote_name(field.name), text]
    if not field.nullable:
        parts.append("NOT NULL")
    comment = (field.metadata or {}).get(b"comment")
    if comment is not None:
        parts.append(f"COMMENT {quote_string(comment.decode())}")
    return " ".join(parts)
