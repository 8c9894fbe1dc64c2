"""Run queries: read each table of the catalog as planned, and let Spark evaluate the query over these reads."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    InvalidInputError,
    LanceNamespaceError,
    TableBranchNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    UnsupportedOperationError,
)
from pennon.spark.query import search
from pennon.spark.query.constants import SessionSettings
from pennon.spark.query.plan import QueryPlan, TableRead, plan_query
from pennon.spark.query.references import QueryTable, TimeTravel
from pennon.spark.quoting import quote_name
from pennon.spark.reading import scan
from pennon.spark.reading.pinned import PinnedTable, VersionOptions, pin
from pennon.spark.session_settings import has_plain_names
from pennon.spark.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.query.names import NameResolver
    from pennon.spark.query.search import TableSearch

_ZONE = "spark.sql.session.timeZone"
_ATTEMPTS = 5


class QueryRunner:
    """Runs the queries of one statement. It opens each table version once, so that all parts see the same data."""

    def __init__(self, lake: Lake, names: NameResolver) -> None:
        self._lake = lake
        self.names = names
        self._searches: dict[Identifier, TableSearch] = {}
        self._pinned: dict[tuple[Identifier, TimeTravel | None], tuple[PinnedTable, Any]] = {}

    def find_table(self, parts: tuple[str, ...], travel: TimeTravel | None) -> QueryTable | None:
        """Return the catalog's table that a query names, at the version it asks for, or None."""
        if parts in self._searches:
            return QueryTable(parts, self._searches[parts].schema, fixed_rows=True)
        identifier = self.names.find_table(parts)
        if identifier is None:
            return None
        return QueryTable(identifier, self._open(identifier, travel)[1].schema, lake=self._lake.name)

    def run_query(self, text: str) -> DataFrame:
        """Run a query, or another statement of Spark that reads tables of the catalog."""
        plan = self.plan(text)
        with translate_spark_errors(self._lake, text):
            if plan.count is not None:
                count = plan.count
                rows = scan.count_rows(self._lake.spark, self._scan(count.identifier, count.travel, where=count.where))
                columns = ", ".join(quote_name(name) for name in count.names)
                values = ", ".join([f"CAST({rows} AS BIGINT)"] * len(count.names))
                # Spark runs a job for a SELECT without a table, but none for VALUES.
                return self._lake.spark.sql(f"VALUES ({values}) AS counted ({columns})")
            if not plan.reads:
                return self._lake.spark.sql(text)
            if plan.direct_read is not None:
                return self.read_table(plan.direct_read).alias(plan.direct_read.name)
            return evaluate_plan(self._lake.spark, plan, self.read_table, lambda: self.plan(text, analyse=False))

    def plan(self, text: str, *, analyse: bool = True) -> QueryPlan:
        """Plan a query on table versions that were all current at one moment.

        Without `analyse`, the query reads whole tables.
        """
        text = self._replace_searches(text)
        session = SessionSettings(self._get_setting(_ZONE))
        analyse = analyse and has_plain_names(self._lake.spark)
        plan = plan_query(text, self.find_table, session, analyse=analyse)
        for _ in range(_ATTEMPTS):
            if not self._refresh_versions():
                return plan
            plan = plan_query(text, self.find_table, session, analyse=analyse)
        return plan

    def reads_lake(self, text: str) -> bool:
        """Return True if a statement reads a table of the catalog."""
        plan = self.plan(text)
        return bool(plan.reads) or plan.count is not None

    def read_table(self, read: TableRead) -> DataFrame:
        """Return the rows of a planned read."""
        if read.identifier in self._searches:
            return self._searches[read.identifier].to_dataframe(self._lake, read.columns)
        table_scan = self._scan(read.identifier, read.travel, columns=read.columns, where=read.where, limit=read.limit)
        return scan.to_dataframe(self._lake.spark, table_scan, partials=read.partials)

    def resolve_travel(self, identifier: Identifier, travel: TimeTravel | None) -> VersionOptions:
        """Return the version that `VERSION AS OF` (a number, tag or branch) or `TIMESTAMP AS OF` means."""
        if travel is None:
            return VersionOptions()
        if travel.kind == "timestamp":
            return VersionOptions(as_of=self.evaluate_timestamp(travel.text))
        named = travel.text.strip("'\"")
        if named.isdigit():
            return VersionOptions(version=int(named))
        try:
            pin(self._lake.address, identifier, VersionOptions(tag=named))
        except TableTagNotFoundError as error:
            try:
                pin(self._lake.address, identifier, VersionOptions(branch=named))
            except TableBranchNotFoundError:
                raise error from None
            return VersionOptions(branch=named)
        return VersionOptions(tag=named)

    def evaluate_timestamp(self, expression: str) -> dt.datetime:
        """Return the time that an expression means to Spark.

        Raises InvalidInputError if the expression is not a timestamp.
        """
        query = f"SELECT unix_micros(CAST(({expression}) AS TIMESTAMP))"
        with translate_spark_errors(self._lake, expression):
            row = self._lake.spark.sql(query).first()
        if row is None or row[0] is None:
            raise InvalidInputError(f"{expression} is not a timestamp")
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=row[0])

    def _replace_searches(self, text: str) -> str:
        """Return the query with table names in place of searches, and remember the searches by these names."""
        if not any(word in text.upper() for word in search.FUNCTIONS):
            return text
        tokens = tokenize(text)
        if not tokens:
            return text
        changed, calls = search.replace_calls(text, tokens, self._evaluate)
        self._searches |= {(name,): call.open(self._lake) for name, call in calls.items()}
        return changed

    def _evaluate(self, expression: str) -> Any:
        """Return the value of an expression. Its subqueries may read tables of the catalog."""
        row = QueryRunner(self._lake, self.names).run_query(f"SELECT {expression}").first()
        return None if row is None else row[0]

    def _open(self, identifier: Identifier, travel: TimeTravel | None) -> tuple[PinnedTable, Any]:
        key = (identifier, travel)
        if key not in self._pinned:
            self._pinned[key] = pin(self._lake.address, identifier, self.resolve_travel(identifier, travel))
        return self._pinned[key]

    def _scan(
        self,
        identifier: Identifier,
        travel: TimeTravel | None,
        *,
        columns: tuple[str, ...] | None = None,
        where: str | None = None,
        limit: int | None = None,
    ) -> scan.Scan:
        table, dataset = self._open(identifier, travel)
        return scan.scan_pinned(table, dataset, columns=columns, where=where, limit=limit)

    def _refresh_versions(self) -> bool:
        """Move the tables read at their latest version to one moment. Return True if a version changed."""
        latest = [identifier for identifier, travel in self._pinned if travel is None]
        if len(latest) < 2:  # noqa: PLR2004 - a single table needs no common moment
            return False
        try:
            versions = self._lake.catalog.latest_table_versions(latest)
        except (UnsupportedOperationError, AttributeError):
            return False  # the catalog does not manage versions
        moved = False
        for identifier, version in zip(latest, versions, strict=True):
            if self._pinned[identifier, None][0].version != version:
                moved = True
                self._pinned[identifier, None] = pin(self._lake.address, identifier, VersionOptions(version=version))
        return moved

    def _get_setting(self, key: str) -> str | None:
        from pyspark.errors import PySparkException

        try:
            return self._lake.spark.conf.get(key)
        except PySparkException:
            return None


