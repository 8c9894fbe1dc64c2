"""Translation of Spark's filters to Lance predicates with exactly the same meaning. Spark evaluates all others.

docs/reference/spark-types.md lists the filters that are pushed down.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from pennon.spark.quoting import quote_name
from pennon.spark.reading.literals import MICROSECONDS, count_microseconds, format_exact, format_timestamp
from pennon.spark.types.extension import UUID, extension_name, is_blob, plain_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import Filter

_SIGNS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_OPPOSITE = {"=": "<>", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}
_TEXT: dict[type[Filter], str] = {
    StringStartsWith: "starts_with",
    StringEndsWith: "ends_with",
    StringContains: "contains",
}
_NEVER = "false"
# PySpark rounds decimals with more digits than this when it passes them on, so the value may have changed.
_DECIMAL_DIGITS = 28
# The most values of a list that need a predicate each; more would be too deep an expression.
_MOST_ALTERNATIVES = 100


def translate_filter(filter_: Filter, schema: pa.Schema) -> str | None:
    """Return a filter as a Lance predicate on a table with `schema`; None if it would not mean exactly the same."""
    return _translate(filter_, schema, wanted=True)


def compare_columns(left: Sequence[str], sign: str, right: Sequence[str], schema: pa.Schema) -> str | None:
    """Return a predicate that compares two columns of a table as Spark does, or None."""
    fields = _find_field(left, schema), _find_field(right, schema)
    if fields[0] is None or fields[1] is None or any(extension_name(one) is not None for one in fields if one):
        return None
    kind = fields[0].type
    # Spark and Lance compare floats and nanoseconds differently.
    same = pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_decimal128(kind) or kind == pa.string()
    return f"{quote_name(*left)} {sign} {quote_name(*right)}" if same and fields[1].type == kind else None


def _translate(filter_: Filter, schema: pa.Schema, *, wanted: bool) -> str | None:
    """Return a predicate that is true where the filter is `wanted`; where the filter is null, it is not true."""
    if isinstance(filter_, Not):
        return _translate(filter_.child, schema, wanted=not wanted)
    path = getattr(filter_, "attribute", ())
    field = _find_field(path, schema)
    if field is None:
        return None
    name = quote_name(*path)
    if isinstance(filter_, (IsNull, IsNotNull)):
        return f"{name} IS NULL" if isinstance(filter_, IsNull) is wanted else f"{name} IS NOT NULL"
    if isinstance(filter_, In):
        return _in(name, field, filter_.value, wanted=wanted)
    if isinstance(filter_, EqualNullSafe):
        return _null_safe(name, field, filter_.value, wanted=wanted)
    if type(filter_) in _TEXT:
        return _text(_TEXT[type(filter_)], name, field, getattr(filter_, "value", None), wanted=wanted)
    sign = _SIGNS.get(type(filter_))
    if sign is None:
        return None
    return _comparison(name, field, sign if wanted else _OPPOSITE[sign], getattr(filter_, "value", None))


def _find_field(path: Sequence[str], schema: pa.Schema) -> pa.Field | None:
    """Return the field at a path, or None if a predicate of Lance cannot refer to it."""
    field, fields = None, list(schema)
    for part in path:
        found = [one for one in fields if one.name == part]
        if len(found) != 1 or (field is not None and extension_name(field) is not None):
            return None
        field = plain_field(found[0])
        fields = list(field.type) if pa.types.is_struct(field.type) else []
    # Lance cannot find a top-level column by a name with a backtick.
    return None if field is None or is_blob(field) or "`" in path[0] else field


def _in(name: str, field: pa.Field, values: Sequence[object], *, wanted: bool) -> str | None:
    given = [value for value in values if value is not None]
    if not wanted and len(given) < len(values):
        return _NEVER  # SQL: with a null in the list, NOT IN is never true
    sign, word, glue = ("=", "IN", " OR ") if wanted else ("<>", "NOT IN", " AND ")
    written = {number: _format_value(field, value) for number, value in enumerate(given)}
    listed = [text for text in written.values() if text is not None]
    parts = [f"{name} {word} ({', '.join(listed)})"] if listed else []
    alone = [_comparison(name, field, sign, given[number]) for number, text in written.items() if text is None]
    if None in alone or len(alone) > _MOST_ALTERNATIVES or not (given or wanted):
        return None
    parts += [text for text in alone if text is not None]
    return f"({glue.join(parts)})" if parts else _NEVER


def _null_safe(name: str, field: pa.Field, value: object, *, wanted: bool) -> str | None:
    if value is None:
        return f"{name} IS NULL" if wanted else f"{name} IS NOT NULL"
    compared = _comparison(name, field, "=" if wanted else "<>", value)
    return compared if wanted or compared is None else f"({name} IS NULL OR {compared})"


def _text(function: str, name: str, field: pa.Field, value: object, *, wanted: bool) -> str | None:
    written = _format_value(field, value)
    if value is None or not isinstance(value, str) or written is None or extension_name(field) is not None:
        return None
    return f"{'' if wanted else 'NOT '}{function}({name}, {written})"


def _comparison(name: str, field: pa.Field, sign: str, value: object) -> str | None:
    """Return a predicate that compares a column with a value as Spark does, or None."""
    if value is None:
        return _NEVER
    kind = field.type
    if extension_name(field) is None:
        if pa.types.is_floating(kind) and isinstance(value, float):
            return _number(name, kind, sign, value)
        if pa.types.is_timestamp(kind) and isinstance(value, dt.datetime):
            return _moment(name, kind, sign, value)
    written = _format_value(field, value)
    return None if written is None else f"{name} {sign} {written}"


def _format_value(field: pa.Field, value: object) -> str | None:
    """Return a value as a literal, or None if equality with it differs between Spark and Lance."""
    extension = extension_name(field)
    if extension is not None:
        return _uuid(value) if extension == UUID else None
    if isinstance(value, decimal.Decimal) and len(value.as_tuple().digits) >= _DECIMAL_DIGITS:
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
        return None
    return format_exact(value, field.type)


def _uuid(value: object) -> str | None:
    """Return the literal of a UUID in canonical form, in which texts sort as the bytes do; None for other texts."""
    try:
        made = uuid.UUID(str(value))
    except ValueError:
        return None
    return f"X'{made.bytes.hex()}'" if str(made) == value else None


def _number(name: str, kind: pa.DataType, sign: str, value: float) -> str | None:
    """Return a comparison of floats as Spark does it: there is one NaN, which is greater than all numbers.

    Lance sorts a NaN with a sign, as x86 produces it, below all numbers.
    """
    if math.isnan(value):
        return {
            "=": f"isnan({name})",
            ">=": f"isnan({name})",
            "<>": f"NOT isnan({name})",
            "<": f"NOT isnan({name})",
            "<=": f"{name} IS NOT NULL",
        }.get(sign, _NEVER)
    written, least = format_exact(value, kind), format_exact(-math.inf, kind)
    if written is None:
        return None
    if sign in {">", ">="}:
        return f"({name} {sign} {written} OR {name} < {least})"
    if sign in {"<", "<="}:
        return f"({name} {sign} {written} AND {name} >= {least})"
    return f"{name} {sign} {written}"


def _moment(name: str, kind: pa.DataType, sign: str, value: dt.datetime) -> str | None:
    """Return a comparison of timestamps in the unit of the column. Spark reads nanoseconds as whole microseconds."""
    if (value.tzinfo is None) != (kind.tz is None):
        return None
    count = count_microseconds(value)
    if kind.unit == "ns":
        first, next_ = format_timestamp(count * 1_000, kind), format_timestamp((count + 1) * 1_000, kind)
        if first is None or next_ is None:
            return None
        return {
            "=": f"({name} >= {first} AND {name} < {next_})",
            "<>": f"({name} < {first} OR {name} >= {next_})",
            ">": f"{name} >= {next_}",
            ">=": f"{name} >= {first}",
            "<": f"{name} < {first}",
            "<=": f"{name} < {next_}",
        }[sign]
    whole, rest = divmod(count, MICROSECONDS[kind.unit])
    if rest and sign in {"=", "<>"}:
        return _NEVER if sign == "=" else f"{name} IS NOT NULL"
    written = format_timestamp(whole + 1 if rest and sign in {">=", "<"} else whole, kind)
    return None if written is None else f"{name} {sign} {written}"
