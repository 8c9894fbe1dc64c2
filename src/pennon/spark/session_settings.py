"""What kind of session a Spark session is, and how it reads names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_OTHER_NAMES = ("spark.sql.ansi.doubleQuotedIdentifiers", "spark.sql.parser.quotedRegexColumnNames")


def classic_context(spark: SparkSession) -> SparkContext | None:
    """Return the context in which a classic session runs its jobs; None on Spark Connect, which has none."""
    return None if "connect" in type(spark).__module__ else spark.sparkContext


def has_plain_names(spark: SparkSession) -> bool:
    """Return True if quoted names in the session's queries are names of columns, and string literals are strings.

    Otherwise a literal may be a name, or a name a pattern for several columns.
    """
    return not any((spark.conf.get(key) or "false").lower() == "true" for key in _OTHER_NAMES)


def is_case_sensitive(spark: SparkSession) -> bool:
    """Return True if the session distinguishes names that differ only in case."""
    return spark.conf.get("spark.sql.caseSensitive", "false") == "true"
