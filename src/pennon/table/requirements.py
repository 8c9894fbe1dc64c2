"""What an expression and a path of a request must be, before Lance is asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import Identifier, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance import LanceDataset

_QUOTED = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"")
_PLACEHOLDER = re.compile(r"\?|\$\w|(?<!:):\w")


def require_complete(identifier: Identifier, *expressions: str | None) -> None:
    """Raise 13 for an SQL expression with a placeholder, for which there is no value: Lance panics at one."""
    for expression in expressions:
        if expression and _PLACEHOLDER.search(_QUOTED.sub("", expression)):
            raise InvalidInputError(
                f"An expression for table {shown(identifier)} has a placeholder and no value for it: {expression}"
            )


def require_fields(dataset: LanceDataset, identifier: Identifier, paths: Iterable[str]) -> None:
    """Raise 12 unless each Lance field path leads to a field of the table."""
    schema = dataset.lance_schema
    for path in paths:
        if schema.field(path) is None:
            raise TableColumnNotFoundError(f"Table {shown(identifier)} has no column {path!r}")
