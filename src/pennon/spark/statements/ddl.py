"""Columns and properties of tables in SQL, in Spark and in Arrow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark_types

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.spark import types
from pennon.spark.quoting import find_name, quote_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lance import LanceDataset
    from pyspark.sql import SparkSession

_COMMENT = "comment"
_LANCE_CONFIG = "lance."
_LIMITED_TEXT = re.compile(r"(var)?char(acter)?\b", re.IGNORECASE)


@dataclass(frozen=True)
class ColumnDefinition:
    """A new column. `type` is a type of Spark; a vector also has a `width`."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None
    width: int | None = None


def build_spark_schema(
    spark: SparkSession, table: Identifier, columns: Iterable[ColumnDefinition]
) -> spark_types.StructType:
    """Return the Spark schema of new columns. Spark parses the types.

    Raises InvalidInputError, with the name of the column, if Spark does not know a type.
    """
    from pyspark.errors import PySparkException

    fields = []
    for column in columns:
        if _LIMITED_TEXT.match(column.type):
            raise InvalidInputError(
                f"Column {column.name!r} of table {format_identifier(table)} has the type {column.type}: "
                "Lance has no texts of limited length, use STRING"
            )
        try:
            parsed = spark.createDataFrame([], f"{quote_name(column.name)} {column.type}").schema.fields[0]
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
        fields.append(spark_types.StructField(column.name, parsed.dataType, column.nullable, metadata))
    return spark_types.StructType(fields)


def find_path(schema: pa.Schema, column: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of a column, or of a field of a struct, ignoring case; None if there is not exactly one."""
    fields: list[pa.Field] = list(schema)
    path: list[str] = []
    for name in column:
        match = find_name(name, [field.name for field in fields])
        if match is None:
            return None
        path.append(match)
        kind = next(field.type for field in fields if field.name == match)
        fields = list_fields(kind)
    return tuple(path)


def list_fields(kind: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct; other types have none."""
    return [kind.field(number) for number in range(kind.num_fields)] if pa.types.is_struct(kind) else []


def column_not_found(table: Identifier, schema: pa.Schema, column: Sequence[str]) -> TableColumnNotFoundError:
    """Return the error for a column that a table does not have."""
    return TableColumnNotFoundError(
        f"Table {format_identifier(table)} has no column {'.'.join(column)!r}; it has {', '.join(schema.names)}"
    )


def get_comment(field: pa.Field) -> str | None:
    """Return the comment of a column."""
    comment = (field.metadata or {}).get(_COMMENT.encode())
    return None if comment is None else comment.decode()


def get_properties(dataset: LanceDataset) -> dict[str, str]:
    """Return the properties of a table: its metadata, and the settings of Lance, whose keys begin with `lance.`."""
    settings = {key: value for key, value in dataset.config().items() if key.startswith(_LANCE_CONFIG)}
    return {**dict(dataset.metadata), **settings}


def change_properties(dataset: LanceDataset, changes: Mapping[str, str | None]) -> None:
    """Set properties, or remove those with the value None. Metadata and settings change in one commit each."""
    settings = {key: value for key, value in changes.items() if key.startswith(_LANCE_CONFIG)}
    others = {key: value for key, value in changes.items() if key not in settings}
    if others:
        dataset.update_metadata(others)
    if settings:
        dataset.update_config(settings)


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
    comment = get_comment(field)
    if comment is not None:
        parts.append(f"COMMENT {quote_string(comment)}")
    return " ".join(parts)
