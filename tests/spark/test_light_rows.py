"""Rows that are sent to Python without measuring batches, and rows that are too large for that."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from pennon.spark.tables import fragment_writer, light_rows

LARGE = light_rows.ROW_BYTES + 1


def rows_of_batches(frame):
    def count(batches):
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows]})

    return [row.rows for row in frame.mapInArrow(count, "rows bigint").collect()]


def data_files(lake, name):
    location = lake.catalog.describe_table({"id": [name]}).location
    return {path.name for path in Path(location, "data").iterdir()}


def referenced(lake, name):
    return {file.path for one in lake.catalog._open_table((name,)).get_fragments() for file in one.metadata.files}


def test_small_rows_are_limited_by_number_only_in_this_thread(spark) -> None:
    frame = light_rows.mark_light_rows(spark.range(0, 5000, 1, 1).selectExpr("id", "cast(id AS string) AS s"))
    with light_rows.without_weighing(spark):
        assert rows_of_batches(frame) == [1024, 1024, 1024, 1024, 904]
    assert rows_of_batches(frame) == [5000]


def test_strings_and_lists_of_large_rows_are_replaced_by_nulls(spark) -> None:
    df = spark.range(0, 4, 1, 1).selectExpr(
        "id",
        f"repeat('x', IF(id = 2, {LARGE}, 1)) AS s",
        "CAST('b' AS binary) AS b",
        "array(id) AS l",
        f"named_struct('t', repeat('y', IF(id = 3, {LARGE}, 1)), 'n', id) AS n",
    )
    *whole, second, third = [tuple(row) for row in light_rows.mark_light_rows(df).orderBy("c0").collect()]
    assert [(row[0], row[1], row[-1]) for row in whole] == [(0, "x", True), (1, "x", True)]
    assert second == (2, None, None, None, None, False)
    assert third == (3, None, None, None, None, False)


@pytest.mark.parametrize(
    "column",
    [
        "map(id, id) AS x",
        "array(cast(id AS string)) AS x",
        "array(array(id)) AS x",
        "parse_json('1') AS x",
        "named_struct('a', array('x')) AS x",
    ],
)
def test_rows_of_unknown_size_are_measured_by_spark(spark, column) -> None:
    assert light_rows.mark_light_rows(spark.range(1).selectExpr(column)) is None


@pytest.mark.parametrize(("count", "is_told"), [(64, True), (65, False)])
def test_rows_with_many_strings_are_measured_by_spark(spark, count, is_told) -> None:
    df = spark.range(1).selectExpr(*(f"cast(id AS string) AS s{number}" for number in range(count)))
    assert (light_rows.mark_light_rows(df) is not None) is is_told


@pytest.mark.parametrize("setting", ["maxRecordsPerBatch", "maxBytesPerBatch"])
def test_batch_limits_of_the_session_are_respected(spark, setting) -> None:
    df = spark.range(1)
    assert light_rows.mark_light_rows(df) is not None
    key = f"spark.sql.execution.arrow.{setting}"
    spark.conf.set(key, "7")
    try:
        assert light_rows.mark_light_rows(df) is None
    finally:
        spark.conf.unset(key)


@pytest.mark.parametrize("place", [0, 2500, 4999])
def test_a_large_row_among_small_ones_is_written_with_them(spark, lake, place) -> None:
    lengths = f"IF(id = {place}, {LARGE}, id % 50)"
    df = spark.range(0, 5000, 1, 2).selectExpr("id", f"repeat('x', CAST({lengths} AS int)) AS s")
    assert lake.write(df, "t", mode="create").rows == 5000
    expected = [(n, LARGE if n == place else n % 50) for n in range(5000)]
    found = lake.table("t").selectExpr("id", "length(s)").orderBy("id").collect()
    assert [tuple(row) for row in found] == expected
    assert data_files(lake, "t") == referenced(lake, "t")


def test_large_row_restarts_the_write_without_a_failed_task(spark, lake, monkeypatch) -> None:
    tried = []
    real = fragment_writer._create_task
    monkeypatch.setattr(fragment_writer, "_create_task", lambda writer: tried.append(writer.run) or real(writer))
    lake.write(spark.range(10).selectExpr("id", "repeat('x', 5) AS s"), "t", mode="create")
    assert len(tried) == 1
    tried.clear()
    lake.write(spark.range(10).selectExpr("id", f"repeat('x', {LARGE}) AS s"), "t", mode="append")
    assert len(tried) == 2
    assert lake.count("t") == 20


def test_all_kinds_of_values_arrive_unchanged(spark, lake) -> None:
    schema = (
        "`odd name` int, b boolean, s string, c binary, d decimal(20, 3), day date, ts timestamp, ntz timestamp_ntz,"
        " span interval day to second, l array<double>, n struct<a: string, b: struct<c: binary, d: array<int>>>"
    )
    time = datetime(2024, 2, 29, 1)
    plain = (1, True, "ä", b"\x00\xff", Decimal("1.500"), date(2024, 2, 29), time, time, timedelta(1, 5))
    full = (*plain, [1.5, None], ("x", (b"y", [1, None])))
    nested = (2, *[None] * 9, (None, (None, None)))
    df = spark.createDataFrame([full, nested, (3, *[None] * 10)], schema)
    lake.write(df.repartition(1), "t", mode="create")
    assert sorted(map(repr, lake.table("t").collect())) == sorted(map(repr, df.collect()))


@pytest.mark.parametrize("length", [1, LARGE])
def test_columns_may_have_any_name(spark, lake, length) -> None:
    names = ["c1", "c0", " ", "light"]
    df = spark.range(3).selectExpr("id", f"repeat('x', {length})", "id + 1", "id = 1").toDF(*names)
    lake.write(df, "t", mode="create")
    assert lake.table("t").columns == names
    found = lake.table("t").where("light").collect()
    assert [(row[0], len(row[1]), *row[2:]) for row in found] == [(1, length, 2, True)]
