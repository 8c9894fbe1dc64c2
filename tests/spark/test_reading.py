"""Reading tables with Spark: versions, columns, predicates, splits; the lake and plain Spark agree."""

from __future__ import annotations

from datetime import datetime, timezone

import lance
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from tests.support import create_table, fails, ipc

ROWS = 100_000


def made(lake, name="t", rows=10, **columns):
    """Create a table and return its location."""
    content = {"x": list(range(rows)), "s": [f"s{n % 5}" if n % 10 else None for n in range(rows)], **columns}
    create_table(lake.catalog, *name.split("."), data=ipc(content))
    return lake.catalog.describe_table({"id": name.split(".")}).location


def test_table_is_read_unchanged(lake):
    made(lake)
    frame = lake.table("t")
    assert frame.columns == ["x", "s"]
    assert sorted((row.x, row.s) for row in frame.collect()) == [
        (n, f"s{n % 5}" if n % 10 else None) for n in range(10)
    ]


def test_large_fragments_are_split(lake):
    made(lake, rows=ROWS)
    frame = lake.table("t")
    tasks = frame.select(F.spark_partition_id().alias("p")).distinct().count()
    assert tasks == 2
    assert frame.agg(F.sum("x"), F.count("x"), F.countDistinct("x")).first() == (
        ROWS * (ROWS - 1) // 2,
        ROWS,
        ROWS,
    )


def test_columns_predicate_and_limit_are_applied(lake):
    made(lake)
    assert lake.table("t", columns=["s"]).columns == ["s"]
    assert lake.table("t", columns=["s", "x"]).columns == ["s", "x"]
    assert [row.x for row in lake.table("t", where="x > 7").orderBy("x").collect()] == [8, 9]
    assert lake.table("t", limit=3).count() == 3
    assert lake.table("t", limit=3).where("x >= 0").count() == 3
    assert lake.table("t", limit=0).collect() == []


def test_a_read_stays_at_its_version(lake):
    location = made(lake)
    frame = lake.table("t")
    lance.write_dataset(pa.table({"x": [100], "s": ["new"]}), location, mode="append")
    assert frame.count() == 10
    assert frame.count() == 10
    assert lake.table("t").count() == 11


def test_versions_tags_branches_and_times_are_read(lake):
    location = made(lake)
    before = datetime.now(timezone.utc)
    dataset = lance.write_dataset(pa.table({"x": [100], "s": ["new"]}), location, mode="append")
    dataset.tags.create("first", 1)
    branch = dataset.create_branch("dev")
    lance.write_dataset(pa.table({"x": [7], "s": ["dev"]}), branch, mode="append")
    assert lake.table("t", version=1).count() == 10
    assert lake.table("t", tag="first").count() == 10
    assert lake.table("t", as_of=before).count() == 10
    assert lake.table("t", as_of=before.isoformat()).count() == 10
    assert lake.table("t", branch="dev").count() == 12
    assert lake.count("t", branch="dev") == 12
    assert lake.table("t").count() == 11


def test_missing_objects_are_refused_before_a_job_runs(lake):
    made(lake)
    for code, ask in [
        (4, lambda: lake.table("nothing")),
        (11, lambda: lake.table("t", version=9)),
        (8, lambda: lake.table("t", tag="none")),
        (11, lambda: lake.table("t", as_of="2001-01-01")),
        (13, lambda: lake.table("t", as_of="yesterday")),
        (12, lambda: lake.table("t", columns=["x", "nothing"])),
        (13, lambda: lake.table("t", where="nothing > 1")),
        (13, lambda: lake.table("t", where="x >")),
        (13, lambda: lake.table("t", version=1, tag="a")),
        (13, lambda: lake.table("t", limit=-1)),
        (13, lambda: lake.table("a..b")),
        (13, lambda: lake.table("")),
    ]:
        with fails(code):
            ask()


def test_count_uses_metadata_or_lance(lake):
    location = made(lake, rows=1000)
    assert lake.count("t") == 1000
    lance.dataset(location).delete("x >= 900")
    assert lake.count("t") == 900
    assert lake.count("t", where="x < 10 AND s IS NOT NULL") == 9
    assert lake.count("t", version=1) == 1000


def test_an_empty_table_is_empty(lake):
    create_table(lake.catalog, "t", data=ipc({"x": pa.array([], pa.int64())}))
    assert lake.table("t").collect() == []
    assert lake.table("t").where("x > 1").count() == 0
    assert lake.count("t") == 0


def test_a_declared_table_cannot_be_read_yet(lake):
    lake.catalog.declare_table({"id": ["t"]})
    with fails(4):
        lake.table("t")


