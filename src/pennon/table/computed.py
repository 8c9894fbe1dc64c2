"""Computed columns: declared by an SQL expression, empty until they are filled.

The declaration stands in the column's metadata, under the keys that LanceDB uses, so that both know each other's
columns. Only `backfill` gives such a column values; a column that it reads cannot be changed while it is there.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError, InvalidTableStateError, UnsupportedOperationError
from pennon.identifiers import format_identifier
from pennon.table import expressions, field_paths
from pennon.table.lance_errors import bad_input_told
from pennon.table.requirements import require_complete

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance import LanceDataset

    from pennon.identifiers import Identifier

MARK = "computed_column"
_KIND, _EXPRESSION, _INPUTS = f"{MARK}.kind", f"{MARK}.expression", f"{MARK}.inputs"
_REFRESHED = "computed_refresh."
"""Keys under which LanceDB notes what it has computed."""
_SQL = "sql"
_VOLATILE = re.compile(r"\b(random|now|uuid|current_(date|time|timestamp))\b", re.IGNORECASE)


def declared(dataset: LanceDataset, subject: str, name: str, expression: str) -> pa.Field:
    """Give the column that declares an expression, with its type and its inputs; 13 if it cannot be one."""
    found = expressions.planned(dataset, subject, expression)
    if _VOLATILE.search(expression):
        raise InvalidInputError(f"{subject}: {expression!r} gives another value each time")
    if pa.types.is_null(found.type):
        raise InvalidInputError(f"{subject}: {expression!r} has no type; cast it to one")
    reads = json.dumps(expressions.inputs(dataset, expression))
    metadata = {MARK: "true", _KIND: _SQL, _EXPRESSION: expression, _INPUTS: reads}
    return pa.field(name, found.type, nullable=True, metadata=metadata)


def is_declared(field: pa.Field) -> bool:
    """Tell whether a column is a computed one."""
    return (field.metadata or {}).get(MARK.encode()) == b"true"


def require_no_input(dataset: LanceDataset, identifier: Identifier, path: str, leaving: Iterable[str] = ()) -> None:
    """Raise 19 if a computed column reads a column; `leaving` are those that go with it."""
    top = field_paths.parsed(path)[0]
    for field in dataset.schema:
        if is_declared(field) and field.name not in leaving and top in inputs(field):
            raise InvalidTableStateError(
                f"Column {path!r} of table {format_identifier(identifier)} is read by its computed column "
                f"{field.name!r}"
            )


def is_key(key: str) -> bool:
    """Tell whether a key of a column's metadata belongs to the declaration of a computed column."""
    return key == MARK or key.startswith((f"{MARK}.", _REFRESHED))


def require_other_keys(identifier: Identifier, path: str, keys: Iterable[str]) -> None:
    """Raise 13 for metadata that would make, change or end a declaration."""
    wrong = [key for key in keys if is_key(key)]
    if wrong:
        raise InvalidInputError(
            f"Column {path!r} of table {format_identifier(identifier)}: {wrong[0]!r} declares a computed "
            "column, which only "
            "alter_table_add_columns does"
        )


def backfill(dataset: LanceDataset, identifier: Identifier, path: str, where: str | None) -> int:
    """Fill the rows in which a computed column has no value, in one commit; gives how many those were.

    Rows that have one keep it. Without a row to fill, nothing is committed. Errors 0 (a kind of column that cannot be
    computed here), 12, 13, 14, 19 (no computed column).
    """
    column, field = field_paths.resolved(dataset, identifier, path)
    subject = f"Column {column!r} of table {format_identifier(identifier)}"
    if not is_declared(field):
        raise InvalidTableStateError(f"{subject} is no computed column: there is nothing to fill it with")
    kind = _read_text(field, _KIND, _SQL)
    expression = _read_text(field, _EXPRESSION, "")
    if kind != _SQL or not expression:
        raise UnsupportedOperationError(f"{subject} is computed by {kind!r}; here only SQL expressions are computed")
    require_complete(identifier, expression, where)
    quoted = expressions.quoted(field.name)
    empty = f"({quoted} IS NULL) AND (({expression}) IS NOT NULL)"
    chosen = empty if not where else f"{empty} AND ({where})"
    with bad_input_told(subject):
        if not dataset.count_rows(chosen):
            return 0
        return int(dataset.update({field.name: expression}, where=chosen)["num_rows_updated"])


def inputs(field: pa.Field) -> list[str]:
    """Name the columns that a computed column reads."""
    try:
        names = json.loads(_read_text(field, _INPUTS, "[]"))
    except ValueError:
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def _read_text(field: pa.Field, key: str, default: str) -> str:
    return str((field.metadata or {}).get(key.encode(), default.encode()).decode())
