"""Looking at a whole pipeline before any work is done: every query is analysed by Spark, over tables without rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError, LanceNamespaceError
from pennon.spark import types
from pennon.spark.pipeline.checking import Subject, columns_of
from pennon.spark.pipeline.problems import InvalidPipelineError, Path, Problem, line_of
from pennon.spark.pipeline.references import THIS
from pennon.spark.pipeline.spark_errors import short_message
from pennon.spark.sql.query_plan import plan_query
from pennon.spark.sql.references import QueryTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from pennon.identifiers import Identifier
    from pennon.spark.pipeline.model import Check, Target
    from pennon.spark.pipeline.queries import Queries
    from pennon.spark.pipeline.statements import Name
    from pennon.spark.pipeline.targets import TargetTable
    from pennon.spark.sql.references import TimeTravel


@dataclass(frozen=True)
class Shapes:
    """What columns everything in a pipeline has."""

    locals: Mapping[str, StructType]
    """Of sources and steps."""
    unstageable: frozenset[str]
    """Steps that would be staged, if Lance could keep what they give."""


def looked_at(
    queries: Queries,
    targets: Sequence[TargetTable],
    *,
    file: str,
    lines: Mapping[Path, int],
) -> Shapes:
    """Analyse all queries and match all columns; raises InvalidPipelineError with everything that does not fit."""
    look = _Look(queries, targets, lines)
    look.at_sources()
    look.at_steps()
    look.at_targets()
    look.at_checks()
    if look.problems:
        raise InvalidPipelineError(file, look.problems)
    return Shapes(look.shapes, frozenset(look.unstageable))


@dataclass
class _Look:
    queries: Queries
    targets: Sequence[TargetTable]
    lines: Mapping[Path, int]
    shapes: dict[str, StructType] = field(default_factory=dict)
    after: dict[Identifier, StructType] = field(default_factory=dict)
    """Targets as they will be."""
    unstageable: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def at_sources(self) -> None:
        """Learn the columns of sources."""
        queries = self.queries
        used = queries.graph.used()
        for name, source in queries.graph.definition.sources.items():
            if name in used and source.format is not None:
                try:
                    self.shapes[name] = queries.open_source(name)
                except LanceNamespaceError as error:
                    self._tell(("sources", name), str(error))
            elif name in used:
                self.shapes[name] = types.spark_schema(queries.reads.sources[name].open().schema)

    def at_steps(self) -> None:
        """Analyse each step; one that reads a bad one is not looked at."""
        graph = self.queries.graph
        used, staged = graph.used(), graph.staged()
        for name, step in graph.definition.steps.items():
            path = ("steps", name, "sql")
            if name not in used or any(one not in self.shapes for one in graph.reads(step.sql)):
                continue
            shape = self._shape(path, step.sql, {})
            if shape is None:
                continue
            self.shapes[name] = shape
            if name in staged:
                try:
                    types.table_schema(shape)
                except InvalidInputError as error:
                    if step.stage == "always":
                        self._tell(("steps", name, "stage"), f"it cannot be staged: {error}")
                    self.unstageable.add(name)

    def at_targets(self) -> None:
        """Match the columns of what is written with those of the table."""
        for number, (target, table) in enumerate(zip(self.queries.graph.definition.targets, self.targets, strict=True)):
            incoming = self.shapes.get(target.from_)
            if incoming is None:
                continue
            try:
                self.after[table.identifier] = _fitted(target, table, incoming)
            except LanceNamespaceError as error:
                self._tell(("targets", number), str(error))

    def at_checks(self) -> None:
        """Look for the columns that checks name, and analyse those by SQL."""
        graph = self.queries.graph
        for place in graph.places():
            if place.step is not None:
                path: Path = ("steps", place.step, "checks")
                shape = self.shapes.get(place.step)
            elif place.target is not None:
                path = ("targets", place.target, "checks")
                shape = self.after.get(self.targets[place.target].identifier)
            else:
                path, shape = ("checks",), None
            if shape is None and path != ("checks",):
                continue
            for number, check in enumerate(place.checks):
                self._check((*path, number), place.label, check, shape)

    def _check(self, path: Path, label: str, check: Check, shape: StructType | None) -> None:
        if check.sql is not None:
            bound = {} if shape is None else {THIS: shape}
            if any(one not in self.shapes for one in self.queries.graph.reads(check.sql)):
                return
            told = self._shape((*path, "sql"), check.sql, bound, checking=True)
            if told is not None and check.expect == "true" and [one.typeName() for one in _kinds(told)] != ["boolean"]:
                self._tell((*path, "sql"), "'expect: true' needs one column, a boolean")
            return
        subject = Subject(label, shape, _nothing, _nothing, _nothing)  # type: ignore[arg-type]
        for column in columns_of(check):
            try:
                subject.top_level(column)
            except InvalidInputError as error:
                self._tell((*path, check.kind), str(error))

    def _shape(
        self, path: Path, sql: str, bound: Mapping[str, StructType], *, checking: bool = False
    ) -> StructType | None:
        """Give the columns of a query."""
        spark = self.queries.lake.spark
        shapes: dict[Identifier, StructType] = {}

        def find(parts: Name, travel: TimeTravel | None) -> QueryTable | None:
            known = self._known(parts, travel, bound, checking=checking)
            if known is None:
                return None
            key = (*parts, "" if travel is None else travel.text)
            shapes[key] = known
            return QueryTable(key, pa.schema([pa.field(name, pa.null()) for name in known.fieldNames()]))

        try:
            planned = plan_query(sql, find, analyse=False)
            frames: dict[str, Any] = {one.name: _empty(spark, shapes[one.identifier]) for one in planned.reads}
            return spark.sql(planned.text, **frames).schema if frames else spark.sql(sql).schema
        except Exception as error:  # noqa: BLE001 - what Spark raises has several classes, and all of it is told
            self._tell(path, short_message(error))
            return None

    def _known(
        self, parts: Name, travel: TimeTravel | None, bound: Mapping[str, StructType], *, checking: bool
    ) -> StructType | None:
        queries = self.queries
        local = queries.graph.local(parts)
        if local is not None:
            return self.shapes.get(local)
        if len(parts) == 1 and parts[0].lower() in bound:
            return bound[parts[0].lower()]
        if checking and travel is None:
            for identifier in (parts, parts[1:]):
                if identifier in self.after and (identifier == parts or parts[0] == queries.lake.name):
                    return self.after[identifier]
        found = queries.reads.names.get(parts)
        return None if found is None else types.spark_schema(queries.reads.tables[found, travel].open().schema)

    def _tell(self, path: Path, message: str) -> None:
        self.problems.append(Problem(path, message, line_of(self.lines, path)))


def _fitted(target: Target, table: TargetTable, incoming: StructType) -> StructType:
    """Give the columns that a target will have, or raise 13 if what is written does not fit."""
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
            f"it is merged on {missing[0]!r}, and {target.from_!r} has only {', '.join(incoming.names)}"
        )
    return after


def _empty(spark: Any, shape: StructType) -> DataFrame:
    return spark.createDataFrame([], shape)  # type: ignore[no-any-return]


def _kinds(shape: StructType) -> list[Any]:
    return [one.dataType for one in shape.fields]


def _nothing(*_: object) -> Any:
    raise AssertionError
