"""Checks of the expressions and paths in requests, before they are passed to Lance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lance.schema import LanceSchema

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier
from pennon.table.expression_limits import find_excess
from pennon.table.field_paths import column_not_found_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from lance import LanceDataset

_QUOTED = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"")
_PLACEHOLDER = re.compile(r"\?|\$\w|(?<!:):\w")


def require_complete(identifier: Identifier, *expressions: str | None) -> None:
    """Raise InvalidInputError for an SQL expression that is too long, too deep, or has a placeholder."""
    require_bounded(identifier, *expressions)
    for expression in expressions:
        # Lance panics on a placeholder.
        if expression and _PLACEHOLDER.search(_QUOTED.sub("", expression)):
            raise InvalidInputError(
                f"An expression for table {format_identifier(identifier)} has a placeholder without a value: "
                f"{expression}"
            )


def require_bounded(identifier: Identifier, *expressions: str | None) -> None:
    """Raise InvalidInputError for an SQL expression that would crash Lance, or keep it busy for minutes."""
    for expression in expressions:
        excess = None if expression is None else find_excess(expression)
        if excess is not None:
            raise InvalidInputError(
                f"An expression for table {format_identifier(identifier)} {excess}. Simplify it, or split it"
            )


def require_fields(dataset: LanceDataset, identifier: Identifier, paths: Iterable[str]) -> None:
    """Raise TableColumnNotFoundError unless each Lance field path names a field of the table."""
    _require(dataset.lance_schema, identifier, paths)


def require_columns(identifier: Identifier, schema: pa.Schema, paths: Iterable[str]) -> None:
    """Raise TableColumnNotFoundError unless each Lance field path names a field of the rows for a new table."""
    try:
        lance_schema = LanceSchema.from_pyarrow(schema)
    except ValueError as error:
        raise InvalidInputError(
            f"Table {format_identifier(identifier)} cannot have the columns of the rows: {error}"
        ) from error
    _require(lance_schema, identifier, paths)


def _require(schema: LanceSchema, identifier: Identifier, paths: Iterable[str]) -> None:
    for path in paths:
        if schema.field(path) is None:
            raise column_not_found_error(identifier, path, [field.name() for field in schema.fields()])
