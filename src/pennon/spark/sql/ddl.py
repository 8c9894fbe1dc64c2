"""Columns of tables as SQL writes them: from text to Spark's types, and back."""

from __future__ import annotations

from dataclasses import replace
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
    from pennon.spark.sql.statements import ColumnDefinition

_COMMENT = "comment"


def build_spark_schema(lake: Lake, table: Identifier, columns: Sequence[ColumnDefinition]) -> spark_types.StructType:
    """Let Spark read the types of columns; a type that it does not know raises 13, naming the column."""
    return spark_types.StructType([_field(lake, table, column) for column in columns])


def _field(lake: Lake, table: Identifier, column: ColumnDefinition) -> spark_types.StructField:
    from pyspark.errors import PySparkException

    try:
        read = lake.spark.createDataFrame([], f"{quote_name(column.name)} {column.type}").schema.fields[0]
    except PySparkException as error:
        raise InvalidInputError(
            f"Column {column.name!r} of table {format_identifier(table)} has the type {column.type}, which "
            f"Spark refuses: {error}"
        ) from error
    metadata: dict[str, object] = {}
    if column.width is not None:
        metadata[types.VECTOR_WIDTH] = column.width
    if not column.nullable:
        metadata[types.NOT_NULL] = True
    if column.comment is not None:
        metadata[_COMMENT] = column.comment
    return spark_types.StructField(column.name, read.dataType, column.nullable, metadata)


def build_arrow_field(lake: Lake, table: Identifier, column: ColumnDefinition) -> pa.Field:
    """Give the field that a new column has in Lance."""
    return types.table_schema(build_spark_schema(lake, table, [replace(column)])).field(0)


def format_create_table(table: Identifier, schema: pa.Schema, properties: Mapping[str, str]) -> str:
    """Write the CREATE TABLE that makes a table with these columns."""
    columns = ",\n".join(f"  {_column_text(field)}" for field in schema)
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
    """Write a type so that Spark reads it back, odd names of fields included."""
    if isinstance(kind, spark_types.ArrayType):
        return f"ARRAY<{format_type(kind.elementType)}>"
    if isinstance(kind, spark_types.MapType):
        return f"MAP<{format_type(kind.keyType)}, {format_type(kind.valueType)}>"
    if isinstance(kind, spark_types.StructType):
        return f"STRUCT<{', '.join(f'{quote_name(field.name)}: {format_type(field.dataType)}' for field in kind)}>"
    return kind.simpleString().upper()


def quote_string(text: str) -> str:
    """Write a text as SQL reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def _column_text(field: pa.Field) -> str:
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
