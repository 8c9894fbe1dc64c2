"""Running a statement: the catalog's own here, queries as planned, everything else by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.spark.sql import grammar
from pennon.spark.sql.cursor import tokens_of
from pennon.spark.sql.names import LakeNames
from pennon.spark.sql.ownership import ForeignNameError
from pennon.spark.sql.query import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pennon.spark.lake import Lake


def run(lake: Lake, text: str) -> DataFrame:
    """Run one statement and give its result: rows of a query, or what the statement did.

    A query is lazy, as Spark's are; every other statement is done when this returns. Errors are the SDK's where the
    catalog finds them, bad syntax (13) with its position; Spark's own for what only Spark can see.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"lake.sql takes the text of a statement, got {text!r}")
    names = LakeNames(lake)
    reader = Reader(lake, names)
    tokens = tokens_of(text)
    if tokens:
        try:
            statement = grammar.parse(text, tokens, names)
        except ForeignNameError:
            statement = None
        if statement is not None:
            raise NotImplementedError(statement)
    return reader.frame(text)
