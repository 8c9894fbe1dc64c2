"""The run as one picture: a small panel for each operation, time against size."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from figures import format_figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator
from results import OURS, REFERENCE, V1, V2

if TYPE_CHECKING:
    from pathlib import Path

    from figures import Figure, Section
    from matplotlib.axes import Axes
    from results import Measurement, Results

Panel = Callable[["Axes"], None]

COLUMNS = 4
GREY = "#555555"
DIGITS_FROM = 10  # ratios below this are written with two digits
LOOKS: dict[str, dict[str, Any]] = {
    OURS: {"color": "#0b6e8f", "linestyle": "-", "marker": "o"},
    REFERENCE: {"color": "#c2571a", "linestyle": "--", "marker": "s"},
}


def draw(results: Results, path: Path) -> None:
    """Draw the run into a PNG file, if there is something to draw."""
    panels = [*_time_panels(results, V2), *_time_panels(results, V1), *_growth_panels(results)]
    if not panels:
        return
    rows = math.ceil(len(panels) / COLUMNS)
    height = 2.5 * rows + 0.6
    figure, grid = plt.subplots(rows, COLUMNS, figsize=(3.4 * COLUMNS, height), squeeze=False)
    # The margins are in inches: a layout engine would take seconds to compute them.
    figure.subplots_adjust(left=0.045, right=0.99, bottom=0.5 / height, top=1 - 0.75 / height, wspace=0.24, hspace=0.55)
    for axes, panel in zip(grid.flat, panels, strict=False):
        panel(axes)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    handles = [Line2D([], [], label=name, markersize=5, **look) for name, look in LOOKS.items()]
    figure.legend(handles=handles, loc="upper right", ncols=2, frameon=False)
    figure.suptitle(
        "Median milliseconds per call against catalog size (log-log)",
        x=0.012,
        y=1 - 0.12 / height,
        ha="left",
        va="top",
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _time_panels(results: Results, mode: str) -> list[Panel]:
    """Create one panel per operation of a mode, all on the same vertical scale."""
    rows = [row for row in results.measurements if row.mode == mode]
    operations = list(dict.fromkeys(row.operation for row in rows))
    medians = [timing.median for row in rows for timing in row.timings.values() if timing.median]
    if not medians:
        return []
    limits = (min(medians) / 2, max(medians) * 2)
    return [
        partial(_draw_times, rows=[row for row in rows if row.operation == operation], limits=limits)
        for operation in operations
    ]


def _draw_times(axes: Axes, *, rows: list[Measurement], limits: tuple[float, float]) -> None:
    """Draw the lines of both implementations for one operation."""
    for name, look in LOOKS.items():
        points = [(row.entries, row.timings[name].median) for row in rows]
        known = [(entries, median) for entries, median in points if median is not None]
        if known:
            axes.plot(*zip(*known, strict=True), markersize=4, linewidth=1.4, **look)
    unit = "tables" if rows[0].mode == V1 else "entries"
    axes.set_title(f"{rows[0].mode} {rows[0].operation}", fontsize=9.5, loc="left")
    _remark(axes, rows[-1])
    smallest, largest = rows[0].entries, rows[-1].entries
    axes.set(xscale="log", yscale="log", xlim=(smallest / 1.6, largest * 1.6), ylim=limits)
    axes.set_xticks([row.entries for row in rows], [f"{row.entries:,}" for row in rows])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(unit, fontsize=8)
    axes.set_ylabel("ms", fontsize=8)
    plain(axes)


def _remark(axes: Axes, row: Measurement) -> None:
    """Write the ratio at the largest size, or the errors, into the panel."""
    if row.ratio is not None:
        text = f"{row.ratio:.2g}x" if row.ratio < DIGITS_FROM else f"{row.ratio:,.0f}x"
        axes.set_title(text, fontsize=8.5, loc="right", color=GREY)
        return
    lines = [f"{name}: error {timing.error}" for name, timing in row.timings.items() if timing.error]
    axes.text(0.03, 0.96, "\n".join(lines), fontsize=7.5, color=GREY, va="top", transform=axes.transAxes)


def _growth_panels(results: Results) -> list[Panel]:
    """Create the two panels about the files after many mutations."""
    if not results.growth:
        return []
    return [partial(_draw_growth, results=results, quantity=quantity) for quantity in ("files", "bytes")]


def _draw_growth(axes: Axes, *, results: Results, quantity: str) -> None:
    """Draw the files of each implementation's manifest, after the mutations and after closing."""
    names = [name for name in LOOKS if name in results.growth]
    for offset, moment, alpha in ((-0.2, "after", 1.0), (0.2, "after_close", 0.5)):
        heights = [getattr(getattr(results.growth[name], moment), quantity) for name in names]
        places = [index + offset for index in range(len(names))]
        bars = axes.bar(places, heights, 0.38, color=[LOOKS[name]["color"] for name in names], alpha=alpha)
        axes.bar_label(bars, labels=[_short(height) for height in heights], fontsize=7)
    mutations = results.growth[names[0]].mutations
    axes.set_title(f"manifest {quantity}", fontsize=9.5, loc="left")
    axes.set_title(f"{mutations:,} mutations", fontsize=8, loc="right", color=GREY)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.margins(y=0.15)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("dark: at once; light: after close()", fontsize=8)
    plain(axes)


