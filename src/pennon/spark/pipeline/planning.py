"""The plan of a run, made without Spark and without changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.identifiers import quote_identifier
from pennon.pipeline_runs.report import Report
from pennon.spark.pipeline import pinned_reads
from pennon.spark.pipeline.problems import FaultCollector
from pennon.spark.pipeline.static_checks import check_statically
from pennon.spark.pipeline.targets import look_up_targets, require_version_management
from pennon.spark.query.plan import plan_query
from pennon.spark.query.references import QueryTable, TimeTravel
from pennon.spark.reading.pinned import VersionOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.pipeline.graph import Graph
    from pennon.spark.pipeline.problems import Positions
    from pennon.spark.pipeline.scrubbing import Scrubber
    from pennon.spark.pipeline.statements import Name
    from pennon.spark.pipeline.targets import TargetTable


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
class PipelinePlan(Report):
    """What a run would do now."""

    pipeline: str
    publish: str
    sources: tuple[PlannedSource, ...]
    steps: tuple[PlannedStep, ...]
    targets: tuple[PlannedTarget, ...]
    checks: tuple[PlannedCheck, ...]


def make_plan(
    graph: Graph,
    address: Address,
    lake_name: str,
    positions: Positions,
    *,
    scrubber: Scrubber,
    settings: Mapping[str, str],
) -> PipelinePlan:
    """Return the plan of a run, with everything that a run reads first and that needs no Spark.

    `settings` are those of the Spark session.
    """
    definition = graph.definition
    if definition.publish == "atomic":
        require_version_management(address, definition)
    tables, found = resolve_tables(graph, address, lake_name, positions, settings)
    used = graph.used_names()
    sources = []
    for name, source in definition.sources.items():
        version = found.sources[name].version if name in found.sources else None
        at = source.table or ", ".join(source.path or ())
        sources.append(PlannedSource(name, source.format or "table", at, version, name in used))
    targets = [
        PlannedTarget(target.table, target.from_, target.mode, target.on, table.version)
        for target, table in zip(definition.targets, tables, strict=True)
    ]
    checks = [
        # A title is truncated, so its secrets are removed before.
        PlannedCheck(
            group.label, scrubber.scrub_title(one), one.severity, one.scope if group.target is not None else None
        )
        for group in definition.check_groups()
        for one in group.checks
    ]
    steps = tuple(_plan_step(graph, found, name) for name in definition.steps)
    plan = PipelinePlan(definition.name, definition.publish, tuple(sources), steps, tuple(targets), tuple(checks))
    return scrubber.scrub_report(plan)


def resolve_tables(
    graph: Graph, address: Address, lake_name: str, positions: Positions, settings: Mapping[str, str]
) -> tuple[list[TargetTable], pinned_reads.PinnedReads]:
    """Return the tables that are written and read, after all checks that need no Spark.

    Raises the error that was found, or InvalidPipelineError if there are several.
    """
    faults = FaultCollector(positions)
    tables = look_up_targets(address, graph.definition, faults.report)
    reads = pinned_reads.resolve_reads(address, lake_name, graph, _plain_version, faults.report)
    check_statically(graph, reads, tables, settings, faults.report)
    faults.refuse()
    return tables, reads


def _plan_step(graph: Graph, found: pinned_reads.PinnedReads, name: str) -> PlannedStep:
    if name not in graph.used_names():
        return PlannedStep(name, "not used", (), ())
    reads = tuple(_plan_reads(graph, found, graph.definition.steps[name].sql))
    if name in graph.staged_steps():
        return PlannedStep(name, "staged", (), reads)
    within = graph.readers(name)
    return PlannedStep(name, "part of " + ", ".join(within), within, reads)


def _plan_reads(graph: Graph, found: pinned_reads.PinnedReads, sql: str) -> list[PlannedRead]:
    """Return what a step reads; for tables, only the columns and rows that it needs."""
    known: dict[Identifier, tuple[str, int]] = {}

    def find(parts: Name, travel: TimeTravel | None) -> QueryTable | None:
        local = graph.find_local(parts)
        meant = found.names.get(parts)
        if local is not None:
            table = found.sources.get(local)
        else:
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


def _plain_version(_: Identifier, travel: TimeTravel) -> VersionOptions | None:
    """Return the version that a query asks for, or None if only Spark can evaluate it."""
    text = travel.text.strip("'\"")
    return VersionOptions(version=int(text)) if travel.kind == "version" and text.isdigit() else None
