"""Paths of columns in requests: names joined by dots, names with dots in backticks (`` a.`b.c` ``)."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import format_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from lance import LanceDataset

    from pennon.identifiers import Identifier

_SEGMENT = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
# Lance's own columns have these names. A table with such a column cannot be read.
_RESERVED = re.compile(
    r"_row(id|addr|offset|_last_updated_at_version|_created_at_version)|_distance|_score", re.IGNORECASE
)

_MOST_SHOWN = 20


def parse_path(path: str) -> tuple[str, ...]:
    """Return the names in a path. Raises InvalidInputError if it is not valid."""
    names: list[str] = []
    position = 0
    while True:
        found = _SEGMENT.match(path, position)
        if found is None:
            raise InvalidInputError(f"Bad path of a column {path!r}: no name at position {position + 1}")
        quoted, plain = found.groups()
        names.append(plain if quoted is None else quoted.replace("``", "`"))
        position = found.end()
        if position == len(path):
            return tuple(names)
        if path[position] != ".":
            raise InvalidInputError(f"Bad path of a column {path!r}: unexpected {path[position]!r} at {position + 1}")
        position += 1


def format_path(names: tuple[str, ...]) -> str:
    """Return the path for names."""
    return ".".join(f"`{name.replace('`', '``')}`" if "." in name or "`" in name else name for name in names)


def find_column(dataset: LanceDataset, identifier: Identifier, path: str) -> tuple[str, pa.Field]:
    """Return the canonical path and the field of a column. Raises TableColumnNotFoundError, InvalidInputError."""
    names = parse_path(path)
    fields: list[Any] = dataset.lance_schema.fields()
    found: Any = None
    for name in names:
        found = next((field for field in fields if field.name() == name), None)
        if found is None:
            raise column_not_found_error(identifier, path, [field.name() for field in dataset.lance_schema.fields()])
        fields = found.children()
    return format_path(names), found.to_arrow()


def column_not_found_error(identifier: Identifier, path: str, columns: Sequence[str]) -> TableColumnNotFoundError:
    """Return the error for a column that a table does not have. It names the columns that are there."""
    close = difflib.get_close_matches(path, columns, 1)
    shown = ", ".join(columns[:_MOST_SHOWN]) + (", ..." if len(columns) > _MOST_SHOWN else "")
    hint = f"did you mean {close[0]!r}?" if close else f"its columns are: {shown}"
    return TableColumnNotFoundError(f"Table {format_identifier(identifier)} has no column {path!r}; {hint}")


def read_field_ids(dataset: LanceDataset) -> dict[tuple[str, ...], int]:
    """Return the ids of all columns by their names, nested columns included."""
    ids: dict[tuple[str, ...], int] = {}
    remaining: list[tuple[tuple[str, ...], Any]] = [((), field) for field in dataset.lance_schema.fields()]
    while remaining:
        parent, field = remaining.pop()
        path = (*parent, field.name())
        ids[path] = int(field.id())
        remaining.extend((path, child) for child in field.children())
    return ids


def require_new_name(name: str, *, top_level: bool = True) -> None:
    """Raise InvalidInputError unless a column can have the name."""
    if not name:
        raise InvalidInputError("A column needs a name that is not empty")
    if top_level and "." in name:
        raise InvalidInputError(f"The name of a column cannot contain dots, got {name!r}")
    if _RESERVED.fullmatch(name):
        raise InvalidInputError(f"No column can have the name {name!r}: Lance uses it itself")
