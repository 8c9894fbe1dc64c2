"""Constants of a query, and what they are in the type of the column that they are compared with.

Spark compares a column and a constant in a type that can hold both. A constant is brought to the column's own type only
where the comparison there has the same outcome for every value of the column; where that cannot be known, the answer is
None, and the comparison stays with Spark.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import struct
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as spark_types
from sqlglot import exp

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIMESTAMP = re.compile(r"(\d{4})-(\d{2})-(\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?(Z?)")
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")
_UTC = {"UTC", "ETC/UTC", "GMT", "Z", "UCT", "ETC/UCT", "ETC/GMT", "ZULU"}
_INTEGERS = {exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.BIGINT}
_RANGES: dict[Any, int] = {
    spark_types.ByteType: 8,
    spark_types.ShortType: 16,
    spark_types.IntegerType: 32,
    spark_types.LongType: 64,
}
_EXACT_IN_DOUBLE = 1 << 53
_LONGEST_DECIMAL = 38
# No zone is further from UTC than this.
WIDEST_OFFSET = dt.timedelta(hours=18)


@dataclass(frozen=True)
class Constant:
    """A constant: `kind` is int, decimal, double, string, boolean, date, ltz, ntz, binary or null."""

    kind: str
    value: Any


@dataclass(frozen=True)
class SessionSettings:
    """What decides the meaning of constants: the session's time zone, and whether texts can be taken as they stand."""

    zone: str | None = None
    plain_strings: bool = True

    def fixed_offset(self) -> dt.timezone | None:
        """Give the session's distance from UTC if it never changes."""
        if self.zone is None:
            return None
        if self.zone.upper() in _UTC:
            return dt.timezone.utc
        found = _OFFSET.fullmatch(self.zone)
        if found is None:
            return None
        distance = dt.timedelta(hours=int(found[2]), minutes=int(found[3]))
        return dt.timezone(-distance if found[1] == "-" else distance)


@dataclass(frozen=True)
class Bound:
    """A constant in a column's type; `slack` says how far off it may be, either way."""

    value: Any
    slack: dt.timedelta | None = None


def parse_constant(node: exp.Expr, session: SessionSettings) -> Constant | None:
    """Read a constant; None for everything else."""
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
        return _number(node.name)
    if isinstance(node, exp.Boolean):
        return Constant("boolean", bool(node.this))
    if isinstance(node, exp.Null):
        return Constant("null", None)
    if isinstance(node, exp.HexString):
        return _binary(node)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and set(_given(node)) <= {"this", "to"}:
        return _typed(node.this, node.to, session)
    return None


def coerce_constant(found: Constant, kind: spark_types.DataType, session: SessionSettings) -> Bound | None:
    """Bring a constant to the type of a column; None where comparing there may have another outcome."""
    if found.kind == "null":
        return None
    width = _RANGES.get(type(kind))
    if width is not None:
        return _in_integers(found, width)
    if isinstance(kind, spark_types.DoubleType):
        return _in_doubles(found)
    if isinstance(kind, spark_types.FloatType):
        return _in_floats(found)
    if isinstance(kind, spark_types.DecimalType):
        return _in_decimals(found, kind)
    if isinstance(kind, spark_types.DateType):
        return _in_dates(found)
    if isinstance(kind, spark_types.TimestampType):
        return _in_timestamps(found, session)
    if isinstance(kind, spark_types.TimestampNTZType):
        return _in_local_timestamps(found)
    return Bound(found.value) if found.kind == _same_kind(kind) else None


def find_fractional_value(found: Constant, kind: spark_types.DataType) -> decimal.Decimal | None:
    """Give a number that lies between two values of an integer column, None for all others."""
    width = _RANGES.get(type(kind))
    if width is None or (found.kind == "double" and width == _RANGES[spark_types.LongType]):
        return None
    if found.kind not in {"decimal", "double"} or (found.kind == "double" and not math.isfinite(found.value)):
        return None
    value = decimal.Decimal(found.value)
    return None if value == value.to_integral_value() or not _fits(int(value), width) else value


def _given(node: exp.Expr) -> list[str]:
    return [key for key, value in node.args.items() if value and not key.startswith("_")]


def _number(text: str) -> Constant | None:
    if text.isdigit():
        value = int(text)
        return Constant("int", value) if value < 1 << 63 else None
    try:
        if "e" in text.lower():
            return Constant("double", float(text))
        exact = decimal.Decimal(text)
    except (ValueError, decimal.InvalidOperation):
        return None
    return Constant("decimal", exact) if len(exact.as_tuple().digits) <= _LONGEST_DECIMAL else None


def _binary(node: exp.HexString) -> Constant | None:
    try:
        return Constant("binary", bytes.fromhex(node.name))
    except ValueError:
        return None


def _typed(literal: exp.Literal, to: exp.DataType, session: SessionSettings) -> Constant | None:
    kind = to.this
    text = literal.name
    if kind in _INTEGERS:
        return _number(text) if text.isdigit() else None
    if kind is exp.DataType.Type.DOUBLE and not literal.is_string:
        return Constant("double", float(text))
    if kind is exp.DataType.Type.DECIMAL:
        return _decimal(text, to)
    if not literal.is_string or not session.plain_strings:
        return None
    if kind is exp.DataType.Type.DATE:
        day = _date(text)
        return None if day is None else Constant("date", day)
    zoned = {exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ}
    if kind in zoned and (_DATE.fullmatch(text) or _TIMESTAMP.fullmatch(text)):
        return Constant("ltz", text)
    if kind is exp.DataType.Type.TIMESTAMPNTZ and _local(text) is not None:
        return Constant("ntz", _local(text))
    return None


