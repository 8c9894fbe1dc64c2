"""Runs of pipelines: what they read and wrote, their checks, and how long everything took."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import parse_table_name
from pennon.paging import select_page
from pennon.pipeline_runs.run_listing import RecordedRun, list_pipelines, list_run_ids, read_run, read_runs
from pennon.pipeline_runs.run_state import DIRECTORY
from pennon.server.pages import paths
from pennon.server.pages.cells import shorten
from pennon.server.pages.flow_graph import FlowDrawing, FlowNode, draw_flow
from pennon.server.pages.rendering import format_moment, render_error
from pennon.server.permissions.rights import Need, Right

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import Response

    from pennon.pipeline_runs.report import CheckReport, RunReport
    from pennon.server.pages.page_request import PageRequest

PAGE_SIZE = 20
MOST_LINES = 200
"""How many steps, targets, checks and sources of a run are shown, of each."""
_MOST_SAMPLES, _MOST_COLUMNS = 100, 40
_MOST_TRIED = 5
_BAR_WIDTH = 80


@dataclass(frozen=True)
class PipelineLine:
    """A pipeline and its latest run."""

    name: str
    runs: int
    latest: RecordedRun | None
    ended: RecordedRun | None
    """The latest run with a report, among the last few."""


@dataclass(frozen=True)
class WorkLine:
    """A step or target, with a bar for its time."""

    kind: str
    name: str
    rows: int | None
    bytes: int | None
    seconds: float | None
    bar: float
    remark: str
    reads: str
    version: int | None = None
    base_version: int | None = None


@dataclass(frozen=True)
class SampleTable:
    """Rows that fail a check, as texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class CheckLine:
    """A check and the rows that fail it."""

    report: CheckReport
    samples: SampleTable | None


def to_see_runs(_: PageRequest) -> Iterable[Need]:
    """Need to read everything: a report has names, figures and failing rows of any table."""
    return [Need(Right.READ, "namespace", ())]


def show_pipelines(request: PageRequest) -> Response:
    """Return the pipelines that have recorded runs, each with its latest run."""
    store = request.directory.store
    chosen, token = select_page(list_pipelines(store), request.page_token, PAGE_SIZE)
    lines = store.map(lambda name: _read_pipeline(request, name), chosen)
    return request.render(
        "pipelines.html",
        "Pipelines",
        format_start=format_start,
        section="runs",
        lines=lines,
        drawing=_draw_pipelines(lines),
        directory=DIRECTORY,
        more=token and paths.with_query(paths.RUNS, page=token),
        is_later_page=request.page_token is not None,
    )


def show_runs(request: PageRequest) -> Response:
    """Return the runs of a pipeline."""
    store, pipeline = request.directory.store, request.parts["pipeline"]
    ids = list_run_ids(store, pipeline)
    if not ids:
        return render_error(404, f"No runs of a pipeline {pipeline[:100]!r} are recorded here")
    start = request.number("start", 0) or 0
    end = start + PAGE_SIZE
    return request.render(
        "runs.html",
        pipeline,
        format_start=format_start,
        section="runs",
        pipeline=pipeline,
        total=len(ids),
        lines=read_runs(store, pipeline, ids[start:end]),
        more=paths.with_query(paths.run_path(pipeline), start=end) if end < len(ids) else None,
        is_later_page=start > 0,
    )


def show_run(request: PageRequest) -> Response:
    """Return a run with its steps, targets and checks."""
    pipeline, run_id = request.parts["pipeline"], request.parts["run"]
    run = read_run(request.directory.store, pipeline, run_id)
    if run is None:
        return render_error(
            404, f"No run {run_id[:100]!r} of a pipeline {pipeline[:100]!r} is recorded in this catalog"
        )
    report = run.report
    return request.render(
        "run.html",
        f"Run {run_id}",
        format_start=format_start,
        section="runs",
        run=run,
        report=report,
        started=format_start(run),
        find_table_path=find_table_path,
        work=[] if report is None else _list_work(report),
        checks=[] if report is None else _list_checks(report),
        sources=[] if report is None else report.sources[:MOST_LINES],
        left=0 if report is None else _count_left(report),
        drawing=None if report is None else _draw_run(report),
    )


def format_start(run: RecordedRun) -> str:
    """Return when a run began, as far as its record says."""
    text = run.started if run.report is None else run.report.started
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return format_moment(moment)
    return shorten(text)


