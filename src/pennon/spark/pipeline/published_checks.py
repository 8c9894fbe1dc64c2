"""Running the checks of a pipeline over its published tables, without writing anything."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.errors import TableNotFoundError
from pennon.identifiers import format_identifier
from pennon.pipeline_runs.report import CHECKS_FAILED, CHECKS_PASSED, AuditReport, CheckReport, PublishedTable
from pennon.spark.pipeline import pinned_reads
from pennon.spark.pipeline.check_subjects import CheckAudit
from pennon.spark.pipeline.preflight import require_valid_checks
from pennon.spark.pipeline.problems import FaultCollector
from pennon.spark.pipeline.queries import PipelineQueries
from pennon.spark.pipeline.targets import look_up_targets
from pennon.spark.reading import scan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.pipeline.graph import Graph
    from pennon.spark.pipeline.observer import Observer
    from pennon.spark.pipeline.problems import Positions
    from pennon.spark.pipeline.scrubbing import Scrubber
    from pennon.spark.pipeline.targets import TargetTable
    from pennon.spark.query.references import TimeTravel
    from pennon.spark.reading.pinned import VersionOptions


def require_published(tables: Sequence[TargetTable], positions: Positions) -> None:
    """Raise TableNotFoundError unless all targets are published; `tables` are those of all targets."""
    faults = FaultCollector(positions)
    for number, table in enumerate(tables):
        if table.version is None:
            message = f"Table {format_identifier(table.identifier)} is not published yet: run the pipeline first"
            faults.report(("targets", number, "table"), TableNotFoundError(message))
    faults.refuse()


def check_published(
    lake: Lake,
    graph: Graph,
    positions: Positions,
    *,
    observer: Observer,
    scrubber: Scrubber,
    moment_of: Callable[[Identifier, TimeTravel], VersionOptions],
) -> AuditReport:
    """Run all checks of targets and of the whole pipeline, and return the report."""
    began, started = time.monotonic(), datetime.now(timezone.utc).isoformat(timespec="seconds")
    faults = FaultCollector(positions)
    tables = look_up_targets(lake.address, graph.definition, faults.report)
    faults.refuse()
    require_published(tables, positions)
    named = [one.identifier for one in tables]
    reads = pinned_reads.resolve_reads(lake.address, lake.name, graph, moment_of, faults.report, also=named)
    faults.refuse()
    queries = PipelineQueries(lake, graph, reads)
    try:
        require_valid_checks(queries, tables, positions)
        pinned = {one: reads.tables[one, None] for one in named}
        audit = CheckAudit(queries, {}, {one: scan.scan_pinned(table) for one, table in pinned.items()}, scrubber)
        groups = list(graph.definition.check_groups())
        observer.planned([f"checks of {group.label}" for group in groups])
        checks: list[CheckReport] = []
        for group in groups:
            observer.begun(f"checks of {group.label}")
            checks += audit.reports(group)
            observer.done(f"checks of {group.label}", reused=False)
    finally:
        queries.close()
    failed = any(not one.passed and one.severity == "error" for one in checks)
    checked = tuple(
        PublishedTable(target.table, pinned[table.identifier].version)
        for target, table in zip(graph.definition.targets, tables, strict=True)
    )
    return AuditReport(
        graph.definition.name,
        CHECKS_FAILED if failed else CHECKS_PASSED,
        started,
        round(time.monotonic() - began, 3),
        checked,
        tuple(checks),
    )
