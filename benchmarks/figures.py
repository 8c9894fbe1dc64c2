"""Figures of Pennon beside the reference, their goals, and how a section of the benchmarks is printed and stored."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from report import STYLES
from results import environment
from rich import box
from rich.console import Console
from rich.table import Table
from targets import FAIL, NOT_COMPARABLE, PASS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RESULTS = Path(__file__).parent / "results"
MS, PER_SECOND, MB, TIMES = "ms", "/s", "MB", "x"
RISING = {PER_SECOND}
"""Units in which more is better."""


@dataclass(frozen=True)
class Goal:
    """The bound of a figure: a share of the reference in the same run, or a value of its own."""

    bound: float
    relative: bool = True


def share(target: float, reference: float) -> Goal:
    """Return the goal of a target that was set when the reference had this figure.

    The machine is another one or busier now, so only their ratio is kept.
    """
    return Goal(target / reference)


@dataclass(frozen=True)
class Figure:
    """One figure of both implementations, and its goal, if there is one. An implementation that failed has None."""

    client: str
    operation: str
    unit: str
    ours: float | None
    reference: float | None = None
    goal: Goal | None = None
    size: int | None = None
    """The number of rows or tables, for figures that are drawn against it."""
    remark: str = ""

    @property
    def ratio(self) -> float | None:
        """The figure of Pennon as a multiple of the reference's."""
        return None if self.ours is None or not self.reference else self.ours / self.reference

    @property
    def verdict(self) -> str:
        """PASS, FAIL, or the reason why there is neither."""
        if self.goal is None:
            return ""
        if self.ours is None:
            return FAIL
        judged = self.ratio if self.goal.relative else self.ours
        if judged is None:
            return NOT_COMPARABLE
        reached = judged >= self.goal.bound if self.unit in RISING else judged <= self.goal.bound
        return PASS if reached else FAIL

    @property
    def wanted(self) -> str:
        """The goal in words."""
        if self.goal is None:
            return ""
        limit = "at least" if self.unit in RISING else "at most"
        unit = "x the reference" if self.goal.relative else f" {self.unit}".replace(" x", "x")
        return f"{limit} {self.goal.bound:.3g}{unit}"


@dataclass
class Section:
    """The figures of one section, and what the reader has to know about them."""

    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def format_figure(value: float | None) -> str:
    """Return a figure with three digits."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def run_section(
    stem: str,
    description: str,
    measure: Callable[[Console, bool], Section],
    draw: Callable[[Section, Path], None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Measure a section, print and store it, and return 1 if a strict run missed a goal."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a smoke test")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results (%(default)s)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args(arguments)
    section = measure(Console(stderr=True), options.quick)
    _show(description, section)
    options.out.mkdir(parents=True, exist_ok=True)
    # Only a full run uses the plain name, so that a quick run never replaces its results.
    path = options.out / (f"{stem}-quick" if options.quick else stem)
    figures = [{**asdict(figure), "wanted": figure.wanted, "verdict": figure.verdict} for figure in section.figures]
    document = {"environment": environment(), "figures": figures, "notes": section.notes}
    path.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    draw(section, path.with_suffix(".png"))
    return 1 if options.strict and any(figure.verdict == FAIL for figure in section.figures) else 0


def _show(title: str, section: Section) -> None:
    console = Console() if Console().is_terminal else Console(width=160)
    style = box.SIMPLE_HEAD if console.is_terminal else None
    table = Table(title=title, title_justify="left", box=style, pad_edge=False)
    for heading in ("client", "operation"):
        table.add_column(heading, no_wrap=True)
    for heading in ("unit", "ours", "reference", "ratio", "goal", "verdict"):
        table.add_column(heading, justify="left" if heading in {"unit", "verdict"} else "right", no_wrap=True)
    for figure in section.figures:
        cells = (figure.client, figure.operation, figure.unit, format_figure(figure.ours))
        ratio = "-" if figure.ratio is None else f"{figure.ratio:.2f}x"
        verdict = f"[{STYLES.get(figure.verdict, 'dim')}]{figure.verdict}[/]"
        table.add_row(*cells, format_figure(figure.reference), ratio, figure.wanted, verdict)
    console.print(table)
    for note in [*section.notes, *(figure.remark for figure in section.figures if figure.remark)]:
        console.print(f"note: {note}", highlight=False)
