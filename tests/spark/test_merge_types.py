"""Merges and updates keep the values that they do not set, in every Arrow type, and indexes and row ids."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid

import numpy as np
import pyarrow as pa
import pytest
from lance.blob import blob_array, blob_field

from pennon.spark.merging.clauses import Update
from tests.spark.merging import assert_clean, open_latest, read_rows, write_table

COUNT = 12


def columns():
    """Return a column of each kind; every third value is null."""
    numbers = range(COUNT)
    day = dt.datetime(2024, 1, 31, 12, 30, 1, 123456, dt.timezone.utc)
    kinds = {
        "small": ([number - 3 for number in numbers], pa.int8()),
        "huge": ([2**64 - 1 - number for number in numbers], pa.uint64()),
        "half": ([np.float16(number / 2) for number in numbers], pa.float16()),
        "money": ([decimal.Decimal(f"{number}.05") for number in numbers], pa.decimal128(38, 2)),
        "wide": ([decimal.Decimal(10**50 + number) for number in numbers], pa.decimal256(60, 0)),
        "text": ([f"text {number}" for number in numbers], pa.large_string()),
        "bytes": ([bytes([number]) * 3 for number in numbers], pa.large_binary()),
        "fixed": ([bytes([number]) * 4 for number in numbers], pa.binary(4)),
        "day": ([day.date() + dt.timedelta(number) for number in numbers], pa.date32()),
        "nanos": ([10**18 + number * 7 for number in numbers], pa.timestamp("ns")),
        "zoned": ([day + dt.timedelta(number) for number in numbers], pa.timestamp("us", tz="Europe/Berlin")),
        "time": ([day.time() for number in numbers], pa.time64("ns")),
        "lasting": ([number * 1001 for number in numbers], pa.duration("ns")),
        "vector": ([[number / 2] * 4 for number in numbers], pa.list_(pa.float32(), 4)),
        "halves": ([[np.float16(number)] * 2 for number in numbers], pa.list_(pa.float16(), 2)),
        "list": ([[number, None] for number in numbers], pa.list_(pa.uint16())),
        "struct": (
            [{"a": number, "b": ["x"]} for number in numbers],
            pa.struct({"a": pa.uint8(), "b": pa.list_(pa.string())}),
        ),
        "flag": ([number % 2 == 0 for number in numbers], pa.bool_()),
    }
    made = {}
    for name, (values, kind) in kinds.items():
        made[name] = pa.array([None if number % 3 == 2 else value for number, value in enumerate(values)], kind)
    made["word"] = pa.array([f"w{number % 3}" for number in numbers]).dictionary_encode()
    return made


def everything():
    """Return a table of all kinds, including extension types."""
    made = {"id": pa.array(range(COUNT), pa.int64()), **columns()}
    keys = [uuid.UUID(int=number + 1).bytes for number in range(COUNT)]
    made["uuid"] = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(keys, pa.binary(16)))
    made["json"] = pa.ExtensionArray.from_storage(pa.json_(), pa.array([f'{{"n": {n}}}' for n in range(COUNT)]))
    return pa.table(made)


def kept(dataset):
    return {row["id"]: row for row in dataset.to_table().to_pylist()}


@pytest.mark.parametrize("stable", [False, True])
def test_columns_that_are_not_set_keep_every_bit(spark, lake, stable):
    data = everything()
    before = write_table(lake, "t", data, enable_stable_row_ids=stable)
    ids = {row["id"]: row["_rowid"] for row in before.to_table(columns=["id"], with_row_id=True).to_pylist()}
    source = spark.createDataFrame([(1, 0), (2, 0), (5, 0), (50, 7)], "id bigint, small int")
    result = lake.merge(source, "t", on="id")
    assert (result.inserted, result.updated) == (1, 3)
    after = open_latest(lake)
    assert after.schema == before.schema
    found, old = kept(after), kept(before)
    for number in range(COUNT):
        wanted = old[number] | ({"small": 0} if number in {1, 2, 5} else {})
        assert found[number] == wanted
    assert {name: value for name, value in found[50].items() if value is not None} == {"id": 50, "small": 7}
    if stable:
        now = after.to_table(columns=["id"], with_row_id=True).to_pylist()
        assert {row["id"]: row["_rowid"] for row in now if row["id"] != 50} == ids
        assert len({row["_rowid"] for row in now}) == COUNT + 1
    after.validate()
    assert_clean(lake)


def test_rows_keep_their_ids_beside_new_rows(spark, lake):
    data = pa.table({"id": pa.array(range(6), pa.int64()), "name": list("abcdef")})
    before = write_table(lake, "t", data, rows_per_file=3, enable_stable_row_ids=True)
    ids = {row["id"]: row["_rowid"] for row in before.to_table(with_row_id=True).to_pylist()}
    source = spark.createDataFrame([(1, "B"), (8, "i"), (9, "j")], "id bigint, name string")
    lost = [Update({"name": "upper(name)"}, "id > 2")]
    result = lake.merge(source.repartition(1), "t", on="id", when_not_matched_by_source=lost)
    assert (result.inserted, result.updated) == (2, 4)
    now = open_latest(lake).to_table(with_row_id=True).to_pylist()
    assert {row["id"]: row["_rowid"] for row in now if row["id"] < 8} == ids
    assert len({row["_rowid"] for row in now}) == 8
    assert {row["id"]: row["name"] for row in now} == dict(zip([0, 1, 2, 3, 4, 5, 8, 9], "aBcDEFij", strict=True))


def test_columns_of_all_types_are_set_from_a_source(lake):
    """A source that was read from the table restores the same values."""
    data = everything().drop_columns(["wide", "nanos", "time", "lasting"])
    before = write_table(lake, "t", data)
    source = lake.table("t").where("id < 4")
    assert lake.merge(source, "t", on="id").updated == 4
    assert kept(open_latest(lake)) == kept(before)
    assert open_latest(lake).schema == before.schema


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_blobs_are_kept_and_can_be_set(spark, lake, version):
    if version == "2.0":
        field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        values = pa.array([bytes([number]) * 3000 for number in range(6)], pa.large_binary())
    else:
        field = blob_field("blob")
        values = blob_array([bytes([number]) * 3000 for number in range(6)])
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), field])
    data = pa.table([pa.array(range(6), pa.int64()), pa.array(list("abcdef")), values], schema=schema)
    write_table(lake, "t", data, data_storage_version=version)
    lake.update("t", {"name": "upper(name)"}, where="id IN (1, 2, 5)")
    source = spark.createDataFrame([(2, bytearray(b"new")), (9, bytearray(b"nine"))], "id bigint, blob binary")
    lake.merge(source, "t", on="id")
    after = open_latest(lake)
    ids = after.to_table(columns=["id", "name"], with_row_address=True).to_pylist()
    content = after.read_blobs("blob", addresses=[row["_rowaddr"] for row in ids])
    found = {row["id"]: (row["name"], blob) for row, (_, blob) in zip(ids, content, strict=True)}
    assert found == {
        0: ("a", bytes([0]) * 3000),
        1: ("B", bytes([1]) * 3000),
        2: ("C", b"new"),
        3: ("d", bytes([3]) * 3000),
        4: ("e", bytes([4]) * 3000),
        5: ("F", bytes([5]) * 3000),
        9: (None, b"nine"),
    }
    assert after.schema.field("blob") == schema.field("blob")


@pytest.mark.parametrize("stable", [False, True])
def test_indexes_find_changed_rows_only_by_their_new_values(spark, lake, stable):
    vectors = np.random.default_rng(1).random((300, 8), dtype=np.float32)
    data = pa.table(
        {
            "id": pa.array(range(300), pa.int64()),
            "x": pa.array(range(300), pa.int32()),
            "words": [f"word{number}" for number in range(300)],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
        }
    )
    dataset = write_table(lake, "t", data, rows_per_file=150, enable_stable_row_ids=stable)
    dataset.create_scalar_index("x", "BTREE")
    dataset.create_scalar_index("words", "INVERTED")
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    # First an update of one column, which does not affect other indexes, then a merge that also inserts.
    assert lake.update("t", {"x": "x + 1000"}, where="id IN (3, 200)").rows == 2
    source = spark.createDataFrame([(7, 2007, [9.0] * 8), (500, 2500, [5.0] * 8)], "id bigint, x int, v array<float>")
    lake.merge(source, "t", on="id", when_matched=[Update({"x": "source.x", "v": "source.v"})])
    after = open_latest(lake)

    def found(**query):
        return sorted(row["id"] for row in after.to_table(columns=["id"], **query).to_pylist())

    for old, new, number in ((3, 1003, 3), (200, 1200, 200), (7, 2007, 7), (None, 2500, 500)):
        assert found(filter=f"x = {new}") == [number]
        assert old is None or found(filter=f"x = {old}") == []
    assert found(filter="x >= 199 AND x <= 201") == [199, 201]
    for number in (3, 7, 200, 250):
        assert found(full_text_query=f"word{number}") == [number]
    nearest = lambda vector: found(nearest={"column": "v", "q": vector, "k": 1, "nprobes": 2})  # noqa: E731 (short)
    assert nearest(vectors[3]) == [3]
    assert nearest(vectors[200]) == [200]
    assert nearest(np.full(8, 9, np.float32)) == [7]
    assert nearest(np.full(8, 5, np.float32)) == [500]
    assert nearest(vectors[7]) != [7]
    assert len(read_rows(lake)) == 301
