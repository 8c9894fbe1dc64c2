"""Generated queries return the same rows through `lake.sql` as through Spark over the same rows.

A failure prints the seed. `QueryWriter(seed).query()` gives the query again.
"""

from __future__ import annotations

import math
from collections import Counter

import pytest
from pyspark.errors import PySparkException

from tests.spark.sql.query_writer import QueryWriter, make_rows
from tests.support import ipc

# The queries are small: generating and compiling Java code for each would take most of the time.
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
# The share of queries that Spark itself may reject.
_REJECTED = 0.2
_SHOWN = 10


@pytest.fixture(scope="module")
def generated(spark, tmp_path_factory):
    """Return a lake whose tables are also views of Spark: several fragments, deleted rows and indexes."""
    from pennon.spark import attach

    lake = attach(spark, root=str(tmp_path_factory.mktemp("generated")))
    lake.catalog.create_namespace({"id": ["prod"]})
    for name, table in make_rows().items():
        half = table.num_rows // 2
        lake.catalog.create_table({"id": ["prod", name]}, ipc(table.slice(0, half)))
        lake.write(spark.createDataFrame(table.slice(half)), f"prod.{name}")
        spark.createDataFrame(table).where("k IS DISTINCT FROM 5").createOrReplaceTempView(name)
        lake.sql(f"DELETE FROM prod.{name} WHERE k = 5")
    for column in ("n", "x", "s"):
        lake.sql(f"CREATE INDEX ON prod.facts ({column})")
    before = {key: spark.conf.get(key) for key in _SETTINGS}
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    yield lake
    for key, value in before.items():
        spark.conf.set(key, value)
    for name in make_rows():
        spark.catalog.dropTempView(name)


def describe_value(value):
    """Return a value in a form that compares equal if Spark's values are the same; there is one zero and one NaN."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def describe_result(frame, *, ordered):
    """Return names, types and rows."""
    rows = [tuple(map(describe_value, row)) for row in frame.collect()]
    return [(field.name, field.dataType.simpleString()) for field in frame.schema], rows if ordered else sorted(
        rows, key=repr
    )


def evaluate(run, text, *, ordered):
    """Return the result of a query, or the condition of its error."""
    try:
        return describe_result(run(text), ordered=ordered), None
    except PySparkException as error:
        return None, error.getCondition() or type(error).__name__
    except Exception as error:  # noqa: BLE001 - any error of one side alone is a difference
        return None, f"{type(error).__name__}: {str(error)[:300]}"


def compare(lake, seeds):
    """Return the differences between the lake and Spark, and how many queries ended in which way."""
    differences, endings = [], Counter()
    for seed in seeds:
        text = QueryWriter(seed).query()
        ordered = " ORDER BY 1" in text
        expected, rejected = evaluate(lake.spark.sql, text.replace("prod.", ""), ordered=ordered)
        found, failed = evaluate(lake.sql, text, ordered=ordered)
        if (rejected is None) != (failed is None) or found != expected:
            endings["different"] += 1
            differences.append(f"seed {seed}: {text}\n  {_explain(expected, rejected, found, failed)}")
        else:
            endings[rejected or "equal"] += 1
    return differences, endings


def _explain(expected, rejected, found, failed):
    if rejected or failed:
        return f"Spark: {rejected or 'rows'}; lake: {failed or 'rows'}"
    if expected[0] != found[0]:
        return f"columns of Spark {expected[0]}, of the lake {found[0]}"
    missing, extra = Counter(map(repr, expected[1])), Counter(map(repr, found[1]))
    return (
        f"{len(expected[1])} rows of Spark, {len(found[1])} of the lake; "
        f"missing {list(missing - extra)[:2]}, not expected {list(extra - missing)[:2]}"
    )


def require_no_difference(lake, seeds):
    differences, endings = compare(lake, seeds)
    assert not differences, f"{len(differences)} of {endings.total()} queries differ\n" + "\n".join(
        differences[:_SHOWN]
    )
    assert endings["equal"] >= endings.total() * (1 - _REJECTED), endings


@pytest.mark.parametrize("start", range(0, 500, 50))
def test_generated_queries_match_spark(generated, start):
    require_no_difference(generated, range(start, start + 50))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("start", range(1_000, 21_000, 1_000))
def test_many_generated_queries_match_spark(generated, start):
    require_no_difference(generated, range(start, start + 1_000))
