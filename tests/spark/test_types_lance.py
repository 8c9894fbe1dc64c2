"""Tables of Lance to Spark's types and back: every type, with extreme values and nulls everywhere."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.arrow import bfloat16_array

from pennon.errors import InvalidInputError
from pennon.spark import types
from pennon.spark.types.encodings import bfloat16_to_float, float_to_bfloat16, text_to_uuid, uuid_to_text
from pennon.spark.types.extension import BFLOAT16, BLOB, JSON, STORAGE, UUID, extension_metadata, plain_schema

UTC = dt.timezone.utc
NOW = dt.datetime(2024, 2, 29, 12, 30, 15, 123_456, tzinfo=UTC)
LOCAL = NOW.replace(tzinfo=None)
ID = bytes(range(16))


def _extension(name: str, kind: str) -> pa.Field:
    return pa.field(name, STORAGE[kind], metadata=extension_metadata(kind))


# A field and a value for each type.
COLUMNS = [
    (pa.field("flag", pa.bool_()), True),
    (pa.field("int8", pa.int8()), -128),
    (pa.field("uint8", pa.uint8()), 255),
    (pa.field("uint16", pa.uint16()), 65_535),
    (pa.field("uint32", pa.uint32()), 2**32 - 1),
    (pa.field("uint64", pa.uint64()), 2**64 - 1),
    (pa.field("float16", pa.float16()), np.float16(1.5)),
    (pa.field("float64", pa.float64()), 5e-324),
    (pa.field("decimal", pa.decimal128(38, 10)), Decimal("1234567890123456789012345678.0123456789")),
    (pa.field("hundreds", pa.decimal128(5, -2)), Decimal(99_900)),
    (pa.field("wide", pa.decimal256(38, 2)), Decimal("-1.50")),
    (pa.field("large", pa.large_string()), "é"),
    (pa.field("bytes", pa.large_binary()), b"\x00\xff"),
    (pa.field("fixed", pa.binary(3)), b"abc"),
    (pa.field("words", pa.dictionary(pa.int8(), pa.string())), "word"),
    (pa.field("date64", pa.date64()), dt.date(9999, 12, 31)),
    (pa.field("time_s", pa.time32("s")), dt.time(23, 59, 59)),
    (pa.field("time_ns", pa.time64("ns")), dt.time(23, 59, 59, 999_999)),
    (pa.field("ts_s", pa.timestamp("s")), LOCAL.replace(microsecond=0)),
    (pa.field("ts_ns", pa.timestamp("ns", tz="Europe/Berlin")), NOW),
    (pa.field("tz_us", pa.timestamp("us", tz="+05:30")), NOW),
    (pa.field("duration", pa.duration("ms")), dt.timedelta(days=-3, milliseconds=1)),
    (pa.field("nothing", pa.null()), None),
    (pa.field("vector", pa.list_(pa.float32(), 3)), [1.0, None, 3.0]),
    (pa.field("halves", pa.list_(pa.float16(), 2)), [np.float16(1), np.float16(2)]),
    (pa.field("brains", pa.list_(_extension("item", BFLOAT16), 2)), [b"\x80\x3f", None]),
    (pa.field("matrix", pa.list_(pa.list_(pa.int8(), 2), 2)), [[1, 2], [3, 4]]),
    (pa.field("many", pa.large_list(pa.list_(pa.uint32()))), [[1], None, []]),
    (pa.field("map", pa.map_(pa.large_string(), pa.uint8())), [("a", 1), ("b", None)]),
    (_extension("uuid", UUID), ID),
    (_extension("json", JSON), '{"a":1}'),
    (_extension("brain", BFLOAT16), b"\x80\x3f"),
    (_extension("blob", BLOB), {"data": b"blob", "uri": None, "position": None, "size": None}),
    (
        pa.field(
            "tensor",
            pa.list_(pa.float32(), 4),
            metadata=extension_metadata("arrow.fixed_shape_tensor", b'{"shape":[2,2]}'),
        ),
        [1.0, 2.0, 3.0, 4.0],
    ),
    (
        pa.field(
            "deep",
            pa.struct(
                [
                    _extension("u", UUID),
                    pa.field("l", pa.list_(pa.struct([_extension("j", JSON), pa.field("t", pa.timestamp("ns"))]))),
                    pa.field("m", pa.map_(pa.string(), _extension("value", UUID))),
                    _extension("b", BLOB),
                ]
            ),
        ),
        {
            "u": ID,
            "l": [{"j": "[]", "t": LOCAL}, None],
            "m": [("k", ID), ("n", None)],
            "b": {"data": b"inner", "uri": None, "position": None, "size": None},
        },
    ),
    (pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"}), 7),
]
SCHEMA = pa.schema([field for field, _ in COLUMNS])
FULL = {field.name: value for field, value in COLUMNS}
EMPTY = {**dict.fromkeys(FULL), "id": 8}


def table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def read(dataset: lance.LanceDataset) -> pa.RecordBatch:
    """Read a whole table as tasks do."""
    target = types.read_schema(dataset.schema)
    batches = dataset.scanner(blob_handling="all_binary").to_batches()
    return pa.Table.from_batches([types.to_spark(batch, target) for batch in batches]).combine_chunks().to_batches()[0]


def test_every_type_goes_through_spark_and_back(tmp_path) -> None:
    first = lance.write_dataset(table([FULL, EMPTY, FULL]), str(tmp_path / "first.lance"))
    assert plain_schema(first.schema).equals(SCHEMA, check_metadata=True)

    seen = types.spark_schema(first.schema)
    batch = read(first)
    plan = types.plan_write(seen, types.table_schema(seen))
    second = lance.write_dataset(pa.Table.from_batches([plan.cast(batch)]), str(tmp_path / "second.lance"))
    appended = lance.write_dataset(pa.Table.from_batches([plan.cast(batch)]), first, mode="append")

    assert plain_schema(second.schema).equals(SCHEMA, check_metadata=True)
    assert read(second).to_pylist() == batch.to_pylist()
    assert read(appended).to_pylist() == [*batch.to_pylist(), *batch.to_pylist()]
    stored = [name for name in SCHEMA.names if name not in {"blob", "deep", "json"}]
    assert plan.cast(batch).select(stored).to_pylist() == table([FULL, EMPTY, FULL]).select(stored).to_pylist()


def test_values_of_every_type_are_read_by_spark(tmp_path) -> None:
    row = read(lance.write_dataset(table([FULL]), str(tmp_path / "t.lance"))).to_pylist()[0]

    assert row["uint64"] == Decimal(2**64 - 1)
    assert row["hundreds"] == Decimal(99_900)
    assert row["uuid"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (row["brain"], row["brains"]) == (1.0, [1.0, None])
    assert row["blob"] == b"blob"
    assert row["ts_ns"] == row["tz_us"] == NOW
    assert row["deep"] == {
        "u": row["uuid"],
        "l": [{"j": "[]", "t": LOCAL}, None],
        "m": [("k", row["uuid"]), ("n", None)],
        "b": b"inner",
    }


def test_some_columns_are_read_by_name(tmp_path) -> None:
    dataset = lance.write_dataset(table([FULL]), str(tmp_path / "t.lance"))
    chosen = pa.schema([dataset.schema.field("uuid"), dataset.schema.field("id")])
    batch = dataset.to_table(columns=["id", "uuid"]).to_batches()[0]

    assert types.to_spark(batch, types.read_schema(chosen)).schema.names == ["uuid", "id"]
    with pytest.raises(InvalidInputError, match="Column flag"):
        types.to_spark(batch, types.read_schema(SCHEMA))


def test_not_nullable_fields_of_nullable_structs_are_read(tmp_path) -> None:
    inner = pa.struct([pa.field("a", pa.uint8(), nullable=False), pa.field("u", pa.uuid(), nullable=False)])
    schema = pa.schema(
        [pa.field("s", inner), pa.field("l", pa.list_(inner)), pa.field("m", pa.map_(pa.string(), inner))]
    )
    rows = [{"s": None, "l": [None, {"a": 1, "u": ID}], "m": [("k", None), ("n", {"a": 255, "u": ID})]}, {}]
    dataset = lance.write_dataset(pa.Table.from_pylist(rows, schema=plain_schema(schema)), str(tmp_path / "t.lance"))

    batch = read(dataset)
    written = types.plan_write(types.spark_schema(schema), schema).cast(batch)

    assert not batch.schema.field("s").type.field("a").nullable
    assert written.to_pylist() == [rows[0], dict.fromkeys(schema.names)]


NANOSECONDS = {
    "timestamp": pa.timestamp("ns", tz="Europe/Berlin"),
    "local": pa.timestamp("ns"),
    "duration": pa.duration("ns"),
    "time": pa.time64("ns"),
}


@pytest.mark.parametrize("kind", NANOSECONDS.values(), ids=NANOSECONDS.keys())
@pytest.mark.parametrize("nested", [False, True])
def test_nanoseconds_are_refused_or_truncated_downwards(kind, nested) -> None:
    counts = [1_999, 1_000, 0, None] if pa.types.is_time(kind) else [1_999, -1, -1_000, None]
    array = pa.array(counts, pa.int64()).cast(kind)
    if nested:
        array = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4]), array)
    batch = pa.record_batch({"c": array})
    target = types.read_schema(batch.schema)

    with pytest.raises(InvalidInputError, match=r"Column c .* nanoseconds"):
        types.to_spark(batch, target)
    kept = types.to_spark(batch, target, truncate_nanoseconds=True).column("c")
    flat = kept.flatten() if nested else kept
    unit = 1_000 if pa.types.is_time(kind) else 1
    floors = [None if count is None else count // 1_000 * unit for count in counts]
    assert flat.cast(pa.int64()).to_pylist() == floors


@pytest.mark.parametrize(
    ("kind", "count"),
    [(pa.timestamp("s"), 2**62), (pa.duration("s"), 2**62), (pa.date64(), 1)],
    ids=str,
)
def test_value_that_spark_cannot_represent_raises_invalid_input(kind, count) -> None:
    batch = pa.record_batch({"c": pa.array([count], pa.int64()).cast(kind)})

    with pytest.raises(InvalidInputError, match="Column c"):
        types.to_spark(batch, types.read_schema(batch.schema))


def test_vectors_are_read_and_written_without_copying() -> None:
    values = pa.array(np.arange(12, dtype=np.float32))
    batch = pa.record_batch({"v": pa.FixedSizeListArray.from_arrays(values, 3)})
    seen = types.spark_schema(batch.schema)

    read_back = types.to_spark(batch, types.read_schema(batch.schema))
    written = types.plan_write(seen, batch.schema).cast(read_back)

    addresses = {one.column("v").values.buffers()[1].address for one in (batch, read_back, written)}
    assert addresses == {values.buffers()[1].address}


def test_large_batches_are_split() -> None:
    batch = pa.record_batch({"s": pa.array(["x" * 100] * 64, pa.large_string())})

    cut = list(types.split_batch(batch, 1_000))

    assert pa.Table.from_batches(cut) == pa.Table.from_batches([batch])
    assert all(one.nbytes <= 1_000 for one in cut)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=32) | st.none(), max_size=20), st.integers(0, 3))
def test_bfloat16_is_rounded_as_lance_does(numbers, start) -> None:
    given_ = pa.array(numbers, pa.float32())

    made = float_to_bfloat16(given_)

    theirs = bfloat16_array([0.0 if number is None else number for number in numbers]).storage
    for mine, other, number in zip(made.to_pylist(), theirs.to_pylist(), numbers, strict=True):
        if number is None:
            assert mine is None
        elif number == number:  # noqa: PLR0124 (not NaN, of which there are many)
            assert mine == other
    widened = bfloat16_to_float(made.slice(start))
    again = float_to_bfloat16(widened)
    assert bfloat16_to_float(again).equals(widened) or any(number != number for number in numbers)  # noqa: PLR0124


@settings(max_examples=100, deadline=None)
@given(st.lists(st.uuids() | st.none(), max_size=20), st.integers(0, 3))
def test_uuids_are_converted_between_text_and_bytes(ids, start) -> None:
    stored = pa.array([None if one is None else one.bytes for one in ids], pa.binary(16)).slice(start)

    text = uuid_to_text(stored)

    assert text.to_pylist() == [None if one is None else str(one) for one in ids[start:]]
    assert text_to_uuid(text).equals(stored)


def test_the_sign_of_a_nan_does_not_hide_it() -> None:
    negative = struct.unpack("<f", struct.pack("<I", 0xFFC0_0000))[0]

    assert np.isnan(bfloat16_to_float(float_to_bfloat16(pa.array([negative], pa.float32())))[0].as_py())
