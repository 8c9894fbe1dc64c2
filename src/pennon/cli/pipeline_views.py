"""Show the plan and the report of a pipeline on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.cli.output import Block, Column, Fields, Lines, Note, Table
from pennon.cli.values import format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pennon.pipeline_runs.report import CheckReport
    from pennon.spark.pipeline import AuditReport, RunReport
    from pennon.spark.pipeline.planning import PipelinePlan, PlannedRead


def report_view(report: RunReport) -> Iterable[Block]:
    """Return the view of a run's report."""
    columns = [
        Column("work", whole=True),
        Column("rows", right=True),
        Column("bytes", right=True),
        Column("seconds", right=True),
        Column("version", right=True),
        Column("remark", "dim"),
    ]
    rows = []
    for step in report.steps:
        remark = "already done" if step.reused else "" if step.staged else "part of " + ", ".join(step.within)
        rows.append(
            [
                f"step {step.name}",
                _format_number(step.rows),
                _format_bytes(step.bytes),
                _format_seconds(step.seconds),
                "",
                remark,
            ]
        )
    for target in report.targets:
        versions = _format_number(target.version) if target.version is not None else ""
        remark = f"{target.mode}{', already staged' if target.reused else ''}"
        figures = [_format_number(target.rows), _format_bytes(target.bytes), _format_seconds(target.seconds)]
        rows.append([f"target {target.table}", *figures, versions, remark])
    yield Table(columns, rows)
    if report.checks:
        yield Lines([("", "")])
        yield _checks_table(report.checks)
    yield Lines([("", "")])
    style = "green" if report.succeeded else "bold red"
    ending = f"{report.status}: run {report.run_id} of {report.pipeline}, {report.seconds:.1f} s"
    yield Lines([(ending, style)])
    if not report.succeeded:
        yield Note("nothing was published, and the staged data was removed")


def audit_view(report: AuditReport) -> Iterable[Block]:
    """Return the view of a report about published tables."""
    if report.checks:
        yield _checks_table(report.checks)
        yield Lines([("", "")])
    versions = ", ".join(f"{one.table} version {one.version}" for one in report.tables)
    style = "green" if report.passed else "bold red"
    yield Lines([(f"{report.status}: {report.pipeline}, {report.seconds:.1f} s", style)])
    yield Note(f"checked: {versions}" if report.checks else "the pipeline has no checks of published tables")


def _checks_table(checks: Sequence[CheckReport]) -> Table:
    columns = [Column("check", whole=True), Column("on", whole=True), Column("result"), Column("found")]
    rows = []
    for check in checks:
        result = "ok" if check.passed else "FAILED" if check.severity == "error" else "warning"
        found = "" if check.passed and check.failing == 0 else check.message or ""
        if check.samples:
            found += f", such as {', '.join(f'{key}={value}' for key, value in check.samples[0].items())}"
        rows.append([check.name, check.on, result, found])
    return Table(columns, rows)


def plan_view(plan: PipelinePlan) -> Iterable[Block]:
    """Return the view of a plan."""
    published = "all targets in one commit" if plan.publish == "atomic" else "one target after the other"
    yield Fields({"pipeline": plan.pipeline, "publish": f"{plan.publish}: {published}"})
    yield Lines([("", ""), ("sources", "bold")])
    sources = [
        [one.name, one.kind, one.at, _format_number(one.version), "" if one.used else "not used"]
        for one in plan.sources
    ]
    names = ("name", "kind", "at", "version", "remark")
    yield Table([Column(one, whole=one == "name") for one in names], sources, empty="none")
    yield Lines([("", ""), ("steps, in this order", "bold")])
    steps = []
    for step in plan.steps:
        for number, one in enumerate(step.reads or (None,)):
            head = ["", ""] if number else [step.name, step.fate]
            steps.append([*head, "" if one is None else one.name, "" if one is None else _format_columns(one)])
    yield Table([Column("name", whole=True), Column("is"), Column("reads"), Column("columns")], steps, empty="none")
    yield Lines([("", ""), ("targets", "bold")])
    targets = [
        [
            one.table,
            one.source,
            one.mode + (f" on {', '.join(one.on)}" if one.on else ""),
            _format_number(one.version) or "new",
        ]
        for one in plan.targets
    ]
    yield Table([Column("table", whole=True), Column("from"), Column("mode"), Column("version")], targets)
    yield Lines([("", ""), ("checks", "bold")])
    checks = [[one.name, one.on, one.severity, one.scope or ""] for one in plan.checks]
    yield Table([Column("check", whole=True), Column("on"), Column("severity"), Column("scope")], checks, empty="none")
    yield Lines([("", "")])
    yield Note("dry run: nothing was changed")


def _format_columns(read: PlannedRead) -> str:
    if read.version is None:
        return ""
    names = "all" if read.columns is None else ", ".join(read.columns) or "none, only the number of rows"
    return f"{names}{f' where {read.where}' if read.where else ''} (version {read.version})"


def _format_number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _format_bytes(value: int | None) -> str:
    return "" if value is None else format_size(value)


def _format_seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
