"""lake.write: modes, schemas, refused writes, and the files that remain."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from pennon.spark import tables
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_tables,
)


def numbers(spark, *values):
    return spark.createDataFrame([(value, f"name-{value}") for value in values], "id bigint, name string")


def ids(lake, table="t"):
    return sorted(row.id for row in lake.table(table).select("id").collect())


def dataset(lake, *names):
    return lance.dataset(describe_table(lake.catalog, *names).location)


def files(lake, *names):
    """Return all files in a table's directory, and the data files of its latest version."""
    table = dataset(lake, *names)
    root = Path(table.uri)
    there = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    used = {f"data/{file.path}" for fragment in table.get_fragments() for file in fragment.data_files()}
    return there, used


def assert_no_leftovers(lake, *names):
    there, used = files(lake, *names)
    assert {path for path in there if path.startswith("data/")} == used
    assert not [path for path in there if path.startswith("_pennon")]


# Modes


def test_append_creates_and_then_appends(spark, lake):
    first = lake.write(numbers(spark, 1, 2), "t")
    assert (first.version, first.rows, first.created, first.already) == (1, 2, True, False)
    second = lake.write(numbers(spark, 3), "t")
    assert (second.version, second.rows, second.created, second.files) == (2, 1, False, 1)
    assert second.bytes > 0
    assert ids(lake) == [1, 2, 3]
    assert_no_leftovers(lake, "t")


def test_write_into_a_namespace(spark, lake):
    create_namespace(lake.catalog, "prod")
    lake.write(numbers(spark, 1), "prod.events")
    assert list_tables(lake.catalog, "prod") == ["events"]
    with fails(1):
        lake.write(numbers(spark, 1), "nowhere.events")


@pytest.mark.parametrize("mode", ["create", "error", "ErrorIfExists"])
def test_create_raises_already_exists_if_the_table_exists(spark, lake, mode):
    assert lake.write(numbers(spark, 1), "t", mode).created
    with fails(5, naming="'t'"):
        lake.write(numbers(spark, 2), "t", mode)
    assert ids(lake) == [1]
    assert_no_leftovers(lake, "t")


def test_ignore_writes_only_a_missing_table(spark, lake):
    assert lake.write(numbers(spark, 1), "t", "ignore").created
    second = lake.write(numbers(spark, 2), "t", "ignore")
    assert (second.skipped, second.version, second.rows) == (True, 1, 0)
    assert ids(lake) == [1]


def test_overwrite_replaces_rows_and_columns_and_keeps_history(spark, lake):
    lake.write(numbers(spark, 1, 2), "t", "overwrite")
    frame = spark.createDataFrame([(7, 1.5)], "id bigint, score double")
    done = lake.write(frame, "t", "overwrite")
    assert (done.version, done.created) == (2, False)
    assert lake.table("t").collect() == frame.collect()
    assert sorted(row.id for row in lake.table("t", version=1).collect()) == [1, 2]


def test_overwrite_keeps_arrow_types_that_spark_lacks(lake):
    schema = pa.schema([("id", pa.uint32()), ("v", pa.list_(pa.float32(), 2)), ("gone", pa.string())])
    create_table(lake.catalog, "t", data=ipc(pa.table([[1], [[1.0, 2.0]], ["x"]], schema=schema)))
    frame = lake.table("t").selectExpr("id + 0 as id", "transform(v, x -> float(x * 2)) as v", "'new' as note")
    lake.write(frame, "t", "overwrite")
    after = dataset(lake, "t")
    assert after.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert after.schema.names == ["id", "v", "note"]
    assert after.to_table().to_pylist() == [{"id": 1, "v": [2.0, 4.0], "note": "new"}]


def test_unknown_mode_and_options_raise_invalid_input(spark, lake):
    with fails(13, naming="upsert"):
        lake.write(numbers(spark, 1), "t", "upsert")
    with pytest.raises(TypeError, match="compression"):
        lake.write(numbers(spark, 1), "t", compression="zstd")
    with fails(13, naming="max_rows_per_file"):
        lake.write(numbers(spark, 1), "t", max_rows_per_file=0)
    assert list_tables(lake.catalog) == []


def test_append_fills_a_declared_table_at_its_location(spark, lake):
    create_namespace(lake.catalog, "a")
    for names in (["root_table"], ["a", "t"]):
        location = declare_table(lake.catalog, *names).location
        assert lake.write(numbers(spark, 1), names).created
        assert describe_table(lake.catalog, *names, check_declared=True).is_only_declared is False
        assert lance.dataset(location).count_rows() == 1


def test_write_after_a_drop_creates_a_new_table(spark, lake):
    lake.write(numbers(spark, 1), "t")
    drop_table(lake.catalog, "t")
    assert lake.write(numbers(spark, 2), "t").created
    assert ids(lake) == [2]


# Schemas


