"""Write the results of commands to stdout: tables and colour on a terminal, JSON in a pipe.

A command provides both. The document is written as JSON; releases only add keys to it. The view is built only for a
terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from pennon.cli.terminal_text import escape_controls, escape_json
from pennon.cli.values import to_json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import Console

_GAP = "  "
_NARROWEST = 8


@dataclass(frozen=True)
class Column:
    """A column of a table. A `whole` column is never truncated, because users copy from it."""

    heading: str
    style: str = ""
    right: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under headings, or `empty` if there are none. Written as records if the columns do not fit."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    empty: str = "nothing"


@dataclass(frozen=True)
class Fields:
    """Names and values, one per line."""

    values: Mapping[str, str]


@dataclass(frozen=True)
class Lines:
    """Lines with a style each. They are not truncated."""

    lines: Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Note:
    """A remark after the result."""

    text: str


Block = Table | Fields | Lines | Note


@dataclass
class Output:
    """Writes the result of a command."""

    json: bool | None = None
    """True for JSON, False for tables, None for tables only on a terminal."""
    _console: Console | None = field(default=None, repr=False)

    @property
    def is_json(self) -> bool:
        """True if the result is written as JSON."""
        return not sys.stdout.isatty() if self.json is None else self.json

    def show(self, document: Mapping[str, Any], view: Callable[[], Iterable[Block]]) -> None:
        """Write the document as JSON, or the view."""
        if self.is_json:
            write_json(document)
            return
        for block in view():
            if isinstance(block, Table):
                self._table(block)
            elif isinstance(block, Fields):
                self._fields(block.values)
            elif isinstance(block, Lines):
                self._lines(block.lines)
            else:
                self._lines([(block.text, "dim")])

    @property
    def _terminal(self) -> Console:
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False, emoji=False, markup=False)
        return self._console

    @property
    def _width(self) -> int | None:
        return self._terminal.width if sys.stdout.isatty() else None

    def _styled(self, text: str, style: str) -> str:
        console = self._terminal
        if not style or console.color_system is None or console.no_color:
            return text
        from rich.color import ColorSystem

        return console.get_style(style).render(text, color_system=ColorSystem.STANDARD)

    def _table(self, table: Table) -> None:
        if not table.rows:
            self._lines([(table.empty, "dim")])
            return
        rows = [[escape_controls(cell) for cell in row] for row in table.rows]
        widths = _choose_widths(table.columns, rows, self._width)
        if widths is None:
            self._records(table.columns, rows)
            return
        self._line([self._padded(column.heading, width, column, "bold") for column, width in _pair(table, widths)])
        for row in rows:
            columns = zip(row, table.columns, widths, strict=True)
            self._line([self._padded(cell, width, column, column.style) for cell, column, width in columns])

    def _padded(self, text: str, width: int, column: Column, style: str) -> str:
        from rich.cells import cell_len, set_cell_size

        length = cell_len(text)
        if length > width and not column.whole:
            text, length = set_cell_size(text, width - 1) + "…", width
        space = " " * (width - length)
        styled = self._styled(text, style)
        return space + styled if column.right else styled + space

    def _records(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Write one value per line, for tables that are too wide."""
        for number, row in enumerate(rows, 1):
            self._lines([(f"row {number}", "bold")])
            self._fields({column.heading: cell for column, cell in zip(columns, row, strict=True)}, indent=_GAP)

    def _fields(self, values: Mapping[str, str], indent: str = "") -> None:
        from rich.cells import cell_len

        names = [escape_controls(name) for name in values]
        width = max((cell_len(name) for name in names), default=0)
        for name, value in zip(names, values.values(), strict=True):
            space = " " * (width - cell_len(name))
            self._line([indent + self._styled(name, "bold") + space, escape_controls(value)])

    def _lines(self, lines: Iterable[tuple[str, str]]) -> None:
        for text, style in lines:
            self._line([self._styled(escape_controls(text), style)])

    def _line(self, parts: Sequence[str]) -> None:
        sys.stdout.write(_GAP.join(parts).rstrip() + "\n")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=to_json_value)


def write_json(document: Mapping[str, Any]) -> None:
    """Write a JSON object. Objects in lists are on separate lines, so that `head` and `grep` are useful."""
    _use_utf8()
    write = sys.stdout.write
    separator = "{\n"
    for key, value in document.items():
        write(f"{separator}  {_encode(key)}: ")
        separator = ",\n"
        if not _holds_objects(value):
            write(_encode(value))
            continue
        inner = "[\n"
        for item in value:
            write(f"{inner}    {_encode(item)}")
            inner = ",\n"
        write("[]" if inner == "[\n" else "\n  ]")
    write("{}\n" if separator == "{\n" else "\n}\n")


def write_json_line(document: Mapping[str, Any]) -> None:
    """Write a JSON object on a line of its own."""
    _use_utf8()
    sys.stdout.write(_encode(document) + "\n")


def _use_utf8() -> None:
    """Write UTF-8 from now on: JSON is UTF-8 in every locale."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(encoding="utf-8")


def _holds_objects(value: object) -> bool:
    """Return True if a value is a list or an iterator of objects."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, dict) for item in value)
    return isinstance(value, Iterator)


def _encode(value: object) -> str:
    return escape_json(_ENCODER.encode(value))


def _pair(table: Table, widths: Sequence[int]) -> Iterable[tuple[Column, int]]:
    return zip(table.columns, widths, strict=True)


def _choose_widths(columns: Sequence[Column], rows: Sequence[Sequence[str]], limit: int | None) -> list[int] | None:
    """Return the widths of columns, or None if they do not fit into the limit even when truncated."""
    from rich.cells import cell_len

    widths = [cell_len(column.heading) for column in columns]
    for row in rows:
        for index, text in enumerate(row):
            length = len(text) if text.isascii() else cell_len(text)
            widths[index] = max(widths[index], length)
    if limit is None or len(columns) == 1:
        return widths
    available = limit - len(_GAP) * (len(columns) - 1)
    while sum(widths) > available:
        candidates = [index for index, column in enumerate(columns) if not column.whole and widths[index] > _NARROWEST]
        if not candidates:
            # Whole columns may exceed the width. Too many other columns become records.
            return widths if any(column.whole for column in columns) else None
        widest = max(candidates, key=lambda index: widths[index])
        over = sum(widths) - available
        widths[widest] = max(_NARROWEST, widths[widest] - max(1, over // len(candidates)))
    heads = [
        column.heading if column.whole else column.heading[: width - 1]
        for column, width in zip(columns, widths, strict=True)
        if cell_len(column.heading) > width
    ]
    # Two columns under the same beginning could not be told apart.
    return widths if len(set(heads)) == len(heads) else None
