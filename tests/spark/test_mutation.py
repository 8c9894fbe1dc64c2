"""lake.update and lake.delete."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.spark.merging import assert_clean, open_latest, read_rows, write_table
from tests.support import fails

DATA = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "name": [None if number == 7 else f"n{number}" for number in range(10)],
        "v": pa.array([[float(number), 0.5] for number in range(10)], pa.list_(pa.float32(), 2)),
    }
)


def by_id(lake, column="name"):
    return {row["id"]: row[column] for row in read_rows(lake)}


def test_update_sets_expressions_and_keeps_the_rest(lake):
    before = write_table(lake, "t", DATA, rows_per_file=4)
    result = lake.update("t", {"NAME": "concat(name, '!')", "id": "id + 100"}, where="id IN (1, 2) OR name IS NULL")
    assert (result.version, result.rows, result.already) == (2, 3, False)
    found = {row["id"]: (row["name"], row["v"]) for row in read_rows(lake)}
    assert found[101] == ("n1!", [1.0, 0.5])
    assert found[107] == (None, [7.0, 0.5])
    assert len(found) == 10
    after = {fragment.fragment_id: fragment for fragment in open_latest(lake).get_fragments()}
    assert [after[number].num_deletions for number in range(3)] == [2, 1, 0]
    assert after[2].metadata.files[0].path == before.get_fragment(2).metadata.files[0].path
    assert open_latest(lake).schema == DATA.schema
    assert_clean(lake)


def test_update_of_all_rows_removes_the_old_fragments(lake):
    write_table(lake, "t", DATA)
    result = lake.update("t", {"name": "NULL", "v": "transform(v, x -> x * 2)"})
    assert result.rows == 10
    assert by_id(lake, "v")[3] == [6.0, 1.0]
    assert set(by_id(lake).values()) == {None}
    assert open_latest(lake).stats.dataset_stats()["num_deleted_rows"] == 0
    assert_clean(lake)


def test_delete_evaluates_predicates_in_lance_and_in_spark(lake):
    write_table(lake, "t", DATA)
    assert lake.delete("t", "id >= 8").rows == 2
    assert lake.delete("t", "name RLIKE '[12]$' AND id > 1").rows == 1
    assert lake.delete("t", "length(name) = 2 AND v[0] = 4").rows == 1
    assert lake.delete("t", "target.id = 5 AND NOT isnull(target.name)", job_id="clean").rows == 1
    again = lake.delete("t", "true", job_id="clean")
    assert (again.already, again.rows, again.version) == (True, 1, 5)
    assert sorted(by_id(lake)) == [0, 1, 3, 6, 7]
    assert next(row.operation for row in lake.history("t").collect()) == "Delete"
    assert_clean(lake)


def test_rows_with_a_null_predicate_are_not_deleted(lake):
    write_table(lake, "t", DATA)
    assert lake.delete("t", "NOT (name = 'n1')").rows == 8
    assert sorted(by_id(lake)) == [1, 7]


def test_mutation_of_no_row_creates_no_version(lake):
    write_table(lake, "t", DATA)
    assert lake.delete("t", "id = 77") == lake.update("t", {"name": "'x'"}, where="id = 77")
    assert open_latest(lake).version == 1
    result = lake.delete("t", "true")
    assert (result.version, result.rows) == (2, 10)
    assert open_latest(lake).count_rows() == 0
    assert open_latest(lake).schema == DATA.schema
    assert lake.delete("t", "true").version == 2
    assert_clean(lake)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"set": {}}, 13, "sets no column"),
        ({"set": {"nope": "1"}}, 12, "nope"),
        ({"set": {"id": "'x'"}}, 13, "Column id"),
        ({"set": {"id": "1 +"}}, 13, "PARSE"),
        ({"set": {"id": "nope"}}, 13, "The table has id, name, v"),
        ({"set": {"id": "1", "ID": "2"}}, 13, "set twice"),
        ({"set": {"id": "1"}, "where": "nope = 1"}, 13, "nope"),
        ({"set": {"id": "1"}, "where": "name"}, 13, "BOOLEAN"),
        ({"set": {"id": ""}}, 13, "SQL"),
        ({"set": {"v": "array(1)"}}, 13, "Column v"),
    ],
)
def test_invalid_updates_are_refused(lake, options, code, said):
    write_table(lake, "t", DATA)
    with fails(code, said):
        lake.update("t", **options)
    assert open_latest(lake).version == 1
    assert_clean(lake)


def test_invalid_deletes_are_refused(lake):
    write_table(lake, "t", DATA)
    for where in ("", "nope = 1", "id = ", "CAST(name AS int) = 1", "id"):
        with fails(13, "'t'"):
            lake.delete("t", where)
    with fails(4, "nowhere"):
        lake.delete("nowhere", "true")
    assert open_latest(lake).version == 1


def test_managed_tables_and_branches_are_changed(spark, managed_lake):
    lake = managed_lake
    lake.write(spark.range(6).selectExpr("id", "'a' AS name"), "m")
    assert lake.update("m", {"name": "'b'"}, where="id < 2").version == 2
    assert lake.delete("m", "id = 5").version == 3
    assert sorted((row.id, row.name) for row in lake.table("m").collect()) == [
        (0, "b"),
        (1, "b"),
        (2, "a"),
        (3, "a"),
        (4, "a"),
    ]
    assert [row.version for row in lake.versions("m").collect()] == [3, 2, 1]
