"""The queries of one statement: they see each table of the catalog at one version."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from pennon.catalog_pages import suggest_similar
from pennon.errors import (
    InvalidInputError,
    TableBranchNotFoundError,
    TableTagNotFoundError,
    UnsupportedOperationError,
)
from pennon.identifiers import parse_identifier
from pennon.spark.query import execute, search
from pennon.spark.query.plan import QueryPlan, TableRead, plan_query
from pennon.spark.query.references import QueryTable, TimeTravel
from pennon.spark.query.settings import read_settings
from pennon.spark.reading.pinned import PinnedTable, VersionOptions, pin
from pennon.spark.reading.scan import Scan, scan_pinned
from pennon.spark.tokens import tokenize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.query.names import NameResolver
    from pennon.spark.query.search import TableSearch

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
        return execute.run(
            self._lake.spark, text, lambda analyse: self.plan(text, analyse=analyse), self.scan, self._suggest
        )

    def _suggest(self, name: str) -> str:
        """Return a question with similar names of tables, or an empty string."""
        try:
            return suggest_similar(self._lake.catalog, parse_identifier(name))
        except InvalidInputError:
            return ""

    def plan(self, text: str, *, analyse: bool = True) -> QueryPlan:
        """Plan a query on table versions that were all current at one moment.

        Without `analyse`, the query reads whole tables.
        """
        text = self._replace_searches(text)
        session = read_settings(self._lake.spark)
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

    def scan(self, read: TableRead) -> Scan | DataFrame:
        """Return a planned read, or the rows that a search finds."""
        if read.identifier in self._searches:
            return self._searches[read.identifier].to_dataframe(self._lake, read.columns)
        table, dataset = self._open(read.identifier, read.travel)
        return scan_pinned(table, dataset, columns=read.columns, where=read.where, limit=read.limit)

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
        micros = self._evaluate(f"unix_micros(CAST(({expression}) AS TIMESTAMP))")
        if micros is None:
            raise InvalidInputError(f"{expression} is not a timestamp")
        return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=micros)

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
