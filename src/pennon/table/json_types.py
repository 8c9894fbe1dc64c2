"""Arrow types from the JSON that the namespace specification defines: the way back from `json_schema`.

What that JSON cannot say (a unit, a time zone) may be said as Arrow writes it: `timestamp[us, tz=UTC]`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALIASES = {
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
}
_DECIMAL_SCALE = 1000
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]")
_DECIMALS = {"decimal128": pa.decimal128, "decimal256": pa.decimal256}


def data_type(given: Mapping[str, Any]) -> pa.DataType:
    """Read a type; 13 if there is none such."""
    name = given.get("type")
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"A data type is an object with a field 'type', got {dict(given)!r}")
    try:
        return _read(name.lower(), given)
    except (ValueError, TypeError, KeyError, IndexError, pa.ArrowException) as error:
        raise InvalidInputError(f"Bad data type {dict(given)!r}: {error}") from error


def _read(name: str, given: Mapping[str, Any]) -> pa.DataType:
    if name in {"list", "large_list"}:
        item = _fields(given)[0]
        return pa.list_(item) if name == "list" else pa.large_list(item)
    if name == "fixed_size_list":
        return pa.list_(_fields(given)[0], int(given["length"]))
    if name == "struct":
        return pa.struct(_fields(given))
    if name == "map":
        entries = _fields(given)[0].type
        return pa.map_(entries.field(0), entries.field(1))
    if name == "fixed_size_binary":
        return pa.binary(int(given["length"]))
    if name in _DECIMALS:
        precision, scale = divmod(int(given["length"]), _DECIMAL_SCALE)
        return _DECIMALS[name](precision, scale)
    zoned = _TIMESTAMP.fullmatch(str(given["type"]))
    if zoned is not None:
        return pa.timestamp(zoned[1], zoned[2])
    return _ALIASES.get(name) or pa.type_for_alias(name)


def _fields(given: Mapping[str, Any]) -> list[pa.Field]:
    fields = given["fields"]
    if not fields:
        raise ValueError("it has no fields")
    return [
        pa.field(str(field["name"]), data_type(field["type"]), nullable=bool(field.get("nullable", True)))
        for field in fields
    ]