def test_tables_and_columns_with_odd_names_are_read(lake):
    lake.catalog.create_namespace({"id": ["a.b"]})
    name = "t ü`'\"x"
    columns = {"a-b": [1], "c d": [2], "SELECT": [3], "ü 'x": [4], "UP": [5]}
    create_table(lake.catalog, "a.b", name, data=ipc(columns))
    frame = lake.table(["a.b", name])
    assert frame.columns == list(columns)
    assert tuple(frame.first()) == (1, 2, 3, 4, 5)
    assert lake.table("`a.b`.`t ü``'\"x`", columns=["a-b", "UP"]).first() == (1, 5)
    for column in columns:
        quoted = "`" + column.replace("`", "``") + "`"
        assert frame.where(f"{quoted} > 0").count() == 1
        assert frame.where(f"{quoted} < 0").count() == 0


def test_filters_are_pushed_into_lance(lake):
    made(lake, rows=ROWS)
    frame = lake.table("t").where("x = 77 AND s IS NOT NULL")
    assert [row.x for row in frame.collect()] == [77]
    assert "Filter (" not in explained(frame)
    assert "Filter (" in explained(lake.table("t").where("x % 2 = 0"))


def explained(frame):
    """Return the plan as text."""
    import contextlib
    import io

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain()
    return text.getvalue()


def test_plain_spark_reads_the_same(lake, spark, root):
    location = made(lake, "prod.events") if lake.catalog.create_namespace({"id": ["prod"]}) else None
    lance.write_dataset(pa.table({"x": [100], "s": ["new"]}), location, mode="append")
    read = spark.read.format("pennon").option("impl", "dir").option("root", root)
    assert read.load("prod.events").count() == 11
    assert read.option("version", 1).load("prod.events").count() == 10
    chosen = spark.read.format("pennon").options(root=root, columns="x", where="x < 3").load("prod.events")
    assert sorted(row.x for row in chosen.collect()) == [0, 1, 2]
    assert spark.read.format("pennon").options(root=root, limit=4).load("prod.events").where("x > -1").count() == 4
    given = spark.read.format("pennon").schema("s string").options(root=root).load("prod.events")
    assert given.columns == ["s"]
    assert given.where("s = 'new'").count() == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"path": "nothing"}, "'nothing'"),
        ({"path": "t", "version": "x"}, "whole number"),
        ({"path": "t", "nonsense": "1"}, "nonsense"),
        ({}, "Name the table"),
    ],
)
def test_plain_spark_reports_the_reason_of_an_error(lake, spark, root, options, code):
    made(lake)
    with pytest.raises(Exception, match=code):
        spark.read.format("pennon").options(root=root, **options).load().count()


def test_lake_lists_its_contents(lake):
    for name in (["prod"], ["prod", "eu"], ["test"]):
        lake.catalog.create_namespace({"id": name})
    made(lake, "prod.events")
    made(lake, "prod.eu.events")
    made(lake, "t")
    assert [row.name for row in lake.namespaces().orderBy("name").collect()] == ["prod", "test"]
    assert lake.namespaces(recursive=True).count() == 3
    assert [row.table for row in lake.tables("prod").collect()] == ["prod.events"]
    assert sorted(row.table for row in lake.tables(recursive=True).collect()) == ["prod.eu.events", "prod.events", "t"]
    lake.catalog.drop_table({"id": ["t"]})
    assert [row.table for row in lake.dropped().collect()] == ["t"]
    assert lake.tables().collect() == []
    assert lake.dropped("prod").collect() == []
    assert [row.version for row in lake.versions("prod.events").collect()] == [1]
    assert [row.operation for row in lake.history("prod.events").collect()] == ["Overwrite"]
    assert lake.tags("prod.events").collect() == []
    assert lake.branches("prod.events").collect() == []
    assert lake.indexes("prod.events").collect() == []


def test_workers_read_without_importing_the_sdk_models(lake, spark):
    made(lake, rows=ROWS)
    assert lake.table("t").where("x < 10").count() == 10

    def loaded(batches):
        import sys

        list(batches)
        names = [name for name in sys.modules if name.startswith(("pennon.", "lance_namespace_urllib3_client.models."))]
        yield pa.record_batch({"name": names})

    frame = spark.range(0, 8, 1, 8).mapInArrow(loaded, "name string")
    names = {row.name for row in frame.collect()}
    assert "pennon.spark.reading.scan" in names
    assert {name for name in names if not name.startswith("pennon.")} == set()
