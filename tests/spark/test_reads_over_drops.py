"""Spark jobs that read a table while it is dropped return all of its rows."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa

from tests.support import Root, create_table, describe_table, drop_table, fails, ipc, list_tables

FRAGMENTS, ROWS = 6, 50


def source(location, started, go_on):
    """Return a Spark data source that reads one fragment per task; the first task waits halfway."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def partitions(self):
            return [InputPartition(number) for number in range(FRAGMENTS)]

        def read(self, partition):
            import lance  # Lance does not survive a fork

            fragment = lance.dataset(location).get_fragments()[partition.value]
            for number, batch in enumerate(fragment.to_batches(batch_size=10)):
                if partition.value == number == 0:
                    # Opening one end of a pipe waits for the other one.
                    Path(started).write_text("")
                    Path(go_on).read_text()
                yield batch

    class Source(DataSource):
        @classmethod
        def name(cls):
            return "one_table"

        def schema(self):
            return "x bigint"

        def reader(self, schema):  # noqa: ARG002 - there is only one
            return Reader()

    return Source


def test_spark_read_during_a_drop_returns_all_rows(spark, tmp_path, mode, open_namespace):
    ns = open_namespace(Root(str(tmp_path / "root")), mode)
    location = create_table(ns, "t", data=ipc({"x": list(range(ROWS))})).location
    for number in range(1, FRAGMENTS):
        lance.write_dataset(pa.table({"x": range(number * ROWS, (number + 1) * ROWS)}), location, mode="append")
    pipes = [str(tmp_path / name) for name in ("started", "go_on")]
    for pipe in pipes:
        os.mkfifo(pipe)
    spark.dataSource.register(source(describe_table(ns, "t").location, *pipes))

    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(lambda: spark.read.format("one_table").load().collect())
        reading.add_done_callback(lambda _: os.close(os.open(pipes[0], os.O_RDWR)))  # do not wait for a failed job
        pool.submit(Path(pipes[0]).read_text).result(timeout=120)
        drop_table(ns, "t")
        assert list_tables(ns) == []
        with fails(4):
            describe_table(ns, "t")
        assert not reading.done()
        Path(pipes[1]).write_text("")
        rows = reading.result(timeout=120)

    assert sorted(row.x for row in rows) == list(range(FRAGMENTS * ROWS))
