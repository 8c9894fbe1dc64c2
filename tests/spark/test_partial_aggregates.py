"""Partial aggregates of tasks add up to the aggregates of all rows."""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pennon.spark.reading.partial_aggregates import COUNT, MAX, MIN, SUM, TOTAL, Measure, PartialAggregates

MEASURES = (
    *(Measure("n", COUNT), Measure("nx", COUNT, "x"), Measure("sx", SUM, "x"), Measure("tx", TOTAL, "x")),
    *(Measure("lx", MIN, "x"), Measure("hx", MAX, "x"), Measure("sy", SUM, "y"), Measure("hy", MAX, "y")),
)
SCHEMA = pa.schema({"k": pa.string(), "x": pa.int64(), "y": pa.float64()})
LONGS = st.none() | st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)
# Their sums are exact in any order.
DOUBLES = st.none() | st.integers(-8, 8).map(lambda number: number / 4) | st.just(math.nan)
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "", None]), LONGS, DOUBLES), max_size=40)


def batch(rows):
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def by_group(batches):
    found: dict = {}
    for one in batches:
        for row in one.to_pylist():
            found.setdefault(row.get("k"), []).append(row)
    return found


def added(rows, name):
    values = [row[name] for row in rows if row[name] is not None]
    return sum(values) if values else None


def greatest(values):
    """Return the maximum as Spark computes it: NaN is greater than all numbers."""
    return math.nan if any(map(math.isnan, values)) else max(values, default=None)


def same(one, other):
    both_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return both_nan or one == other


@settings(max_examples=300)
@given(batches=st.lists(ROWS, max_size=3), grouped=st.booleans())
def test_partial_results_add_up_to_the_aggregates(batches, grouped) -> None:
    partials = PartialAggregates(("k",) if grouped else (), MEASURES)
    given_rows: dict = {}
    for row in (row for rows in batches for row in rows):
        given_rows.setdefault(row[0] if grouped else None, []).append(row)
    found = by_group(partials.aggregate(map(batch, batches)))
    assert set(found) - {None} == set(given_rows) - {None}
    for key, rows in given_rows.items():
        parts = found[key]
        longs, doubles = [row[1] for row in rows if row[1] is not None], [row[2] for row in rows if row[2] is not None]
        assert added(parts, "n") == len(rows)
        assert added(parts, "nx") == len(longs)
        assert added(parts, "sx") == (sum(longs) if longs else None)
        assert min((part["lx"] for part in parts if part["lx"] is not None), default=None) == min(longs, default=None)
        assert max((part["hx"] for part in parts if part["hx"] is not None), default=None) == max(longs, default=None)
        assert same(added(parts, "sy"), sum(doubles) if doubles else None)
        assert same(greatest([part["hy"] for part in parts if part["hy"] is not None]), greatest(doubles))
        assert (added(parts, "tx") is None) == (not longs)


def test_few_groups_become_few_rows() -> None:
    rows = [("a" if number % 2 else "b", number, 0.5) for number in range(1000)]
    (found,) = PartialAggregates(("k",), MEASURES).aggregate([batch(rows)])
    assert found.num_rows == 2
    assert sorted(found.column("sx").to_pylist()) == [249_500, 250_000]


def test_rows_of_many_groups_are_passed_on_unaggregated() -> None:
    rows = [(str(number), number, 0.5) for number in range(100)]
    alike = [("a", number, 0.5) for number in range(100)]
    first, second = PartialAggregates(("k",), MEASURES).aggregate([batch(rows), batch(alike)])
    assert (first.num_rows, second.num_rows) == (100, 100)
    assert second.column("n").to_pylist() == [1] * 100
