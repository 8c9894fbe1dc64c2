"""The rows and statements of the Spark benchmarks. It needs nothing but PySpark, of any version from 3.5 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS, QUICK_ROWS, WIDTH = 2_000_000, 100_000, 32
WARM_UPS, ROUNDS = 3, 3
STATEMENTS = {
    "scan": "SELECT * FROM {table}",
    "one column": "SELECT sum(x) FROM {table}",
    "group by": "SELECT k, sum(x) FROM {table} GROUP BY k",
    "filter": "SELECT id, x FROM {table} WHERE y = 5",
    "filter, indexed": "SELECT id, x FROM {table} WHERE y = 5",
    "count": "SELECT count(*) FROM {table}",
}
DISCARDED = {"scan", "filter", "filter, indexed"}
"""Statements whose rows are read and discarded."""


def make_rows(spark: SparkSession, count: int) -> DataFrame:
    """Return the rows of the table."""
    return spark.range(0, count, 1, 4).selectExpr(
        "id",
        "rand(1) AS x",
        "cast(rand(2) * 1000 AS bigint) AS y",
        "cast(rand(3) * 50 AS int) AS k",
        "concat('name-', cast(rand(4) * 1000 AS int)) AS s",
        f"array({', '.join(f'cast(rand({10 + n}) AS float)' for n in range(WIDTH))}) AS v",
    )


def noop(frame: DataFrame) -> None:
    """Read all rows and discard them."""
    frame.write.format("noop").mode("overwrite").save()
