"""The results of jobs: a list of outcomes that becomes a DataFrame."""

from __future__ import annotations

import pytest

from pennon.spark.jobs import JobResults, TableOutcome, stats
from tests.support import fails


def test_results_are_a_sorted_list_and_a_dataframe(spark, stock):
    stock.create("b", batches=2)
    stock.create("a.c")
    stock.declare("d")
    results = stats(stock.lake(spark))
    assert isinstance(results, list)
    assert [outcome.table for outcome in results] == ["`a.c`", "b", "d"]
    assert [outcome["rows"] for outcome in results] == [10, 20, None]
    frame = results.to_df()
    assert [row.asDict() for row in frame.collect()] == [outcome.to_dict() for outcome in results]
    assert dict(frame.dtypes)["small_file_ratio"] == "double"
    with pytest.raises(KeyError):
        results[0]["nothing"]


def test_empty_results_have_all_columns(spark, stock):
    frame = stats(stock.lake(spark), "none.*").to_df()
    assert frame.count() == 0
    assert {"table", "status", "rows", "columns"} <= set(frame.columns)


def test_only_outcome_is_returned_or_its_error_raised():
    done, failed = TableOutcome("t", "done"), TableOutcome("t", "failed", "Table 't' is gone", 4)
    assert JobResults(None, "rows bigint", [done]).only()["rows"] is None
    with fails(4, "'t' is gone"):
        JobResults(None, "rows bigint", [failed]).only()
    assert repr(JobResults(None, "rows bigint", [done, failed])) == (
        "JobResults(1 done, 1 failed)\n  t: done\n  t: failed: Table 't' is gone"
    )
