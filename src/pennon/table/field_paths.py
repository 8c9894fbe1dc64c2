"""Columns as requests name them: paths of names joined by dots, odd names in backticks (`` a.`b.c` ``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import format_identifier

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

    from pennon.identifiers import Identifier

_SEGMENT = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
# Names that Lance gives to columns of its own: a table that has one under such a name cannot be read any more.
_RESERVED = re.compile(
    r"_row(id|addr|offset|_last_updated_at_version|_created_at_version)|_distance|_score", re.IGNORECASE
)


def parsed(path: str) -> tuple[str, ...]:
    """Split a path into names; 13 if it is none."""
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


def canonical(names: tuple[str, ...]) -> str:
    """Join names into the path that stands for them."""
    return ".".join(f"`{name.replace('`', '``')}`" if "." in name or "`" in name else name for name in names)


def resolved(dataset: LanceDataset, identifier: Identifier, path: str) -> tuple[str, pa.Field]:
    """Find a column; gives its canonical path and what it is. Errors 12, 13."""
    names = parsed(path)
    fields: list[Any] = dataset.lance_schema.fields()
    found: Any = None
    for name in names:
        found = next((field for field in fields if field.name() == name), None)
        if found is None:
            raise TableColumnNotFoundError(f"Table {format_identifier(identifier)} has no column {path!r}")
        fields = found.children()
    return canonical(names), found.to_arrow()


def ids(dataset: LanceDataset) -> set[int]:
    """Give the ids of all columns, nested ones included."""
    found: set[int] = set()
    left: list[Any] = list(dataset.lance_schema.fields())
    while left:
        field = left.pop()
        found.add(int(field.id()))
        left.extend(field.children())
    return found


def require_new_name(name: str, *, top_level: bool = True) -> None:
    """Raise 13 unless a column can have the name."""
    if not name:
        raise InvalidInputError("A column needs a name that is not empty")
    if top_level and "." in name:
        raise InvalidInputError(f"The name of a column has no dots, got {name!r}")
    if _RESERVED.fullmatch(name):
        raise InvalidInputError(f"{name!r} is a name of Lance's own, which no column can have")
