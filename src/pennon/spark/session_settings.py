"""What kind of session a Spark session is, and whether case matters in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def classic_context(spark: SparkSession) -> SparkContext | None:
    """Return the context in which a classic session runs its jobs; None on Spark Connect, which has none."""
    return None if "connect" in type(spark).__module__ else spark.sparkContext


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return True if the session distinguishes names that differ only in case."""
    return spark.conf.get("spark.sql.caseSensitive", "false") == "true"
