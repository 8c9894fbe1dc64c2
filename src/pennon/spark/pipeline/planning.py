"""What a run would do, without Spark and without doing any of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.identifiers import quote_identifier
from pennon.spark.pipeline import reads, targets
from pennon.spark.pipeline.graph import Graph
from pennon.spark.reading.pinned import VersionSelector
from pennon.spark.sql.query_plan import plan_query
from pennon.spark.sql.references import QueryTable, TimeTravel

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.pipeline.problems import Path
    from pennon.spark.pipeline.scrubbing import Scrubber
    from pennon.spark.pipeline.statements import Name


@dataclass(frozen=True)
class PlannedRead:
    """Something that a query reads: its columns (None: all, or not known before Spark looks at it) and version."""

    name: str
    version: int | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None


@dataclass(frozen=True)
class PlannedSource:
    """A source; `used` is false if nothing comes of it."""

    name: str
    kind: str
    at: str
    version: int | None
    used: bool


@dataclass(frozen=True)
class PlannedStep:
    """A step, and what becomes of it: `staged`, part of what reads it (`within`), or `not used`."""

    name: str
    fate: str
    within: tuple[str, ...]
    reads: tuple[PlannedRead, ...]


@dataclass(frozen=True)
class PlannedTarget:
    """A target; `version` is the one that is there now, None if the table is to be made."""

    table: str
    source: str
    mode: str
    on: tuple[str, ...]
    version: int | None


@dataclass(frozen=True)
class PlannedCheck:
    """A check and what it is about."""

    on: str
    name: str
    severity: str
    scope: str | None


@dataclass(frozen=True)
class Plan:
    """What a run would do now."""

    pipeline: str
    publish: str
    sources: tuple[PlannedSource, ...]
    steps: tuple[PlannedStep, ...]
    targets: tuple[PlannedTarget, ...]
    checks: tuple[PlannedCheck, ...]

    def document(self) -> dict[str, Any]:
        """Give the plan in terms of JSON."""
        return asdict(self)


def planned(
    definition: Definition, address: Address, lake_name: str, place: Callable[[Path], str], scrubber: Scrubber
) -> Plan:
    """Look at everything that a run would look at before it begins, as far as that needs no Spark."""
    if definition.publish == "atomic":
        targets.require_management(address, definition)
    graph = Graph(definition)
    tables = targets.looked_up(address, definition, place)
    found = reads.resolved(address, lake_name, graph, _moment, place)
    used = graph.used()
    return Plan(
        definition.name,
        definition.publish,
        tuple(
            PlannedSource(
                name,
                source.format or "table",
                scrubber.text(source.table or ", ".join(source.path or ())),
                found.sources[name].version if name in found.sources else None,
                name in used,
            )
            for name, source in definition.sources.items()
        ),
        tuple(_step(graph, found, name, scrubber) for name in definition.steps),
        tuple(
            PlannedTarget(scrubber.text(target.table), target.from_, target.mode, target.on, table.version)
            for target, table in zip(definition.targets, tables, strict=True)
        ),
        tuple(
            PlannedCheck(
                scrubber.text(one.label),
                scrubber.title(check),
                check.severity,
                check.scope if one.target is not None else None,
            )
            for one in graph.places()
            for check in one.checks
        ),
    )


def _step(graph: Graph, found: reads.Reads, name: str, scrubber: Scrubber) -> PlannedStep:
    step = graph.definition.steps[name]
    staged = name in graph.staged()
    used = name in graph.used()
    within = () if staged or not used else graph.readers(name)
    fate = "staged" if staged else "part of " + ", ".join(within) if used else "not used"
    read = [
        replace(one, name=scrubber.text(one.name), where=None if one.where is None else scrubber.text(one.where))
        for one in (_reads(graph, found, step.sql) if used else ())
    ]
    return PlannedStep(name, fate, within, tuple(read))


def _reads(graph: Graph, found: reads.Reads, sql: str) -> list[PlannedRead]:
    """Give what a step reads itself; of tables, just the columns and rows that it needs."""
    known: dict[Identifier, tuple[str, int]] = {}

    def find(parts: Name, travel: TimeTravel | None) -> QueryTable | None:
        local = graph.local(parts)
        if local is not None:
            table = found.sources.get(local)
        else:
            meant = found.names.get(parts)
            table = None if meant is None else found.tables.get((meant, travel))
        if table is None:
            return None
        key = (*parts, "" if travel is None else travel.text)
        known[key] = (local or quote_identifier(table.identifier), table.version)
        return QueryTable(key, table.open().schema)

    made = plan_query(sql, find)
    if made.count is not None:
        name, version = known[made.count.identifier]
        return [PlannedRead(name, version, (), made.count.where)]
    tables = [PlannedRead(*known[one.identifier], one.columns, one.where) for one in made.reads]
    named = {one.name for one in tables}
    others = [name for name in graph.reads(sql) if name not in named]
    others += [".".join(one.name) for one in graph.tables(sql) if found.names.get(one.name) is None]
    return [*tables, *(PlannedRead(one) for one in dict.fromkeys(others))]


def _moment(identifier: Identifier, travel: TimeTravel) -> VersionSelector | None:
    """Tell which version a query means, if that needs nobody to evaluate an expression."""
    del identifier
    text = travel.text.strip("'\"")
    return VersionSelector(version=int(text)) if travel.kind == "version" and text.isdigit() else None
