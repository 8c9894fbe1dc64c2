"""Columns in both directions: a Lance schema as an Iceberg schema, and the other way round.

A field's id is made of the one that Lance gave it, so it stays when fields are renamed, added or dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.iceberg.schema import DOC, ELEMENT, KEY, VALUE, convert_schema, largest_id
from pennon.server.iceberg.models import ListType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lance import LanceDataset

    from pennon.server.iceberg.models import Schema, StructField

SCHEMA_ID = 1
_PARTS = 1_000_000_000
"""From here on are the ids of parts that Lance does not count, such as the elements of a vector."""
_MOST_PARTS = 8
_DEEPEST = 64
_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.uuid(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d{1,9})\s*\]")
_WIDEST_DECIMAL = 38


def shown(dataset: LanceDataset) -> tuple[dict[str, Any], int]:
    """Return the Iceberg schema of an open table, and its largest field id."""
    known = {
        path: number
        for column, arrow in zip(dataset.lance_schema.fields(), dataset.schema, strict=True)
        for path, number in _ids(column, column.id() + 1, arrow.type, (arrow.name,))
    }
    schema = {**convert_schema(dataset.schema, given=known), "schema-id": SCHEMA_ID}
    return schema, largest_id(schema)


def empty() -> dict[str, Any]:
    """Return the schema of a table that has no data yet."""
    return {"type": "struct", "schema-id": SCHEMA_ID, "fields": []}


def same_columns(one: Schema, other: Mapping[str, Any]) -> bool:
    """Return True if the schema that a client sent and a shown one have the same columns, regardless of their ids."""
    return bool(_essence(one.model_dump(by_alias=True)["fields"]) == _essence(other["fields"]))


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return an Arrow schema for an Iceberg schema that a client sent.

    Raises InvalidInputError if a column is not valid, UnsupportedOperationError for what Lance cannot keep.
    """
    if schema.identifier_field_ids:
        raise UnsupportedOperationError("A Lance table has no identifier fields: leave 'identifier-field-ids' out")
    return pa.schema(_fields(schema.fields, 0))


def _ids(column: Any, number: int, kind: pa.DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:  # noqa: ANN401 - a LanceField, or None
    """Walk a field as Lance and Arrow know it, and give an id to each part that Iceberg counts."""
    yield path, number
    children = {} if column is None else {child.name(): child for child in column.children()}
    if pa.types.is_struct(kind):
        parts = [(one.name, one.type, children.get(one.name)) for one in kind]
    elif pa.types.is_map(kind):
        entries = next(iter(children.values()), None)
        pair = [] if entries is None else entries.children()
        key, value = pair if len(pair) == len((KEY, VALUE)) else (None, None)
        parts = [(KEY, kind.key_type, key), (VALUE, kind.item_type, value)]
    elif hasattr(kind, "value_type") and hasattr(kind, "value_field"):
        parts = [(ELEMENT, kind.value_type, next(iter(children.values()), None))]
    else:
        return
    for place, (name, inner, child) in enumerate(parts):
        own = _PARTS + (number % _PARTS) * _MOST_PARTS + place if child is None else child.id() + 1
        yield from _ids(child, own, inner, (*path, name))


def _fields(found: Iterable[StructField], depth: int) -> list[pa.Field]:
    columns: list[pa.Field] = []
    for field in found:
        what = f"Column {field.name!r}"
        if field.initial_default is not None or field.write_default is not None:
            raise UnsupportedOperationError(f"{what} has a default value, which a Lance table cannot keep")
        comment = None if field.doc is None else {DOC: field.doc}
        kind = _type(field.type, what, depth)
        columns.append(pa.field(field.name, kind, nullable=not field.required, metadata=comment))
    repeated = [name for name, times in Counter(column.name for column in columns).items() if times > 1]
    if repeated or any(not column.name for column in columns):
        raise InvalidInputError(f"The schema has columns of one name, or of none: {sorted(repeated)}")
    return columns


def _type(kind: str | StructType | ListType | MapType, what: str, depth: int) -> pa.DataType:
    if depth > _DEEPEST:
        raise InvalidInputError(f"{what} is nested deeper than {_DEEPEST} levels")
    if isinstance(kind, StructType):
        return pa.struct(_fields(kind.fields, depth + 1))
    if isinstance(kind, ListType):
        element = _type(kind.element, what, depth + 1)
        return pa.list_(pa.field("item", element, nullable=not kind.element_required))
    if isinstance(kind, MapType):
        value = pa.field("value", _type(kind.value, what, depth + 1), nullable=not kind.value_required)
        return pa.map_(_type(kind.key, what, depth + 1), value)
    return _primitive(kind.strip().lower(), what)


def _primitive(kind: str, what: str) -> pa.DataType:
    if kind in _PLAIN:
        return _PLAIN[kind]
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        precision, scale = int(decimal[1]), int(decimal[2])
        if 0 < precision <= _WIDEST_DECIMAL and scale <= precision:
            return pa.decimal128(precision, scale)
    fixed = _FIXED.fullmatch(kind)
    if fixed is not None and int(fixed[1]) > 0:
        return pa.binary(int(fixed[1]))
    raise InvalidInputError(f"{what} has the unknown type {kind!r}")


def _essence(kind: Any) -> Any:  # noqa: ANN401 - as a client sent it
    if isinstance(kind, list):
        return [_essence(one) for one in kind]
    if isinstance(kind, dict):
        parts = ("name", "required", "type", "fields", ELEMENT, KEY, VALUE, "element-required", "value-required")
        return {name: _essence(kind[name]) for name in parts if kind.get(name) is not None}
    return kind.replace(" ", "") if isinstance(kind, str) else kind
