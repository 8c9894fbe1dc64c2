"""Evaluating a pipeline's queries: names become pinned tables, staged steps, or common table expressions.

Steps that are not staged become part of the query that reads them, so that of each table only the columns and rows are
read that are needed in the end.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError
from pennon.spark.pipeline import sources
from pennon.spark.pipeline.references import THIS
from pennon.spark.pipeline.statements import query as parsed_query
from pennon.spark.reading import scan as scanning
from pennon.spark.session_settings import has_plain_names
from pennon.spark.sql.constants import SessionSettings
from pennon.spark.sql.cursor import tokenize
from pennon.spark.sql.query_plan import QueryPlan, TableRead, plan_query
from pennon.spark.sql.query_runner import translate_spark_errors
from pennon.spark.sql.references import QueryTable, TimeTravel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.pipeline.graph import Graph
    from pennon.spark.pipeline.reads import Reads
    from pennon.spark.pipeline.statements import Name
    from pennon.spark.reading.scan import Scan

_LOCAL = ""
"""What the keys of sources, steps and data under check begin with; no name of a table is empty."""
_ZONE = "spark.sql.session.timeZone"


def composed(graph: Graph, sql: str, inlined: Mapping[str, str]) -> str:
    """Put the queries of the sources and steps that are part of this query in front of it, in the order of the file."""
    needed = [name for name in graph.needed(sql, within=inlined.keys()) if name in inlined]
    text = _trimmed(sql)
    if not needed:
        return text
    clauses = ",\n".join(f"`{name}` AS (\n{_trimmed(inlined[name])}\n)" for name in needed)
    if parsed_query(sql).args.get("with_") is None:
        return f"WITH {clauses}\n{text}"
    return f"WITH {clauses}\nSELECT * FROM (\n{text}\n)"


@dataclass(frozen=True)
class Sight:
    """What a check sees beside all others: the data that it is about, and targets as they will be."""

    this: Scan | None = None
    step: str | None = None
    """The step that the data under check is, if it is not staged."""
    targets: Mapping[Identifier, Scan] = field(default_factory=dict)


PLAIN = Sight()


@dataclass
class Queries:
    """The queries of one run."""

    lake: Lake
    graph: Graph
    reads: Reads
    steps: dict[str, Scan] = field(default_factory=dict)
    """Results of steps that are staged."""
    views: dict[str, str] = field(default_factory=dict)
    """Temporary views of sources that Spark reads."""

    def open_source(self, name: str) -> StructType:
        """Let Spark look at a source that is not in the catalog; gives its columns."""
        if name not in self.views:
            frame = sources.opened(self.lake.spark, name, self.graph.definition.sources[name])
            # Other pipelines may run in the same session.
            view = f"pennon_{uuid.uuid4().hex[:12]}_{name}"
            frame.createOrReplaceTempView(view)
            self.views[name] = view
        return self.lake.spark.table(self.views[name]).schema

    def close(self) -> None:
        """Remove the temporary views."""
        for view in self.views.values():
            self.lake.spark.catalog.dropTempView(view)
        self.views.clear()

    def frame(self, sql: str, sight: Sight = PLAIN) -> DataFrame:
        """Evaluate a query over pinned tables and what is staged."""
        planned = self.planned(sql, sight)
        if planned.count is not None and is_partial(self._scan(planned.count.identifier, planned.count.travel, sight)):
            planned = self.planned(sql, sight, analyse=False)
        with translate_spark_errors(self.lake, sql):
            counting = planned.count
            if counting is not None:
                wanted = replace(self._scan(counting.identifier, counting.travel, sight), where=counting.where)
                rows = scanning.count_rows(self.lake.spark, wanted)
                shown = ", ".join(f"CAST({rows} AS BIGINT) AS `{one.replace('`', '``')}`" for one in counting.names)
                return self.lake.spark.sql(f"SELECT {shown}")
            if not planned.reads:
                return self.lake.spark.sql(planned.text)
            frames: dict[str, Any] = {one.name: self._read(one, sight) for one in planned.reads}
            return self.lake.spark.sql(planned.text, **frames)

    def of(self, name: str) -> DataFrame:
        """Give a source or step."""
        return self.frame(f"SELECT * FROM `{name}`")  # noqa: S608 - a name of the pipeline

    def planned(self, sql: str, sight: Sight = PLAIN, *, analyse: bool = True) -> QueryPlan:
        """Plan a query, without running anything."""

        def find(parts: Name, travel: TimeTravel | None) -> QueryTable | None:
            key = self._key(parts, travel, sight)
            return None if key is None else QueryTable(key, self._scan(key, travel, sight).schema, lake=self.lake.name)

        if sight.step is not None:
            sql = f"WITH `{THIS}` AS (SELECT * FROM `{sight.step}`) SELECT * FROM (\n{_trimmed(sql)}\n)"  # noqa: S608
        session = SessionSettings(self.lake.spark.conf.get(_ZONE))
        analyse = analyse and has_plain_names(self.lake.spark)
        return plan_query(composed(self.graph, sql, self._inlined(sql)), find, session, analyse=analyse)

    def _inlined(self, sql: str) -> dict[str, str]:
        """Give what is no table to the planner: sources that Spark reads, and steps that are not staged."""
        definition = self.graph.definition
        inlined = {name: step.sql for name, step in definition.steps.items() if name not in self.steps}
        for name in self.graph.needed(sql, within=inlined.keys()):
            if name in definition.sources and definition.sources[name].format is not None:
                self.open_source(name)
                inlined[name] = f"SELECT * FROM {self.views[name]}"  # noqa: S608 - a name of our own
        return inlined

    def _key(self, parts: Name, travel: TimeTravel | None, sight: Sight) -> Identifier | None:
        local = self.graph.local(parts)
        if local is not None or [part.lower() for part in parts] == [THIS]:
            if travel is not None:
                raise InvalidInputError(f"{parts[0]!r} is no table of the catalog: it has no other version")
            return (_LOCAL, local or THIS)
        if travel is None:
            named = [one for one in (parts, parts[1:] if parts[0] == self.lake.name else ()) if one in sight.targets]
            if named:
                return named[0]
        return self.reads.names.get(parts)

    def _scan(self, key: Identifier, travel: TimeTravel | None, sight: Sight) -> Scan:
        if key[0] != _LOCAL:
            if travel is None and key in sight.targets:
                return sight.targets[key]
            return scanning.scan_pinned(self.reads.tables[key, travel])
        name = key[1]
        if name == THIS and sight.this is not None:
            return sight.this
        return self.steps[name] if name in self.steps else scanning.scan_pinned(self.reads.sources[name])

    def _read(self, wanted: TableRead, sight: Sight) -> DataFrame:
        whole = self._scan(wanted.identifier, wanted.travel, sight)
        made = replace(whole, columns=wanted.columns, where=wanted.where, limit=wanted.limit)
        return scanning.to_dataframe(self.lake.spark, made, partials=wanted.partials)


def is_partial(seen: Scan) -> bool:
    """Tell whether a scan leaves out fragments of its version."""
    return len(seen.fragments) != len(seen.table.open().get_fragments())


def _trimmed(sql: str) -> str:
    """Leave out what follows the query: semicolons and comments."""
    tokens = tokenize(sql)
    return sql[: tokens[-1].end + 1] if tokens else sql
