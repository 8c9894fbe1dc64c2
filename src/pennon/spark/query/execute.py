"""Run planned queries: the only place where Spark evaluates a query over tables of a lake."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from pennon.errors import InvalidInputError, TableNotFoundError
from pennon.spark.quoting import quote_name
from pennon.spark.reading import scan as scanning
from pennon.spark.session_settings import classic_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark.query.plan import QueryPlan, TableRead
    from pennon.spark.reading.scan import Scan

_POSITION = re.compile(r"line (\d+)(,? pos(?:ition)?) (\d+)")
# What follows in a message of Spark is the text that it got, or its plan. Both contain names of our own.
_REWRITTEN = re.compile(r"\n== SQL|; line \d+ pos \d+")


class Planner(Protocol):
    """Plans a query."""

    def __call__(self, *, analyse: bool) -> QueryPlan:
        """Return the plan of the query. Without `analyse`, it reads whole tables."""


def run(
    spark: SparkSession,
    text: str,
    plan: Planner,
    scan_of: Callable[[TableRead], Scan | DataFrame],
    suggest: Callable[[str], str] = lambda _: "",
) -> DataFrame:
    """Return the result of a query.

    `scan_of` returns the rows of a read, and `suggest` the end of the message about a missing table. A query that Spark
    rejects reads whole tables the second time: then it either runs, or the error is about the columns and tables of
    the query.

    Raises InvalidInputError for bad syntax and TableNotFoundError for a missing table. Other errors stay Spark's.
    """
    from pyspark.errors import AnalysisException

    planned = plan(analyse=True)
    syntax_error = _find_syntax_error(spark, text) if planned.is_partly_evaluated else None
    if syntax_error is not None:
        raise InvalidInputError(f"Syntax error: {syntax_error}") from syntax_error
    try:
        return _evaluate(spark, planned, scan_of)
    except AnalysisException as error:
        if not planned.reads or planned.whole is not None:
            raise _translate(spark, error, text, planned, suggest) from error
    whole = plan(analyse=False)
    try:
        return _evaluate(spark, whole, scan_of)
    except AnalysisException as error:
        raise _translate(spark, error, text, whole, suggest) from error


def _evaluate(spark: SparkSession, plan: QueryPlan, scan_of: Callable[[TableRead], Scan | DataFrame]) -> DataFrame:
    if plan.count is not None:
        counted = scan_of(plan.count)
        assert isinstance(counted, scanning.Scan)
        rows = scanning.count_rows(spark, counted)
        columns = ", ".join(quote_name(name) for name in plan.count_names)
        values = ", ".join([f"CAST({rows} AS BIGINT)"] * len(plan.count_names))
        # Spark runs a job for a SELECT without a table, but none for VALUES.
        return spark.sql(f"VALUES ({values}) AS counted ({columns})")
    if plan.direct_read is not None:
        return read_rows(spark, plan.direct_read, scan_of).alias(plan.direct_read.name)
    joined = len(plan.reads) > 1
    frames: dict[str, Any] = {one.name: read_rows(spark, one, scan_of, joined=joined) for one in plan.reads}
    return spark.sql(plan.text, **frames)


def read_rows(
    spark: SparkSession, read: TableRead, scan_of: Callable[[TableRead], Scan | DataFrame], *, joined: bool = False
) -> DataFrame:
    """Return the rows of a planned read, which the query may join with others."""
    rows = scan_of(read)
    if not isinstance(rows, scanning.Scan):
        return rows
    return scanning.to_dataframe(spark, rows, partials=read.partials, joined=joined)


def _translate(spark: SparkSession, error: Any, text: str, plan: QueryPlan, suggest: Callable[[str], str]) -> Exception:
    """Return an error about the query as it was written, not about the text that Spark got."""
    from pyspark.errors import AnalysisException, ParseException

    if isinstance(error, ParseException):
        # The positions in the error of the original text are right.
        return InvalidInputError(f"Syntax error: {_find_syntax_error(spark, text) or error}")

    message = _REWRITTEN.split(str(error))[0].removeprefix(f"[{error.getCondition()}] ")
    position = _find_position(str(error), plan)
    if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
        parameters = error.getMessageParameters() or {}
        name = re.sub(r"`(\w+)`", r"\1", parameters.get("relationName", message))
        return TableNotFoundError(f"Neither the lake nor Spark has the table {name}{position}{suggest(name)}")
    return AnalysisException(message + position, error.getCondition(), error.getMessageParameters())


def _find_position(message: str, plan: QueryPlan) -> str:
    """Return the position that a message of Spark cites, in the original text, or an empty text."""
    found = _POSITION.search(message)
    if found is None:
        return ""
    line, column = int(found[1]), int(found[3])
    shift = int("," in found[2])  # Spark counts columns from 0 in one form of its messages, and from 1 in the other
    if plan.whole is not None:
        line, column = plan.whole.original_position(line, column - shift)
        column += shift
    return f"; line {line}{found[2]} {column}"


def _find_syntax_error(spark: SparkSession, text: str) -> Exception | None:
    """Return Spark's syntax error for a query, or None if it has none."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        if classic_context(spark) is None:
            spark.sql(text)  # Spark Connect cannot parse a query without resolving its tables
        else:
            spark._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001 - there is no other way
    except ParseException as error:
        return error
    except AnalysisException:
        pass
    return None
