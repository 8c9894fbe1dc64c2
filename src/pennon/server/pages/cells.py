"""Values as a page shows them: text, a small plot of a vector, a picture or a sound."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pennon.server.pages.media import find_media_type
from pennon.server.pages.rendering import format_bytes
from pennon.table.blobs import is_blob_column

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["text", "number", "null", "plot", "image", "audio", "bytes"]
LONGEST_TEXT = 200
PLOT_WIDTH, PLOT_HEIGHT = 120, 24
_MOST_POINTS = 60
_SHORTEST_VECTOR = 2
_MARGIN = 2
_LONGEST_NUMBER, _DIGITS = 12, 8


@dataclass(frozen=True)
class Cell:
    """One value of a table."""

    kind: Kind
    text: str
    """The value, or what a plot, picture or sound shows in words."""
    points: str = ""
    """The line of a plot."""
    exact: str = ""
    """The whole value of a number, if the text is a shorter one."""


def convert_values(column: pa.Array) -> list[object]:
    """Return the values of a column in Python. What Python cannot hold, such as very late times, becomes a text."""
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return [_convert_value(one) for one in column]


def _convert_value(value: pa.Scalar) -> object:
    with suppress(ValueError, OverflowError):
        return value.as_py()
    if isinstance(value, pa.StructScalar):
        return {name: _convert_value(one) for name, one in value.items()}
    if isinstance(value, (pa.ListScalar, pa.LargeListScalar, pa.FixedSizeListScalar)):
        return [_convert_value(one) for one in value.values]
    try:
        return value.cast(pa.string()).as_py()
    except (ValueError, NotImplementedError):
        return "a value that Python cannot hold"


def make_cell(value: object, kind: pa.DataType) -> Cell:
    """Return the cell of a value that pyarrow has converted to Python."""
    if value is None:
        return Cell("null", "null")
    if is_vector(kind) and isinstance(value, list) and len(value) >= _SHORTEST_VECTOR:
        return _make_plot(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return make_blob_cell(bytes(value[:64]), len(value))
    if isinstance(value, bool):
        return Cell("text", "true" if value else "false")
    if isinstance(value, (int, float)):
        return _make_number(value)
    if isinstance(value, Decimal):
        return Cell("number", str(value))
    if isinstance(value, (list, dict)):
        return Cell("text", shorten(json.dumps(value, default=str, ensure_ascii=False)))
    return Cell("text", shorten(value if isinstance(value, str) else str(value)))


def _make_number(value: float) -> Cell:
    text = str(value)
    if isinstance(value, int) or len(text) <= _LONGEST_NUMBER:
        return Cell("number", text)
    return Cell("number", f"{value:.{_DIGITS}g}", exact=text)


def describe_type(field: pa.Field) -> str:
    """Return the type of a column in the words of Arrow, but for blobs, whose storage says nothing."""
    return "blob" if is_blob_column(field) else str(field.type)


def make_blob_cell(start: bytes, size: int) -> Cell:
    """Return the cell of bytes, of which only the beginning is known."""
    media = find_media_type(start)
    text = format_bytes(size)
    if media is None:
        return Cell("bytes", text)
    kind: Kind = "image" if media.startswith("image/") else "audio"
    return Cell(kind, f"{media}, {text}")


def shorten(text: str) -> str:
    """Return a text, cut if it is long."""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def is_vector(kind: pa.DataType) -> bool:
    """Return True for lists of floating-point numbers."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_list and pa.types.is_floating(kind.value_type))


def _make_plot(values: Sequence[Any]) -> Cell:
    numbers = [float(one) if isinstance(one, (int, float)) else math.nan for one in values]
    finite = [one for one in numbers if math.isfinite(one)]
    if not finite:
        return Cell("text", f"{len(values):,} values, none of them a finite number")
    low, high = min(finite), max(finite)
    text = f"vector of {len(values):,} numbers from {low:.4g} to {high:.4g}"
    return Cell("plot", text, _draw_line(_reduce(numbers), low, high))


def _reduce(numbers: list[float]) -> list[float]:
    """Return at most so many numbers as a plot has points: the mean of neighbours."""
    if len(numbers) <= _MOST_POINTS:
        return numbers
    bounds = [len(numbers) * step // _MOST_POINTS for step in range(_MOST_POINTS + 1)]
    means = []
    for start, end in pairwise(bounds):
        finite = [one for one in numbers[start:end] if math.isfinite(one)]
        means.append(sum(finite) / len(finite) if finite else math.nan)
    return means


def _draw_line(numbers: list[float], low: float, high: float) -> str:
    """Return the points of an SVG polyline."""
    # Halved first: the difference of two large numbers may not be finite.
    span = high / 2 - low / 2
    step = PLOT_WIDTH / max(1, len(numbers) - 1)
    points = []
    for place, number in enumerate(numbers):
        if math.isfinite(number):
            share = (number / 2 - low / 2) / span if span else 0.5
            height = PLOT_HEIGHT - _MARGIN - share * (PLOT_HEIGHT - 2 * _MARGIN)
            points.append(f"{place * step:.1f},{height:.1f}")
    return " ".join(points)
