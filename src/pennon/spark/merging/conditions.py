"""What a condition in Spark's SQL needs of a table: the columns it mentions, and a predicate for Lance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pennon.spark.query.plan import plan_query
from pennon.spark.query.references import QueryTable
from pennon.spark.query.settings import read_settings
from pennon.spark.quoting import quote_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import SparkSession

_WORD = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
# A star that is not a multiplication.
_STAR = re.compile(r"(?:^|[.(,])\s*\*")


def find_mentioned_columns(columns: Iterable[str], expressions: Iterable[str | None]) -> list[str]:
    """Return the columns whose names occur in one of the expressions, in their order; all if one contains a star.

    The result is never too short, but may contain a column too many: words are compared without regard to case, also
    those inside literals.
    """
    given = [text for text in expressions if text is not None]
    if any(_STAR.search(text) for text in given):
        return list(columns)
    words = {(plain or quoted.replace("``", "`")).lower() for text in given for quoted, plain in _WORD.findall(text)}
    return [name for name in columns if name.lower() in words]


def find_predicate(spark: SparkSession, schema: pa.Schema, name: str, condition: str) -> str | None:
    """Return a Lance predicate that holds for all rows that meet a condition, or None if there is none.

    It may hold for more rows. `name` is the alias of the table in the condition.
    """
    return _plan_predicate(spark, schema, name, f"SELECT * FROM {quote_name(name)} WHERE {condition}")  # noqa: S608 - not run


def find_join_predicate(spark: SparkSession, schema: pa.Schema, name: str, other: str, condition: str) -> str | None:
    """Return such a predicate for the rows of a table that a condition joins with rows of another table."""
    text = f"SELECT 1 FROM {quote_name(other)} JOIN {quote_name(name)} ON {condition}"  # noqa: S608 - it is not run
    return _plan_predicate(spark, schema, name, text)


def _plan_predicate(spark: SparkSession, schema: pa.Schema, name: str, text: str) -> str | None:
    def find(parts: tuple[str, ...], travel: object) -> QueryTable | None:
        return QueryTable((name,), schema) if parts == (name,) and travel is None else None

    planned = plan_query(text, find, read_settings(spark))
    return planned.reads[0].where if len(planned.reads) == 1 else None
