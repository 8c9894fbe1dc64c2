"""Run one statement: the catalog executes its own statements, and Spark executes queries and everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.spark.query.names import ForeignNameError, NameResolver
from pennon.spark.query.runner import QueryRunner
from pennon.spark.statements import data, grammar
from pennon.spark.tokens import tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pennon.spark.lake import Lake


def run(lake: Lake, text: str) -> DataFrame:
    """Run one statement and return its result: the rows of a query, or rows about what the statement did.

    A query is lazy, as in Spark. Every other statement is complete when this returns.

    Raises InvalidInputError for bad syntax, with the position, and the SDK's errors for what the catalog detects.
    Errors that only Spark detects stay Spark's.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"lake.sql needs the text of a statement, got {text!r}")
    runner = QueryRunner(lake, NameResolver(lake))
    tokens = tokenize(text) or []
    try:
        call = grammar.parse_statement(text, tokens, lake, runner)
    except ForeignNameError:
        call = None
    # Spark itself creates a view that reads no table of the lake.
    if call is not None and (call.func is not data.create_temp_view or runner.reads_lake(call.keywords["query"])):
        return call().to_dataframe(lake.spark)
    words = [token.text.upper() for token in tokens[:4]]
    if words[:1] == ["CREATE"] and "VIEW" in words and runner.reads_lake(text):
        raise UnsupportedOperationError("A permanent view cannot read tables of the lake; use CREATE TEMPORARY VIEW")
    return runner.run_query(text)