def find_table_path(name: str, view: str = "", **query: object) -> str:
    """Return the path of a table's page, or an empty text if a record names no table."""
    with suppress(InvalidInputError):
        return paths.table_path(parse_table_name(name), view, **query)
    return ""


def _read_pipeline(request: PageRequest, name: str) -> PipelineLine:
    ids = list_run_ids(request.directory.store, name)
    store = request.directory.store
    latest = read_run(store, name, ids[0]) if ids else None
    later = (read_run(store, name, one) for one in ids[1:_MOST_TRIED])
    ended = next((one for one in itertools.chain((latest,), later) if one is not None and one.report is not None), None)
    return PipelineLine(name, len(ids), latest, ended)


def _list_work(report: RunReport) -> list[WorkLine]:
    lines = [
        WorkLine(
            "step",
            one.name,
            one.rows,
            one.bytes,
            one.seconds,
            0,
            "" if one.staged else f"part of {', '.join(one.within)}",
            ", ".join([*one.reads, *one.tables]),
        )
        for one in report.steps[:MOST_LINES]
    ]
    lines += [
        WorkLine(
            "target",
            one.table,
            one.rows,
            one.bytes,
            one.seconds,
            0,
            one.mode,
            one.source or "",
            one.version,
            one.base_version,
        )
        for one in report.targets[:MOST_LINES]
    ]
    longest = max((one.seconds or 0 for one in lines), default=0)
    return [
        replace(one, bar=round(_BAR_WIDTH * (one.seconds or 0) / longest, 1) if longest > 0 else 0) for one in lines
    ]


def _list_checks(report: RunReport) -> list[CheckLine]:
    # Those that failed come first.
    ordered = sorted(report.checks, key=lambda one: (one.passed, one.severity != "error"))
    return [CheckLine(one, _make_samples(one)) for one in ordered[:MOST_LINES]]


def _make_samples(check: CheckReport) -> SampleTable | None:
    rows = check.samples[:_MOST_SAMPLES]
    columns = tuple(dict.fromkeys(name for row in rows for name in row))[:_MOST_COLUMNS]
    if not columns:
        return None
    return SampleTable(columns, tuple(tuple(shorten(_to_text(row.get(name))) for name in columns) for row in rows))


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else "null" if value is None else str(value)


def _count_left(report: RunReport) -> int:
    groups = (report.sources, report.steps, report.targets, report.checks)
    return sum(max(0, len(one) - MOST_LINES) for one in groups)


def _draw_run(report: RunReport) -> FlowDrawing | None:
    """Return the drawing of a run: from sources and tables over steps to targets."""
    nodes = [FlowNode(f"local {one.name}", one.name, one.kind) for one in report.sources]
    nodes += [FlowNode(f"table {name}", name, "table") for step in report.steps for name in step.tables]
    nodes += [
        FlowNode(
            f"local {one.name}",
            one.name,
            "step",
            tuple([f"local {name}" for name in one.reads] + [f"table {name}" for name in one.tables]),
        )
        for one in report.steps
    ]
    nodes += [
        FlowNode(f"target {one.table}", one.table, "target", () if one.source is None else (f"local {one.source}",))
        for one in report.targets
    ]
    return draw_flow(nodes)


def _draw_pipelines(lines: list[PipelineLine]) -> FlowDrawing | None:
    """Return the drawing of the latest runs: the tables that pipelines read, and those that they write."""
    nodes: dict[str, FlowNode] = {}
    for line in lines:
        report = None if line.ended is None else line.ended.report
        if report is None:
            continue
        read = [one.table for one in report.sources if one.table is not None]
        read += [name for step in report.steps for name in step.tables]
        for name in read:
            nodes.setdefault(f"table {name}", FlowNode(f"table {name}", name, "table"))
        key = f"pipeline {line.name}"
        nodes[key] = FlowNode(key, line.name, "pipeline", tuple(f"table {name}" for name in read))
        for target in report.targets:
            name = f"table {target.table}"
            before = nodes.get(name, FlowNode(name, target.table, "table"))
            if name not in nodes[key].reads:
                nodes[name] = replace(before, reads=(*before.reads, key))
            else:
                # It reads and writes the table, as merges of a table with itself do.
                nodes[f"{name} after"] = FlowNode(f"{name} after", target.table, "table", (key,))
    return draw_flow(list(nodes.values()))
