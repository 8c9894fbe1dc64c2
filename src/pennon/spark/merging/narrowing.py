"""Which rows of a table a condition of Spark's SQL can concern, as far as Lance can tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.spark.session import has_plain_names

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_ZONE = "spark.sql.session.timeZone"


def of_condition(spark: SparkSession, schema: pa.Schema, name: str, condition: str) -> str | None:
    """Give a predicate of Lance that is true for all rows for which a condition holds, and maybe for more.

    None if there is none. `name` is what the condition calls the table.
    """
    return _planned(spark, schema, name, f"SELECT * FROM {_quoted(name)} WHERE {condition}")  # noqa: S608 - not run


def of_join(spark: SparkSession, schema: pa.Schema, name: str, other: str, condition: str) -> str | None:
    """Give such a predicate for the rows of a table that a condition joins with rows of another one."""
    text = f"SELECT 1 FROM {_quoted(other)} JOIN {_quoted(name)} ON {condition}"  # noqa: S608 - it is not run
    return _planned(spark, schema, name, text)


def _planned(spark: SparkSession, schema: pa.Schema, name: str, text: str) -> str | None:
    from pennon.spark.sql.constants import SessionSettings
    from pennon.spark.sql.query_plan import plan_query
    from pennon.spark.sql.references import QueryTable

    def find(parts: tuple[str, ...], travel: object) -> QueryTable | None:
        return QueryTable((name,), schema) if parts == (name,) and travel is None else None

    planned = plan_query(text, find, SessionSettings(spark.conf.get(_ZONE)), analyse=has_plain_names(spark))
    return planned.reads[0].where if len(planned.reads) == 1 else None


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
