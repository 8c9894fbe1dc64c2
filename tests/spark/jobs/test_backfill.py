"""Backfills from a DataFrame or by an expression, in one commit, next to other writers."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from pennon.spark.jobs import backfill, compact, verify
from tests.spark.jobs.stock import by_table
from tests.support import create_table, fails, ipc


def values(stock, *names: str, column: str) -> dict[int, object]:
    table = stock.open(*names).to_table(columns=["k", column])
    return dict(zip(table["k"].to_pylist(), table[column].to_pylist(), strict=True))


@pytest.mark.parametrize("place", ["v1", "v2", "managed"])
def test_new_column_is_filled_by_key_and_null_elsewhere(spark, new_stock, place):
    stock = new_stock(place)
    stock.create("t", batches=3)
    stock.open("t").delete("k = 4")
    lake = stock.lake(spark)
    frame = spark.createDataFrame(
        [(k, f"n{k}", [0.5, float(k)]) for k in range(25)], "k long, name string, v array<float>"
    )
    before = stock.open("t").version
    planned = by_table(backfill(lake, "t", frame, on="k", dry_run=True))["t"]
    assert (planned["status"], planned["rows_filled"], stock.open("t").version) == ("planned", 24, before)
    row = by_table(backfill(lake, "t", frame, on="k"))["t"]
    assert (row["status"], row["rows_filled"], row["is_new"], row["fragments"]) == ("done", 24, True, 3), row["message"]
    assert row["version_after"] == before + 1 == stock.open("t").version
    names = values(stock, "t", column="name")
    assert names == {k: f"n{k}" if k < 25 else None for k in range(30) if k != 4}
    assert values(stock, "t", column="v")[7] == [0.5, 7.0]
    assert by_table(verify(lake, deep=True))["t"]["rows_read"] == 29


def test_existing_column_keeps_values_without_a_matching_row(spark, stock):
    stock.create("t", batches=3)
    stock.open("t").create_scalar_index("s", "BTREE")
    lake = stock.lake(spark)
    frame = spark.createDataFrame([(3, "three"), (14, "fourteen"), (99, "nobody")], "k int, s string")
    row = by_table(backfill(lake, "t", frame, on=["k"]))["t"]
    assert (row["status"], row["rows_filled"], row["is_new"], row["fragments"]) == ("done", 2, False, 2), row["message"]
    assert values(stock, "t", column="s") == {k: {3: "three", 14: "fourteen"}.get(k, f"text {k}") for k in range(30)}
    assert stock.open("t").to_table(filter="s = 'three'")["k"].to_pylist() == [3]
    assert stock.open("t").to_table(filter="s = 'text 3'").num_rows == 0
    nothing = by_table(backfill(lake, "t", spark.createDataFrame([(99, "x")], "k int, s string"), on="k"))["t"]
    assert nothing["status"] == "skipped"


def test_expressions_fill_new_and_existing_columns(spark, stock):
    stock.create("t", batches=2)
    stock.create("u")
    lake = stock.lake(spark)
    row = by_table(backfill(lake, "*", expressions={"twice": "k * 2"}))
    assert {name: one["status"] for name, one in row.items()} == {"t": "done", "u": "done"}
    assert values(stock, "t", column="twice") == {k: 2 * k for k in range(20)}
    row = by_table(backfill(lake, "t", expressions={"twice": "k * 3"}))["t"]
    assert (row["is_new"], row["rows_filled"]) == (False, 20)
    assert values(stock, "t", column="twice") == {k: 3 * k for k in range(20)}
    assert values(stock, "u", column="twice") == {k: 2 * k for k in range(10)}


def test_vector_column_keeps_its_type(spark, stock):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.0] * 12, pa.float32()), 4)
    create_table(stock.catalog, "t", data=ipc(pa.table({"k": [1, 2, 3], "v": vectors})))
    frame = spark.createDataFrame([(2, [1.0, 2.0, 3.0, 4.0])], "k long, v array<double>")
    row = by_table(backfill(stock.lake(spark), "t", frame, on="k"))["t"]
    assert row["status"] == "done", row["message"]
    assert stock.open("t").schema.field("v").type == pa.list_(pa.float32(), 4)
    assert values(stock, "t", column="v")[2] == [1.0, 2.0, 3.0, 4.0]


def test_concurrent_commits_are_kept_and_filled(spark, stock, monkeypatch):
    """A delete, an append and a compaction happen between writing and committing."""
    from pennon.spark.tables import job_commits

    where = stock.create("t", batches=3)
    commit = job_commits.commit
    concurrent_changes = iter(
        [
            lambda: stock.open("t").delete("k = 3"),
            lambda: stock.append("t", data=pa.table({"k": [100], "s": ["late"]})),
            lambda: stock.compact("t"),
        ]
    )

    def late(*arguments, **options):
        next(concurrent_changes, lambda: None)()
        return commit(*arguments, **options)

    monkeypatch.setattr(job_commits, "commit", late)
    lake = stock.lake(spark)
    frame = spark.createDataFrame([(k, k * 10) for k in [*range(30), 100]], "k long, ten long")
    row = by_table(backfill(lake, "t", frame, on="k"))["t"]
    assert row["status"] == "done", row["message"]
    assert values(stock, "t", column="ten") == {k: k * 10 for k in [*range(30), 100] if k != 3}
    # Files that were written for compacted fragments have been deleted.
    assert by_table(verify(lake))["t"]["recent_files"] == 0
    assert len(list(where.glob("data/*"))) == 6


def test_column_added_concurrently_raises_concurrent_modification(spark, stock, monkeypatch):
    from pennon.spark.tables import job_commits

    stock.create("t")
    commit = job_commits.commit

    def late(*arguments, **options):
        stock.open("t").add_columns({"ten": "cast(0 as bigint)"})
        return commit(*arguments, **options)

    monkeypatch.setattr(job_commits, "commit", late)
    lake = stock.lake(spark)
    row = by_table(backfill(lake, "t", expressions={"ten": "k * 10"}))["t"]
    assert (row["status"], row["code"]) == ("failed", 14)
    assert set(values(stock, "t", column="ten").values()) == {0}
    assert by_table(verify(lake))["t"]["recent_files"] == 0


def test_same_job_id_fills_only_once(spark, stock):
    stock.create("t", batches=2)
    stock.open("t").create_scalar_index("k", "BTREE")
    lake = stock.lake(spark)
    assert by_table(backfill(lake, "t", expressions={"x": "k + 1"}, job_id="j"))["t"]["status"] == "done"
    compact(lake, "t")
    version = stock.open("t").version
    again = by_table(backfill(lake, "t", expressions={"x": "k + 1"}, job_id="j"))["t"]
    assert (again["status"], again["version_after"]) == ("skipped", version)
    assert stock.open("t").version == version


def test_bad_input_changes_nothing(spark, stock):
    where = stock.create("t")
    lake = stock.lake(spark)
    frame = spark.createDataFrame([(1, "a"), (1, "b")], "k long, n string")
    twice = by_table(backfill(lake, "t", frame, on="k"))["t"]
    assert (twice["status"], twice["code"]) == ("failed", 13)
    assert "key" in twice["message"]
    for options in (
        {"df": frame},
        {"df": frame, "on": "x"},
        {"expressions": {}},
        {"expressions": {"a": "1"}, "on": "k"},
    ):
        with fails(13):
            backfill(lake, "t", **options)
    for wrong, code in (
        ({"expressions": {"a": "nothing + 1"}}, 13),
        ({"expressions": {"a": "k", "s": "'x'"}}, 13),
        ({"df": frame.withColumnRenamed("k", "key"), "on": "key"}, 12),
        ({"df": spark.createDataFrame([(1, 2)], "k long, s long"), "on": "k"}, 13),
    ):
        row = by_table(backfill(lake, "t", **wrong))["t"]
        assert (row["status"], row["code"]) == ("failed", code), row["message"]
    assert lance.dataset(str(where)).version == 1
    assert len(list(where.glob("data/*"))) == 1
