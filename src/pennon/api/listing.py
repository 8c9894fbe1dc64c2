"""A list that shows itself as a table, on a terminal and in a notebook."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from enum import Enum
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from pennon.identifiers import quote_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")
_SHOWN_ROWS = 100
_LONGEST_CELL = 80


class Listing(list[T]):
    """A list of results. Its `repr` is a table of their fields."""

    def __repr__(self) -> str:
        """Return the fields of the entries as aligned columns."""
        if not self:
            return "(none)"
        heads, rows = _arrange(self[:_SHOWN_ROWS])
        widths = [max(len(row[number]) for row in [heads, *rows]) for number in range(len(heads))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [heads, *rows]
        ]
        if len(self) > _SHOWN_ROWS:
            lines.append(f"... {len(self) - _SHOWN_ROWS:,} more")
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        """Return the fields of the entries as an HTML table."""
        if not self:
            return "<em>none</em>"
        heads, rows = _arrange(self[:_SHOWN_ROWS])
        more = f"<p>{len(self) - _SHOWN_ROWS:,} more</p>" if len(self) > _SHOWN_ROWS else ""
        return format_html_table(heads, rows) + more


def format_html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table. All texts are escaped."""
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def format_value(value: object) -> str:
    """Return a value as one short printable line."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ", timespec="seconds")
    elif isinstance(value, Enum):
        text = str(value.value)
    elif isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
        text = ", ".join(value)
    else:
        text = str(value)
    text = make_printable(text)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def make_printable(text: str) -> str:
    """Return a text with characters that a terminal acts on, or that reverse text, as escapes."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _arrange(entries: Sequence[Any]) -> tuple[list[str], list[list[str]]]:
    if not dataclasses.is_dataclass(entries[0]):
        return ["name"], [[format_value(one)] for one in entries]
    names = [field.name for field in dataclasses.fields(entries[0])]
    values = [[_format_field(name, getattr(one, name)) for name in names] for one in entries]
    # A column that is empty everywhere says nothing.
    used = [number for number in range(len(names)) if any(row[number] for row in values)]
    return [names[number] for number in used], [[row[number] for number in used] for row in values]


def _format_field(name: str, value: object) -> str:
    if name == "id" and isinstance(value, (list, tuple)):
        return format_value(quote_identifier(tuple(value)))
    return format_value(value)
