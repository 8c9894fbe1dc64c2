"""The Spark schema of a table (docs/reference/spark-types.md)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    UserDefinedType,
    VarcharType,
    VariantType,
)

from pennon.spark.types.extension import BFLOAT16, BLOB, JSON, UUID, extension_metadata, known_extension, plain_schema
from pennon.spark.types.field_metadata import ARROW_TYPE, NOT_NULL, VECTOR_WIDTH, from_arrow
from pennon.spark.types.lazy_errors import invalid_input
from pennon.spark.types.type_text import format_type

MAX_DIGITS = 38
_MICROSECONDS = 6  # digits of a second

_SPARK: dict[pa.DataType, DataType] = {
    pa.null(): NullType(),
    pa.bool_(): BooleanType(),
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.uint8(): ShortType(),
    pa.uint16(): IntegerType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
    pa.float16(): FloatType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.string_view(): StringType(),
    pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(),
    pa.binary_view(): BinaryType(),
    pa.date32(): DateType(),
    pa.date64(): DateType(),
    pa.time32("s"): TimeType(0),
    pa.time32("ms"): TimeType(3),
    pa.time64("us"): TimeType(6),
    pa.time64("ns"): TimeType(6),
}
_KNOWN: dict[str, DataType] = {UUID: StringType(), JSON: StringType(), BFLOAT16: FloatType(), BLOB: BinaryType()}
_SENT: dict[type[DataType], pa.DataType] = {
    NullType: pa.null(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    CharType: pa.string(),
    VarcharType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimeType: pa.time64("ns"),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
    DayTimeIntervalType: pa.duration("us"),
    # As PySpark marks it.
    VariantType: pa.struct(
        [
            pa.field("value", pa.binary(), nullable=False),
            pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
        ]
    ),
}


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema of a table; raises InvalidInputError if Spark has no type for an Arrow type.

    The metadata of the fields contains what Spark's types cannot express, so that a new table gets the same schema.
    """
    return StructType([_spark_field(field, field.name) for field in plain_schema(schema)])


def read_schema(schema: pa.Schema) -> pa.Schema:
    """Return the exact Arrow schema in which Spark expects the batches of a table."""
    return pa.schema([_sent_field(field, field.name) for field in spark_schema(schema)])


def spark_type(field: pa.Field, column: str) -> DataType:
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
        return TimestampNTZType() if kind.tz is None else TimestampType()
    if pa.types.is_duration(kind):
        return DayTimeIntervalType()
    if pa.types.is_decimal(kind):
        return _decimal_type(kind, column)
    if pa.types.is_fixed_size_binary(kind):
        return BinaryType()
    if pa.types.is_dictionary(kind):
        return spark_type(pa.field(field.name, kind.value_type), column)
    raise _unknown_type_error(kind, column)


def _nested_spark_type(kind: pa.DataType, column: str) -> DataType:
    if is_list(kind):
        element = kind.value_field
        return ArrayType(spark_type(element, f"{column}.element"), element.nullable)
    if pa.types.is_map(kind):
        key, value = kind.key_field, kind.item_field
        return MapType(spark_type(key, f"{column}.key"), spark_type(value, f"{column}.value"), value.nullable)
    if not pa.types.is_struct(kind):
        raise _unknown_type_error(kind, column)
    if kind.equals(_SENT[VariantType], check_metadata=True):
        return VariantType()
    return StructType([_spark_field(child, f"{column}.{child.name}") for child in kind])


def _unknown_type_error(kind: pa.DataType, column: str) -> Exception:
    return invalid_input(f"Column {column} has the Arrow type {kind}, for which Spark has no type")


def sent_type(kind: DataType, column: str) -> pa.DataType:
    """Return the Arrow type in which Spark sends and expects a type; raises InvalidInputError if there is none."""
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, ArrayType):
        element = sent_type(kind.elementType, f"{column}.element")
        return pa.list_(pa.field("element", element, nullable=kind.containsNull))
    if isinstance(kind, MapType):
        key = pa.field("key", sent_type(kind.keyType, f"{column}.key"), nullable=False)
        value = sent_type(kind.valueType, f"{column}.value")
        return pa.map_(key, pa.field("value", value, nullable=kind.valueContainsNull))
    if isinstance(kind, StructType):
        return pa.struct([_sent_field(child, f"{column}.{child.name}") for child in kind])
    if type(kind) not in _SENT:
        own = "user-defined " if isinstance(kind, UserDefinedType) else ""
        raise invalid_input(f"Column {column} has the {own}Spark type {kind.simpleString()}, which Lance cannot store")
    return _SENT[type(kind)]


def usual_type(kind: DataType, column: str) -> pa.DataType:
    """Return the default Arrow type for a Spark type in a new table; structs have no fields yet."""
    if isinstance(kind, StructType):
        return pa.struct([])
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("item", usual_type(kind.elementType, f"{column}.element")))
    if isinstance(kind, MapType):
        key = usual_type(kind.keyType, f"{column}.key")
        return pa.map_(key, usual_type(kind.valueType, f"{column}.value"))
    if isinstance(kind, TimeType):
        return pa.time64("us" if kind.precision <= _MICROSECONDS else "ns")
    return sent_type(kind, column)


def holds_void(kind: DataType) -> bool:
    """Return True if a type or its elements can only be null; fields of structs are not checked."""
    if isinstance(kind, ArrayType):
        return holds_void(kind.elementType)
    if isinstance(kind, MapType):
        return holds_void(kind.keyType) or holds_void(kind.valueType)
    return isinstance(kind, NullType)


def is_list(kind: pa.DataType) -> bool:
    """Return True if an Arrow type is an array in Spark."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _sent_field(field: StructField, column: str) -> pa.Field:
    return pa.field(field.name, sent_type(field.dataType, column), nullable=field.nullable)


def _spark_field(field: pa.Field, column: str) -> StructField:
    kind = spark_type(field, column)
    metadata: dict[str, Any] = dict(from_arrow(field.metadata))
    if known := known_extension(field):
        metadata = {key: value for key, value in metadata.items() if key.encode() not in extension_metadata(known)}
    usual = usual_type(kind, column)
    if pa.types.is_fixed_size_list(field.type):
        metadata[VECTOR_WIDTH] = field.type.list_size
        usual = pa.list_(usual.value_field, field.type.list_size)
    if format_type(field) != format_type(pa.field(field.name, usual)) or holds_void(kind):
        metadata[ARROW_TYPE] = format_type(field)
    if not field.nullable:
        metadata[NOT_NULL] = True
    return StructField(field.name, kind, field.nullable, metadata)


def _decimal_type(kind: pa.DataType, column: str) -> DecimalType:
    # Spark's scale is between 0 and the precision; other types are widened.
    scale = max(kind.scale, 0)
    digits = max(kind.precision - min(kind.scale, 0), scale)
    if digits > MAX_DIGITS:
        raise invalid_input(
            f"Column {column} has the Arrow type {kind}; Spark's decimals have {MAX_DIGITS} digits at most"
        )
    return DecimalType(digits, scale)
