"""The schema in a description: Arrow's types as the namespace specification's JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from pennon.testing.calls import create_table, describe_table, ipc
from pennon.testing.contract import Contract, Place

if TYPE_CHECKING:
    from collections.abc import Callable

SIMPLE = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}


class TableSchemas(Contract):
    """Schemas in descriptions of tables."""

    @pytest.fixture
    def described(self, namespace: Any) -> Callable[[pa.DataType | pa.Field], Any]:
        """Return a function that creates a table of one column and returns that column's description."""

        def describe(kind: pa.DataType | pa.Field) -> Any:
            column = kind if isinstance(kind, pa.Field) else pa.field("c", kind)
            create_table(namespace, "t", data=ipc(pa.schema([column]).empty_table()))
            found = describe_table(namespace, "t", load_detailed_metadata=True).var_schema
            assert [each.name for each in found.fields] == [column.name]
            return found.fields[0]

        return describe

    @pytest.mark.parametrize("name", list(SIMPLE))
    def test_simple_types_are_described_by_name(self, described: Any, name: Any) -> None:
        column = described(SIMPLE[name])
        assert column.type.type == name
        assert (column.type.fields, column.type.length) == (None, None)
        assert column.nullable is True

    def test_a_required_column_is_not_nullable(self, described: Any) -> None:
        assert described(pa.field("c", pa.int32(), nullable=False)).nullable is False

    def test_metadata_of_a_column_is_kept(self, described: Any) -> None:
        assert described(pa.field("c", pa.int32(), metadata={"k": "v"})).metadata["k"] == "v"

    @pytest.mark.parametrize("item", [pa.float16(), pa.float32(), pa.float64(), pa.uint8()])
    def test_vectors_are_described_with_length_and_item_type(self, described: Any, item: Any) -> None:
        kind = described(pa.list_(item, 128)).type
        assert (kind.type, kind.length) == ("fixed_size_list", 128)
        assert [field.type.type for field in kind.fields] == [next(key for key in SIMPLE if SIMPLE[key] == item)]

    @pytest.mark.parametrize(
        ("kind", "name"), [(pa.list_(pa.string()), "list"), (pa.large_list(pa.string()), "large_list")]
    )
    def test_lists_are_described_with_item_type(self, described: Any, kind: Any, name: Any) -> None:
        found = described(kind).type
        assert (found.type, [field.type.type for field in found.fields]) == (name, ["utf8"])

    def test_structs_are_described_with_fields(self, described: Any) -> None:
        inner = pa.struct(
            [pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.struct([pa.field("c", pa.string())]))]
        )
        kind = described(inner).type
        assert kind.type == "struct"
        assert [(field.name, field.type.type, field.nullable) for field in kind.fields] == [
            ("a", "int32", False),
            ("b", "struct", True),
        ]
        assert [(field.name, field.type.type) for field in kind.fields[1].type.fields] == [("c", "utf8")]

    def test_maps_are_described_with_keys_and_values(self, described: Any) -> None:
        kind = described(pa.map_(pa.string(), pa.int32())).type
        assert kind.type == "map"
        (entries,) = kind.fields
        assert (entries.type.type, entries.nullable) == ("struct", False)
        assert [field.type.type for field in entries.type.fields] == ["utf8", "int32"]
        assert entries.type.fields[0].nullable is False

    @pytest.mark.parametrize(
        ("kind", "name"), [(pa.decimal128(20, 3), "decimal128"), (pa.decimal256(50, 3), "decimal256")]
    )
    def test_decimals_are_described_with_precision_and_scale(self, described: Any, kind: Any, name: Any) -> None:
        found = described(kind).type
        assert (found.type, found.length) == (name, kind.precision * 1000 + kind.scale)

    def test_fixed_size_binary_is_described_with_length(self, described: Any) -> None:
        kind = described(pa.binary(16)).type
        assert (kind.type, kind.length) == ("fixed_size_binary", 16)

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            (pa.timestamp("us"), "timestamp"),
            (pa.timestamp("ns", tz="Europe/Paris"), "timestamp"),
            (pa.duration("ms"), "duration"),
            (pa.time32("s"), "time32"),
            (pa.time64("ns"), "time64"),
        ],
    )
    def test_times_are_described_with_unit_and_zone(self, described: Any, kind: Any, name: Any) -> None:
        column = described(kind)
        assert column.type.type == name
        assert column.metadata["ARROW:type"] == str(kind)

    def test_dictionary_is_described_by_its_value_type(self, described: Any) -> None:
        column = described(pa.dictionary(pa.int16(), pa.string()))
        assert column.type.type == "utf8"
        assert "int16" in column.metadata["ARROW:type"]

    def test_units_in_nested_types_are_described(self, described: Any) -> None:
        kind = described(pa.struct([pa.field("at", pa.list_(pa.timestamp("s", tz="UTC")))])).type
        items = kind.fields[0].type.fields[0]
        assert items.type.type == "timestamp"
        assert items.metadata["ARROW:type"] == "timestamp[s, tz=UTC]"

    def test_the_schema_is_the_same_in_every_mode(self, place: Place) -> None:
        ns, parent = place
        schema = pa.schema([pa.field("v", pa.list_(pa.float32(), 8)), pa.field("at", pa.timestamp("us", tz="UTC"))])
        create_table(ns, *parent, "t", data=ipc(schema.empty_table()))
        found = describe_table(ns, *parent, "t", load_detailed_metadata=True).var_schema
        assert [(field.name, field.type.type) for field in found.fields] == [
            ("v", "fixed_size_list"),
            ("at", "timestamp"),
        ]
