"""Generated queries with aggregates in every clause return the same rows as Spark."""

from __future__ import annotations

import random

import pytest
from pyspark.errors import AnalysisException

from pennon.spark.query import aggregates
from pennon.spark.query.names import NameResolver
from pennon.spark.query.runner import QueryRunner
from tests.spark.sql.schemas import plan_text
from tests.support import create_table, ipc

ROWS = {
    "k": [n % 7 for n in range(200)],
    "v": [None if n % 11 == 0 else (n * 37) % 50 for n in range(200)],
    "x": [n / 8 for n in range(200)],
    "s": ["abc"[n % 3] if n % 5 else None for n in range(200)],
}
TYPES = "k BIGINT, v BIGINT, x DOUBLE, s STRING"
KEYS = ["k", "s", "d.k", "k, s"]
CALLS = ["count(*)", "count(1)", "COUNT(v)", "max(v)", "MIN ( s )", "sum(d.v)", "avg(v)", "sum(x)", "min(x)", "max(k)"]
NUMBERS = [one for one in CALLS if "s )" not in one]


class Writer:
    """Writes random queries of one table, with aggregates in any clause and any kind of ending."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def query(self) -> str:
        pick = self._draw.choice
        keys = pick([*KEYS, ""])
        results = [pick(CALLS) + pick(["", "", f" AS r{number}", f" r{number}"]) for number in range(pick([1, 2, 3]))]
        results += [pick(["max(v) - min(v) AS span", "round(avg(v), 2) AS r9", "-count(*) AS less"])] * pick([0, 1])
        shown = results if not keys or pick([0, 1]) else [keys, *results]
        text = f"SELECT {', '.join(shown)} FROM d"
        text += pick(["", "", " WHERE v > 10", " WHERE s = 'a' OR v IS NULL", " WHERE k IN (1, 2)"])
        text += f" GROUP BY {keys}" if keys else ""
        text += f" HAVING {self._condition()}" if pick([0, 1]) else ""
        text += f" ORDER BY {self._order(keys)}" if pick([0, 1]) else ""
        return text + pick(["", "", " LIMIT 100", ";", " -- the end"])

    def _condition(self) -> str:
        pick = self._draw.choice
        call = pick(NUMBERS)
        shapes = [f"1 < {call}", f"{call} > 3", f"{call} IS NOT NULL", f"{call} BETWEEN 1 AND {pick(NUMBERS)}"]
        return pick([*shapes, f"NOT {call} <= 2 AND 5 <> {pick(NUMBERS)}", f"count(*) >= 1 OR 0 = {call}"])

    def _order(self, keys: str) -> str:
        pick = self._draw.choice
        call = pick(CALLS)
        return pick(
            [call, f"{call} DESC", f"1, {call}", f"{pick(NUMBERS)} + {pick(NUMBERS)}", *([keys] if keys else [])]
        )


@pytest.fixture
def both(spark, lake):
    """Return a lake with a table whose rows are also in a view of Spark."""
    create_table(lake.catalog, "d", data=ipc(ROWS))
    spark.createDataFrame(list(zip(*ROWS.values(), strict=True)), TYPES).createOrReplaceTempView("rows_of_d")
    yield lake
    spark.catalog.dropTempView("rows_of_d")


def describe_result(frame):
    fields = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    return fields, sorted(map(repr, frame.collect()))


def require_same(lake, text):
    """Assert that the lake and Spark return the same result. Return False if Spark rejects the query."""
    try:
        expected = describe_result(lake.spark.sql(text.replace("FROM d", "FROM rows_of_d AS d")))
    except AnalysisException:
        return False
    assert describe_result(lake.sql(text)) == expected, text
    return True


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, count(*) FROM d GROUP BY k ORDER BY count(*)",
        "SELECT k FROM d GROUP BY k HAVING 1 < max(v)",
        "SELECT max(v) FROM d",
        "SELECT k, max(v) m FROM d GROUP BY k ORDER BY 1, min(s)",
    ],
)
def test_query_ending_with_aggregate_matches_spark(both, text):
    assert require_same(both, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, count(*) FROM d GROUP BY k HAVING count(*) > 1 ORDER BY count(*), k",
        "SELECT k, avg(v) FROM d GROUP BY k HAVING avg(v) > 1 ORDER BY avg(v)",
        "SELECT k, max(v) AS v FROM d GROUP BY k HAVING max(v) > 1 ORDER BY v, k",
        "SELECT max(v) FROM d GROUP BY k HAVING min(v) >= 0 ORDER BY k",
        "SELECT k, count(*) c FROM d GROUP BY k HAVING c + 1 > 2 ORDER BY c + count(*), k",
        "SELECT k, s, sum(v) FROM d GROUP BY GROUPING SETS ((k), (s), ()) HAVING sum(v) > 1 ORDER BY k, s",
        "SELECT k, sum(v) t, rank() OVER (ORDER BY sum(v)) r FROM d GROUP BY k HAVING max(v) > 1 ORDER BY r",
        "SELECT k, max(v) FROM d GROUP BY k HAVING count(v) FILTER (WHERE v > 5) > 1 ORDER BY k",
    ],
)
def test_having_and_order_by_of_aggregates_match_spark(both, text):
    assert require_same(both, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM d GROUP BY k HAVING 1 < max(v) ORDER BY max(v)",
        "SELECT k, sum(v) FROM d GROUP BY k HAVING count(*) > 1 ORDER BY min(v) DESC",
        "SELECT k FROM d GROUP BY k HAVING sum(v) > 1 ORDER BY k, count(*)",
        "SELECT k, max(v) > 1 AND min(v) AS b FROM d GROUP BY k",
    ],
)
def test_rejected_aggregates_raise_the_error_of_spark(both, text):
    with pytest.raises(AnalysisException) as expected:
        both.spark.sql(text.replace("FROM d", "FROM rows_of_d AS d")).collect()
    with pytest.raises(AnalysisException) as raised:
        both.sql(text).collect()
    assert raised.value.getCondition() == expected.value.getCondition()
    assert "__pennon" not in str(raised.value)


def test_query_that_spark_rejects_when_split_reads_whole_tables(both, monkeypatch):
    """Aggregates of partial results that Spark cannot resolve do not make a query fail."""
    monkeypatch.setattr(aggregates, "_combine_partials", lambda _call, _measures: "max(__pennon_missing)")
    assert require_same(both, "SELECT k, max(v) AS m FROM d GROUP BY k ORDER BY m, k")


def test_generated_queries_match_spark(both):
    assert sum(require_same(both, Writer(seed).query()) for seed in range(16)) > 8


@pytest.mark.soak
def test_many_generated_queries_match_spark(both):
    assert sum(require_same(both, Writer(seed).query()) for seed in range(1000, 1600)) > 300


def test_most_generated_queries_use_partial_aggregates(lake):
    create_table(lake.catalog, "d", data=ipc(ROWS))
    runner = QueryRunner(lake, NameResolver(lake))
    plans = [runner.plan(Writer(seed).query()) for seed in range(100)]
    assert sum(any(one.partials for one in plan.reads) for plan in plans) > 60


@pytest.mark.parametrize(
    "text",
    [
        "SELECT max(a) FROM t ORDER BY max",
        "SELECT approx_count_distinct(a), max(c) FROM t",
        "SELECT max(a) FILTER (WHERE c > 1) FROM t",
        "SELECT max(max(a)) OVER () FROM t GROUP BY a",
        "SELECT count(a, c) FROM t",
        "SELECT count() FROM t",
        "SELECT sum(ALL c) FROM t",
        "SELECT max(c",
        "SELECT max(",
        "SELECT max",
    ],
)
def test_unsupported_aggregates_are_not_split(text):
    assert all(one.partials is None for one in plan_text(text).reads)
