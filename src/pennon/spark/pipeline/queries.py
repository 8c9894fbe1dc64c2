"""Running a pipeline's queries: names become pinned tables, staged steps or common table expressions.

Steps that are not staged become part of the query that reads them, so only the columns and rows that the final query
needs are read from each table.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.spark.pipeline import sources
from pennon.spark.pipeline.statements import THIS, is_this, parse_query
from pennon.spark.query import execute
from pennon.spark.query.plan import QueryPlan, TableRead, plan_query
from pennon.spark.query.references import QueryTable, TimeTravel
from pennon.spark.query.settings import read_settings
from pennon.spark.reading import scan as scanning
from pennon.spark.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.pipeline.graph import Graph
    from pennon.spark.pipeline.pinned_reads import PinnedReads
    from pennon.spark.pipeline.statements import Name
    from pennon.spark.reading.scan import Scan

_LOCAL = ""
"""The first part of the keys of sources, steps and checked data; no table name is empty."""


def inline_queries(graph: Graph, sql: str, inlined: Mapping[str, str]) -> str:
    """Return a query with the sources and steps that it needs as common table expressions, in the order of the file."""
    needed = [name for name in graph.dependencies(sql, within=inlined.keys()) if name in inlined]
    text = _trim(sql)
    if not needed:
        return text
    clauses = ",\n".join(f"`{name}` AS (\n{_trim(inlined[name])}\n)" for name in needed)
    if parse_query(sql).args.get("with_") is None:
        return f"WITH {clauses}\n{text}"
    return f"WITH {clauses}\nSELECT * FROM (\n{text}\n)"


@dataclass(frozen=True)
class QueryScope:
    """What the queries of a check read in addition: the checked data, and targets as they will be."""

    this: Scan | None = None
    step: str | None = None
    """The checked step, if it is not staged."""
    targets: Mapping[Identifier, Scan] = field(default_factory=dict)


DEFAULT_SCOPE = QueryScope()


@dataclass
class PipelineQueries:
    """The queries of one run."""

    lake: Lake
    graph: Graph
    reads: PinnedReads
    steps: dict[str, Scan] = field(default_factory=dict)
    """The results of staged steps."""
    views: dict[str, str] = field(default_factory=dict)
    """The temporary views of sources that Spark reads."""

    def open_source(self, name: str) -> StructType:
        """Create a view of a source that is not in the catalog, and return its schema."""
        if name not in self.views:
            frame = sources.load_source(self.lake.spark, name, self.graph.definition.sources[name])
            # Other pipelines may run in the same session.
            view = f"pennon_{uuid.uuid4().hex[:12]}_{name}"
            frame.createOrReplaceTempView(view)
            self.views[name] = view
        return self.lake.spark.table(self.views[name]).schema

    def close(self) -> None:
        """Drop the temporary views."""
        for view in self.views.values():
            self.lake.spark.catalog.dropTempView(view)
        self.views.clear()

    def dataframe(self, sql: str, scope: QueryScope = DEFAULT_SCOPE) -> DataFrame:
        """Return the result of a query over pinned tables and staged data."""

        def plan(*, analyse: bool) -> QueryPlan:
            planned = self.plan_scoped(sql, scope, analyse=analyse)
            if planned.count is not None and is_partial(self._whole_scan(planned.count, scope)):
                return self.plan_scoped(sql, scope, analyse=False)
            return planned

        def scan_of(read: TableRead) -> Scan:
            return replace(self._whole_scan(read, scope), columns=read.columns, where=read.where, limit=read.limit)

        return execute.run(self.lake.spark, sql, plan, scan_of)

    def read_local(self, name: str) -> DataFrame:
        """Return the rows of a source or step."""
        return self.dataframe(f"SELECT * FROM `{name}`")  # noqa: S608 - a name of the pipeline

    def plan_scoped(self, sql: str, scope: QueryScope = DEFAULT_SCOPE, *, analyse: bool = True) -> QueryPlan:
        """Return the plan of a query, without running it."""

        def find(parts: Name, travel: TimeTravel | None) -> QueryTable | None:
            key = self._key(parts, travel, scope)
            return None if key is None else QueryTable(key, self._scan(key, travel, scope).schema, lake=self.lake.name)

        if scope.step is not None:
            sql = f"WITH `{THIS}` AS (SELECT * FROM `{scope.step}`) SELECT * FROM (\n{_trim(sql)}\n)"  # noqa: S608
        session = read_settings(self.lake.spark)
        return plan_query(inline_queries(self.graph, sql, self._inlined_queries(sql)), find, session, analyse=analyse)

    def _inlined_queries(self, sql: str) -> dict[str, str]:
        """Return the queries of names that are not tables: sources that Spark reads, and steps that are not staged."""
        definition = self.graph.definition
        inlined = {name: step.sql for name, step in definition.steps.items() if name not in self.steps}
        for name in self.graph.dependencies(sql, within=inlined.keys()):
            if name in definition.sources and definition.sources[name].format is not None:
                self.open_source(name)
                inlined[name] = f"SELECT * FROM {self.views[name]}"  # noqa: S608 - a name of our own
        return inlined

    def _key(self, parts: Name, travel: TimeTravel | None, scope: QueryScope) -> Identifier | None:
        local = self.graph.find_local(parts)
        if local is not None or is_this(parts):
            if travel is not None:
                raise InvalidInputError(f"{parts[0]!r} is not a table of the catalog, so it has no other versions")
            return (_LOCAL, local or THIS)
        if travel is None:
            named = [one for one in (parts, parts[1:] if parts[0] == self.lake.name else ()) if one in scope.targets]
            if named:
                return named[0]
        return self.reads.names.get(parts)

    def _scan(self, key: Identifier, travel: TimeTravel | None, scope: QueryScope) -> Scan:
        if key[0] != _LOCAL:
            if travel is None and key in scope.targets:
                return scope.targets[key]
            return scanning.scan_pinned(self.reads.tables[key, travel])
        name = key[1]
        if name == THIS and scope.this is not None:
            return scope.this
        return self.steps[name] if name in self.steps else scanning.scan_pinned(self.reads.sources[name])

    def _whole_scan(self, read: TableRead, scope: QueryScope) -> Scan:
        return self._scan(read.identifier, read.travel, scope)


def is_partial(seen: Scan) -> bool:
    """Return True if a scan excludes some fragments of its version."""
    return len(seen.fragments) != len(seen.table.open().get_fragments())


def _trim(sql: str) -> str:
    """Return a query without trailing semicolons and comments."""
    tokens = tokenize(sql)
    return sql[: tokens[-1].end + 1] if tokens else sql
