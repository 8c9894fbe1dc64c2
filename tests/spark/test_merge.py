"""lake.merge: guarantees that the differential test does not cover."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pennon.errors import InvalidInputError
from pennon.spark.merging.clauses import Delete, Insert, Update
from tests.spark.merging import assert_clean, list_files, open_latest, read_rows, write_table
from tests.support import declare_table, fails

DATA = pa.table({"id": pa.array([1, 2, 3, 4, 5], pa.int64()), "name": list("abcde"), "x": [1.0, 2.0, 3.0, 4.0, 5.0]})


def frame(spark, *values, schema="id bigint, name string, x double"):
    return spark.createDataFrame(list(values), schema)


def by_id(lake, name="t"):
    return {row["id"]: (row["name"], row["x"]) for row in read_rows(lake, name)}


def test_upsert_touches_only_fragments_with_changed_rows(spark, lake):
    before = write_table(lake, "t", DATA, rows_per_file=2)
    result = lake.merge(frame(spark, (2, "B", 20.0), (9, "I", 90.0)), "t", on="id")
    assert (result.version, result.inserted, result.updated, result.deleted, result.already) == (2, 1, 1, 0, False)
    assert by_id(lake) == {1: ("a", 1.0), 2: ("B", 20.0), 3: ("c", 3.0), 4: ("d", 4.0), 5: ("e", 5.0), 9: ("I", 90.0)}
    after = open_latest(lake)
    kept = {fragment.fragment_id: fragment for fragment in after.get_fragments()}
    assert kept[0].num_deletions == 1
    for fragment in before.get_fragments():
        assert [one.path for one in kept[fragment.fragment_id].metadata.files] == [
            one.path for one in fragment.metadata.files
        ]
    assert sum(kept[number].physical_rows for number in kept if number > 2) == 2, "only changed rows are written"
    assert_clean(lake)


def test_merge_without_changes_creates_no_version(spark, lake):
    write_table(lake, "t", DATA)
    result = lake.merge(frame(spark, (9, "I", 90.0)), "t", on="id", when_not_matched="ignore")
    assert (result.version, result.updated) == (1, 0)
    assert lake.merge(frame(spark), "t", on="id").version == 1
    assert open_latest(lake).version == 1
    assert_clean(lake)


def test_columns_are_matched_by_name_and_missing_ones_are_kept_or_null(spark, lake):
    write_table(lake, "t", DATA)
    source = frame(spark, (50.0, 5), (60.0, 6), schema="X double, id int")
    result = lake.merge(source, "t", on=["ID"])
    assert (result.inserted, result.updated) == (1, 1)
    assert by_id(lake)[5] == ("e", 50.0)
    assert by_id(lake)[6] == (None, 60.0)


def test_row_changed_by_two_source_rows_is_refused_with_its_key(spark, lake):
    write_table(lake, "t", DATA)
    source = frame(spark, (3, "x", 0.0), (3, "y", 1.0), (7, "new", 0.0), (7, "again", 0.0))
    with fails(13, "id = 3"):
        lake.merge(source, "t", on="id")
    assert open_latest(lake).version == 1
    assert_clean(lake)
    assert lake.merge(source, "t", on="id", when_matched=[Update(condition="source.x > 0")]).inserted == 2
    assert by_id(lake)[3] == ("y", 1.0)
    deleted = lake.merge(source, "t", on="id", when_matched="delete", when_not_matched="ignore")
    assert (deleted.deleted, sorted(by_id(lake))) == (3, [1, 2, 4, 5])


def test_names_in_clauses_have_the_scopes_of_sql(spark, lake):
    write_table(lake, "t", DATA)
    source = frame(spark, (1, "s1"), (8, "s8"), schema="id bigint, name string")
    lake.merge(
        source,
        "t",
        on_condition="a.id = b.id AND a.x < 100",
        on=(),
        target_alias="a",
        source_alias="b",
        when_matched=[Update({"name": "concat(a.name, b.name)", "X": "x * 10"})],
        when_not_matched=[Insert({"id": "id", "name": "upper(name)"})],
        when_not_matched_by_source=[Delete("name = 'e'"), Update({"name": "upper(name)"}, "id = 2")],
    )
    assert by_id(lake) == {1: ("as1", 10.0), 2: ("B", 2.0), 3: ("c", 3.0), 4: ("d", 4.0), 8: ("S8", None)}
    for wrong in ([Insert({"id": "a.id"})], [Insert({"id": "id"}, "x > 1")]):
        with fails(13, "UNRESOLVED_COLUMN"):
            lake.merge(source, "t", on="id", target_alias="a", when_matched="ignore", when_not_matched=wrong)
    with fails(13, "AMBIGUOUS_REFERENCE"):
        lake.merge(source, "t", on="id", when_matched=[Update({"name": "name"})])


def test_expressions_are_evaluated_only_for_the_rows_of_their_clause(spark, lake):
    write_table(lake, "t", DATA)
    source = frame(spark, (1, 0), (2, 5), schema="id bigint, divisor int")
    lake.merge(
        source,
        "t",
        on="id",
        when_matched=[Delete("divisor = 0"), Update({"x": "target.x / source.divisor"})],
        when_not_matched="ignore",
    )
    assert by_id(lake)[2] == ("b", 0.4)
    with fails(13, "DIVIDE_BY_ZERO"):
        lake.merge(
            source, "t", on="id", when_matched=[Update({"x": "1 / (source.divisor - 5)"})], when_not_matched=None
        )
    assert open_latest(lake).version == 2
    assert_clean(lake)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"on": ["nope"]}, 12, "nope"),
        ({"on": ["extra"]}, 12, "extra"),
        ({"on": ["x"]}, 13, "has no column 'x'"),
        ({"on": []}, 13, "on_condition"),
        ({"on": ["id"], "on_condition": "true"}, 13, "on_condition"),
        ({"on": ["id"]}, 13, "extra"),
        ({"on": ["id"], "when_matched": [Update({"nope": "1"})], "when_not_matched": None}, 12, "nope"),
        ({"on": ["id"], "when_matched": [Update({"x": "'text'"})], "when_not_matched": None}, 13, "Column x"),
        ({"on": ["id"], "when_matched": [Update({"x": "1", "X": "2"})], "when_not_matched": None}, 13, "set twice"),
        ({"on": ["id"], "when_matched": [Update({"x": "1 +"})], "when_not_matched": None}, 13, "PARSE"),
        ({"on": [], "on_condition": "source.id =", "when_matched": "delete", "when_not_matched": None}, 13, "PARSE"),
        ({"on": ["id"], "target_alias": "s", "source_alias": "S"}, 13, "two names"),
    ],
)
def test_invalid_merges_are_refused_before_anything_is_written(spark, lake, options, code, said):
    write_table(lake, "t", DATA)
    with fails(code, said):
        lake.merge(frame(spark, (1, 2), schema="id bigint, extra int"), "t", **options)
    assert open_latest(lake).version == 1
    assert_clean(lake)


def test_value_that_does_not_fit_is_refused_and_leaves_no_files(spark, lake):
    write_table(lake, "t", pa.table({"id": pa.array([1], pa.int64()), "small": pa.array([1], pa.int8())}))
    with fails(13, "Column small"):
        lake.merge(frame(spark, (1, 1000), (2, 3), schema="id bigint, small int"), "t", on="id")
    strict = pa.schema([pa.field("id", pa.int64()), pa.field("must", pa.string(), nullable=False)])
    write_table(lake, "n", pa.table({"id": [1], "must": ["a"]}, schema=strict))
    with fails(13, "must"):
        lake.merge(frame(spark, (1,), (2,), schema="id bigint"), "n", on="id")
    with fails(13, "must"):
        lake.merge(frame(spark, (1, None), schema="id bigint, must string"), "n", on="id")
    assert [open_latest(lake, name).version for name in ("t", "n")] == [1, 1]
    assert_clean(lake)
    assert_clean(lake, "n")


def test_merge_into_missing_table_raises_not_found(spark, lake):
    source = frame(spark, (1, "a", 1.0))
    with fails(4, "nowhere"):
        lake.merge(source, "nowhere", on="id")
    declare_table(lake.catalog, "later")
    with fails(4, "later"):
        lake.merge(source, "later", on="id")
    with fails(13, "stream"):
        lake.merge(spark.readStream.format("rate").load(), "nowhere", on="id")


def test_job_merges_once(spark, lake):
    write_table(lake, "t", DATA)
    first = lake.merge(frame(spark, (1, "A", 9.0), (8, "h", 8.0)), "t", on="id", job_id="nightly")
    again = lake.merge(frame(spark, (2, "never", 0.0)), "t", on="id", job_id="nightly")
    assert not first.already
    assert again.already
    assert (again.version, again.inserted, again.updated) == (first.version, 1, 1) == (2, 1, 1)
    assert open_latest(lake).version == 2
    with fails(13, "job id"):
        lake.merge(frame(spark, (2, "never", 0.0)), "t", on="id", job_id="")


def test_merge_into_a_managed_catalog_and_a_branch(spark, managed_lake):
    lake = managed_lake
    lake.write(frame(spark, (1, "a", 1.0), (2, "b", 2.0)), "m")
    result = lake.merge(frame(spark, (2, "B", 0.0), (3, "c", 3.0)), "m", on="id")
    assert (result.version, result.inserted, result.updated) == (2, 1, 1)
    assert [row.version for row in lake.versions("m").collect()] == [2, 1]
    assert sorted((row.id, row.name) for row in lake.table("m").collect()) == [(1, "a"), (2, "B"), (3, "c")]


def test_merge_into_a_branch(spark, lake):
    write_table(lake, "t", DATA).create_branch("work")
    result = lake.merge(frame(spark, (1, "branched", 0.0), (8, "h", 8.0)), "t", on="id", branch="work")
    assert (result.inserted, result.updated) == (1, 1)
    assert {row.id: row.name for row in lake.table("t", branch="work").collect()} == {
        **dict(zip(range(1, 6), "abcde", strict=True)),
        1: "branched",
        8: "h",
    }
    assert len(by_id(lake)) == 5
    with fails(22, "nope"):
        lake.merge(frame(spark, (1, "x", 0.0)), "t", on="id", branch="nope")


@pytest.mark.parametrize("stable", [False, True])
def test_new_columns_and_rows_are_one_version(spark, lake, stable):
    write_table(lake, "t", DATA, rows_per_file=2, enable_stable_row_ids=stable)
    source = frame(spark, (1, "A", 10), (9, "i", 90), schema="id bigint, name string, rank int")
    with fails(13, "rank"):
        lake.merge(source, "t", on="id")
    result = lake.merge(source, "t", on="id", merge_schema=True)
    assert (result.version, result.inserted, result.updated) == (2, 1, 1)
    found = {row["id"]: (row["name"], row["x"], row["rank"]) for row in read_rows(lake)}
    assert found == {
        1: ("A", 1.0, 10),
        2: ("b", 2.0, None),
        3: ("c", 3.0, None),
        4: ("d", 4.0, None),
        5: ("e", 5.0, None),
        9: ("i", None, 90),
    }
    open_latest(lake).validate()
    # This updates all rows of each fragment.
    every_row = frame(spark, *((number, number) for number in found), schema="id bigint, more int")
    lake.merge(every_row, "t", on="id", when_matched=[Update()], merge_schema=True)
    assert {row["id"]: row["more"] for row in read_rows(lake)} == {number: number for number in found}
    open_latest(lake).validate()
    assert_clean(lake)
    ids = open_latest(lake).to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    assert len(set(ids)) == 6
    assert lake.merge(source, "t", on="id", when_matched="delete", when_not_matched=None).deleted == 2


def test_tables_and_columns_with_odd_names_are_merged(spark, lake):
    write_table(lake, "odd", pa.table({"a b": [1, 2], "select": ["x", "y"], "with space": [1, 2], "Ünï": [5, 6]}))
    columns = "`a b` bigint, `select` string, `with space` bigint, `Ünï` bigint"
    source = frame(spark, (2, "Z", 7, 8), (3, "W", 9, 10), schema=columns)
    assert lake.merge(source, "odd", on="a b").updated == 1
    added = [Update({"Ünï": "target.`a b` + source.`with space`"})]
    lake.merge(source, "odd", on="a b", when_matched=added, when_not_matched=None)
    assert [row["Ünï"] for row in read_rows(lake, "odd", by="a b")] == [5, 9, 12]


def test_failed_job_leaves_no_files(spark, lake):
    write_table(lake, "t", DATA)
    before = list_files(lake)
    broken = frame(spark, (1, "a", 1.0)).selectExpr("id", "name", "CAST(raise_error('broken source') AS double) AS x")
    with pytest.raises(Exception, match="broken source"):
        lake.merge(broken, "t", on="id")
    assert list_files(lake) == before


def test_merge_into_large_table_keeps_the_callers_cached_source(spark, lake):
    numbers = pa.array(range(9000), pa.int64())
    data = pa.table({"id": numbers, "name": ["old"] * 9000, "x": pa.array([0.0] * 9000)})
    before = write_table(lake, "t", data, rows_per_file=400)
    source = spark.range(0, 18_000, 90).selectExpr("id", "'new' AS name", "1.0D AS x").persist()
    result = lake.merge(source, "t", on="id")
    assert (result.inserted, result.updated) == (100, 100)
    assert source.storageLevel.useMemory, "what the caller keeps stays"
    source.unpersist()
    found = {row["id"]: row["name"] for row in read_rows(lake)}
    assert found == dict.fromkeys(range(9000), "old") | dict.fromkeys(range(0, 18_000, 90), "new")
    old = {fragment.metadata.files[0].path for fragment in before.get_fragments()}
    assert old < {fragment.metadata.files[0].path for fragment in open_latest(lake).get_fragments()}
    assert lake.merge(source, "t", on="id", when_matched="delete", when_not_matched=None, cache=False).deleted == 200
    assert_clean(lake)


def test_columns_that_only_the_source_has_are_named_with_those_of_the_table(lake):
    lake.sql("CREATE TABLE t AS SELECT 1 AS id, 'a' AS name, 2 AS day")
    merge = "MERGE INTO t USING (SELECT 1 AS id, true AS gone) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    with pytest.raises(InvalidInputError, match=r"no column 'gone'.*it has id, name, day"):
        lake.sql(merge)
