"""Analyzing a whole pipeline before any work: Spark analyzes every query over empty tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError, LanceNamespaceError
from pennon.spark import types
from pennon.spark.pipeline.check_runner import resolve_column
from pennon.spark.pipeline.spark_errors import shorten_error
from pennon.spark.pipeline.statements import THIS
from pennon.spark.query.plan import plan_query
from pennon.spark.query.references import QueryTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import StructType

    from pennon.identifiers import Identifier
    from pennon.spark.pipeline.model import Check, Target
    from pennon.spark.pipeline.problems import Positions
    from pennon.spark.pipeline.queries import PipelineQueries
    from pennon.spark.pipeline.statements import Name
    from pennon.spark.pipeline.targets import TargetTable
    from pennon.spark.query.references import TimeTravel
    from pennon.yaml_documents.problems import FileProblem, Path


def find_unstageable_steps(
    queries: PipelineQueries, targets: Sequence[TargetTable], positions: Positions
) -> frozenset[str]:
    """Analyze all queries and columns, and return the staged steps whose results Lance cannot store.

    Raises InvalidPipelineError with all problems.
    """
    run = _Preflight(queries, targets, positions)
    run.analyze_sources()
    run.analyze_steps()
    run.match_targets()
    run.analyze_checks()
    positions.refuse(run.problems)
    return frozenset(run.unstageable)


def require_valid_checks(queries: PipelineQueries, targets: Sequence[TargetTable], positions: Positions) -> None:
    """Analyze the checks of published tables. Raises InvalidPipelineError with all problems."""
    run = _Preflight(queries, targets, positions)
    run.after = {one.identifier: types.spark_schema(one.schema) for one in targets if one.schema is not None}
    run.analyze_sources()
    run.analyze_steps()
    run.analyze_checks()
    positions.refuse(run.problems)


@dataclass
class _Preflight:
    """The schemas and problems found so far."""

    queries: PipelineQueries
    targets: Sequence[TargetTable]
    positions: Positions
    schemas: dict[str, StructType] = field(default_factory=dict)
    after: dict[Identifier, StructType] = field(default_factory=dict)
    """The schemas of targets after the run."""
    unstageable: set[str] = field(default_factory=set)
    problems: list[FileProblem] = field(default_factory=list)

    def analyze_sources(self) -> None:
        """Find the schemas of sources."""
        queries = self.queries
        used = queries.graph.used_names()
        for name, source in queries.graph.definition.sources.items():
            if name in used and source.format is not None:
                try:
                    self.schemas[name] = queries.open_source(name)
                except LanceNamespaceError as error:
                    self._report(("sources", name), str(error))
            elif name in used:
                self.schemas[name] = types.spark_schema(queries.reads.sources[name].open().schema)

    def analyze_steps(self) -> None:
        """Analyze each step. Steps that read a step with a problem are skipped."""
        graph = self.queries.graph
        used, staged = graph.used_names(), graph.staged_steps()
        for name, step in graph.definition.steps.items():
            path = ("steps", name, "sql")
            if name not in used or any(one not in self.schemas for one in graph.local_reads(step.sql)):
                continue
            schema = self._query_schema(path, step.sql, {})
            if schema is None:
                continue
            self.schemas[name] = schema
            if name in staged:
                try:
                    types.table_schema(schema)
                except InvalidInputError as error:
                    if step.stage == "always":
                        self._report(("steps", name, "stage"), f"it cannot be staged: {error}")
                    self.unstageable.add(name)

    def match_targets(self) -> None:
        """Match the columns that are written with those of the tables."""
        for number, (target, table) in enumerate(zip(self.queries.graph.definition.targets, self.targets, strict=True)):
            incoming = self.schemas.get(target.from_)
            if incoming is None:
                continue
            try:
                self.after[table.identifier] = _target_schema(target, table, incoming)
            except LanceNamespaceError as error:
                self._report(("targets", number), str(error))

    def analyze_checks(self) -> None:
        """Look up the columns of checks, and analyze SQL checks."""
        for group in self.queries.graph.definition.check_groups():
            schema = self.schemas.get(group.step or "")
            if group.target is not None:
                schema = self.after.get(self.targets[group.target].identifier)
            if schema is None and group.path != ("checks",):
                continue
            for number, check in enumerate(group.checks):
                path = (*group.path, number)
                if check.sql is not None:
                    self._analyze_sql_check((*path, "sql"), check, check.sql, schema)
                elif schema is not None:
                    self._find_columns((*path, check.kind), group.label, check, schema)

    def _analyze_sql_check(self, path: Path, check: Check, sql: str, schema: StructType | None) -> None:
        if any(one not in self.schemas for one in self.queries.graph.local_reads(sql)):
            return
        result = self._query_schema(path, sql, {} if schema is None else {THIS: schema}, checking=True)
        kinds = [] if result is None else [one.dataType.typeName() for one in result.fields]
        if result is not None and check.expect == "true" and kinds != ["boolean"]:
            self._report(path, "'expect: true' needs one column, a boolean")

    def _find_columns(self, path: Path, label: str, check: Check, schema: StructType) -> None:
        for column in check.columns:
            try:
                resolve_column(label, schema, column)
            except InvalidInputError as error:
                self._report(path, str(error))

    def _query_schema(
        self, path: Path, sql: str, bound: Mapping[str, StructType], *, checking: bool = False
    ) -> StructType | None:
        """Return the schema of a query, or None if it has a problem."""
        spark = self.queries.lake.spark
        schemas: dict[Identifier, StructType] = {}

        def find(parts: Name, travel: TimeTravel | None) -> QueryTable | None:
            known = self._find_schema(parts, travel, bound, checking=checking)
            if known is None:
                return None
            key = (*parts, "" if travel is None else travel.text)
            schemas[key] = known
            return QueryTable(key, pa.schema([pa.field(name, pa.null()) for name in known.fieldNames()]))

        try:
            planned = plan_query(sql, find, analyse=False)
            empty: dict[str, Any] = {
                one.name: spark.createDataFrame([], schemas[one.identifier]) for one in planned.reads
            }
            return spark.sql(planned.text, **empty).schema if empty else spark.sql(sql).schema
        except Exception as error:  # noqa: BLE001 - Spark raises errors of several classes, and all are reported
            self._report(path, shorten_error(error))
            return None

    def _find_schema(
        self, parts: Name, travel: TimeTravel | None, bound: Mapping[str, StructType], *, checking: bool
    ) -> StructType | None:
        queries = self.queries
        local = queries.graph.find_local(parts)
        if local is not None:
            return self.schemas.get(local)
        if len(parts) == 1 and parts[0].lower() in bound:
            return bound[parts[0].lower()]
        if checking and travel is None:
            for identifier in (parts, parts[1:]):
                if identifier in self.after and (identifier == parts or parts[0] == queries.lake.name):
                    return self.after[identifier]
        found = queries.reads.names.get(parts)
        return None if found is None else types.spark_schema(queries.reads.tables[found, travel].open().schema)

    def _report(self, path: Path, message: str) -> None:
        self.problems.append(self.positions.problem(path, message))


def _target_schema(target: Target, table: TargetTable, incoming: StructType) -> StructType:
    """Return the schema that a target will have. Raises InvalidInputError if the written columns do not fit."""
    if table.schema is None or target.mode == "overwrite":
        after = types.spark_schema(types.table_schema(incoming))
    else:
        made = types.plan_write(
            incoming,
            table.schema,
            merge_schema=target.merge_schema,
            fill_missing=target.merge_schema or target.mode == "merge",
            into=target.table,
        )
        after = types.spark_schema(pa.schema([*table.schema, *made.new_columns]))
    names = {name.lower() for name in incoming.names}
    missing = [key for key in target.on if key.lower() not in names]
    if missing:
        raise InvalidInputError(
            f"the merge key {missing[0]!r} is not a column of {target.from_!r}, which has {', '.join(incoming.names)}"
        )
    return after
