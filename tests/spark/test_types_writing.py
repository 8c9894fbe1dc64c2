"""Matching the columns of a DataFrame with a table: names, types and values, and what is refused."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
)

from pennon.errors import InvalidInputError
from pennon.spark import types
from pennon.spark.types.extension import plain_schema

UTC = dt.timezone.utc


def frame(**columns) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def sent(schema: StructType, rows: list[dict]) -> pa.RecordBatch:
    """Return rows as Spark sends them to a worker, with timestamps in the zone of the session."""
    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema, timezone="Asia/Tokyo"))


def written(kind: pa.DataType, incoming, value) -> object:
    """Return one value as it is written to a column of a table."""
    schema = frame(c=incoming)
    plan = types.plan_write(schema, pa.schema([pa.field("c", kind)]))
    return plan.cast(sent(schema, [{"c": value}, {"c": None}])).column("c").to_pylist()[0]


NOW = dt.datetime(2024, 2, 29, 12, 30, 15, 123_456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "incoming", "value", "kept"),
    [
        (pa.uint8(), LongType(), 255, 255),
        (pa.int8(), DecimalType(10, 2), Decimal("-128.00"), -128),
        (pa.uint64(), DecimalType(20, 0), Decimal(2**64 - 1), 2**64 - 1),
        (pa.float16(), DoubleType(), 0.1, 0.0999755859375),
        (pa.float16(), IntegerType(), 2048, 2048.0),
        (pa.float32(), DoubleType(), float("inf"), float("inf")),
        (pa.float64(), DecimalType(3, 1), Decimal("1.5"), 1.5),
        (pa.decimal128(5, 2), IntegerType(), 999, Decimal("999.00")),
        (pa.decimal128(5, 2), DecimalType(38, 10), Decimal("1.5"), Decimal("1.50")),
        (pa.decimal256(30, 2), LongType(), -(2**63), Decimal(-(2**63))),
        (pa.large_string(), StringType(), "x", "x"),
        (pa.dictionary(pa.int8(), pa.large_string()), StringType(), "x", "x"),
        (pa.binary(2), BinaryType(), b"ab", b"ab"),
        (pa.date64(), DateType(), dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
        (pa.timestamp("ns", tz="Europe/Berlin"), TimestampType(), NOW, NOW),
        (pa.timestamp("s"), TimestampNTZType(), dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1)),
        (pa.time32("s"), TimeType(6), dt.time(1, 2, 3), dt.time(1, 2, 3)),
        (pa.duration("ns"), DayTimeIntervalType(), dt.timedelta(days=-1), dt.timedelta(days=-1)),
        (pa.list_(pa.float32(), 2), ArrayType(DoubleType()), [1, 2], [1.0, 2.0]),
        (pa.list_(pa.float32(), 2), ArrayType(FloatType()), [None, 2], [None, 2.0]),
        (pa.list_(pa.list_(pa.int8(), 1), 2), ArrayType(ArrayType(LongType())), [[1], [2]], [[1], [2]]),
        (pa.large_list(pa.uint16()), ArrayType(IntegerType()), [1, None], [1, None]),
        (pa.map_(pa.large_string(), pa.int8()), MapType(StringType(), LongType()), {"a": 1}, [("a", 1)]),
        (pa.list_(pa.int8()), ArrayType(NullType()), [None], [None]),
        (pa.struct([("a", pa.int8())]), NullType(), None, None),
    ],
    ids=str,
)
def test_value_is_cast_to_the_type_of_the_table(kind, incoming, value, kept) -> None:
    assert written(kind, incoming, value) == kept


@pytest.mark.parametrize(
    ("kind", "incoming", "value", "words"),
    [
        (pa.uint8(), LongType(), 256, "256 not in range"),
        (pa.uint8(), ShortType(), -1, "-1 not in range"),
        (pa.int64(), DecimalType(10, 1), Decimal("1.5"), "data loss"),
        (pa.uint64(), DecimalType(38, 0), Decimal(2**64), "out of bounds"),
        (pa.float16(), FloatType(), 70_000.0, "70000.0 is beyond the range of halffloat"),
        (pa.float32(), DoubleType(), 1e39, "1e+39 is beyond the range of float"),
        (pa.float64(), LongType(), 2**53 + 1, "not in range"),
        (pa.float16(), IntegerType(), 70_000, "beyond the range"),
        (pa.decimal128(5, 2), IntegerType(), 1000, "does not fit in precision 5"),
        (pa.decimal128(5, 2), DecimalType(10, 3), Decimal("0.001"), "data loss"),
        (pa.binary(2), BinaryType(), b"abc", "widths must match"),
        (pa.timestamp("s", tz="UTC"), TimestampType(), NOW, "would lose data"),
        (pa.timestamp("ns"), TimestampNTZType(), dt.datetime(3000, 1, 1), "out of bounds"),
        (pa.time32("s"), TimeType(6), dt.time(1, 2, 3, 4), "would lose data"),
        (
            pa.list_(pa.float32(), 2),
            ArrayType(FloatType()),
            [1, 2, 3],
            "has 3 values, but the vectors of the column have 2",
        ),
        (pa.list_(pa.float32(), 2), ArrayType(FloatType()), [], "has 0 values"),
        (pa.uuid(), StringType(), "no uuid", "'no uuid' is not a UUID"),
        (pa.uuid(), BinaryType(), b"short", "widths must match"),
    ],
    ids=str,
)
def test_value_that_does_not_fit_raises_invalid_input(kind, incoming, value, words) -> None:
    inside = pa.struct([pa.field("c", kind)])
    schema = StructType([StructField("deep", frame(c=incoming))])
    plan = types.plan_write(schema, pa.schema([pa.field("deep", inside)]))

    with pytest.raises(InvalidInputError) as caught:
        plan.cast(sent(schema, [{"deep": {"c": value}}]))

    assert "deep.c" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "incoming"),
    [
        (pa.int64(), StringType()),
        (pa.string(), LongType()),
        (pa.int64(), DoubleType()),
        (pa.decimal128(5, 2), DoubleType()),
        (pa.bool_(), IntegerType()),
        (pa.int8(), BooleanType()),
        (pa.date32(), TimestampType()),
        (pa.timestamp("us", tz="UTC"), TimestampNTZType()),
        (pa.timestamp("us"), TimestampType()),
        (pa.timestamp("us"), DateType()),
        (pa.string(), BinaryType()),
        (pa.binary(), StringType()),
        (pa.list_(pa.int8()), IntegerType()),
        (pa.list_(pa.int8()), ArrayType(StringType())),
        (pa.struct([("a", pa.int8())]), MapType(StringType(), IntegerType())),
        (pa.map_(pa.string(), pa.int8()), StructType([StructField("a", IntegerType())])),
        (pa.json_(), VariantType()),
        (pa.null(), IntegerType()),
        (pa.duration("us"), LongType()),
    ],
    ids=str,
)
def test_types_that_do_not_fit_are_refused_before_a_byte_is_written(kind, incoming) -> None:
    with pytest.raises(InvalidInputError) as caught:
        types.plan_write(frame(c=incoming), pa.schema([pa.field("c", kind)]), into="table prod.events")

    assert "Column c" in str(caught.value)
    assert "prod.events" in str(caught.value)


TABLE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.large_string()),
        pa.field("s", pa.struct([pa.field("a", pa.int8(), nullable=False), pa.field("b", pa.string())])),
        pa.field("l", pa.list_(pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.int32())]))),
    ]
)
FRAME = frame(
    L=ArrayType(frame(Y=LongType(), X=LongType())),
    S=frame(B=StringType(), A=LongType()),
    NAME=StringType(),
    Id=LongType(),
)


def test_columns_are_matched_by_name_in_any_order_and_case() -> None:
    plan = types.plan_write(FRAME, TABLE)
    batch = sent(FRAME, [{"Id": 1, "NAME": "n", "S": {"B": "b", "A": 2}, "L": [{"Y": 4, "X": 3}, None]}])

    assert plan.schema == TABLE
    assert plan.cast(batch).to_pylist() == [
        {"id": 1, "name": "n", "s": {"a": 2, "b": "b"}, "l": [{"x": 3, "y": 4}, None]}
    ]


def test_names_are_case_sensitive_if_spark_is() -> None:
    with pytest.raises(InvalidInputError, match=r"Column id of the table .* missing"):
        types.plan_write(FRAME, TABLE, case_sensitive=True)


def test_exact_name_is_preferred_to_one_in_another_case() -> None:
    table = pa.schema([("a", pa.int8()), ("A", pa.int16())])

    plan = types.plan_write(frame(A=LongType(), a=LongType()), table)

    assert plan.cast(sent(frame(A=LongType(), a=LongType()), [{"A": 300, "a": 1}])).to_pylist() == [{"a": 1, "A": 300}]
    with pytest.raises(InvalidInputError, match="may be any of ab, AB"):
        types.plan_write(frame(Ab=LongType()), pa.schema([("ab", pa.int8()), ("AB", pa.int16())]))


@pytest.mark.parametrize("merge_schema", [True, False])
def test_two_columns_for_one_target_are_refused(merge_schema) -> None:
    with pytest.raises(InvalidInputError, match="a and A of the DataFrame are one"):
        types.plan_write(frame(a=LongType(), A=LongType()), pa.schema([("a", pa.int64())]), merge_schema=merge_schema)
    with pytest.raises(InvalidInputError, match="b and B of the DataFrame are one"):
        types.plan_write(
            frame(a=LongType(), b=LongType(), B=LongType()), pa.schema([("a", pa.int64())]), merge_schema=merge_schema
        )


def test_missing_columns_are_refused_or_filled() -> None:
    incoming = frame(id=LongType(), s=frame(a=LongType()))
    with pytest.raises(InvalidInputError, match="Column name of the table is missing"):
        types.plan_write(incoming, TABLE)

    for allowed in ({"fill_missing": True}, {"merge_schema": True}):
        plan = types.plan_write(incoming, TABLE, **allowed)
        assert plan.new_columns == ()
        assert plan.cast(sent(incoming, [{"id": 1, "s": {"a": 2}}])).to_pylist() == [
            {"id": 1, "name": None, "s": {"a": 2, "b": None}, "l": None}
        ]


@pytest.mark.parametrize(
    ("incoming", "column"), [(frame(name=StringType()), "id"), (frame(id=LongType(), s=frame(b=StringType())), "s.a")]
)
def test_a_missing_column_that_may_not_be_null_is_refused(incoming, column) -> None:
    with pytest.raises(InvalidInputError, match=f"Column {column} of the table may not be null"):
        types.plan_write(incoming, TABLE, merge_schema=True)


def test_nulls_where_the_table_allows_none_are_refused() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("s", pa.struct([pa.field("a", pa.int8(), nullable=False)])),
            pa.field("l", pa.list_(pa.field("item", pa.int8(), nullable=False))),
        ]
    )
    incoming = frame(id=LongType(), s=frame(a=LongType()), l=ArrayType(LongType()))
    plan = types.plan_write(incoming, schema)
    good = [{"id": 1, "s": None, "l": None}, {"id": 2, "s": {"a": 1}, "l": []}]

    assert plan.cast(sent(incoming, good)).to_pylist() == good
    for column, bad in {
        "id": {"id": None},
        "s.a": {"id": 1, "s": {"a": None}},
        "l.element": {"id": 1, "l": [1, None]},
    }.items():
        with pytest.raises(InvalidInputError, match=f"Column {column} is null"):
            plan.cast(sent(incoming, [*good, bad]))
    with pytest.raises(InvalidInputError, match="Column id of the table may not be null"):
        types.plan_write(frame(id=NullType(), s=frame(a=LongType()), l=ArrayType(LongType())), schema)


def test_extra_columns_are_refused_unless_the_schema_is_merged() -> None:
    incoming = frame(id=LongType(), v=FloatType())
    with pytest.raises(InvalidInputError, match="Column v of the DataFrame is not in the table, which has id, name"):
        types.plan_write(incoming, TABLE, fill_missing=True)

    plan = types.plan_write(incoming, TABLE, merge_schema=True)

    assert plan.new_columns == (pa.field("v", pa.float32()),)
    assert plan.schema == TABLE.append(pa.field("v", pa.float32()))
    assert plan.cast(sent(incoming, [{"id": 1, "v": 1.5}])).to_pylist()[0]["v"] == 1.5


def test_new_fields_of_structs_have_the_form_that_lance_adds() -> None:
    element = StructField("w", ArrayType(FloatType()), metadata={types.VECTOR_WIDTH: 2})
    incoming = StructType(
        [
            StructField("id", LongType()),
            StructField("s", StructType([StructField("a", LongType()), StructField("c", DateType(), nullable=False)])),
            StructField("l", ArrayType(StructType([StructField("x", LongType()), element]))),
        ]
    )

    plan = types.plan_write(incoming, TABLE, merge_schema=True)

    assert plan.new_columns == (
        pa.field("s", pa.struct([pa.field("c", pa.date32())])),
        pa.field("l", pa.list_(pa.struct([pa.field("w", pa.list_(pa.float32(), 2))]))),
    )
    assert plan.schema.field("s").type.names == ["a", "b", "c"]
    assert plan.cast(sent(incoming, [{"id": 1, "l": [{"x": 1, "w": [1, 2]}]}])).to_pylist()[0]["l"] == [
        {"x": 1, "y": None, "w": [1.0, 2.0]}
    ]


@pytest.mark.parametrize("name", ["a.b", "a`b", "_rowid"])
def test_new_columns_with_names_that_lance_refuses_are_refused(name) -> None:
    with pytest.raises(InvalidInputError, match=name):
        types.plan_write(StructType([StructField(name, LongType())]), pa.schema([]), merge_schema=True)


@pytest.mark.parametrize("shift", [0, 8])
@pytest.mark.parametrize("kind", [pa.decimal128(20, 3), pa.decimal256(20, 3)], ids=str)
def test_decimals_are_written_from_unaligned_memory(tmp_path, shift, kind) -> None:
    numbers = pa.array([Decimal("1.500"), None, Decimal("-2.250")], pa.decimal128(20, 3))
    valid, values = numbers.buffers()
    room = pa.allocate_buffer(values.size + shift)
    memory = np.frombuffer(room, np.uint8)
    memory[shift:] = np.frombuffer(values, np.uint8)
    moved = pa.Array.from_buffers(numbers.type, len(numbers), [valid, room.slice(shift)])
    listed = pa.ListArray.from_arrays([0, 1, 1, 3], moved)
    inner = DecimalType(20, 3)
    plan = types.plan_write(
        frame(d=inner, s=frame(d=inner), l=ArrayType(inner)),
        pa.schema({"d": kind, "s": pa.struct({"d": kind}), "l": pa.list_(kind)}),
    )
    batch = pa.record_batch({"d": moved, "s": pa.StructArray.from_arrays([moved], ["d"]), "l": listed})
    written = lance.write_dataset(pa.Table.from_batches([plan.cast(batch)]), tmp_path / "t").to_table()
    assert written.to_pylist() == batch.to_pylist()


def test_slices_and_large_strings_are_written_unchanged() -> None:
    incoming = frame(
        id=LongType(),
        name=StringType(),
        s=frame(a=LongType(), b=StringType()),
        l=ArrayType(frame(x=LongType(), y=LongType())),
    )
    rows = [{"id": n, "name": str(n), "s": {"a": n, "b": None}, "l": [{"x": n, "y": None}] * n} for n in range(5)]
    rows[2] |= {"s": None, "l": None}
    plan = types.plan_write(incoming, TABLE)
    large = to_arrow_schema(incoming, timezone="UTC", prefers_large_types=True)

    for batch in (sent(incoming, rows), pa.RecordBatch.from_pylist(rows, schema=large)):
        cast = plan.cast(batch.slice(1, 3))
        assert cast.to_pylist() == rows[1:4]
        assert cast.column("s").offset == 0


@pytest.mark.parametrize(
    "values", [[None], [None, None, [1.0, 2.0], None, [3.0, 4.0]], [], [[1.0, None], None]], ids=str
)
def test_vectors_may_be_null_anywhere(values) -> None:
    incoming = frame(v=ArrayType(DoubleType()))
    plan = types.plan_write(incoming, pa.schema([("v", pa.list_(pa.float32(), 2))]))

    cast = plan.cast(sent(incoming, [{"v": value} for value in values]))

    assert cast.column("v").to_pylist() == values
    cast.validate(full=True)


def test_write_plan_can_be_pickled() -> None:
    table = pa.schema(
        [pa.field("v", pa.list_(pa.field("part", pa.uuid(), metadata={"k": "v"}), 2)), pa.field("j", pa.json_())]
    )
    incoming = frame(v=ArrayType(StringType()), j=StringType())
    plan = types.plan_write(incoming, table, merge_schema=True)

    again = pickle.loads(pickle.dumps(plan))

    assert again.schema.equals(plain_schema(table), check_metadata=True)
    assert again.targets == plan.targets
    batch = sent(incoming, [{"v": ["00000000-0000-0000-0000-00000000000A"] * 2, "j": "{}"}, {"v": None, "j": None}])
    assert again.cast(batch).to_pylist() == [{"v": [bytes(15) + b"\n"] * 2, "j": "{}"}, {"v": None, "j": None}]


def test_a_dictionary_that_grows_beyond_its_index_is_an_error() -> None:
    plan = types.plan_write(frame(c=StringType()), pa.schema([("c", pa.dictionary(pa.int8(), pa.string()))]))

    with pytest.raises(InvalidInputError, match="Column c"):
        plan.cast(sent(frame(c=StringType()), [{"c": str(number)} for number in range(200)]))
