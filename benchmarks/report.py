"""The run as tables: drawn on a terminal, plain columns in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from targets import FAIL, NOT_RUN, PASS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from results import Measurement, Results
    from rich.console import Console
    from targets import Target
    from timing import Timing

STYLES = {PASS: "green", FAIL: "bold red"}


def show(console: Console, results: Results, targets: Sequence[Target]) -> None:
    """Print the measurements of a run, then the targets."""
    if results.measurements:
        console.print(_measurements(console, results.measurements))
        console.print()
    if results.growth:
        console.print(_growth(console, results))
        console.print()
    judged = [target for target in targets if target.verdict != NOT_RUN]
    if judged:
        console.print(_targets(console, judged))
    if len(judged) < len(targets):
        console.print(f"targets that this run does not check: {len(targets) - len(judged)}", highlight=False)
    for note in results.notes:
        console.print(f"note: {note}", highlight=False)


def _table(console: Console, title: str) -> Table:
    style = box.SIMPLE_HEAD if console.is_terminal else None
    return Table(title=title, title_justify="left", box=style, pad_edge=False)


def _measurements(console: Console, measurements: Sequence[Measurement]) -> Table:
    table = _table(console, "Median time of one call")
    for heading in ("mode", "operation"):
        table.add_column(heading, no_wrap=True)
    for heading in ("entries", "ours ms", "reference ms", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    group = None
    for row in measurements:
        if group not in {None, (row.mode, row.entries)}:
            table.add_section()
        group = (row.mode, row.entries)
        cells = (row.mode, row.operation, f"{row.entries:,}", _cell(row.ours), _cell(row.reference))
        table.add_row(*cells, _ratio(row.ratio))
    return table


def _cell(timing: Timing) -> str:
    if timing.median is None:
        return f"error {timing.error}"
    return f"{timing.median:.3f}" if timing.median < 1 else f"{timing.median:.2f}"


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    style = "green" if ratio >= 1 else "red"
    return f"[{style}]{ratio:.2f}x[/]" if ratio < 10 else f"[{style}]{ratio:,.0f}x[/]"


def _growth(console: Console, results: Results) -> Table:
    first = next(iter(results.growth.values()))
    title = f"__manifest after {first.mutations:,} mutations, from {first.start_entries:,} entries"
    table = _table(console, title)
    table.add_column("")
    for heading in ("files", "bytes", "files after close", "bytes after close", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, growth in results.growth.items():
        counts = (growth.after.files, growth.after.bytes, growth.after_close.files, growth.after_close.bytes)
        table.add_row(name, *(f"{count:,}" for count in counts), f"{growth.seconds:.1f}")
    return table


def _targets(console: Console, targets: Sequence[Target]) -> Table:
    table = _table(console, "Targets")
    for heading in ("target", "goal", "measured", "verdict"):
        table.add_column(heading)
    for target in targets:
        style = STYLES.get(target.verdict, "dim")
        table.add_row(target.subject, target.goal, target.measured, f"[{style}]{target.verdict}[/]")
    return table
