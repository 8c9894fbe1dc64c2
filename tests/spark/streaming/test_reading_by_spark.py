"""Streams of tables, run by Spark."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.streaming.streams import Table, rows, summarize_feed

pytestmark = pytest.mark.timeout(900)  # a query starts several Python processes, which takes long on a busy machine


@pytest.fixture
def table(lake, root):
    assert lake.spark is not None
    return Table(root)


class Query:
    """A query that keeps the rows of each batch."""

    def __init__(self, lake, checkpoint, source="pennon", **options: str) -> None:
        self.batches: list[list[dict]] = []
        root = dict(lake.address.properties)["root"]
        self.frame = lake.spark.readStream.format(source).options(root=root, **options).load("t")
        self.writer = self.frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(self._keep)

    def _keep(self, batch, _: int) -> None:
        self.batches.append([row.asDict() for row in batch.collect()])

    def available(self) -> list[list[int]]:
        """Read all available rows, and stop."""
        query = self.writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return self.ids()

    def ids(self) -> list[list[int]]:
        return [[row["id"] for row in batch] for batch in self.batches if batch]


def test_table_is_read_in_batches_and_a_restart_continues(lake, table, tmp_path):
    table.write(rows(3, 6), max_rows_per_file=2)
    checkpoint = tmp_path / "checkpoint"
    assert Query(lake, checkpoint, maxRowsPerTrigger="4").available() == [[0, 1, 2, 3], [4, 5]]
    table.write(rows(6, 8))
    table.open().delete("id = 7")
    query = Query(lake, checkpoint, maxRowsPerTrigger="4", columns="id")
    with pytest.raises(StreamingQueryException, match=r"Version 4 of table 't' \(Delete\)"):
        query.available()
    assert query.batches == [[{"id": 6}, {"id": 7}]]


def test_running_query_delivers_a_change_feed(lake, table, tmp_path):
    query = Query(lake, tmp_path / "checkpoint", changes="feed", startingVersion="1")
    running = query.writer.start()
    try:
        table.write(rows(3, 5))
        running.processAllAvailable()
        assert summarize_feed(query.batches[-1]) == [(2, "insert", 3, "x3"), (2, "insert", 4, "x4")]
        table.open().delete("id IN (1, 3)")
        running.processAllAvailable()
        assert summarize_feed(query.batches[-1]) == [(3, "delete", 1, "x1"), (3, "delete", 3, "x3")]
        assert '"next": 4' in running.lastProgress["sources"][0]["endOffset"]
    finally:
        running.stop()


def test_change_feed_can_be_read_as_a_batch(lake, table):
    table.write(rows(3, 4))
    table.open().delete("id = 0")
    source = lake.spark.read.format("pennon").options(root=table.root, changes="feed", startingVersion="1").load("t")
    assert summarize_feed([row.asDict() for row in source.collect()]) == [
        (2, "insert", 3, "x3"),
        (3, "delete", 0, "x0"),
    ]
    assert source.where("_change_type = 'delete'").count() == 1


def test_inserting_merge_delivers_only_its_new_rows(lake, table, tmp_path):
    """Such a merge marks an unchanged fragment as changed, so that concurrent merges conflict."""
    checkpoint = tmp_path / "checkpoint"
    assert Query(lake, checkpoint).available() == [[0, 1, 2]]
    source = lake.spark.createDataFrame([(2, "other"), (3, "x3")], "id bigint, x string")
    done = lake.merge(source, "t", on="id", when_matched="ignore")
    assert (done.inserted, done.updated, table.ids()) == (1, 0, [0, 1, 2, 3])
    assert Query(lake, checkpoint).available() == [[3]]
    feed = lake.spark.read.format("pennon").options(root=table.root, changes="feed", startingVersion="1").load("t")
    assert summarize_feed([row.asDict() for row in feed.collect()]) == [(2, "insert", 3, "x3")]


def test_reader_for_older_pyspark_reads_the_same(lake, table, tmp_path):
    from pennon.spark.source import PennonDataSource  # imported here so that the class below is pickled by value

    class Older(PennonDataSource):
        @classmethod
        def name(cls) -> str:
            return "pennon_of_41"

        def streamReader(self, schema):
            from pennon.spark.streaming.stream_reader import PlainTableStreamReader
            from pennon.spark.streaming.stream_settings import StreamSettings

            return PlainTableStreamReader(StreamSettings.of(self._source_options), schema)

    lake.spark.dataSource.register(Older)
    checkpoint = tmp_path / "checkpoint"
    query = Query(lake, checkpoint, "pennon_of_41", maxRowsPerTrigger="2")
    running = query.writer.start()
    try:
        running.processAllAvailable()
    finally:
        running.stop()
    assert query.ids() == [[0, 1], [2]]
    table.write(rows(3, 4))
    assert Query(lake, checkpoint, "pennon_of_41").available() == [[3]]


def test_changes_are_empty_if_there_are_none(lake, table):
    source = lake.spark.read.format("pennon").options(root=table.root, changes="feed", startingVersion="latest")
    assert source.load("t").collect() == []
