"""Parse the constants of a query, and convert them to the type of the column they are compared with.

Spark compares a column and a constant in a type that can hold both. A constant is converted to the column's own type
only if the comparison has the same outcome for every value of the column. Otherwise the conversion returns None, and
Spark evaluates the comparison.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark_types
from sqlglot import exp

if TYPE_CHECKING:
    from pennon.spark.query.settings import SessionSettings

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIMESTAMP = re.compile(r"(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?(Z?)")
_INTEGERS = {exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.BIGINT}
_INTEGER_BITS: dict[Any, int] = {
    spark_types.ByteType: 8,
    spark_types.ShortType: 16,
    spark_types.IntegerType: 32,
    spark_types.LongType: 64,
}
_EXACT_IN_DOUBLE = 1 << 53
_MAX_DECIMAL_DIGITS = 38
# No time zone is further from UTC.
_WIDEST_OFFSET = dt.timedelta(hours=18)


@dataclass(frozen=True)
class Constant:
    """A constant. `kind` is int, decimal, double, string, boolean, date, ltz, ntz, binary or null."""

    kind: str
    value: Any


@dataclass(frozen=True)
class Bound:
    """A constant in a column's type. With `slack`, the true value may be that much lower or higher."""

    value: Any
    slack: dt.timedelta | None = None


def parse_constant(node: exp.Expr, session: SessionSettings) -> Constant | None:
    """Return the constant that a node is, or None."""
    if isinstance(node, exp.Paren):
        return parse_constant(node.this, session)
    if isinstance(node, exp.Neg):
        inner = parse_constant(node.this, session)
        if inner is None or inner.kind not in {"int", "decimal", "double"}:
            return None
        negative = inner.value.copy_negate() if inner.kind == "decimal" else -inner.value
        return Constant(inner.kind, negative)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return Constant("string", node.name) if session.plain_strings else None
        return _parse_number(node.name)
    if isinstance(node, exp.Boolean):
        return Constant("boolean", bool(node.this))
    if isinstance(node, exp.Null):
        return Constant("null", None)
    if isinstance(node, exp.HexString):
        return _parse_binary(node)
    if (
        isinstance(node, exp.Cast)
        and isinstance(node.this, exp.Literal)
        and set(_get_arguments(node)) <= {"this", "to"}
    ):
        return _parse_typed(node.this, node.to, session)
    return None


def coerce_constant(constant: Constant, kind: spark_types.DataType, session: SessionSettings) -> Bound | None:
    """Return a constant in a column's type, or None if the comparison could have another outcome there."""
    if constant.kind == "null":
        return None
    width = _INTEGER_BITS.get(type(kind))
    if width is not None:
        return _to_integer(constant, width)
    if isinstance(kind, spark_types.DoubleType):
        return _to_double(constant)
    if isinstance(kind, spark_types.FloatType):
        return _to_float(constant)
    if isinstance(kind, spark_types.DecimalType):
        return _to_decimal(constant, kind)
    if isinstance(kind, spark_types.DateType):
        return _to_date(constant)
    if isinstance(kind, spark_types.TimestampType):
        return _to_timestamp(constant, session)
    if isinstance(kind, spark_types.TimestampNTZType):
        return _to_local_timestamp(constant)
    return Bound(constant.value) if constant.kind == _matching_kind(kind) else None


def find_fractional_value(constant: Constant, kind: spark_types.DataType) -> decimal.Decimal | None:
    """Return a number that lies between two values of an integer column, or None for all other constants."""
    width = _INTEGER_BITS.get(type(kind))
    if width is None or (constant.kind == "double" and width == _INTEGER_BITS[spark_types.LongType]):
        return None
    if constant.kind not in {"decimal", "double"} or (constant.kind == "double" and not math.isfinite(constant.value)):
        return None
    value = decimal.Decimal(constant.value)
    return None if value == value.to_integral_value() or not _fits(int(value), width) else value


def _get_arguments(node: exp.Expr) -> list[str]:
    return [key for key, value in node.args.items() if value and not key.startswith("_")]


def _parse_number(text: str) -> Constant | None:
    if text.isdigit():
        value = int(text)
        return Constant("int", value) if value < 1 << 63 else None
    try:
        if "e" in text.lower():
            return Constant("double", float(text))
        exact = decimal.Decimal(text)
    except (ValueError, decimal.InvalidOperation):
        return None
    return Constant("decimal", exact) if len(exact.as_tuple().digits) <= _MAX_DECIMAL_DIGITS else None


def _parse_binary(node: exp.HexString) -> Constant | None:
    try:
        return Constant("binary", bytes.fromhex(node.name))
    except ValueError:
        return None


def _parse_typed(literal: exp.Literal, to: exp.DataType, session: SessionSettings) -> Constant | None:
    kind = to.this
    text = literal.name
    if kind in _INTEGERS:
        return _parse_number(text) if text.isdigit() else None
    if kind is exp.DataType.Type.DOUBLE and not literal.is_string:
        return Constant("double", float(text))
    if kind is exp.DataType.Type.DECIMAL:
        return _parse_decimal(text, to)
    if not literal.is_string or not session.plain_strings:
        return None
    if kind is exp.DataType.Type.DATE:
        day = _parse_date(text)
        return None if day is None else Constant("date", day)
    zoned = {exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ}
    if kind in zoned and (_DATE.fullmatch(text) or _TIMESTAMP.fullmatch(text)):
        return Constant("ltz", text)
    if kind is exp.DataType.Type.TIMESTAMPNTZ and _parse_local(text) is not None:
        return Constant("ntz", _parse_local(text))
    return None