def test_columns_are_matched_by_name(spark, lake):
    lake.write(numbers(spark, 1), "t")
    lake.write(spark.createDataFrame([("two", 2)], "name string, id bigint"), "t")
    assert {(row.id, row.name) for row in lake.table("t").collect()} == {(1, "name-1"), (2, "two")}


def test_names_are_case_sensitive_if_the_session_is(spark, lake):
    lake.write(numbers(spark, 1), "t")
    other = numbers(spark, 2).withColumnRenamed("id", "ID")
    lake.write(other, "t")
    assert ids(lake) == [1, 2]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with fails(13):
            lake.write(other, "t")
        lake.write(other, "t", merge_schema=True)
        assert sorted(lake.table("t").columns) == ["ID", "id", "name"]
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


def test_unknown_column_raises_invalid_input_before_anything_is_written(spark, lake):
    lake.write(numbers(spark, 1), "t")
    before = files(lake, "t")
    with fails(13, naming="extra"):
        lake.write(spark.createDataFrame([(2, "x", 1)], "id bigint, name string, extra int"), "t")
    assert files(lake, "t") == before


def test_merge_schema_adds_columns_and_rows_in_one_commit(spark, lake):
    lake.write(numbers(spark, 1), "t")
    wide = spark.createDataFrame(
        [(2, {"a": 1, "b": "x"}, [1.0], "n")],
        "id bigint, more struct<a: int, b: string>, list array<double>, name string",
    )
    done = lake.write(wide, "t", merge_schema=True)
    assert (done.version, done.rows) == (2, 1)
    rows = {row.id: row for row in lake.table("t").collect()}
    assert (rows[1].name, rows[1].more, rows[1].list) == ("name-1", None, None)
    assert (rows[2].name, rows[2].more.b, rows[2].list) == ("n", "x", [1.0])
    again = lake.write(spark.createDataFrame([(3, 4)], "id bigint, later int"), "t", merge_schema=True)
    assert again.version == 3
    assert {row.id: row.later for row in lake.table("t").collect()} == {1: None, 2: None, 3: 4}
    assert_no_leftovers(lake, "t")


def test_merge_schema_after_a_dropped_column_does_not_restore_its_values(spark, lake):
    lake.write(numbers(spark, 1), "t")
    dataset(lake, "t").drop_columns(["name"])
    lake.write(spark.createDataFrame([(2, "b")], "id bigint, other string"), "t", merge_schema=True)
    assert {row.id: row.other for row in lake.table("t").collect()} == {1: None, 2: "b"}


def test_merge_schema_with_no_new_column_is_an_append(spark, lake):
    lake.write(numbers(spark, 1), "t")
    lake.write(numbers(spark, 2), "t", merge_schema=True)
    assert type(dataset(lake, "t").read_transaction(2).operation).__name__ == "Append"


def test_value_that_does_not_fit_raises_invalid_input_and_leaves_no_files(spark, lake):
    create_table(lake.catalog, "t", data=ipc(pa.table({"id": pa.array([1], pa.int8())})))
    before = files(lake, "t")
    with fails(13, naming="'t'"):
        lake.write(spark.createDataFrame([(300,)], "id int"), "t")
    assert files(lake, "t") == before


def test_types_that_lance_cannot_store_are_refused_before_anything_is_written(spark, lake, root):
    with fails(13, naming="'t'"):
        lake.write(spark.sql("SELECT 1 AS id, null AS nothing"), "t")
    assert list_tables(lake.catalog) == []
    assert not list(Path(root).glob("*_t*"))


# Shapes of data


def test_empty_dataframe_creates_a_table_and_appends_nothing(spark, lake):
    nothing = numbers(spark, 1).where("false")
    made = lake.write(nothing, "t")
    assert (made.version, made.rows, made.files) == (1, 0, 0)
    assert lake.table("t").columns == ["id", "name"]
    assert lake.write(nothing, "t").version == 1
    lake.write(numbers(spark, 1), "t")
    assert lake.write(nothing, "t", "overwrite").version == 3
    assert ids(lake) == []


def test_dataframe_without_columns_raises_invalid_input(spark, lake):
    with fails(13, naming="'t'"):
        lake.write(spark.range(3).select(), "t")


def test_partitions_and_limits_determine_the_files(spark, lake):
    frame = spark.range(0, 100, 1, 4)
    assert lake.write(frame, "t", "overwrite").files == 4
    assert lake.write(frame, "t", "overwrite", max_rows_per_file=10).files == 12
    assert lake.write(frame.where("id < 25"), "t", "overwrite").files == 1
    assert lake.write(frame, "t", "overwrite", rebalance=True).files == 1
    assert lake.write(spark.range(100), "t").rows == 100
    assert ids(lake) == sorted([*range(100), *range(100)])