def _decimal(text: str, to: exp.DataType) -> Constant | None:
    """Read a decimal that its type holds as it is."""
    sizes = [int(one.name) for one in to.expressions if one.name.isdigit()]
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    if len(sizes) != 2 or not value.is_finite() or _scaled(value, *sizes) is None:  # noqa: PLR2004 - precision, scale
        return None
    return Constant("decimal", value)


def _in_integers(found: Constant, width: int) -> Bound | None:
    if found.kind == "double" and width == _RANGES[spark_types.LongType]:
        return None
    if found.kind not in {"int", "decimal", "double"}:
        return None
    if found.kind == "double" and not math.isfinite(found.value):
        return None
    if found.value != int(found.value) or not _fits(int(found.value), width):
        return None
    return Bound(int(found.value))


def _fits(value: int, width: int) -> bool:
    return -(1 << (width - 1)) <= value < 1 << (width - 1)


def _in_doubles(found: Constant) -> Bound | None:
    if found.kind == "int":
        return Bound(float(found.value)) if abs(found.value) <= _EXACT_IN_DOUBLE else None
    return Bound(float(found.value)) if found.kind in {"decimal", "double"} else None


def _in_floats(found: Constant) -> Bound | None:
    if found.kind not in {"int", "decimal", "double"}:
        return None
    try:
        narrow = struct.unpack("f", struct.pack("f", float(found.value)))[0]
    except OverflowError:
        return None
    return Bound(narrow) if decimal.Decimal(narrow) == decimal.Decimal(found.value) else None


def _in_decimals(found: Constant, kind: spark_types.DecimalType) -> Bound | None:
    if found.kind not in {"int", "decimal"}:
        return None
    value = _scaled(decimal.Decimal(found.value), kind.precision, kind.scale)
    return None if value is None else Bound(value)


def _scaled(value: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal | None:
    """Give a number with this many digits after the point if none is lost and it fits."""
    if abs(value.adjusted()) >= _LONGEST_DECIMAL:
        return None
    with decimal.localcontext() as context:
        context.prec = _LONGEST_DECIMAL * 2
        scaled = value.quantize(decimal.Decimal(1).scaleb(-scale))
    return scaled if scaled == value and len(scaled.as_tuple().digits) <= precision else None


def _in_dates(found: Constant) -> Bound | None:
    day = found.value if found.kind == "date" else _date(found.value) if found.kind == "string" else None
    return None if day is None else Bound(day)


def _in_timestamps(found: Constant, session: SessionSettings) -> Bound | None:
    if found.kind == "date":
        local: dt.datetime | None = dt.datetime.combine(found.value, dt.time())
        in_utc = False
    elif found.kind in {"string", "ltz"}:
        local = _local(found.value.removesuffix("Z"))
        in_utc = found.value.endswith("Z")
    else:
        return None
    if local is None:
        return None
    zone = dt.timezone.utc if in_utc else session.fixed_offset()
    if zone is not None:
        return _utc(local, zone)
    # Rules of time zones change, and Spark's may be older or newer than those here.
    return Bound(local.replace(tzinfo=dt.timezone.utc), WIDEST_OFFSET)


def _utc(local: dt.datetime, zone: dt.timezone) -> Bound | None:
    try:
        return Bound(local.replace(tzinfo=zone).astimezone(dt.timezone.utc))
    except OverflowError:
        return None


def _in_local_timestamps(found: Constant) -> Bound | None:
    if found.kind == "date":
        return Bound(dt.datetime.combine(found.value, dt.time()))
    if found.kind == "ntz":
        return Bound(found.value)
    local = _local(found.value) if found.kind == "string" else None
    return None if local is None else Bound(local)


def _date(text: str) -> dt.date | None:
    found = _DATE.fullmatch(text)
    try:
        return None if found is None else dt.date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        return None


def _local(text: str) -> dt.datetime | None:
    """Read a time without a zone, as Spark does; a day is its midnight."""
    day = _date(text)
    if day is not None:
        return dt.datetime.combine(day, dt.time())
    found = _TIMESTAMP.fullmatch(text)
    if found is None or found[8]:
        return None
    try:
        clock = dt.time(int(found[4]), int(found[5]), int(found[6]), int((found[7] or "").ljust(6, "0")))
    except ValueError:
        return None
    day = _date(text[:10])
    return None if day is None else dt.datetime.combine(day, clock)


def _same_kind(kind: spark_types.DataType) -> str | None:
    """Give the kind of constants that a column is compared with as they are."""
    if isinstance(kind, spark_types.BooleanType):
        return "boolean"
    if isinstance(kind, spark_types.BinaryType):
        return "binary"
    if type(kind) is spark_types.StringType and getattr(kind, "collation", "UTF8_BINARY") == "UTF8_BINARY":
        return "string"
    return None
