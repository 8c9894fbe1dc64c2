"""Indexes built on executors: every kind is built in segments, merged, and used by queries."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceOperation

from pennon.spark.jobs import compact, index, optimize_indexes, verify
from pennon.spark.jobs import index_building as building
from pennon.spark.jobs.index_building import IndexJobSpec, IndexTask
from pennon.spark.jobs.job_run import TableTask
from pennon.spark.reading.splits import FragmentSize, group_fragments
from tests.spark.jobs.stock import by_table
from tests.support import create_table, fails, ipc

WIDTH = 16


def rows(number: int, count: int = 300) -> pa.Table:
    keys = list(range(number * count, (number + 1) * count))
    values = np.random.default_rng(number).random(count * WIDTH, dtype=np.float32)
    return pa.table(
        {
            "k": keys,
            "s": [f"word{key % 7} text{key}" for key in keys],
            "tags": [[f"t{key % 3}", f"u{key % 4}"] for key in keys],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(values), WIDTH),
        }
    )


def fill(stock, *names: str, batches: int = 4) -> None:
    create_table(stock.catalog, *names, data=ipc(rows(0)))
    for number in range(1, batches):
        stock.append(*names, data=rows(number))


QUERIES = {
    "BTREE": ("k", "k = 700", 1),
    "BITMAP": ("k", "k = 700", 1),
    "ZONEMAP": ("k", "k = 700", 1),
    "BLOOMFILTER": ("k", "k = 700", 1),
    "NGRAM": ("s", "contains(s, 'text70')", 11),
    "LABEL_LIST": ("tags", "array_has(tags, 't1')", 400),
}


@pytest.mark.parametrize("kind", [*QUERIES, "INVERTED", "IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ"])
def test_every_kind_is_built_in_segments_and_merged(stock, kind):
    """Runs the tasks one after the other, without Spark."""
    fill(stock, "t")
    column = QUERIES[kind][0] if kind in QUERIES else "s" if kind == "INVERTED" else "v"
    options = {"num_partitions": 2} if column == "v" else {}
    options |= {"num_sub_vectors": 8} if "PQ" in kind else {}
    spec = IndexJobSpec(column, kind, "it", rows_per_task=600, **options)
    plan = building.plan_index(stock.address, TableTask(("t",), spec))
    assert (plan.groups, plan.shared_model) == (((0, 1), (2, 3)), column == "v")
    model = building.train_model(stock.address, IndexTask(plan.pinned, spec, plan.rows)) if plan.shared_model else None
    tasks = [IndexTask(plan.pinned, spec, fragments=group, model=model) for group in plan.groups]
    segments = [building.build_segment(stock.address, task) for task in tasks]
    whole = building.merge_segments(stock.address, IndexTask(plan.pinned, spec, segments=tuple(segments)))
    operation = LanceOperation.CreateIndex([whole], [])
    table = lance.LanceDataset.commit(plan.pinned.uri, operation, read_version=plan.pinned.version)
    (described,) = table.describe_indices()
    assert (described.num_rows_indexed, len(described.segments)) == (1200, 1)
    if kind in QUERIES:
        scanner = table.scanner(filter=QUERIES[kind][1])
        assert "@it(" in scanner.explain_plan()
        assert scanner.to_table().num_rows == QUERIES[kind][2]
    elif kind == "INVERTED":
        found = table.scanner(full_text_query="word3").to_table()
        assert found.num_rows == sum(key % 7 == 3 for key in range(1200))
    else:
        query = table.take([777], columns=["v"])["v"][0].as_py()
        nearest = {"column": "v", "q": query, "k": 1, "nprobes": 2, "refine_factor": 20}
        assert table.to_table(columns=["k", "_distance"], nearest=nearest)["k"].to_pylist() == [777]


@pytest.mark.parametrize("place", ["compatibility", "managed"])
def test_indexes_are_built_on_executors_with_one_commit_each(spark, new_stock, place):
    stock = new_stock(place)
    fill(stock, "t")
    lake = stock.lake(spark)
    for column, kind, options in (("k", "btree", {}), ("v", "ivf-flat", {"num_partitions": 2})):
        before = stock.open("t").version
        row = by_table(index(lake, "t", column, kind, rows_per_task=600, **options))["t"]
        assert (row["status"], row["tasks"], row["rows"]) == ("done", 2, 1200), row["message"]
        assert row["version_after"] == before + 1 == stock.open("t").version
    table = stock.open("t")
    described = {one.name: (one.num_rows_indexed, len(one.segments)) for one in table.describe_indices()}
    assert described == {"k_idx": (1200, 1), "v_idx": (1200, 1)}
    assert table.to_table(filter="k = 700")["s"].to_pylist() == ["word0 text700"]
    # A reader without the catalog uses the index too.
    assert "k_idx" in lance.dataset(str(stock.directory("t"))).scanner(filter="k = 5").explain_plan()
    outcome = by_table(verify(lake))["t"]
    assert (outcome["status"], outcome["recent_files"]) == ("done", 0), outcome["findings"]


def test_deleted_rows_are_not_counted(spark, stock):
    fill(stock, "t", batches=2)
    stock.open("t").delete("k < 100")
    lake = stock.lake(spark)
    planned = by_table(index(lake, "t", "k", dry_run=True))["t"]
    done = by_table(index(lake, "t", "k"))["t"]
    assert (planned["rows"], done["rows"]) == (500, 500)


def test_existing_index_is_skipped_or_replaced_and_optimizing_adds_rows(spark, stock, tmp_path):
    fill(stock, "t", batches=2)
    lake = stock.lake(spark)
    assert by_table(index(lake, "t", "k", dry_run=True))["t"]["status"] == "planned"
    assert stock.open("t").describe_indices() == []
    assert by_table(index(lake, "t", "k"))["t"]["index"] == "k_idx"
    again = by_table(index(lake, "t", "k"))["t"]
    assert (again["status"], stock.open("t").version) == ("skipped", again["version_after"])
    (old,) = stock.open("t").describe_indices()[0].segments
    assert by_table(index(lake, "t", "k", replace=True))["t"]["status"] == "done"
    (new,) = stock.open("t").describe_indices()[0].segments
    assert old.uuid != new.uuid
    refused = by_table(index(lake, "t", "k", "BITMAP"))["t"]
    assert (refused["status"], refused["code"]) == ("failed", 13)
    stock.append("t", data=rows(9))
    planned = by_table(optimize_indexes(lake, "t", dry_run=True))["t"]
    assert (planned["status"], planned["index"]) == ("planned", "k_idx")
    done = by_table(optimize_indexes(lake, "t", job_id="n", state=tmp_path / "s"))["t"]
    assert (done["status"], done["version_after"]) == ("done", stock.open("t").version)
    assert stock.open("t").describe_indices()[0].num_rows_indexed == 900
    assert by_table(optimize_indexes(lake, "t"))["t"]["message"] == "every index has all rows"
    assert by_table(optimize_indexes(lake, "t", names=["other"]))["t"]["message"] == "the table has no such index"


def test_same_job_id_builds_the_index_once_even_after_a_compaction(spark, stock):
    fill(stock, "t", batches=2)
    lake = stock.lake(spark)
    assert by_table(index(lake, "t", "k", job_id="night"))["t"]["status"] == "done"
    compact(lake, "t")
    stock.open("t").drop_index("k_idx")
    again = by_table(index(lake, "t", "k", job_id="night"))["t"]
    assert again["status"] == "skipped"
    assert "earlier run" in again["message"]
    assert stock.open("t").describe_indices() == []
    assert by_table(index(lake, "t", "k", job_id="other"))["t"]["status"] == "done"
    assert "CreateIndex" in {row["operation"] for row in lake.history("t").collect()}


def test_table_without_the_column_is_skipped_among_several_and_fails_alone(spark, stock):
    fill(stock, "t", batches=1)
    stock.create("other")
    stock.declare("plan")
    lake = stock.lake(spark)
    found = by_table(index(lake, None, "tags", "label_list"))
    assert {name: row["status"] for name, row in found.items()} == {"t": "done", "other": "skipped", "plan": "skipped"}
    alone = by_table(index(lake, "other", "tags", "label_list"))["other"]
    assert (alone["status"], alone["code"]) == ("failed", 12)
    unfit = by_table(index(lake, "t", "s", "IVF_FLAT"))["t"]
    assert (unfit["status"], unfit["code"]) == ("failed", 13)


def test_index_is_built_again_after_a_concurrent_compaction(spark, stock, monkeypatch):
    """A compaction replaces the fragments between building and committing."""
    from pennon.spark.tables import job_commits

    fill(stock, "t", batches=2)
    commit = job_commits.commit
    concurrent_changes = iter([lambda: stock.compact("t")])

    def late(*arguments, **options):
        next(concurrent_changes, lambda: None)()
        return commit(*arguments, **options)

    monkeypatch.setattr(job_commits, "commit", late)
    lake = stock.lake(spark)
    row = by_table(index(lake, "t", "k", rows_per_task=300))["t"]
    assert (row["status"], row["tasks"]) == ("done", 1), row["message"]
    assert stock.open("t").describe_indices()[0].num_rows_indexed == 600
    assert by_table(verify(lake))["t"]["recent_files"] == 0


def test_invalid_index_spec_raises_invalid_input():
    for wrong in (
        {"kind": "TREE"},
        {"kind": "BTREE", "num_partitions": 3},
        {"kind": "IVF_PQ", "metric": "far"},
        {"kind": "IVF_PQ", "num_partitions": 0},
        {"kind": "BTREE", "column": ""},
    ):
        with fails(13):
            IndexJobSpec(**{"column": "k", "name": "n", **wrong})


def test_fragments_are_grouped_by_rows():
    sizes = [FragmentSize(number, rows, 1) for number, rows in enumerate([5, 5, 5, 20, 1, 1])]
    assert group_fragments(sizes, 10, lambda one: one.rows) == [(0, 1), (2,), (3,), (4, 5)]
    assert group_fragments(sizes, 100, lambda one: one.rows) == [(0, 1, 2, 3, 4, 5)]
    assert group_fragments(sizes, 2, lambda one: one.bytes) == [(0, 1), (2, 3), (4, 5)]
