"""Analyzing a whole pipeline before any work: Spark analyzes every query over empty tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError, LanceNamespaceError
from pennon.spark import types
from pennon.spark.pipeline.check_runner import CheckSubject
from pennon.spark.pipeline.problems import InvalidPipelineError, Path, PipelineProblem, find_line
from pennon.spark.pipeline.spark_errors import shorten_error
from pennon.spark.pipeline.statements import THIS
from pennon.spark.query.plan import plan_query
from pennon.spark.query.references import QueryTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from pennon.identifiers import Identifier
    from pennon.spark.pipeline.model import Check, Target
    from pennon.spark.pipeline.queries import PipelineQueries
    from pennon.spark.pipeline.statements import Name
    from pennon.spark.pipeline.target_tables import TargetTable
    from pennon.spark.query.references import TimeTravel


def find_unstageable_steps(
    queries: PipelineQueries,
    targets: Sequence[TargetTable],
    *,
    file: str,
    lines: Mapping[Path, int],
) -> frozenset[str]:
    """Analyze all queries and columns, and return the staged steps whose results Lance cannot store.

    Raises InvalidPipelineError with all problems.
    """
    run = _Preflight(queries, targets, lines)
    run.analyze_sources()
    run.analyze_steps()
    run.match_targets()
    run.analyze_checks()
    if run.problems:
        raise InvalidPipelineError(file, run.problems)
    return frozenset(run.unstageable)


@dataclass
class _Preflight:
    """The schemas and problems found so far."""

    queries: PipelineQueries
    targets: Sequence[TargetTable]
    lines: Mapping[Path, int]
    schemas: dict[str, StructType] = field(default_factory=dict)
    after: dict[Identifier, StructType] = field(default_factory=dict)
    """The schemas of targets after the run."""
    unstageable: set[str] = field(default_factory=set)
    problems: list[PipelineProblem] = field(default_factory=list)

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
        graph = self.queries.graph
        for group in graph.check_groups():
            if group.step is not None:
                path: Path = ("steps", group.step, "checks")
                schema = self.schemas.get(group.step)
            elif group.target is not None:
                path = ("targets", group.target, "checks")
                schema = self.after.get(self.targets[group.target].identifier)
            else:
                path, schema = ("checks",), None
            if schema is None and path != ("checks",):
                continue
            for number, check in enumerate(group.checks):
                self._check((*path, number), group.label, check, schema)

    def _check(self, path: Path, label: str, check: Check, schema: StructType | None) -> None:
        if check.sql is not None:
            bound = {} if schema is None else {THIS: schema}
            if any(one not in self.schemas for one in self.queries.graph.local_reads(check.sql)):
                return
            result = self._query_schema((*path, "sql"), check.sql, bound, checking=True)
            if (
                result is not None
                and check.expect == "true"
                and [one.typeName() for one in _kinds(result)] != ["boolean"]
            ):
                self._report((*path, "sql"), "'expect: true' needs one column, a boolean")
            return
        subject = CheckSubject(label, schema, _nothing, _nothing, _nothing)  # type: ignore[arg-type]
        for column in check.columns:
            try:
                subject.top_level(column)
            except InvalidInputError as error:
                self._report((*path, check.kind), str(error))

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
            frames: dict[str, Any] = {one.name: _empty(spark, schemas[one.identifier]) for one in planned.reads}
            return spark.sql(planned.text, **frames).schema if frames else spark.sql(sql).schema
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
        self.problems.append(PipelineProblem(path, message, find_line(self.lines, path)))


def _target_schema(target: Target, table: TargetTable, incoming: StructType) -> StructType:
    """Return the schema that a target will have. Raises InvalidInputError if the written columns do not fit."""
    if table.schema is None or target.mode == "overwrite":
        after = types.spark_schema(types.table_schema(incoming))
    else:
        made = types.plan_write(
            incoming,
            table.schema,
            merge_schema=target.merge_schema,
            fill_missing=target.mode == "merge",
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


def _empty(spark: Any, schema: StructType) -> DataFrame:
    return spark.createDataFrame([], schema)  # type: ignore[no-any-return]


def _kinds(schema: StructType) -> list[Any]:
    return [one.dataType for one in schema.fields]


def _nothing(*_: object) -> Any:
    raise AssertionError
