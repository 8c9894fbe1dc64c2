"""What classic Spark has, and Spark Connect has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def context_of(spark: SparkSession) -> SparkContext | None:
    """Give the context in which a session's jobs run; None in Spark Connect."""
    return None if "connect" in type(spark).__module__ else spark.sparkContext
