"""Records of runs, as pipelines write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.pipeline_runs.report import (
    CHECKS_FAILED,
    PUBLISHED,
    CheckReport,
    RunReport,
    SourceReport,
    StepReport,
    TargetReport,
)
from pennon.pipeline_runs.run_state import RunState

if TYPE_CHECKING:
    from pennon.store import Store


def make_report(run: str, *, pipeline: str = "nightly", passed: bool = True, **parts) -> RunReport:
    """Return the report of a run over orders."""
    samples = () if passed else ({"id": 7, "amount": -3.5}, {"id": 8, "amount": None})
    checks = (
        CheckReport("sales.revenue", "not_null(day)", "error", passed=True, failing=0, seconds=0.11),
        CheckReport(
            "sales.revenue",
            "amount is positive",
            "error",
            passed=passed,
            failing=0 if passed else 2,
            message="" if passed else "2 rows do not meet the condition",
            seconds=0.4,
            samples=samples,
        ),
    )
    fields = {
        "sources": (
            SourceReport("orders", "table", 5, "sales.orders"),
            SourceReport("rates", "csv"),
        ),
        "steps": (
            StepReport("tidy", staged=True, rows=198, bytes=5400, seconds=1.9, reads=("orders", "rates")),
            StepReport("daily", staged=False, within=("sales.revenue",), reads=("tidy",), tables=("sales.eu.regions",)),
        ),
        "targets": (
            TargetReport("sales.revenue", "merge", 31, 2048, 0.8, 3, 4 if passed else None, source="daily"),
            TargetReport("sales.tidy_orders", "append", 198, 5400, 0.5, None, 1 if passed else None, source="tidy"),
        ),
        "checks": checks,
        **parts,
    }
    status = PUBLISHED if passed else CHECKS_FAILED
    return RunReport(pipeline, run, status, "atomic", "2026-03-01T04:00:00+00:00", 4.25, resumed=False, **fields)


def record_runs(store: Store) -> None:
    """Record a published run, one whose checks failed, one that was cut off, and one in another pipeline."""
    published = RunState(store, "nightly", "2026-03-01")
    published.begin("f", {})
    published.finish(make_report("2026-03-01").document())
    failed = RunState(store, "nightly", "2026-03-02")
    failed.begin("f", {})
    failed.forget(make_report("2026-03-02", passed=False).document())
    cut = RunState(store, "nightly", "2026-03-03")
    cut.begin("f", {})
    cut.record("step.tidy", {"rows": 3})
    cut.note_error("InvalidInputError", "column 'amuont' does not exist")
    weekly = RunState(store, "weekly", "w1")
    weekly.begin("f", {})
    report = make_report(
        "w1",
        pipeline="weekly",
        sources=(SourceReport("revenue", "table", 4, "sales.revenue"),),
        steps=(),
        targets=(TargetReport("sales.weekly", "overwrite", 5, 900, 0.2, 1, 2, source="revenue"),),
        checks=(),
    )
    weekly.finish(report.document())
