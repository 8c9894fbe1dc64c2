"""Conversion of schemas between tables and Spark, both ways."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.arrow import BFloat16Type
from lance.blob import blob_field
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema

from pennon.errors import InvalidInputError
from pennon.spark import types
from pennon.spark.types.extension import plain_schema
from pennon.spark.types.type_text import format_type, parse_type

# Every Arrow type that Lance stores, its Spark type, and the metadata that restores it.
LEAVES = [
    (pa.bool_(), "boolean", None),
    (pa.int8(), "tinyint", None),
    (pa.int16(), "smallint", None),
    (pa.int32(), "int", None),
    (pa.int64(), "bigint", None),
    (pa.uint8(), "smallint", "uint8"),
    (pa.uint16(), "int", "uint16"),
    (pa.uint32(), "bigint", "uint32"),
    (pa.uint64(), "decimal(20,0)", "uint64"),
    (pa.float16(), "float", "halffloat"),
    (pa.float32(), "float", None),
    (pa.float64(), "double", None),
    (pa.decimal128(38, 10), "decimal(38,10)", None),
    (pa.decimal128(5, -2), "decimal(7,0)", "decimal128(5, -2)"),
    (pa.decimal128(2, 5), "decimal(5,5)", "decimal128(2, 5)"),
    (pa.decimal256(38, 10), "decimal(38,10)", "decimal256(38, 10)"),
    (pa.string(), "string", None),
    (pa.large_string(), "string", "large_string"),
    (pa.string_view(), "string", "string_view"),
    (pa.binary(), "binary", None),
    (pa.large_binary(), "binary", "large_binary"),
    (pa.binary_view(), "binary", "binary_view"),
    (pa.binary(7), "binary", "fixed_size_binary[7]"),
    (pa.date32(), "date", None),
    (pa.date64(), "date", "date64[ms]"),
    (pa.time32("s"), "time(0)", "time32[s]"),
    (pa.time32("ms"), "time(3)", "time32[ms]"),
    (pa.time64("us"), "time(6)", None),
    (pa.time64("ns"), "time(6)", "time64[ns]"),
    (pa.timestamp("s"), "timestamp_ntz", "timestamp[s]"),
    (pa.timestamp("us"), "timestamp_ntz", None),
    (pa.timestamp("ns"), "timestamp_ntz", "timestamp[ns]"),
    (pa.timestamp("us", tz="UTC"), "timestamp", None),
    (pa.timestamp("us", tz="Europe/Berlin"), "timestamp", "timestamp[us, tz=Europe/Berlin]"),
    (pa.timestamp("ms", tz="+02:00"), "timestamp", "timestamp[ms, tz=+02:00]"),
    (pa.duration("us"), "interval day to second", None),
    (pa.duration("ns"), "interval day to second", "duration[ns]"),
    (pa.null(), "void", "null"),
    (pa.dictionary(pa.int8(), pa.string()), "string", "dictionary<int8, string>"),
    (pa.dictionary(pa.int32(), pa.int64(), ordered=True), "bigint", "dictionary<int32, int64, ordered>"),
    (pa.list_(pa.int32()), "array<int>", None),
    (pa.large_list(pa.int32()), "array<int>", "large_list<int32>"),
    (pa.list_(pa.field("part", pa.int32(), nullable=False)), "array<int>", "list<part: int32 not null>"),
    (pa.map_(pa.string(), pa.int32()), "map<string,int>", None),
    (pa.uuid(), "string", "arrow.uuid"),
    (pa.json_(), "string", "arrow.json"),
    (BFloat16Type(), "float", "lance.bfloat16"),
    (blob_field("c").type, "binary", "lance.blob.v2"),
    (pa.list_(pa.uuid()), "array<string>", "list<arrow.uuid>"),
]


@pytest.mark.parametrize(("kind", "shown", "spelled"), LEAVES, ids=str)
def test_each_type_has_a_spark_type_and_comes_back(kind, shown, spelled) -> None:
    schema = pa.schema([pa.field("c", kind)])

    seen = types.spark_schema(schema)

    assert seen["c"].dataType.simpleString() == shown
    assert seen["c"].metadata.get(types.ARROW_TYPE) == spelled
    assert types.table_schema(seen).equals(plain_schema(schema), check_metadata=True)


@pytest.mark.parametrize("kind", [kind for kind, _, _ in LEAVES] + [pa.list_(pa.float32(), 3)], ids=str)
def test_batches_have_the_schema_that_spark_asks_for(kind) -> None:
    schema = pa.schema(
        [pa.field("c", kind, nullable=kind == pa.null()), pa.field("n", pa.struct([pa.field("d", kind)]))]
    )

    assert types.read_schema(schema).equals(to_arrow_schema(types.spark_schema(schema), timezone="UTC"))


def test_a_vector_keeps_its_width() -> None:
    schema = pa.schema([pa.field("v", pa.list_(pa.float32(), 32)), pa.field("h", pa.list_(pa.float16(), 8))])

    seen = types.spark_schema(schema)

    assert seen["v"].metadata == {types.VECTOR_WIDTH: 32}
    assert seen["h"].metadata == {types.VECTOR_WIDTH: 8, types.ARROW_TYPE: "fixed_size_list<halffloat>[8]"}
    assert types.table_schema(seen) == schema


def test_a_width_alone_makes_an_array_of_a_dataframe_a_vector() -> None:
    field = spark_types.StructField(
        "v", spark_types.ArrayType(spark_types.DoubleType()), metadata={types.VECTOR_WIDTH: 3}
    )

    assert types.table_schema(spark_types.StructType([field])).field("v").type == pa.list_(pa.float64(), 3)


def test_an_arrow_type_in_the_metadata_is_what_a_new_table_gets() -> None:
    text = "fixed_size_list<float16>[4]"
    field = spark_types.StructField(
        "v", spark_types.ArrayType(spark_types.FloatType()), metadata={types.ARROW_TYPE: text}
    )

    assert types.table_schema(spark_types.StructType([field])).field("v").type == pa.list_(pa.float16(), 4)


def test_field_metadata_nullability_and_unknown_extensions_come_back() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"}),
            pa.field("t", pa.fixed_shape_tensor(pa.float32(), [2, 2], dim_names=["x", "y"])),
            pa.field("o", pa.opaque(pa.int8(), "kind", "vendor")),
            pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
            pa.field("e", pa.list_(pa.field("item", pa.int8(), metadata={"k": 'a "quoted" <v>'}))),
            pa.field("x", pa.list_(pa.field("item", pa.bool8()))),
            pa.field(
                "s",
                pa.struct(
                    [
                        pa.field("u", pa.uuid(), nullable=False, metadata={"k": "v"}),
                        pa.field("l", pa.list_(pa.struct([pa.field("w", pa.list_(pa.uint8(), 2))]))),
                    ]
                ),
            ),
            pa.field(
                "m", pa.map_(pa.string(), pa.field("value", pa.struct([pa.field("q", pa.uint8())]), nullable=False))
            ),
        ]
    )

    seen = types.spark_schema(schema)

    assert seen["id"].metadata == {"comment": "the key", types.NOT_NULL: True}
    assert not seen["id"].nullable
    assert types.table_schema(seen).equals(plain_schema(schema), check_metadata=True)


def test_column_is_nullable_unless_its_metadata_forbids_nulls() -> None:
    seen = spark_types.StructType([spark_types.StructField("id", spark_types.LongType(), nullable=False)])
    again = types.spark_schema(pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    again["id"].nullable = True  # as after an outer join

    assert types.table_schema(seen).field("id").nullable
    assert types.table_schema(again).field("id").nullable


def test_metadata_of_spark_and_pennon_stays_out_of_the_table() -> None:
    metadata = {"comment": "c", "__CHAR_VARCHAR_TYPE_STRING": "char(5)", "pennon.other": "x", "ml_attr": {"type": "y"}}
    field = spark_types.StructField("s", spark_types.StringType(), metadata=metadata)

    assert types.table_schema(spark_types.StructType([field])).field("s").metadata == {b"comment": b"c"}


def test_variants_round_trip() -> None:
    seen = spark_types.StructType([spark_types.StructField("v", spark_types.VariantType())])

    kept = types.table_schema(seen)

    assert kept.field("v").type.names == ["value", "metadata"]
    assert types.spark_schema(kept) == seen
    assert types.read_schema(kept).equals(to_arrow_schema(seen, timezone="UTC"))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (pa.decimal256(39, 2), ["deep.c", "decimal256(39, 2)", "38"]),
        (pa.decimal128(38, -1), ["deep.c", "38"]),
        (pa.month_day_nano_interval(), ["deep.c", "month_day_nano_interval"]),
        (pa.list_(pa.decimal256(76, 0)), ["deep.c.element", "decimal256(76, 0)"]),
        (pa.run_end_encoded(pa.int32(), pa.string()), ["deep.c", "run_end_encoded"]),
    ],
    ids=str,
)
def test_arrow_types_without_a_spark_type_are_refused(kind, words) -> None:
    schema = pa.schema([pa.field("deep", pa.struct([pa.field("c", kind)]))])

    with pytest.raises(InvalidInputError) as caught:
        types.spark_schema(schema)

    assert all(word in str(caught.value) for word in words)


class PointUDT(spark_types.UserDefinedType):
    @classmethod
    def sqlType(cls):
        return spark_types.ArrayType(spark_types.DoubleType())

    @classmethod
    def module(cls):
        return "test_types_mapping"

    def simpleString(self):
        return "point"


@pytest.mark.parametrize(
    ("kind", "metadata", "word"),
    [
        (spark_types.CalendarIntervalType(), {}, "interval"),
        (spark_types.YearMonthIntervalType(), {}, "interval year to month"),
        (spark_types.GeometryType(4326), {}, "geometry"),
        (PointUDT(), {}, "user-defined Spark type point"),
        (spark_types.NullType(), {}, "void"),
        (spark_types.ArrayType(spark_types.NullType()), {}, "void"),
        (spark_types.StringType("UTF8_LCASE"), {}, "UTF8_LCASE"),
        (spark_types.StructType([]), {}, "without fields"),
        (spark_types.ArrayType(spark_types.StringType()), {types.VECTOR_WIDTH: 3}, "vectors of string"),
        (spark_types.ArrayType(spark_types.FloatType()), {types.VECTOR_WIDTH: 0}, "from 1"),
        (spark_types.ArrayType(spark_types.FloatType()), {types.VECTOR_WIDTH: "3"}, "from 1"),
        (spark_types.FloatType(), {types.VECTOR_WIDTH: 3}, "not an array"),
        (spark_types.LongType(), {types.ARROW_TYPE: "uint8"}, "'uint8'"),
        (spark_types.LongType(), {types.ARROW_TYPE: "timestamp[fs]"}, "not an Arrow type"),
        (spark_types.LongType(), {types.ARROW_TYPE: "int64 and more"}, "not an Arrow type"),
        (spark_types.StringType(), {types.ARROW_TYPE: "dictionary<float, string>"}, "not an Arrow type"),
        (
            spark_types.ArrayType(spark_types.FloatType()),
            {types.ARROW_TYPE: "fixed_size_list<float>[4]", types.VECTOR_WIDTH: 3},
            "two widths",
        ),
        (spark_types.StructType([spark_types.StructField("", spark_types.LongType())]), {}, "no name"),
    ],
)
def test_types_that_lance_cannot_store_are_refused_with_the_column(kind, metadata, word) -> None:
    column = spark_types.StructField("c", kind, metadata=metadata)
    schema = spark_types.StructType([spark_types.StructField("deep", spark_types.StructType([column]))])

    with pytest.raises(InvalidInputError) as caught:
        types.table_schema(schema)

    assert "deep.c" in str(caught.value)
    assert word in str(caught.value)


@pytest.mark.parametrize("names", [["a.b"], ["a`b"], ["_rowid"], [""], ["a", "a"]])
def test_names_that_lance_does_not_allow_are_refused(names) -> None:
    schema = spark_types.StructType([spark_types.StructField(name, spark_types.LongType()) for name in names])

    with pytest.raises(InvalidInputError):
        types.table_schema(schema)


def test_char_and_varchar_are_strings() -> None:
    schema = spark_types.StructType(
        [
            spark_types.StructField("c", spark_types.CharType(5)),
            spark_types.StructField("v", spark_types.VarcharType(5), metadata={types.ARROW_TYPE: "large_string"}),
        ]
    )

    assert types.table_schema(schema) == pa.schema([("c", pa.string()), ("v", pa.large_string())])


leaves = st.sampled_from([kind for kind, _, _ in LEAVES if kind != pa.string_view()])
names = st.text(st.characters(codec="utf-8", exclude_characters=".`"), min_size=1, max_size=5)


def _fields(kinds):
    return st.lists(
        st.tuples(names, kinds, st.booleans()), min_size=1, max_size=3, unique_by=lambda field: field[0]
    ).map(lambda made: [pa.field(name, kind, nullable=nullable or kind == pa.null()) for name, kind, nullable in made])


def _nested(kinds):
    element = st.tuples(kinds, st.booleans()).map(
        lambda made: pa.field("item", made[0], nullable=made[1] or made[0] == pa.null())
    )
    keys = kinds.filter(lambda kind: kind != pa.null())
    return (
        element.map(pa.list_)
        | element.map(pa.large_list)
        | st.tuples(st.sampled_from([pa.float32(), pa.float16(), pa.uint8(), pa.bool_()]), st.integers(1, 9)).map(
            lambda made: pa.list_(*made)
        )
        | st.tuples(keys, element).map(lambda made: pa.map_(made[0], made[1].with_name("value")))
        | _fields(kinds).map(pa.struct)
    )


@settings(max_examples=150, deadline=None)
@given(_fields(st.recursive(leaves, _nested, max_leaves=6)))
def test_any_schema_comes_back_exactly(fields) -> None:
    schema = pa.schema(fields)

    seen = types.spark_schema(schema)

    assert types.table_schema(seen).equals(plain_schema(schema), check_metadata=True)
    assert types.read_schema(schema).equals(to_arrow_schema(seen, timezone="UTC"))
    for field in plain_schema(schema):
        assert format_type(parse_type(format_type(field), column="c")) == format_type(field)


def test_planning_workers_import_neither_lance_nor_the_sdk() -> None:
    script = (
        "import sys, datetime, pyarrow as pa\n"
        "from pyspark.sql.datasource import EqualTo\n"
        "from pennon.spark import types\n"
        "from pennon.spark.reading import filters\n"
        "schema = pa.schema([('u', pa.uuid()), ('t', pa.timestamp('us')), ('v', pa.list_(pa.float32(), 2))])\n"
        "types.table_schema(types.spark_schema(schema)); types.read_schema(schema)\n"
        "assert filters.translate_filter(EqualTo(('t',), datetime.datetime(2020, 1, 1)), schema)\n"
        "heavy = [name for name in sys.modules if name.split('.')[0] in ('lance', 'lance_namespace', 'lancedb')]\n"
        "assert not heavy, heavy\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True)
