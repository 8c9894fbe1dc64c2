"""TPC-H and TPC-DS return the same rows through `lake.sql` as through Spark over Parquet."""

from __future__ import annotations

import math
import os

import pytest
from pyspark.errors import PySparkException

from tests import tpc
from tests.duckdb_extensions import ExtensionMissingError

# TPC-DS has no smaller scale for which all queries have rows.
SCALES = {tpc.TPCH: os.environ.get("PENNON_TPCH_SCALE", "1"), tpc.TPCDS: os.environ.get("PENNON_TPCDS_SCALE", "0.01")}
# Averages and deviations of doubles depend on the order of the rows.
_CLOSE = 1e-9


@pytest.fixture(scope="module", params=list(SCALES))
def benchmark(request, spark, tmp_path_factory):
    """Return the queries, a lake with the tables, and a session in which views of Parquet have the same names."""
    from pennon.spark import attach

    directory = tmp_path_factory.mktemp(request.param)
    try:
        paths = tpc.generate(request.param, float(SCALES[request.param]), directory)
    except ExtensionMissingError as error:
        pytest.skip(str(error))
    parquet = spark.newSession()
    lake = attach(spark, root=str(directory / "lake"))
    for table, path in paths.items():
        frame = parquet.read.parquet(str(path))
        frame.createOrReplaceTempView(table)
        lake.write(spark.read.parquet(str(path)), table, mode="create")
    return tpc.queries(request.param), lake, parquet


def evaluate(run, text):
    """Return columns and rows of a query, or the condition of its error."""
    try:
        frame = run(text)
        columns = [(field.name, field.dataType.simpleString()) for field in frame.schema]
        return columns, sorted((tuple(row) for row in frame.collect()), key=_sort_key)
    except PySparkException as error:
        return error.getCondition(), []


def _sort_key(row):
    return repr(tuple(f"{value:.6g}" if isinstance(value, float) else value for value in row))


def _is_same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_CLOSE) or (math.isnan(one) and math.isnan(other))
    return one == other


def describe_difference(text, expected, found):
    """Return how two results differ, or None."""
    if expected[0] != found[0]:
        return f"Spark: {expected[0]}, lake: {found[0]}, for {text}"
    if len(expected[1]) != len(found[1]):
        return f"{len(expected[1])} rows of Spark, {len(found[1])} of the lake, for {text}"
    pairs = zip(expected[1], found[1], strict=True)
    different = [(one, other) for one, other in pairs if not all(map(_is_same, one, other))]
    return f"{len(different)} rows differ, the first: {different[0]}, for {text}" if different else None


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_benchmark_queries_match_spark(benchmark):
    texts, lake, parquet = benchmark
    differences = {}
    for name, text in texts.items():
        difference = describe_difference(text, evaluate(parquet.sql, text), evaluate(lake.sql, text))
        if difference is not None:
            differences[name] = difference
    assert not differences, f"{len(differences)} of {len(texts)} differ\n" + "\n".join(
        f"{name}: {difference}" for name, difference in differences.items()
    )
