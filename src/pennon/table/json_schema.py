"""Arrow schemas as the JSON that the namespace specification defines, in the spelling that other Lance clients use.

That JSON has no place for a unit, a time zone or a dictionary's index type: a field whose type says more than the
JSON can carries the full Arrow type in its metadata, under `ARROW:type`.
"""

from __future__ import annotations

import pyarrow as pa
from lance_namespace_urllib3_client.models.json_arrow_data_type import JsonArrowDataType
from lance_namespace_urllib3_client.models.json_arrow_field import JsonArrowField
from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema

FULL_TYPE = "ARROW:type"
_NAMES = {pa.string(): "utf8", pa.large_string(): "large_utf8", pa.float16(): "float16", pa.float32(): "float32"}
_NAMES |= {pa.float64(): "float64", pa.date32(): "date32", pa.date64(): "date64"}
_DECIMAL_SCALE = 1000
_LOSSY = (pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration, pa.types.is_dictionary, pa.types.is_interval)


def json_schema(schema: pa.Schema) -> JsonArrowSchema:
    """Convert a schema."""
    return JsonArrowSchema(fields=[_field(field) for field in schema], metadata=_metadata(schema.metadata))


def _field(field: pa.Field) -> JsonArrowField:
    metadata = _metadata(field.metadata) or {}
    if any(is_lossy(field.type) for is_lossy in _LOSSY):
        metadata[FULL_TYPE] = str(field.type)
    return JsonArrowField(
        name=field.name, nullable=field.nullable, type=_data_type(field.type), metadata=metadata or None
    )


def _data_type(kind: pa.DataType) -> JsonArrowDataType:
    if pa.types.is_fixed_size_list(kind):
        return JsonArrowDataType(type="fixed_size_list", fields=[_field(kind.value_field)], length=kind.list_size)
    if pa.types.is_large_list(kind):
        return JsonArrowDataType(type="large_list", fields=[_field(kind.value_field)])
    if pa.types.is_list(kind):
        return JsonArrowDataType(type="list", fields=[_field(kind.value_field)])
    if pa.types.is_map(kind):
        entries = pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
        return JsonArrowDataType(type="map", fields=[_field(entries)])
    if pa.types.is_struct(kind):
        return JsonArrowDataType(type="struct", fields=[_field(kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_dictionary(kind):
        return _data_type(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return JsonArrowDataType(type="fixed_size_binary", length=kind.byte_width)
    if pa.types.is_decimal(kind):
        return JsonArrowDataType(type=f"decimal{kind.bit_width}", length=kind.precision * _DECIMAL_SCALE + kind.scale)
    if isinstance(kind, pa.BaseExtensionType):
        return _data_type(kind.storage_type)
    return JsonArrowDataType(type=_NAMES.get(kind, str(kind).partition("[")[0]))


def _metadata(metadata: dict[bytes, bytes] | None) -> dict[str, str] | None:
    if not metadata:
        return None
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()}
