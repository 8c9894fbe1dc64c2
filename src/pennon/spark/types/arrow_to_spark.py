"""The Spark schema of a table (docs/reference/spark-types.md)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from pennon.spark.types.extension import (
    BFLOAT16,
    BLOB,
    JSON,
    UUID,
    is_list,
    known_extension,
    plain_schema,
    without_extension,
)
from pennon.spark.types.field_metadata import ARROW_TYPE, NOT_NULL, VECTOR_WIDTH
from pennon.spark.types.lazy_errors import invalid_input
from pennon.spark.types.type_text import format_type

MAX_DIGITS = 38
_MICROSECONDS = 6  # digits of a second

_SPARK: dict[pa.DataType, T.DataType] = {
    pa.null(): T.NullType(),
    pa.bool_(): T.BooleanType(),
    pa.int8(): T.ByteType(),
    pa.int16(): T.ShortType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.uint8(): T.ShortType(),
    pa.uint16(): T.IntegerType(),
    pa.uint32(): T.LongType(),
    pa.uint64(): T.DecimalType(20, 0),
    pa.float16(): T.FloatType(),
    pa.float32(): T.FloatType(),
    pa.float64(): T.DoubleType(),
    pa.string(): T.StringType(),
    pa.large_string(): T.StringType(),
    pa.string_view(): T.StringType(),
    pa.binary(): T.BinaryType(),
    pa.large_binary(): T.BinaryType(),
    pa.binary_view(): T.BinaryType(),
    pa.date32(): T.DateType(),
    pa.date64(): T.DateType(),
    pa.time32("s"): T.TimeType(0),
    pa.time32("ms"): T.TimeType(3),
    pa.time64("us"): T.TimeType(6),
    pa.time64("ns"): T.TimeType(6),
}
_KNOWN: dict[str, T.DataType] = {
    UUID: T.StringType(),
    JSON: T.StringType(),
    BFLOAT16: T.FloatType(),
    BLOB: T.BinaryType(),
}
_SENT: dict[type[T.DataType], pa.DataType] = {
    T.NullType: pa.null(),
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.StringType: pa.string(),
    T.CharType: pa.string(),
    T.VarcharType: pa.string(),
    T.BinaryType: pa.binary(),
    T.DateType: pa.date32(),
    T.TimeType: pa.time64("ns"),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
    T.DayTimeIntervalType: pa.duration("us"),
    # As PySpark marks it.
    T.VariantType: pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        ]
    ),
}


def spark_schema(schema: pa.Schema) -> T.StructType:
    """Return the Spark schema of a table; raises InvalidInputError if Spark has no type for an Arrow type.

    The metadata of the fields contains what Spark's types cannot express, so that a new table gets the same schema.
    """
    return T.StructType([_spark_field(field, field.name) for field in plain_schema(schema)])


def read_schema(schema: pa.Schema) -> pa.Schema:
    """Return the exact Arrow schema in which Spark expects the batches of a table."""
    return pa.schema([_sent_field(field, field.name) for field in spark_schema(schema)])


def spark_type(field: pa.Field, column: str) -> T.DataType:
    """Return the Spark type of a field in plain form; `column` names it in errors."""
    kind = field.type
    known = known_extension(field)
    if known:
        return _KNOWN[known]
    if pa.types.is_nested(kind):
        return _nested_spark_type(kind, column)
    if kind in _SPARK:
        return _SPARK[kind]
    if pa.types.is_timestamp(kind):
        return T.TimestampNTZType() if kind.tz is None else T.TimestampType()
    if pa.types.is_duration(kind):
        return T.DayTimeIntervalType()
    if pa.types.is_decimal(kind):
        return _decimal_type(kind, column)
    if pa.types.is_fixed_size_binary(kind):
        return T.BinaryType()
    if pa.types.is_dictionary(kind):
        return spark_type(pa.field(field.name, kind.value_type), column)
    raise _unknown_type_error(kind, column)


def _nested_spark_type(kind: pa.DataType, column: str) -> T.DataType:
    if is_list(kind):
        element = kind.value_field
        return T.ArrayType(spark_type(element, f"{column}.element"), element.nullable)
    if pa.types.is_map(kind):
        key, value = kind.key_field, kind.item_field
        return T.MapType(spark_type(key, f"{column}.key"), spark_type(value, f"{column}.value"), value.nullable)
    if not pa.types.is_struct(kind):
        raise _unknown_type_error(kind, column)
    if kind.equals(_SENT[T.VariantType], check_metadata=True):
        return T.VariantType()
    return T.StructType([_spark_field(child, f"{column}.{child.name}") for child in kind])


def _unknown_type_error(kind: pa.DataType, column: str) -> Exception:
    return invalid_input(f"Column {column} has the Arrow type {kind}, for which Spark has no type")


def sent_type(kind: T.DataType, column: str) -> pa.DataType:
    """Return the Arrow type in which Spark sends and expects a type; raises InvalidInputError if there is none."""
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, T.ArrayType):
        element = sent_type(kind.elementType, f"{column}.element")
        return pa.list_(pa.field("element", element, nullable=kind.containsNull))
    if isinstance(kind, T.MapType):
        key = pa.field("key", sent_type(kind.keyType, f"{column}.key"), nullable=False)
        value = sent_type(kind.valueType, f"{column}.value")
        return pa.map_(key, pa.field("value", value, nullable=kind.valueContainsNull))
    if isinstance(kind, T.StructType):
        return pa.struct([_sent_field(child, f"{column}.{child.name}") for child in kind])
    if type(kind) not in _SENT:
        own = "user-defined " if isinstance(kind, T.UserDefinedType) else ""
        raise invalid_input(f"Column {column} has the {own}Spark type {kind.simpleString()}, which Lance cannot store")
    return _SENT[type(kind)]


def usual_type(kind: T.DataType, column: str) -> pa.DataType:
    """Return the default Arrow type for a Spark type in a new table; structs have no fields yet."""
    if isinstance(kind, T.StructType):
        return pa.struct([])
    if isinstance(kind, T.ArrayType):
        return pa.list_(pa.field("item", usual_type(kind.elementType, f"{column}.element")))
    if isinstance(kind, T.MapType):
        key = usual_type(kind.keyType, f"{column}.key")
        return pa.map_(key, usual_type(kind.valueType, f"{column}.value"))
    if isinstance(kind, T.TimeType):
        return pa.time64("us" if kind.precision <= _MICROSECONDS else "ns")
    return sent_type(kind, column)


def holds_void(kind: T.DataType) -> bool:
    """Return True if a type or its elements can only be null; fields of structs are not checked."""
    if isinstance(kind, T.ArrayType):
        return holds_void(kind.elementType)
    if isinstance(kind, T.MapType):
        return holds_void(kind.keyType) or holds_void(kind.valueType)
    return isinstance(kind, T.NullType)


def _sent_field(field: T.StructField, column: str) -> pa.Field:
    return pa.field(field.name, sent_type(field.dataType, column), nullable=field.nullable)


def _spark_field(field: pa.Field, column: str) -> T.StructField:
    kind = spark_type(field, column)
    metadata: dict[str, Any] = without_extension(field)
    usual = usual_type(kind, column)
    if pa.types.is_fixed_size_list(field.type):
        metadata[VECTOR_WIDTH] = field.type.list_size
        usual = pa.list_(usual.value_field, field.type.list_size)
    if format_type(field) != format_type(pa.field(field.name, usual)) or holds_void(kind):
        metadata[ARROW_TYPE] = format_type(field)
    if not field.nullable:
        metadata[NOT_NULL] = True
    return T.StructField(field.name, kind, field.nullable, metadata)


def _decimal_type(kind: pa.DataType, column: str) -> T.DecimalType:
    # Spark's scale is between 0 and the precision; other types are widened.
    scale = max(kind.scale, 0)
    digits = max(kind.precision - min(kind.scale, 0), scale)
    if digits > MAX_DIGITS:
        raise invalid_input(
            f"Column {column} has the Arrow type {kind}; Spark's decimals have {MAX_DIGITS} digits at most"
        )
    return T.DecimalType(digits, scale)
