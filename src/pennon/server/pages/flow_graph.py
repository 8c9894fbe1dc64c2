"""Drawings of what reads and writes what: boxes in columns from left to right, and lines between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_NODES = 60
BOX_HEIGHT = 40
_NARROWEST, _WIDEST = 96, 200
_LETTER = 7
_GAP_ACROSS, _GAP_DOWN = 52, 14
_MARGIN = 4
_LONGEST_LABEL = 26
_SWEEPS = 4


@dataclass(frozen=True)
class FlowNode:
    """Something that is read or written."""

    key: str
    label: str
    kind: str
    """What it is, in one word."""
    reads: tuple[str, ...] = ()
    """The keys of what it reads."""


@dataclass(frozen=True)
class FlowBox:
    """A node in a drawing."""

    node: FlowNode
    x: int
    y: int
    width: int

    @property
    def label(self) -> str:
        """The name, cut if it is long."""
        name = self.node.label
        return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"


@dataclass(frozen=True)
class FlowDrawing:
    """The boxes and lines of a drawing."""

    width: int
    height: int
    boxes: tuple[FlowBox, ...]
    lines: tuple[str, ...]
    """Paths of SVG."""
    sentences: tuple[str, ...]
    """The same in words."""


def draw_flow(nodes: Sequence[FlowNode]) -> FlowDrawing | None:
    """Return the drawing, or None if nothing reads anything, or if there are too many nodes."""
    known = {one.key: one for one in nodes}
    edges = [(source, one.key) for one in known.values() for source in dict.fromkeys(one.reads) if source in known]
    if not edges or len(known) > MOST_NODES:
        return None
    columns = _arrange(known, edges)
    tallest = max(map(len, columns))
    places: dict[str, FlowBox] = {}
    x = _MARGIN
    for column in columns:
        # A column is as wide as its longest label, and centred.
        width = max(_measure(known[key]) for key in column)
        above = (tallest - len(column)) * (BOX_HEIGHT + _GAP_DOWN) // 2
        for row, key in enumerate(column):
            places[key] = FlowBox(known[key], x, _MARGIN + above + row * (BOX_HEIGHT + _GAP_DOWN), width)
        x += width + _GAP_ACROSS
    return FlowDrawing(
        x - _GAP_ACROSS + _MARGIN,
        2 * _MARGIN + tallest * (BOX_HEIGHT + _GAP_DOWN) - _GAP_DOWN,
        tuple(places.values()),
        tuple(_draw_line(places[source], places[target]) for source, target in edges),
        tuple(_describe(one, known) for one in known.values() if any(key in known for key in one.reads)),
    )


def _arrange(known: dict[str, FlowNode], edges: list[tuple[str, str]]) -> list[list[str]]:
    """Return the keys by column, each to the right of what it reads. Loops are cut off somewhere."""
    depth = dict.fromkeys(known, 0)
    for _ in range(len(known)):
        deeper = {target: depth[source] + 1 for source, target in edges if depth[source] >= depth[target]}
        deeper = {key: value for key, value in deeper.items() if value < len(known)}
        if not deeper:
            break
        depth |= deeper
    used = sorted(set(depth.values()))
    columns = [[key for key in known if depth[key] == one] for one in used]
    for _ in range(_SWEEPS):
        for column in columns:
            rows = {key: row for one in columns for row, key in enumerate(one)}
            column.sort(key=lambda key: _mean_row(key, edges, rows))
    return columns


def _mean_row(key: str, edges: list[tuple[str, str]], rows: dict[str, int]) -> float:
    """Return the mean row of the neighbours of a node, next to which it is drawn."""
    near = [rows[one] for edge in edges if key in edge for one in edge if one != key]
    return sum(near) / len(near) if near else rows[key]


def _measure(node: FlowNode) -> int:
    """Return the width of a box that has room for the label."""
    return min(_WIDEST, max(_NARROWEST, _LETTER * len(node.label) + 24))


def _draw_line(start: FlowBox, end: FlowBox) -> str:
    x1, y1 = start.x + start.width, start.y + BOX_HEIGHT // 2
    x2, y2 = end.x, end.y + BOX_HEIGHT // 2
    bend = _GAP_ACROSS // 2
    return f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


def _describe(node: FlowNode, known: dict[str, FlowNode]) -> str:
    names = [f"{known[key].kind} {known[key].label}" for key in dict.fromkeys(node.reads) if key in known]
    return f"{node.kind} {node.label} reads {', '.join(names)}"
