"""Literals in Lance predicates."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct

import pyarrow as pa

from pennon.spark.types.lazy_errors import invalid_input

_EPOCH = dt.date(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)
_DAY_MILLISECONDS = 86_400_000
_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
# Microseconds in each unit of time.
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NANOSECONDS = 1_000  # in a microsecond
_INTEGER_DIGITS = 20  # of 64 bits
_FLOATS = {16: "e", 32: "f", 64: "d"}


def format_literal(value: object, arrow_type: pa.DataType) -> str:
    """Return a value as a literal of an Arrow type; raises InvalidInputError if the type cannot hold it."""
    written = format_exact(value, arrow_type)
    if written is None:
        raise invalid_input(f"{value!r} is not a value of the Arrow type {arrow_type}")
    return written


def format_exact(value: object, kind: pa.DataType) -> str | None:
    """Return a value as a literal of an Arrow type, or None if the type cannot hold exactly that value."""
    if value is None:
        return "NULL"
    if pa.types.is_dictionary(kind):
        return format_exact(value, kind.value_type)
    for accepts, write in _WRITERS:
        if accepts(kind):
            return write(value, kind)
    return None


def count_microseconds(value: dt.datetime) -> int:
    """Return the microseconds since 1970; a time without a zone counts as UTC."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
    return (aware - _EPOCH_UTC) // _MICROSECOND


def format_timestamp(count: int, kind: pa.DataType) -> str | None:
    """Return the literal of a timestamp, counted in the unit of its type; None if the type cannot hold it."""
    zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
    if not _in_range(count, 64, signed=True) or "'" in zone:
        return None
    return f"arrow_cast({count}, 'Timestamp({_UNITS[kind.unit]}, {zone})')"


def _boolean(value: object, _kind: pa.DataType) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None


def _integer(value: object, kind: pa.DataType) -> str | None:
    if isinstance(value, decimal.Decimal) and value.is_finite() and value.adjusted() < _INTEGER_DIGITS:
        value = int(value) if value == value.to_integral_value() else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if not _in_range(value, kind.bit_width, signed=pa.types.is_signed_integer(kind)):
        return None
    # Without its sign, the smallest integer does not fit, so it cannot be written as a number.
    return str(value) if value != -(1 << 63) else f"arrow_cast('{value}', 'Int64')"


def _float(value: object, kind: pa.DataType) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    name = f"Float{kind.bit_width}"
    number = float(value)
    if math.isnan(number):
        return f"arrow_cast('NaN', '{name}')"
    if math.isinf(number):
        return f"arrow_cast('{'-' if number < 0 else ''}inf', '{name}')"
    try:
        code = _FLOATS[kind.bit_width]
        kept = struct.unpack(code, struct.pack(code, number))[0]
    except OverflowError:
        return None
    return f"arrow_cast({number!r}, '{name}')" if kept == value else None


def _decimal(value: object, kind: pa.DataType) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = decimal.Decimal(value)
    if not isinstance(value, decimal.Decimal) or not value.is_finite() or not 0 <= kind.scale <= kind.precision:
        return None
    if value.adjusted() + kind.scale >= kind.precision:
        return None
    scaled = decimal.Context(prec=decimal.MAX_PREC).scaleb(value, kind.scale)
    if scaled != scaled.to_integral_value() or len(str(abs(int(scaled)))) > kind.precision:
        return None
    return f"arrow_cast('{value:f}', 'Decimal{kind.bit_width}({kind.precision}, {kind.scale})')"


def _text(value: object, _kind: pa.DataType) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return "'" + value.replace("'", "''") + "'"


def _bytes(value: object, kind: pa.DataType) -> str | None:
    if not isinstance(value, (bytes, bytearray)):
        return None
    if pa.types.is_fixed_size_binary(kind) and len(value) != kind.byte_width:
        return None
    return f"X'{value.hex()}'"


def _date(value: object, kind: pa.DataType) -> str | None:
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        return None
    days = (value - _EPOCH).days
    if pa.types.is_date32(kind):
        return f"arrow_cast({days}, 'Date32')"
    return f"arrow_cast({days * _DAY_MILLISECONDS}, 'Date64')"


def _timestamp(value: object, kind: pa.DataType) -> str | None:
    if not isinstance(value, dt.datetime) or (value.tzinfo is None) != (kind.tz is None):
        return None
    count = count_microseconds(value)
    if kind.unit == "ns":
        return format_timestamp(count * _NANOSECONDS, kind)
    whole, rest = divmod(count, MICROSECONDS[kind.unit])
    return None if rest else format_timestamp(whole, kind)


def _in_range(value: int, bits: int, *, signed: bool) -> bool:
    return -(1 << bits - 1) <= value < 1 << bits - 1 if signed else 0 <= value < 1 << bits


_WRITERS = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_string, _text),
    (pa.types.is_large_string, _text),
    (pa.types.is_binary, _bytes),
    (pa.types.is_large_binary, _bytes),
    (pa.types.is_fixed_size_binary, _bytes),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _timestamp),
)