def _parse_decimal(text: str, to: exp.DataType) -> Constant | None:
    """Parse a decimal that its type holds exactly."""
    sizes = [int(one.name) for one in to.expressions if one.name.isdigit()]
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    if len(sizes) != 2 or not value.is_finite() or _rescale(value, *sizes) is None:  # noqa: PLR2004 - precision, scale
        return None
    return Constant("decimal", value)


def _to_integer(constant: Constant, width: int) -> Bound | None:
    if constant.kind == "double" and width == _INTEGER_BITS[spark_types.LongType]:
        return None
    if constant.kind not in {"int", "decimal", "double"}:
        return None
    if constant.kind == "double" and not math.isfinite(constant.value):
        return None
    if constant.value != int(constant.value) or not _fits(int(constant.value), width):
        return None
    return Bound(int(constant.value))


def _fits(value: int, width: int) -> bool:
    return -(1 << (width - 1)) <= value < 1 << (width - 1)


def _to_double(constant: Constant) -> Bound | None:
    if constant.kind == "int":
        return Bound(float(constant.value)) if abs(constant.value) <= _EXACT_IN_DOUBLE else None
    return Bound(float(constant.value)) if constant.kind in {"decimal", "double"} else None


def _to_float(constant: Constant) -> Bound | None:
    if constant.kind not in {"int", "decimal", "double"}:
        return None
    try:
        narrow = struct.unpack("f", struct.pack("f", float(constant.value)))[0]
    except OverflowError:
        return None
    return Bound(narrow) if decimal.Decimal(narrow) == decimal.Decimal(constant.value) else None


def _to_decimal(constant: Constant, kind: spark_types.DecimalType) -> Bound | None:
    if constant.kind not in {"int", "decimal"}:
        return None
    value = _rescale(decimal.Decimal(constant.value), kind.precision, kind.scale)
    return None if value is None else Bound(value)


def _rescale(value: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal | None:
    """Return a number with `scale` digits after the point, or None if it loses a digit or does not fit."""
    if abs(value.adjusted()) >= _MAX_DECIMAL_DIGITS:
        return None
    with decimal.localcontext() as context:
        context.prec = _MAX_DECIMAL_DIGITS * 2
        scaled = value.quantize(decimal.Decimal(1).scaleb(-scale))
    return scaled if scaled == value and len(scaled.as_tuple().digits) <= precision else None


def _to_date(constant: Constant) -> Bound | None:
    day = _parse_date(constant.value) if constant.kind == "string" else constant.value
    return None if day is None or constant.kind not in {"string", "date"} else Bound(day)


def _to_timestamp(constant: Constant, session: SessionSettings) -> Bound | None:
    if constant.kind == "date":
        local: dt.datetime | None = dt.datetime.combine(constant.value, dt.time())
        in_utc = False
    elif constant.kind in {"string", "ltz"}:
        local = _parse_local(constant.value.removesuffix("Z"))
        in_utc = constant.value.endswith("Z")
    else:
        return None
    if local is None:
        return None
    zone = dt.timezone.utc if in_utc else session.fixed_offset()
    if zone is not None:
        return _to_utc(local, zone)
    # Time zone rules change, and Spark's version of them may differ from Python's.
    return Bound(local.replace(tzinfo=dt.timezone.utc), _WIDEST_OFFSET)


def _to_utc(local: dt.datetime, zone: dt.timezone) -> Bound | None:
    try:
        return Bound(local.replace(tzinfo=zone).astimezone(dt.timezone.utc))
    except OverflowError:
        return None


def _to_local_timestamp(constant: Constant) -> Bound | None:
    if constant.kind == "date":
        return Bound(dt.datetime.combine(constant.value, dt.time()))
    if constant.kind == "ntz":
        return Bound(constant.value)
    local = _parse_local(constant.value) if constant.kind == "string" else None
    return None if local is None else Bound(local)


def _parse_date(text: str) -> dt.date | None:
    match = _DATE.fullmatch(text)
    try:
        return None if match is None else dt.date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None


def _parse_local(text: str) -> dt.datetime | None:
    """Parse a timestamp without a zone as Spark does. A date means its midnight."""
    day = _parse_date(text)
    if day is not None:
        return dt.datetime.combine(day, dt.time())
    match = _TIMESTAMP.fullmatch(text)
    if match is None or match[8]:
        return None
    try:
        clock = dt.time(int(match[4]), int(match[5]), int(match[6]), int((match[7] or "").ljust(6, "0")))
    except ValueError:
        return None
    day = _parse_date(text[:10])
    return None if day is None else dt.datetime.combine(day, clock)


def _matching_kind(kind: spark_types.DataType) -> str | None:
    """Return the kind of constant that compares with a column without conversion, or None."""
    if isinstance(kind, spark_types.BooleanType):
        return "boolean"
    if isinstance(kind, spark_types.BinaryType):
        return "binary"
    if type(kind) is spark_types.StringType and getattr(kind, "collation", "UTF8_BINARY") == "UTF8_BINARY":
        return "string"
    return None
