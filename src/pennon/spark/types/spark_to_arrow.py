"""The Arrow schema of a new table for a DataFrame (docs/reference/spark-types.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as T

from pennon.spark.types.arrow_to_spark import holds_void, spark_type, usual_type
from pennon.spark.types.extension import is_list, list_of
from pennon.spark.types.field_metadata import ARROW_TYPE, NOT_NULL, VECTOR_WIDTH, to_arrow
from pennon.spark.types.lazy_errors import invalid_input
from pennon.spark.types.type_text import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence


_RESERVED = ("_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version")


def table_schema(schema: T.StructType) -> pa.Schema:
    """Return the Arrow schema of a new table; raises InvalidInputError if Lance cannot store a column."""
    check_names(schema.names)
    return pa.schema([table_field(field, field.name) for field in schema])


def check_names(names: Sequence[str], prefix: str = "") -> None:
    """Raise InvalidInputError for bad names of columns or, with a prefix, of fields of a struct."""
    for number, name in enumerate(names):
        if not name:
            raise invalid_input(f"Column {prefix}{name!r} has no name")
        if not prefix and ("." in name or name in _RESERVED):
            raise invalid_input(
                f"Column {name}: Lance allows no dot in the name of a column, and not {', '.join(_RESERVED)}"
            )
        if not prefix and "`" in name:
            raise invalid_input(f"Column {name}: Lance cannot read a table with a backtick in the name of a column")
        if name in names[:number]:
            raise invalid_input(f"Column {prefix}{name} exists twice")


def table_field(field: T.StructField, column: str) -> pa.Field:
    """Return the field of a new table for a field of a DataFrame; `column` is its full name, for errors.

    A column is not nullable only if both Spark's type and its metadata say so.
    """
    given = field.metadata or {}
    if ARROW_TYPE in given:
        made = parse_type(str(given[ARROW_TYPE]), column=column)
        made = made.with_type(_fill_structs(made.type, field.dataType, column))
        if usual_type(spark_type(made, column), column) != usual_type(field.dataType, column):
            raise invalid_input(
                f"Column {column} is {field.dataType.simpleString()} in Spark, which cannot be the Arrow type "
                f"{given[ARROW_TYPE]!r} that its metadata asks for"
            )
    else:
        made = pa.field("", _fill_structs(usual_type(field.dataType, column), field.dataType, column))
        _check_new(field.dataType, column)
    if VECTOR_WIDTH in given:
        made = made.with_type(_to_vector(made.type, given[VECTOR_WIDTH], column))
    _check_vectors(made.type, column)
    metadata = {**(made.metadata or {}), **to_arrow(given)}
    nullable = field.nullable or not given.get(NOT_NULL)
    return pa.field(field.name, made.type, nullable=nullable, metadata=metadata or None)


def _fill_structs(kind: pa.DataType, shown: T.DataType, column: str) -> pa.DataType:
    """Return an Arrow type whose structs have the fields of Spark's type."""
    if pa.types.is_struct(kind) and isinstance(shown, T.StructType):
        if not shown.fields:
            raise invalid_input(f"Column {column} is a struct without fields, which Lance cannot store")
        check_names(shown.names, f"{column}.")
        return pa.struct([table_field(child, f"{column}.{child.name}") for child in shown])
    if is_list(kind) and isinstance(shown, T.ArrayType):
        element = kind.value_field
        element = element.with_type(_fill_structs(element.type, shown.elementType, f"{column}.element"))
        return list_of(kind, element)
    if pa.types.is_map(kind) and isinstance(shown, T.MapType):
        key, value = kind.key_field, kind.item_field
        return pa.map_(
            key.with_type(_fill_structs(key.type, shown.keyType, f"{column}.key")),
            value.with_type(_fill_structs(value.type, shown.valueType, f"{column}.value")),
        )
    return kind


def _check_new(kind: T.DataType, column: str) -> None:
    """Raise InvalidInputError for a type that a table could store only as another type."""
    if holds_void(kind):
        raise invalid_input(f"Column {column} is {kind.simpleString()}, which has only nulls: cast it to another type")
    if isinstance(kind, T.StringType) and not kind.isUTF8BinaryCollation():
        raise invalid_input(
            f"Column {column} has the collation {kind.collation}, which Lance cannot store: cast it to string"
        )
    if isinstance(kind, T.ArrayType):
        _check_new(kind.elementType, f"{column}.element")
    if isinstance(kind, T.MapType):
        _check_new(kind.keyType, f"{column}.key")
        _check_new(kind.valueType, f"{column}.value")


def _to_vector(kind: pa.DataType, width: object, column: str) -> pa.DataType:
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise invalid_input(f"Column {column}: {VECTOR_WIDTH} in its metadata is {width!r}, not a whole number from 1")
    if not is_list(kind):
        raise invalid_input(f"Column {column} has {VECTOR_WIDTH} in its metadata, but is not an array")
    if pa.types.is_fixed_size_list(kind) and kind.list_size != width:
        raise invalid_input(f"Column {column}: its metadata gives two widths, {width} and {kind.list_size}")
    return pa.list_(kind.value_field, width)


def _check_vectors(kind: pa.DataType, column: str) -> None:
    """Raise InvalidInputError for vectors of elements without a fixed size, which Lance cannot store."""
    if not is_list(kind):
        return
    element = kind.value_type
    if pa.types.is_fixed_size_list(kind) and not _has_fixed_size(element):
        raise invalid_input(f"Column {column}: Lance cannot store vectors of {element}, whose values differ in size")
    _check_vectors(element, column)


def _has_fixed_size(kind: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(kind) or pa.types.is_struct(kind):
        return True
    try:
        return bool(kind.bit_width) and not pa.types.is_dictionary(kind)
    except ValueError:
        return False
