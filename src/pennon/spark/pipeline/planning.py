"""The plan of a run, made without Spark and without changes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.identifiers import quote_identifier
from pennon.spark.pipeline import pinned_reads, target_tables
from pennon.spark.pipeline.graph import Graph
from pennon.spark.query.plan import plan_query
from pennon.spark.query.references import QueryTable, TimeTravel
from pennon.spark.reading.pinned import VersionOptions

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
    """A table that a query reads. `columns` is None if all are read, or if only Spark can tell."""

    name: str
    version: int | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None


@dataclass(frozen=True)
class PlannedSource:
    """A source; `used` is False if nothing depends on it."""

    name: str
    kind: str
    at: str
    version: int | None
    used: bool


@dataclass(frozen=True)
class PlannedStep:
    """A step and its `fate`: `staged`, part of its readers (`within`), or `not used`."""

    name: str
    fate: str
    within: tuple[str, ...]
    reads: tuple[PlannedRead, ...]


@dataclass(frozen=True)
class PlannedTarget:
    """A target; `version` is the current version, or None if the table will be created."""

    table: str
    source: str
    mode: str
    on: tuple[str, ...]
    version: int | None


@dataclass(frozen=True)
class PlannedCheck:
    """A check and its subject."""

    on: str
    name: str
    severity: str
    scope: str | None


@dataclass(frozen=True)
class PipelinePlan:
    """What a run would do now."""

    pipeline: str
    publish: str
    sources: tuple[PlannedSource, ...]
    steps: tuple[PlannedStep, ...]
    targets: tuple[PlannedTarget, ...]
    checks: tuple[PlannedCheck, ...]

    def document(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)


def make_plan(
    definition: Definition, address: Address, lake_name: str, locate: Callable[[Path], str], scrubber: Scrubber
) -> PipelinePlan:
    """Return the plan of a run, with everything that a run reads first and that needs no Spark."""
    if definition.publish == "atomic":
        target_tables.require_version_management(address, definition)
    graph = Graph(definition)
    tables = target_tables.look_up_targets(address, definition, locate)
    found = pinned_reads.resolve_reads(address, lake_name, graph, _plain_version, locate)
    used = graph.used_names()
    return PipelinePlan(
        definition.name,
        definition.publish,
        tuple(
            PlannedSource(
                name,
                source.format or "table",
                scrubber.scrub_text(source.table or ", ".join(source.path or ())),
                found.sources[name].version if name in found.sources else None,
                name in used,
            )
            for name, source in definition.sources.items()
        ),
        tuple(_plan_step(graph, found, name, scrubber) for name in definition.steps),
        tuple(
            PlannedTarget(scrubber.scrub_text(target.table), target.from_, target.mode, target.on, table.version)
            for target, table in zip(definition.targets, tables, strict=True)
        ),
        tuple(
            PlannedCheck(
                scrubber.scrub_text(one.label),
                scrubber.scrub_title(check),
                check.severity,
                check.scope if one.target is not None else None,
            )
            for one in graph.check_groups()
            for check in one.checks
        ),
    )


def _plan_step(graph: Graph, found: pinned_reads.PinnedReads, name: str, scrubber: Scrubber) -> PlannedStep:
    step = graph.definition.steps[name]
    staged = name in graph.staged_steps()
    used = name in graph.used_names()
    within = () if staged or not used else graph.readers(name)
    fate = "staged" if staged else "part of " + ", ".join(within) if used else "not used"
    read = [
        replace(
            one, name=scrubber.scrub_text(one.name), where=None if one.where is None else scrubber.scrub_text(one.where)
        )
        for one in (_plan_reads(graph, found, step.sql) if used else ())
    ]
    return PlannedStep(name, fate, within, tuple(read))


def _plan_reads(graph: Graph, found: pinned_reads.PinnedReads, sql: str) -> list[PlannedRead]:
    """Return what a step reads; for tables, only the columns and rows that it needs."""
    known: dict[Identifier, tuple[str, int]] = {}

    def find(parts: Name, travel: TimeTravel | None) -> QueryTable | None:
        local = graph.find_local(parts)
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
    others = [name for name in graph.local_reads(sql) if name not in named]
    others += [".".join(one.name) for one in graph.external_reads(sql) if found.names.get(one.name) is None]
    return [*tables, *(PlannedRead(one) for one in dict.fromkeys(others))]


def _plain_version(identifier: Identifier, travel: TimeTravel) -> VersionOptions | None:
    """Return the version that a query asks for, or None if only Spark can evaluate it."""
    del identifier
    text = travel.text.strip("'\"")
    return VersionOptions(version=int(text)) if travel.kind == "version" and text.isdigit() else None
