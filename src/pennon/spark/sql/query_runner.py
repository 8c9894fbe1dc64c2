"""Running queries: each table of the catalog is read as planned, and Spark evaluates the text over what was read."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    InvalidInputError,
    LanceNamespaceError,
    TableBranchNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    UnsupportedOperationError,
)
from pennon.spark.quoting import quote_name
from pennon.spark.reading import scan
from pennon.spark.reading.pinned import PinnedTable, VersionSelector, pin
from pennon.spark.session_settings import has_plain_names
from pennon.spark.sql import search
from pennon.spark.sql.constants import SessionSettings
from pennon.spark.sql.cursor import tokenize
from pennon.spark.sql.query_plan import QueryPlan, TableRead, plan_query
from pennon.spark.sql.references import QueryTable, TimeTravel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.sql.name_resolution import NameResolver
    from pennon.spark.sql.search import TableSearch

_ZONE = "spark.sql.session.timeZone"
_ATTEMPTS = 5


class QueryRunner:
    """Reads tables for one statement: each version is looked up once, so that all parts of it see the same."""

    def __init__(self, lake: Lake, names: NameResolver) -> None:
        self._lake = lake
        self.names = names
        self._searches: dict[Identifier, TableSearch] = {}
        self._pinned: dict[tuple[Identifier, TimeTravel | None], tuple[PinnedTable, Any]] = {}

    def find_table(self, parts: tuple[str, ...], travel: TimeTravel | None) -> QueryTable | None:
        """Find a table that a query names, at the version that it asks for."""
        if parts in self._searches:
            return QueryTable(parts, self._searches[parts].schema, fixed_rows=True)
        identifier = self.names.find_table(parts)
        if identifier is None:
            return None
        return QueryTable(identifier, self._open(identifier, travel)[1].schema, lake=self._lake.name)

    def run_query(self, text: str) -> DataFrame:
        """Run a query, or any other statement for Spark in which tables of the catalog are read."""
        planned = self.plan(text)
        with translate_spark_errors(self._lake, text):
            if planned.count is not None:
                counted = planned.count
                rows = scan.count_rows(
                    self._lake.spark, self._scan(counted.identifier, counted.travel, where=counted.where)
                )
                columns = ", ".join(quote_name(name) for name in counted.names)
                values = ", ".join([f"CAST({rows} AS BIGINT)"] * len(counted.names))
                # Spark runs a job for a SELECT without a table, but none for rows that are given.
                return self._lake.spark.sql(f"VALUES ({values}) AS counted ({columns})")
            if not planned.reads:
                return self._lake.spark.sql(text)
            if planned.direct_read is not None:
                return self.read_table(planned.direct_read).alias(planned.direct_read.name)
            frames: dict[str, Any] = {read.name: self.read_table(read) for read in planned.reads}
            return self._lake.spark.sql(planned.text, **frames)

    def plan(self, text: str) -> QueryPlan:
        """Plan a query on versions of its tables that were current at one moment."""
        text = self._replace_searches(text)
        session = SessionSettings(self._setting(_ZONE))
        analyse = has_plain_names(self._lake.spark)
        made = plan_query(text, self.find_table, session, analyse=analyse)
        for _ in range(_ATTEMPTS):
            if not self._refresh_versions():
                return made
            made = plan_query(text, self.find_table, session, analyse=analyse)
        return made

    def reads_lake(self, text: str) -> bool:
        """Tell whether a statement reads a table of the catalog."""
        planned = self.plan(text)
        return bool(planned.reads) or planned.count is not None

    def read_table(self, wanted: TableRead) -> DataFrame:
        """Read a table as planned."""
        if wanted.identifier in self._searches:
            return self._searches[wanted.identifier].frame(self._lake, wanted.columns)
        made = self._scan(
            wanted.identifier, wanted.travel, columns=wanted.columns, where=wanted.where, limit=wanted.limit
        )
        return scan.to_dataframe(self._lake.spark, made, partials=wanted.partials)

    def resolve_travel(self, identifier: Identifier, travel: TimeTravel | None) -> VersionSelector:
        """Tell which version `VERSION AS OF` or `TIMESTAMP AS OF` means: a number, a tag, a branch or a time."""
        if travel is None:
            return VersionSelector()
        if travel.kind == "timestamp":
            return VersionSelector(as_of=self.evaluate_timestamp(travel.text))
        named = travel.text.strip("'\"")
        if named.isdigit():
            return VersionSelector(version=int(named))
        try:
            pin(self._lake.address, identifier, VersionSelector(tag=named))
        except TableTagNotFoundError as error:
            try:
                pin(self._lake.address, identifier, VersionSelector(branch=named))
            except TableBranchNotFoundError:
                raise error from None
            return VersionSelector(branch=named)
        return VersionSelector(tag=named)

    def evaluate_timestamp(self, expression: str) -> dt.datetime:
        """Let Spark say which time an expression means."""
        query = f"SELECT unix_micros(CAST(({expression}) AS TIMESTAMP))"
        with translate_spark_errors(self._lake, expression):
            row = self._lake.spark.sql(query).first()
        if row is None or row[0] is None:
            raise InvalidInputError(f"{expression} is no time")
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=row[0])

    def _replace_searches(self, text: str) -> str:
        """Put tables in the place of searches; `find` and `read` know them then."""
        if not any(word in text.upper() for word in search.FUNCTIONS):
            return text
        tokens = tokenize(text)
        if not tokens:
            return text
        changed, calls = search.replace_calls(text, tokens, self._evaluate)
        self._searches |= {(name,): call.open(self._lake) for name, call in calls.items()}
        return changed

    def _evaluate(self, expression: str) -> Any:
        """Let Spark compute an expression, in which subqueries may read tables of the catalog."""
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
        """Bring the tables that are read at their latest version to one moment; tell whether one of them changed."""
        latest = [identifier for identifier, travel in self._pinned if travel is None]
        if len(latest) < 2:  # noqa: PLR2004 - one table is always as of one moment
            return False
        try:
            versions = self._lake.catalog.latest_table_versions(latest)
        except (UnsupportedOperationError, AttributeError):
            return False  # the catalog does not manage versions
        moved = False
        for identifier, version in zip(latest, versions, strict=True):
            if self._pinned[identifier, None][0].version != version:
                moved = True
                self._pinned[identifier, None] = pin(self._lake.address, identifier, VersionSelector(version=version))
        return moved

    def _setting(self, key: str) -> str | None:
        from pyspark.errors import PySparkException

        try:
            return self._lake.spark.conf.get(key)
        except PySparkException:
            return None


@contextmanager
def translate_spark_errors(lake: Lake, text: str) -> Iterator[None]:
    """Turn what Spark says of bad input into the SDK's errors: bad syntax into 13, a missing table into 4."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        yield
    except LanceNamespaceError:
        raise
    except ParseException as error:
        raise InvalidInputError(f"Syntax error: {_original(lake, text, error)}") from error
    except AnalysisException as error:
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            raise TableNotFoundError(f"Neither the lake {lake.name!r} nor Spark has it: {error}") from error
        raise


def _original(lake: Lake, text: str, error: Exception) -> str:
    """Give the error with positions in the text as it was written, not as it was changed for Spark."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        lake.spark.sql(text)
    except ParseException as original:
        return str(original)
    except AnalysisException:
        pass
    return str(error)
