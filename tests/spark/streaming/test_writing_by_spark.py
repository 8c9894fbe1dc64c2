"""Streams to tables, run by Spark."""

from __future__ import annotations

import pytest

from pennon.spark.streaming import merge_batches
from tests.spark.streaming.streams import Table, rows
from tests.support import fails

pytestmark = pytest.mark.timeout(900)  # a query starts five Python processes, which takes long on a busy machine


@pytest.fixture
def table(lake, root):
    assert lake.spark is not None
    return Table(root)


def _source(lake, table, **options):
    return lake.spark.readStream.format("pennon").options(root=table.root, **options).load("t")


def _done(writer, checkpoint, target=None):
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(target)
    query.awaitTermination()
    return query


def test_stream_creates_a_table_and_appends_each_epoch(lake, table, tmp_path):
    def run():
        writer = _source(lake, table, maxRowsPerTrigger="2").writeStream.format("pennon").option("root", table.root)
        return _done(writer, tmp_path / "checkpoint", "copy")

    query = run()
    assert sorted(row.id for row in lake.table("copy").collect()) == [0, 1, 2]
    table.write(rows(3, 5))
    run()
    assert sorted(row.id for row in lake.table("copy").collect()) == [0, 1, 2, 3, 4]
    history = {row.version: row.properties for row in lake.history("copy").collect()}
    assert len(history) == 3
    assert history[3]["pennon.stream"] == str(query.id)
    assert history[3]["pennon.epoch"] == "2"


def test_complete_mode_and_merged_batches_keep_one_row_per_key(lake, table, tmp_path):
    table.write(rows(3, 6))
    counts = _source(lake, table, maxRowsPerTrigger="4").selectExpr("id % 2 AS k").groupBy("k").count()
    writer = counts.writeStream.outputMode("complete").format("pennon").option("root", table.root)
    _done(writer, tmp_path / "counts", "counts")
    assert sorted(tuple(row) for row in lake.table("counts").collect()) == [(0, 3), (1, 3)]

    keyed = _source(lake, table, maxRowsPerTrigger="4").selectExpr("id % 2 AS k", "id AS last")
    newest = keyed.groupBy("k").agg({"last": "max"}).toDF("k", "last")
    lake.write(lake.spark.createDataFrame([(0, -1)], "k bigint, last bigint"), "last")
    writer = newest.writeStream.outputMode("update").foreachBatch(merge_batches(lake, "last", on="k"))
    query = _done(writer, tmp_path / "last")
    assert sorted(tuple(row) for row in lake.table("last").collect()) == [(0, 4), (1, 5)]
    jobs = {(row.properties or {}).get("pennon.job") for row in lake.history("last").collect()}
    assert f"{query.id}/1" in jobs


def test_the_first_merged_batch_creates_the_table_once(lake):
    merge = merge_batches(lake, "fresh", on="k", query="q")
    first = lake.spark.createDataFrame([(0, 1), (1, 1)], "k bigint, last bigint")
    merge(first, 0)
    merge(first, 0)
    assert lake.count("fresh") == 2
    merge(lake.spark.createDataFrame([(1, 2), (2, 2)], "k bigint, last bigint"), 1)
    assert sorted(tuple(row) for row in lake.table("fresh").collect()) == [(0, 1), (1, 2), (2, 2)]
    assert lake.versions("fresh").count() == 2


def test_merged_batches_that_insert_no_rows_need_the_table(lake):
    merge = merge_batches(lake, "fresh", on="k", query="q", when_not_matched="ignore")
    with fails(4):
        merge(lake.spark.createDataFrame([(0, 1)], "k bigint, last bigint"), 0)