def test_rows_larger_than_a_batch_are_written(spark, lake):
    frame = spark.range(0, 6, 1, 1).selectExpr("id", "repeat('x', 3000000) AS text")
    assert lake.write(frame, "t").rows == 6
    assert ids(lake) == list(range(6))
    assert {row.n for row in lake.table("t").selectExpr("length(text) AS n").collect()} == {3000000}


def test_format_version_is_chosen_for_new_tables_only(spark, lake):
    lake.write(numbers(spark, 1), "t", data_storage_version="2.1")
    assert dataset(lake, "t").data_storage_version == "2.1"
    lake.write(numbers(spark, 2), "t")
    lake.write(spark.createDataFrame([(3, 1)], "id bigint, x int"), "t", merge_schema=True)
    lake.write(numbers(spark, 4), "t", "overwrite")
    table = dataset(lake, "t")
    assert table.data_storage_version == "2.1"
    assert {file.file_minor_version for part in table.get_fragments() for file in part.data_files()} == {1}
    with fails(13, naming="2.2"):
        lake.write(numbers(spark, 5), "t", data_storage_version="2.2")


def test_properties_are_set_on_a_new_table(spark, lake):
    create_namespace(lake.catalog, "a")
    lake.write(numbers(spark, 1), "a.t", properties={"owner": "me"})
    lake.write(numbers(spark, 1), "t", properties={"owner": "you"})
    assert describe_table(lake.catalog, "a", "t").properties == {"owner": "me"}
    assert describe_table(lake.catalog, "t").properties == {"owner": "you"}


def test_write_to_branch_leaves_main_unchanged(spark, lake):
    lake.write(numbers(spark, 1), "t")
    dataset(lake, "t").create_branch("dev")
    done = lake.write(numbers(spark, 2), "t", branch="dev", job_id="j")
    assert lake.write(numbers(spark, 2), "t", branch="dev", job_id="j").already
    assert done.version == 2
    assert sorted(row.id for row in lake.table("t", branch="dev").collect()) == [1, 2]
    assert ids(lake) == [1]
    with fails(22, naming="nope"):
        lake.write(numbers(spark, 2), "t", branch="nope")
    with fails(4):
        lake.write(numbers(spark, 2), "absent", branch="dev")


# Failures


def test_failing_task_leaves_no_files(spark, lake, root):
    lake.write(numbers(spark, 1), "t")
    before = files(lake, "t")
    bad = spark.range(0, 10, 1, 2).selectExpr("id", "if(id = 7, raise_error('spoilt'), 'x') AS name")
    for table in ("t", "new"):
        with pytest.raises(Exception, match="spoilt"):
            lake.write(bad, table, max_rows_per_file=2)
    assert files(lake, "t") == before
    assert list_tables(lake.catalog) == ["t"]
    assert {path.name for path in Path(root).iterdir() if not path.name.startswith((".", "__"))} == {"t.lance"}


def test_stream_is_refused(spark, lake):
    with fails(13, naming="writeStream"):
        lake.write(spark.readStream.format("rate").load(), "t")


def test_append_during_an_overwrite_raises_concurrent_modification(spark, lake):
    """Reading the DataFrame overwrites the table after its version was resolved."""
    lake.write(numbers(spark, 1), "t")
    location = describe_table(lake.catalog, "t").location

    def overwrites(batches):
        import lance as late

        for batch in batches:
            late.write_dataset(pa.table({"id": [9], "name": ["z"]}), location, mode="overwrite")
            yield batch

    frame = numbers(spark, 2).coalesce(1).mapInArrow(overwrites, "id bigint, name string")
    with fails(14, naming="'t'"):
        lake.write(frame, "t")
    assert ids(lake) == [9]
    there, _ = files(lake, "t")
    assert not [path for path in there if path.startswith("_pennon")]
    assert len([path for path in there if path.startswith("data/")]) == 2


@pytest.mark.parametrize("managed", [False, True])
def test_append_during_a_cast_is_reverted_and_can_be_repeated(spark, lake, managed):
    """Lance would return nulls in the column that was cast."""
    if managed:
        lake.catalog.enable_table_version_management()
    lake.write(spark.range(1).selectExpr("CAST(id AS INT) AS n"), "t")
    staged = tables.stage(lake.address, spark.range(5, 6).selectExpr("CAST(id AS INT) AS n"), ("t",))
    lake.sql("ALTER TABLE t ALTER COLUMN n TYPE BIGINT")
    with fails(14, naming="'t'"):
        tables.publish_or_discard(staged, job_id="nightly")
    assert [row.n for row in lake.table("t").collect()] == [0]
    there, _ = files(lake, "t")
    assert not [path for path in there if path.startswith("_pennon")]
    for already in (False, True):
        done = lake.write(spark.range(5, 6).selectExpr("CAST(id AS INT) AS n"), "t", job_id="nightly")
        assert (done.already, sorted(row.n for row in lake.table("t").collect())) == (already, [0, 5])
