"""Arrow to Iceberg: every type has one, and ids stay."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pennon.iceberg.schema import convert_schema, largest_id, same_fields

TYPES = [
    (pa.null(), "string", False),
    (pa.bool_(), "boolean", True),
    (pa.int8(), "int", False),
    (pa.int16(), "int", False),
    (pa.int32(), "int", True),
    (pa.int64(), "long", True),
    (pa.uint8(), "int", False),
    (pa.uint16(), "int", False),
    (pa.uint32(), "long", False),
    (pa.uint64(), "decimal(20, 0)", False),
    (pa.float16(), "float", False),
    (pa.float32(), "float", True),
    (pa.float64(), "double", True),
    (pa.string(), "string", True),
    (pa.large_string(), "string", True),
    (pa.string_view(), "string", True),
    (pa.binary(), "binary", True),
    (pa.large_binary(), "binary", True),
    (pa.binary_view(), "binary", True),
    (pa.binary(16), "fixed[16]", True),
    (pa.binary(0), "binary", False),
    (pa.date32(), "date", True),
    (pa.date64(), "date", False),
    (pa.time32("s"), "time", False),
    (pa.time32("ms"), "time", False),
    (pa.time64("us"), "time", True),
    (pa.time64("ns"), "time", False),
    (pa.timestamp("s"), "timestamp", False),
    (pa.timestamp("ms"), "timestamp", False),
    (pa.timestamp("us"), "timestamp", True),
    (pa.timestamp("ns"), "timestamp", False),
    (pa.timestamp("us", "UTC"), "timestamptz", True),
    (pa.timestamp("us", "Europe/Berlin"), "timestamptz", False),
    (pa.timestamp("ns", "UTC"), "timestamptz", False),
    (pa.duration("ms"), "long", False),
    (pa.month_day_nano_interval(), "string", False),
    (pa.decimal32(7, 2), "decimal(7, 2)", True),
    (pa.decimal64(18, 3), "decimal(18, 3)", True),
    (pa.decimal128(38, 10), "decimal(38, 10)", True),
    (pa.decimal128(10, -2), "string", False),
    (pa.decimal256(60, 2), "string", False),
    (pa.decimal256(20, 2), "decimal(20, 2)", True),
    (pa.dictionary(pa.int32(), pa.string()), "string", False),
    (pa.run_end_encoded(pa.int32(), pa.int64()), "long", False),
    (pa.uuid(), "uuid", True),
    (pa.json_(), "string", False),
    (pa.bool8(), "int", False),
    (pa.sparse_union([pa.field("a", pa.int32())]), "string", False),
]


def only(kind: pa.DataType) -> dict:
    return convert_schema(pa.schema([pa.field("c", kind)]))["fields"][0]


@pytest.mark.parametrize(("kind", "wanted", "is_exact"), TYPES, ids=[str(kind) for kind, _, _ in TYPES])
def test_simple_types(kind, wanted, is_exact):
    field = only(kind)
    assert field["type"] == wanted
    assert ("doc" not in field) is is_exact
    assert is_exact or field["doc"] == f"arrow: {kind}"


def test_every_type_of_arrow_is_covered():
    known = {kind.id for kind, _, _ in TYPES} | {
        pa.list_(pa.int32()).id,
        pa.large_list(pa.int32()).id,
        pa.list_(pa.int32(), 2).id,
        pa.list_view(pa.int32()).id,
        pa.large_list_view(pa.int32()).id,
        pa.map_(pa.int32(), pa.int32()).id,
        pa.struct([]).id,
        pa.dense_union([]).id,
    }
    every = {getattr(pa.lib, name) for name in dir(pa.lib) if name.startswith("Type_")}
    # Two intervals that pyarrow cannot make.
    assert every - known <= {pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME}


def test_lists_vectors_maps_and_structs():
    assert only(pa.list_(pa.field("item", pa.int64(), nullable=False)))["type"] == {
        "type": "list",
        "element-id": 2,
        "element": "long",
        "element-required": True,
    }
    vector = only(pa.list_(pa.float32(), 128))
    assert vector["type"]["element"] == "float"
    assert "[128]" in vector["doc"]
    for kind in (pa.large_list(pa.int64()), pa.list_view(pa.int64()), pa.large_list_view(pa.int64())):
        assert only(kind)["type"]["type"] == "list"
    assert only(pa.map_(pa.string(), pa.int32()))["type"] == {
        "type": "map",
        "key-id": 2,
        "key": "string",
        "value-id": 3,
        "value": "int",
        "value-required": False,
    }
    nested = only(pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.list_(pa.string()))]))
    assert nested["type"]["fields"][0] == {"id": 2, "name": "a", "required": True, "type": "int"}
    assert nested["type"]["fields"][1]["type"]["element-id"] == 4


def test_ids_are_unique_and_stay():
    inner = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.map_(pa.string(), pa.list_(pa.int32())))])
    first = convert_schema(pa.schema([pa.field("x", pa.int64()), pa.field("s", inner), pa.field("y", pa.string())]))
    assert largest_id(first) == 8
    later = convert_schema(
        pa.schema([pa.field("new", pa.int64()), pa.field("s", inner), pa.field("y", pa.string())]), first, 20
    )
    by_name = {field["name"]: field for field in later["fields"]}
    assert by_name["s"] == first["fields"][1]
    assert by_name["y"]["id"] == first["fields"][2]["id"]
    assert by_name["new"]["id"] == 21


def test_equal_schemas_are_seen_as_equal():
    schema = pa.schema([pa.field("x", pa.uint64()), pa.field("v", pa.list_(pa.float32(), 2))])
    one = convert_schema(schema)
    sent_back = {"schema-id": 7, "identifier-field-ids": [], **convert_schema(schema)}
    sent_back["fields"][0]["type"] = "decimal(20,0)"
    assert same_fields(one, sent_back)
    assert not same_fields(one, convert_schema(pa.schema([pa.field("x", pa.int64())])))
