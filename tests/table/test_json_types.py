"""Arrow types to JSON and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pennon.table.json_arrow import parse_data_type, to_json_schema
from tests.support import fails

TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(), pa.binary()),
    *(pa.large_binary(), pa.date32(), pa.date64(), pa.binary(16), pa.decimal128(20, 3), pa.decimal256(50, 7)),
    pa.list_(pa.float32(), 8),
    pa.list_(pa.string()),
    pa.large_list(pa.int64()),
    pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.list_(pa.struct([("c", pa.string())])))]),
    pa.map_(pa.string(), pa.int64()),
]


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types_are_parsed_as_they_were_written(kind):
    written = to_json_schema(pa.schema([pa.field("x", kind)])).fields[0].type.to_dict()
    assert parse_data_type(written) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("timestamp[us]", pa.timestamp("us")),
        ("timestamp[ns, tz=Europe/Berlin]", pa.timestamp("ns", "Europe/Berlin")),
        ("duration[ms]", pa.duration("ms")),
        ("time64[ns]", pa.time64("ns")),
        ("Int64", pa.int64()),
        ("double", pa.float64()),
        ("boolean", pa.bool_()),
    ],
)
def test_types_may_be_written_as_arrow_does(text, kind):
    assert parse_data_type({"type": text}) == kind


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"type": ""},
        {"type": 5},
        {"type": "number"},
        {"type": "timestamp"},
        {"type": "list"},
        {"type": "list", "fields": []},
        {"type": "list", "fields": [{"name": "x"}]},
        {"type": "fixed_size_list", "fields": [{"name": "x", "type": {"type": "int8"}}]},
        {"type": "fixed_size_binary"},
        {"type": "decimal128", "length": 999_000},
        {"type": "struct"},
        {"type": "map", "fields": [{"name": "x", "type": {"type": "int8"}}]},
    ],
)
def test_an_invalid_type_raises_invalid_input(given):
    with fails(13):
        parse_data_type(given)
