"""df.write.format("pennon"): the same rules as lake.write, through Spark's interface."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.errors import PySparkException

from tests.support import create_namespace, describe_table, list_tables


def numbers(spark, *values):
    return spark.createDataFrame([(value, f"name-{value}") for value in values], "id bigint, name string")


def save(df, root, table="t", mode="append", **options):
    df.write.format("pennon").option("root", root).options(**options).mode(mode).save(table)


def ids(lake, table="t"):
    return sorted(row.id for row in lake.table(table).select("id").collect())


def on_storage(lake, *names):
    folder = Path(describe_table(lake.catalog, *names).location)
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def left_in(root):
    return {path.name for path in Path(root).iterdir() if not path.name.startswith((".", "__"))}


def test_append_and_overwrite(spark, lake, root):
    create_namespace(lake.catalog, "a")
    for table in ("t", "a.t"):
        save(numbers(spark, 1), root, table)
        save(numbers(spark, 2), root, table)
        assert ids(lake, table) == [1, 2]
        save(numbers(spark, 3).selectExpr("id", "1.5 AS score"), root, table, "overwrite")
        assert ids(lake, table) == [3]
        assert lake.table(table).columns == ["id", "score"]
    files = on_storage(lake, "t")
    assert not [path for path in files if path.startswith("_pennon")]
    assert len([path for path in files if path.startswith("data/")]) == 3
    assert len(left_in(root)) == 2


def test_managed_table_is_written_through_the_catalog(spark, managed_lake, root):
    save(numbers(spark, 1), root)
    save(numbers(spark, 2), root)
    assert managed_lake.catalog.latest_table_versions([["t"]]) == [2]
    assert ids(managed_lake) == [1, 2]


def test_other_modes_are_rejected_by_spark(spark, lake, root):
    for mode in ("error", "ignore"):
        with pytest.raises(PySparkException, match=r"(?i)append"):
            save(numbers(spark, 1), root, mode=mode)
    assert list_tables(lake.catalog) == []


def test_write_options_are_applied(spark, lake, root):
    save(spark.range(0, 10, 1, 1), root, maxRowsPerFile="4", dataStorageVersion="2.1")
    table = lance.dataset(describe_table(lake.catalog, "t").location)
    assert (len(table.get_fragments()), table.data_storage_version) == (3, "2.1")
    save(spark.range(10, 12).selectExpr("id", "id AS more"), root, mergeSchema="true")
    assert {row.id: row.more for row in lake.table("t").collect()} == {
        **dict.fromkeys(range(10)),
        10: 10,
        11: 11,
    }


def test_job_writes_once(spark, lake, root):
    for _ in range(2):
        save(numbers(spark, 1), root, jobId="nightly")
    save(numbers(spark, 2), root, jobId="next")
    assert ids(lake) == [1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxRowsPerFile": "none"}, "maxRowsPerFile"),
        ({"version": "1"}, "version"),
        ({"no_such_property": "1"}, "no_such_property"),
        ({"branch": "dev"}, "'t'"),
    ],
)
def test_bad_options_write_nothing(spark, lake, root, options, message):
    with pytest.raises(PySparkException, match=message):
        save(numbers(spark, 1), root, **options)
    assert list_tables(lake.catalog) == []


def test_failing_task_leaves_no_files(spark, lake, root):
    save(numbers(spark, 1), root)
    before = on_storage(lake, "t")
    bad = spark.range(0, 10, 1, 2).selectExpr("id", "if(id = 7, raise_error('spoilt'), 'x') AS name")
    for table in ("t", "new"):
        with pytest.raises(PySparkException, match="spoilt"):
            save(bad, root, table, maxRowsPerFile="2")
    assert on_storage(lake, "t") == before
    assert left_in(root) == {"t.lance"}


def test_conflicting_commit_leaves_no_files(spark, lake, root):
    """Reading the DataFrame overwrites the table during the append."""
    import pyarrow as pa

    save(numbers(spark, 1), root)
    location = describe_table(lake.catalog, "t").location

    def overwrites(batches):
        import lance as late

        for batch in batches:
            late.write_dataset(pa.table({"id": [9], "name": ["z"]}), location, mode="overwrite")
            yield batch

    frame = numbers(spark, 2).coalesce(1).mapInArrow(overwrites, "id bigint, name string")
    with pytest.raises(PySparkException, match=r"(?i)incompatible"):
        save(frame, root)
    assert ids(lake) == [9]
    files = on_storage(lake, "t")
    assert not [path for path in files if path.startswith("_pennon")]
    assert len([path for path in files if path.startswith("data/")]) == 2
