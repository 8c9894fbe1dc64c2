"""Arrow schemas and types as the JSON that the namespace specification defines.

The names of types are those that other Lance clients use. The JSON has no place for a unit, a time zone or the index
type of a dictionary. A field whose type needs more than the JSON can hold carries the full Arrow type in its metadata,
under `ARROW:type`. Requests may write such a type as Arrow does: `timestamp[us, tz=UTC]`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lance_namespace_urllib3_client.models.json_arrow_data_type import JsonArrowDataType
from lance_namespace_urllib3_client.models.json_arrow_field import JsonArrowField
from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema

from pennon.errors import InvalidInputError
from pennon.table.metadata import decode_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

FULL_TYPE = "ARROW:type"
_TYPES = {
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_ALIASES = {**_TYPES, "boolean": pa.bool_()}
_LOSSY = (pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration, pa.types.is_dictionary, pa.types.is_interval)
_DECIMALS = {"decimal128": pa.decimal128, "decimal256": pa.decimal256}
_DECIMAL_SCALE = 1000
_DICTIONARY = re.compile(r"dictionary<values=.*, indices=(u?int\d+), ordered=([01])>")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]")


def to_json_schema(schema: pa.Schema) -> JsonArrowSchema:
    """Return a schema as JSON."""
    metadata = decode_metadata(schema.metadata) or None
    return JsonArrowSchema(fields=[_to_json_field(field) for field in schema], metadata=metadata)


def parse_schema(document: Mapping[str, Any]) -> pa.Schema:
    """Return the schema that a JSON document describes. Raises InvalidInputError if it is not valid."""
    try:
        fields = [_parse_field(one) for one in document["fields"]]
        return pa.schema(fields, document.get("metadata"))
    except (ValueError, TypeError, KeyError, AttributeError, pa.ArrowException) as error:
        raise InvalidInputError(f"Bad schema: {error}") from error


def parse_data_type(document: Mapping[str, Any]) -> pa.DataType:
    """Return the type that a JSON document describes. Raises InvalidInputError if there is no such type."""
    name = document.get("type")
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"A data type is an object with a field 'type', got {dict(document)!r}")
    try:
        return _parse_type(name, document)
    except (ValueError, TypeError, KeyError, IndexError, pa.ArrowException) as error:
        raise InvalidInputError(f"Bad data type {dict(document)!r}: {error}") from error


def _to_json_field(field: pa.Field) -> JsonArrowField:
    metadata = decode_metadata(field.metadata)
    if any(is_lossy(field.type) for is_lossy in _LOSSY):
        metadata[FULL_TYPE] = str(field.type)
    return JsonArrowField(
        name=field.name, nullable=field.nullable, type=_to_json_type(field.type), metadata=metadata or None
    )


def _to_json_type(kind: pa.DataType) -> JsonArrowDataType:
    if pa.types.is_fixed_size_list(kind):
        return JsonArrowDataType(
            type="fixed_size_list", fields=[_to_json_field(kind.value_field)], length=kind.list_size
        )
    if pa.types.is_large_list(kind):
        return JsonArrowDataType(type="large_list", fields=[_to_json_field(kind.value_field)])
    if pa.types.is_list(kind):
        return JsonArrowDataType(type="list", fields=[_to_json_field(kind.value_field)])
    if pa.types.is_map(kind):
        entries = pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
        return JsonArrowDataType(type="map", fields=[_to_json_field(entries)])
    if pa.types.is_struct(kind):
        return JsonArrowDataType(type="struct", fields=[_to_json_field(kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_dictionary(kind):
        return _to_json_type(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return JsonArrowDataType(type="fixed_size_binary", length=kind.byte_width)
    if pa.types.is_decimal(kind):
        return JsonArrowDataType(type=f"decimal{kind.bit_width}", length=kind.precision * _DECIMAL_SCALE + kind.scale)
    if isinstance(kind, pa.BaseExtensionType):
        return _to_json_type(kind.storage_type)
    return JsonArrowDataType(type=_NAMES.get(kind, str(kind).partition("[")[0]))


def _parse_type(written: str, document: Mapping[str, Any]) -> pa.DataType:
    name = written.lower()
    if name in {"list", "large_list"}:
        item = _parse_fields(document)[0]
        return pa.list_(item) if name == "list" else pa.large_list(item)
    if name == "fixed_size_list":
        return pa.list_(_parse_fields(document)[0], int(document["length"]))
    if name == "struct":
        return pa.struct(_parse_fields(document))
    if name == "map":
        entries = _parse_fields(document)[0].type
        return pa.map_(entries.field(0), entries.field(1))
    if name == "fixed_size_binary":
        return pa.binary(int(document["length"]))
    if name in _DECIMALS:
        precision, scale = divmod(int(document["length"]), _DECIMAL_SCALE)
        return _DECIMALS[name](precision, scale)
    zoned = _TIMESTAMP.fullmatch(written)
    if zoned is not None:
        return pa.timestamp(zoned[1], zoned[2])
    return _ALIASES.get(name) or pa.type_for_alias(name)


def _parse_fields(document: Mapping[str, Any]) -> list[pa.Field]:
    fields = document["fields"]
    if not fields:
        raise ValueError("it has no fields")
    return [_parse_field(field) for field in fields]


def _parse_field(field: Mapping[str, Any]) -> pa.Field:
    metadata = dict(field.get("metadata") or {})
    full_type = metadata.pop(FULL_TYPE, None)
    kind = parse_data_type(field["type"]) if full_type is None else _parse_full_type(full_type, field["type"])
    return pa.field(str(field["name"]), kind, bool(field.get("nullable", True)), metadata or None)


def _parse_full_type(full_type: str, document: Mapping[str, Any]) -> pa.DataType:
    encoded = _DICTIONARY.fullmatch(full_type)
    if encoded is not None:
        return pa.dictionary(pa.type_for_alias(encoded[1]), parse_data_type(document), ordered=encoded[2] == "1")
    return parse_data_type({"type": full_type})