def _short(value: float) -> str:
    """Return a count with at most one letter for its magnitude."""
    for unit in ("", "k", "M"):
        if value < 1000:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}G"


def plain(axes: Axes) -> None:
    """Draw axes without decoration."""
    axes.grid(visible=True, which="major", color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def draw_bars(section: Section, path: Path) -> None:
    """Draw a panel of horizontal bars for each client of a section, one pair for each operation."""
    groups = list(dict.fromkeys((figure.client, figure.unit) for figure in section.figures))
    counts = [sum((figure.client, figure.unit) == group for figure in section.figures) for group in groups]
    figure_height = 0.42 * sum(counts) + 0.8 * len(groups) + 0.5
    figure, grid = plt.subplots(
        len(groups), 1, figsize=(8, figure_height), squeeze=False, gridspec_kw={"height_ratios": counts}
    )
    for axes, group in zip(grid.flat, groups, strict=True):
        _draw_group(axes, group, [one for one in section.figures if (one.client, one.unit) == group])
    handles = [Line2D([], [], label=name, linewidth=5, color=look["color"]) for name, look in LOOKS.items()]
    figure.legend(handles=handles, loc="upper right", ncols=2, frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _draw_group(axes: Axes, group: tuple[str, str], figures: list[Figure]) -> None:
    """Draw the bars of one client, and a mark where each goal is."""
    for offset, name in ((-0.2, OURS), (0.2, REFERENCE)):
        values = [(one.ours if name == OURS else one.reference) or 0.0 for one in figures]
        places = [index + offset for index in range(len(figures))]
        bars = axes.barh(places, values, 0.38, color=LOOKS[name]["color"])
        axes.bar_label(bars, labels=[format_figure(value) if value else "" for value in values], fontsize=7, padding=2)
    for index, one in enumerate(figures):
        if one.goal is not None and (one.reference or not one.goal.relative):
            goal = one.goal.bound * ((one.reference or 0.0) if one.goal.relative else 1.0)
            axes.plot([goal, goal], [index - 0.42, index + 0.02], color="black", linewidth=1.5)
    client, unit = group
    axes.set_title(f"{client} ({unit}; the black mark is the goal)", fontsize=9, loc="left")
    axes.set_yticks(range(len(figures)), [one.operation for one in figures])
    axes.invert_yaxis()
    axes.margins(x=0.1)
    plain(axes)


def draw_sizes(section: Section, path: Path) -> None:
    """Draw a panel for each operation whose figures have sizes: cost against size."""
    sized = [figure for figure in section.figures if figure.size is not None]
    kinds = list(dict.fromkeys((figure.operation, figure.unit) for figure in sized))
    figure, grid = plt.subplots(1, len(kinds), figsize=(3.6 * len(kinds), 3.1), squeeze=False)
    for axes, (operation, unit) in zip(grid.flat, kinds, strict=True):
        points = [one for one in sized if one.operation == operation]
        for name, look in LOOKS.items():
            values = [(one.size, one.ours if name == OURS else one.reference) for one in points]
            known = [(size, value) for size, value in values if value is not None]
            if known:
                axes.plot(*zip(*known, strict=True), markersize=4, linewidth=1.4, label=name, **look)
        axes.set(xscale="log", yscale="log", xlabel=points[-1].client.split(" ")[-1], ylabel=unit)
        axes.set_title(operation, fontsize=9.5, loc="left")
        axes.set_xticks([one.size for one in points], [_short(one.size or 0) for one in points])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylim(top=2 * axes.get_ylim()[1])
        axes.legend(frameon=False, fontsize=8)
        plain(axes)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
