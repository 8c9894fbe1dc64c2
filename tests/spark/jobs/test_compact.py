"""Compaction on executors, with damaged tables and next to other writers."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from pennon.spark.jobs import cleanup, compact, stats, verify
from tests.spark.jobs.stock import by_table, files
from tests.support import fails


@pytest.mark.parametrize("place", ["v1", "v2", "compatibility", "managed"])
def test_fragments_are_merged_and_each_table_has_one_result(spark, new_stock, place):
    stock = new_stock(place)
    stock.create("a", batches=5)
    stock.open("a").create_scalar_index("k", "BTREE")
    stock.open("a").delete("k = 7")
    stock.create("b")
    stock.declare("c")
    before = stock.open("a").version
    planned = by_table(compact(stock.lake(spark), dry_run=True))
    assert [planned[name]["status"] for name in "abc"] == ["planned", "skipped", "skipped"]
    assert (planned["a"]["tasks"], planned["a"]["version_after"], stock.open("a").version) == (1, None, before)
    done = by_table(compact(stock.lake(spark)))
    assert [done[name]["status"] for name in "abc"] == ["done", "skipped", "skipped"]
    row = done["a"]
    assert (row["fragments_before"], row["fragments_after"], row["files_added"]) == (5, 1, 1)
    assert (row["version_before"], row["version_after"]) == (before, stock.open("a").version)
    assert stock.keys("a") == [key for key in range(50) if key != 7]
    assert len(stock.open("a").get_fragments()) == 1
    assert stock.open("a").to_table(filter="k = 33")["s"].to_pylist() == ["text 33"]
    again = by_table(compact(stock.lake(spark)))["a"]
    assert (again["status"], again["version_after"]) == ("skipped", row["version_after"])
    if place == "managed":
        assert by_table(verify(stock.lake(spark)))["a"]["files_without_row"] == 0


def test_large_table_is_rewritten_by_several_tasks_in_one_commit(spark, stock):
    stock.create("t", batches=6)
    row = by_table(compact(stock.lake(spark), "t", target_rows_per_fragment=20, whole_table_bytes=1))["t"]
    assert (row["status"], row["tasks"], row["fragments_after"]) == ("done", 3, 3)
    assert stock.keys("t") == list(range(60))
    assert by_table(verify(stock.lake(spark)))["t"]["recent_files"] == 0


def test_damaged_tables_do_not_affect_others(spark, stock):
    stock.namespace("n")
    for name in ("good", "hole", "torn"):
        stock.create("n", name, batches=3)
    min(stock.directory("n", "hole").glob("data/*")).unlink()
    torn = stock.directory("n", "torn") / "_versions/18446744073709551612.manifest"
    torn.write_bytes(torn.read_bytes()[:40])
    stock.declare("n", "plan")
    found = by_table(compact(stock.lake(spark), "n"))
    assert {name: row["status"] for name, row in found.items()} == {
        "n.good": "done",
        "n.hole": "failed",
        "n.torn": "failed",
        "n.plan": "skipped",
    }
    assert found["n.hole"]["code"] == 18
    assert "Not found" in found["n.hole"]["message"] or "not found" in found["n.hole"]["message"]
    assert stock.keys("n", "good") == list(range(30))
    assert len(stock.open("n", "good").get_fragments()) == 1


def test_concurrent_appends_and_deletes_are_kept(spark, stock, monkeypatch):
    """Another writer commits between the rewrite and the commit: first a delete, then an append."""
    from pennon.spark.jobs import compact as function

    module = __import__(function.__module__, fromlist=["open_for_commit"])
    stock.create("t", batches=4)
    opened = module.open_for_commit
    concurrent_changes = iter([lambda: stock.open("t").delete("k = 3"), lambda: stock.append("t", data=_row(100))])

    def late(*arguments):
        next(concurrent_changes, lambda: None)()
        return opened(*arguments)

    monkeypatch.setattr(module, "open_for_commit", late)
    row = by_table(compact(stock.lake(spark), "t"))["t"]
    assert row["status"] == "done", row["message"]
    assert stock.keys("t") == [0, 1, 2, *range(4, 40), 100]
    assert len(stock.open("t").get_fragments()) == 2
    # The files of the first attempt have been deleted.
    assert by_table(verify(stock.lake(spark)))["t"]["recent_files"] <= 1


def test_repeated_conflicts_fail_and_leave_no_files(spark, stock, monkeypatch):
    from pennon.spark.jobs import compact as function

    module = __import__(function.__module__, fromlist=["open_for_commit"])
    where = stock.create("t", batches=3)
    opened = module.open_for_commit
    keys = iter(range(30))

    def late(*arguments):
        stock.open("t").delete(f"k = {next(keys)}")
        return opened(*arguments)

    monkeypatch.setattr(module, "open_for_commit", late)
    row = by_table(compact(stock.lake(spark), "t"))["t"]
    assert (row["status"], row["code"]) == ("failed", 14)
    assert stock.keys("t") == list(range(3, 30))
    named = {str(file.path) for fragment in stock.open("t").get_fragments() for file in fragment.metadata.files}
    assert {path.name for path in where.glob("data/*")} == named


def test_bad_options_raise_invalid_input_and_change_nothing(spark, stock):
    where = stock.create("t", batches=2)
    before = files(where)
    lake = stock.lake(spark)
    for options in ({"target_rows_per_fragment": 0}, {"materialize_deletions_threshold": 2}, {"job_id": "x"}):
        with fails(13):
            compact(lake, **options)
    with fails(4, "nothing"):
        compact(lake, "nothing")
    with fails(13):
        cleanup(lake, older_than="soon")
    with fails(13):
        stats(lake, small_file_bytes=0)
    assert files(where) == before


def test_statements_about_a_missing_table_name_it(spark, stock):
    stock.namespace("n")
    lake = stock.lake(spark)
    for statement in ("OPTIMIZE lake.n.missing", "VACUUM lake.n.missing"):
        with fails(4, "'n.missing'"):
            lake.sql(statement)


def _row(key: int) -> pa.Table:
    return pa.table({"k": [key], "s": ["late"]})


def test_same_job_id_skips_finished_tables(spark, stock, tmp_path):
    stock.create("a", batches=2)
    stock.create("b", batches=2)
    lake, state = stock.lake(spark), tmp_path / "state"
    assert by_table(compact(lake, "a", job_id="n1", state=state))["a"]["status"] == "done"
    lance.write_dataset(_row(100), str(stock.directory("a")), mode="append")
    version = stock.open("a").version
    again = by_table(compact(lake, job_id="n1", state=state))
    assert [again[name]["status"] for name in "ab"] == ["skipped", "done"]
    assert "earlier run" in again["a"]["message"]
    assert stock.open("a").version == version
    assert by_table(compact(lake, job_id="n2", state=state))["a"]["status"] == "done"


def test_commit_with_lost_response_is_kept(spark, stock, monkeypatch):
    """The store fails after the commit. A version refers to the files, so they must not be deleted."""
    import lance.optimize

    real = lance.optimize.Compaction

    class Forgetful:
        plan = real.plan

        @staticmethod
        def commit(*arguments):
            real.commit(*arguments)
            raise OSError("connection reset")

    monkeypatch.setattr(lance.optimize, "Compaction", Forgetful)
    stock.create("t", batches=3)
    row = by_table(compact(stock.lake(spark), "t"))["t"]
    assert (row["status"], row["version_after"]) == ("done", stock.open("t").version)
    assert stock.keys("t") == list(range(30))


def test_failed_commit_leaves_no_files(spark, stock, monkeypatch):
    import lance.optimize

    class Failing:
        plan = lance.optimize.Compaction.plan

        @staticmethod
        def commit(*_):
            raise OSError("connection refused")

    monkeypatch.setattr(lance.optimize, "Compaction", Failing)
    where = stock.create("t", batches=3)
    before = files(where)
    row = by_table(compact(stock.lake(spark), "t"))["t"]
    assert (row["status"], row["code"]) == ("failed", 18)
    assert files(where) == before
