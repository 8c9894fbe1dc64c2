"""Sessions with a lake: several in one program, and sessions with default settings."""

from __future__ import annotations

import os

import pytest

from tests.support import create_table, ipc

BROADCAST = "spark.sql.autoBroadcastJoinThreshold"


def test_several_sessions_of_a_program_can_be_attached(spark, root):
    from pennon.spark import attach

    lakes = [attach(one, root=root) for one in (spark, spark.newSession(), spark)]
    create_table(lakes[0].catalog, "t", data=ipc({"x": [1, 2]}))
    for lake in lakes:
        assert lake.table("t").count() == 2
        assert lake.spark.read.format("pennon").option("root", root).load("t").count() == 2
        assert lake.sql("SELECT sum(x + 0) FROM t").first() == (3,)


def test_attach_does_not_change_the_active_session(spark, root):
    from pyspark.sql import SparkSession

    from pennon.spark import attach

    if os.environ.get("PENNON_TEST_SPARK") == "connect":
        pytest.skip("Sessions of Spark Connect are not active in a thread of Java")
    attach(spark, root=root)
    other = spark.newSession()
    java = SparkSession._get_j_spark_session_class(spark._jvm)
    before = java.getActiveSession().get()
    attach(other, root=root)
    assert java.getActiveSession().get().equals(before)


@pytest.fixture
def default_broadcasts(spark):
    """Use Spark's own threshold for broadcasts."""
    before = spark.conf.get(BROADCAST)
    spark.conf.unset(BROADCAST)
    yield
    spark.conf.set(BROADCAST, before)


def explain(frame, capsys):
    frame.explain()
    return capsys.readouterr().out


def test_many_rows_in_small_files_are_not_broadcast_by_default(lake, default_broadcasts, capsys):
    rows = 2_000_000  # compressed to a few bytes each, but Spark needs 32 MB in memory and broadcasts 10 MB
    create_table(lake.catalog, "facts", data=ipc({"id": range(rows)}))
    create_table(lake.catalog, "names", data=ipc({"id": range(50_000)}))  # more than the driver reads itself
    grouped = lake.sql("SELECT id, count(*) AS n FROM facts GROUP BY id")
    for large in (
        lake.sql("SELECT count(*) FROM facts a JOIN facts b ON a.id = b.id"),
        grouped.join(grouped.withColumnRenamed("n", "m"), "id"),
    ):
        plan = explain(large, capsys)
        assert "SortMergeJoin" in plan
        assert "Broadcast" not in plan
    assert "Broadcast" not in explain(lake.sql("SELECT count(*) FROM facts a CROSS JOIN facts b"), capsys)
    small = lake.sql("SELECT count(*) FROM facts a JOIN names b ON a.id = b.id")
    assert "BroadcastHashJoin" in explain(small, capsys)
    assert small.first() == (50_000,)
    assert grouped.where("n = 1").count() == rows


def test_large_tables_are_not_broadcast_by_default(lake, default_broadcasts, capsys):
    rows = 12_000
    body = [os.urandom(1200) for _ in range(rows)]  # 14 MB that cannot be compressed; Spark broadcasts 10 MB
    create_table(lake.catalog, "facts", data=ipc({"id": range(rows), "v": body}))
    create_table(lake.catalog, "names", data=ipc({"id": range(9), "name": list("abcdefghi")}))
    large = explain(lake.sql("SELECT a.v, b.v FROM facts a JOIN facts b ON a.id = b.id"), capsys)
    small = explain(lake.sql("SELECT v, name FROM facts JOIN names ON facts.id = names.id"), capsys)
    assert "SortMergeJoin" in large
    assert "Broadcast" not in large
    assert "BroadcastHashJoin" in small
