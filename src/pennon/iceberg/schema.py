"""Arrow schemas as Iceberg schemas, for tools that show them.

Every Arrow type has an Iceberg type. Where that says less, the field's `doc` names the Arrow type; else it is the
field's comment. What Iceberg cannot express at all is shown as `string`. docs/reference/iceberg.md has the table. A
field keeps its id as long as its name and place stay; new ones get ids that were never used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_WIDEST_DECIMAL = 38
ELEMENT, KEY, VALUE = "element", "key", "value"
_EXACT: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
}
_WIDER: dict[pa.DataType, str] = {
    pa.int8(): "int",
    pa.int16(): "int",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20, 0)",
    pa.float16(): "float",
    pa.date64(): "date",
}
FALLBACK = "string"
DOC = b"doc"
"""The entry of a field's metadata that holds its comment, as pyiceberg writes it."""


def convert_schema(
    schema: pa.Schema,
    before: Mapping[str, Any] | None = None,
    last_id: int = 0,
    *,
    given: Mapping[tuple[str, ...], int] | None = None,
) -> dict[str, Any]:
    """Convert a schema; fields that were there before, in an Iceberg schema, keep their ids.

    `given` are ids by the paths of fields; the parts of lists and maps are called element, key and value there.
    """
    known = {**(dict(_ids(before.get("fields", []), ())) if before else {}), **(given or {})}
    ids = _Ids(known, max([last_id, *known.values()]))
    return {"type": "struct", "fields": _fields(schema, (), ids)}


def largest_id(schema: Mapping[str, Any]) -> int:
    """Return the largest id of a field in an Iceberg schema."""
    return max((number for _, number in _ids(schema.get("fields", []), ())), default=0)


def same_fields(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two Iceberg schemas have the same fields, regardless of additions by a server."""
    return bool(_essence(one.get("fields", [])) == _essence(other.get("fields", [])))


class _Ids:
    def __init__(self, known: Mapping[tuple[str, ...], int], last: int) -> None:
        self._known = known
        self._last = last

    def of(self, path: tuple[str, ...]) -> int:
        if path in self._known:
            return self._known[path]
        self._last += 1
        return self._last


def _fields(fields: Iterable[pa.Field], path: tuple[str, ...], ids: _Ids) -> list[dict[str, Any]]:
    made = []
    for field in fields:
        here = (*path, field.name)
        entry: dict[str, Any] = {"id": ids.of(here), "name": field.name, "required": not field.nullable}
        entry["type"], is_exact = _type(field.type, here, ids)
        comment = (field.metadata or {}).get(DOC)
        if not is_exact:
            entry["doc"] = f"arrow: {field.type}"
        elif comment:
            entry["doc"] = comment.decode(errors="replace")
        made.append(entry)
    return made


def _type(kind: pa.DataType, path: tuple[str, ...], ids: _Ids) -> tuple[Any, bool]:
    """Return the Iceberg type, and whether it is equivalent to the Arrow type."""
    # These come first: not all of them can be looked up in a dict.
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return "uuid", True
        return _type(kind.storage_type, path, ids)[0], False
    if kind in _EXACT:
        return _EXACT[kind], True
    if kind in _WIDER:
        return _WIDER[kind], False
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _type(kind.value_type, path, ids)[0], False
    nested = _nested(kind, path, ids)
    return nested if nested is not None else _parametric(kind)


def _nested(kind: pa.DataType, path: tuple[str, ...], ids: _Ids) -> tuple[Any, bool] | None:
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": _fields([kind.field(i) for i in range(kind.num_fields)], path, ids)}, True
    if pa.types.is_map(kind):
        key, value = (*path, KEY), (*path, VALUE)
        made = {"type": "map", "key-id": ids.of(key), "value-id": ids.of(value)}
        made["key"], key_exact = _type(kind.key_type, key, ids)
        made["value"], value_exact = _type(kind.item_type, value, ids)
        made["value-required"] = not kind.item_field.nullable
        return made, key_exact and value_exact
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or _is_other_list(kind):
        element = (*path, ELEMENT)
        made = {"type": "list", "element-id": ids.of(element)}
        made["element"], exact = _type(kind.value_type, element, ids)
        made["element-required"] = not kind.value_field.nullable
        return made, exact and not pa.types.is_fixed_size_list(kind)
    return None


def _is_other_list(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind) for is_kind in (pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)
    )


def _parametric(kind: pa.DataType) -> tuple[str, bool]:
    if pa.types.is_fixed_size_binary(kind):
        return (f"fixed[{kind.byte_width}]", True) if kind.byte_width > 0 else ("binary", False)
    if pa.types.is_decimal(kind) and kind.precision <= _WIDEST_DECIMAL and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision}, {kind.scale})", True
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz", False
    if pa.types.is_time(kind):
        return "time", False
    if pa.types.is_duration(kind):
        return "long", False
    return FALLBACK, False


def _ids(fields: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Return the field ids of an Iceberg schema by path. Unknown parts are left out."""
    for field in fields if isinstance(fields, list) else []:
        if isinstance(field, dict) and isinstance(field.get("name"), str) and isinstance(field.get("id"), int):
            here = (*path, field["name"])
            yield here, field["id"]
            yield from _inner_ids(field.get("type"), here)


def _inner_ids(kind: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    if not isinstance(kind, dict):
        return
    if kind.get("type") == "struct":
        yield from _ids(kind.get("fields"), path)
    for part in (ELEMENT, KEY, VALUE):
        if isinstance(kind.get(f"{part}-id"), int):
            yield (*path, part), kind[f"{part}-id"]
            yield from _inner_ids(kind.get(part), (*path, part))


def _essence(fields: Any) -> Any:
    if isinstance(fields, list):
        return [_essence(field) for field in fields]
    if not isinstance(fields, dict):
        return fields.replace(" ", "") if isinstance(fields, str) else fields
    names = ("id", "name", "required", "type", "fields", "doc", "element", "key", "value")
    parts = (*names, "element-id", "element-required", "key-id", "value-id", "value-required")
    return {name: _essence(fields[name]) for name in parts if fields.get(name) is not None}