def evaluate_plan(
    spark: SparkSession, plan: QueryPlan, read: Callable[[TableRead], DataFrame], plan_whole: Callable[[], QueryPlan]
) -> DataFrame:
    """Return what Spark makes of a plan that reads tables.

    If Spark rejects a query with split aggregates, it gets the plan that reads whole tables. Then an error names the
    columns of the query, not those of the partial results.
    """
    from pyspark.errors import AnalysisException

    def evaluate(plan: QueryPlan) -> DataFrame:
        frames: dict[str, Any] = {one.name: read(one) for one in plan.reads}
        return spark.sql(plan.text, **frames)

    if all(one.partials is None for one in plan.reads):
        return evaluate(plan)
    with suppress(AnalysisException):
        return evaluate(plan)
    return evaluate(plan_whole())


@contextmanager
def translate_spark_errors(lake: Lake, text: str) -> Iterator[None]:
    """Raise InvalidInputError for bad syntax and TableNotFoundError for a missing table, in place of Spark's errors."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        yield
    except LanceNamespaceError:
        raise
    except ParseException as error:
        raise InvalidInputError(f"Syntax error: {_find_original_message(lake, text, error)}") from error
    except AnalysisException as error:
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            raise TableNotFoundError(f"Neither the lake {lake.name!r} nor Spark has the table: {error}") from error
        raise


def _find_original_message(lake: Lake, text: str, error: Exception) -> str:
    """Return the message of a syntax error with positions in the original text, not in the rewritten one."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        lake.spark.sql(text)
    except ParseException as original:
        return str(original)
    except AnalysisException:
        pass
    return str(error)
