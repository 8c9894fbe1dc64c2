"""Computed columns: declared by an SQL expression, and empty until they are filled.

The declaration is in the column's metadata, under the keys that LanceDB uses, so that both recognize each other's
columns. Only `backfill` fills such a column. A column that it reads cannot be changed while it exists.

Inserted rows have no value in it. Rows whose input columns change lose their value, so that no row keeps an outdated
one. The next backfill fills both.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError, InvalidTableStateError, UnsupportedOperationError
from pennon.identifiers import format_identifier
from pennon.table import expressions, field_paths
from pennon.table.lance_errors import translate_errors
from pennon.table.requirements import require_complete

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeAlias

    from lance import LanceDataset

    from pennon.identifiers import Identifier

    Rows: TypeAlias = pa.Table | pa.RecordBatchReader

MARK = "computed_column"
_KIND, _EXPRESSION, _INPUTS = f"{MARK}.kind", f"{MARK}.expression", f"{MARK}.inputs"
_REFRESHED = "computed_refresh."
"""LanceDB records what it has computed under keys with this prefix."""
_SQL = "sql"
_VOLATILE = re.compile(r"\b(random|now|uuid|current_(date|time|timestamp))\b", re.IGNORECASE)


def declare_column(dataset: LanceDataset, subject: str, name: str, expression: str) -> pa.Field:
    """Return the field that declares a computed column. Raises InvalidInputError for an unsuitable expression."""
    field = expressions.plan_expression(dataset, subject, expression)
    if _VOLATILE.search(expression):
        raise InvalidInputError(f"{subject}: {expression!r} returns another value each time")
    if pa.types.is_null(field.type):
        raise InvalidInputError(f"{subject}: {expression!r} has no type; cast it to one")
    inputs = json.dumps(expressions.find_inputs(dataset, expression))
    metadata = {MARK: "true", _KIND: _SQL, _EXPRESSION: expression, _INPUTS: inputs}
    return pa.field(name, field.type, nullable=True, metadata=metadata)


def is_computed(field: pa.Field) -> bool:
    """Return True if a column is a computed one."""
    return (field.metadata or {}).get(MARK.encode()) == b"true"


def is_declaration_key(key: str) -> bool:
    """Return True if a key of a column's metadata belongs to the declaration of a computed column."""
    return key == MARK or key.startswith((f"{MARK}.", _REFRESHED))


def require_no_declaration_keys(identifier: Identifier, path: str, keys: Iterable[str]) -> None:
    """Raise InvalidInputError for metadata that would create, change or remove a declaration."""
    wrong = [key for key in keys if is_declaration_key(key)]
    if wrong:
        raise InvalidInputError(
            f"Column {path!r} of table {format_identifier(identifier)}: {wrong[0]!r} declares a computed column. "
            "Use alter_table_add_columns for that"
        )


def require_unused(dataset: LanceDataset, identifier: Identifier, path: str, dropped: Iterable[str] = ()) -> None:
    """Raise InvalidTableStateError if a computed column reads this one, unless it is `dropped` too."""
    top = field_paths.parse_path(path)[0]
    for field in dataset.schema:
        if is_computed(field) and field.name not in dropped and top in _list_inputs(field):
            raise InvalidTableStateError(
                f"Column {path!r} of table {format_identifier(identifier)} is read by its computed column "
                f"{field.name!r}"
            )


def backfill(dataset: LanceDataset, identifier: Identifier, path: str, where: str | None) -> int:
    """Fill the rows in which a computed column has no value, in one commit, and return their number.

    Rows with a value keep it. If there is nothing to fill, nothing is committed. Raises InvalidTableStateError if the
    column is not a computed one, UnsupportedOperationError if it is not computed by SQL, TableColumnNotFoundError,
    InvalidInputError and ConcurrentModificationError.
    """
    column, field = field_paths.find_column(dataset, identifier, path)
    subject = f"Column {column!r} of table {format_identifier(identifier)}"
    if not is_computed(field):
        raise InvalidTableStateError(f"{subject} is not a computed column, so it cannot be filled")
    kind = _read_text(field, _KIND, _SQL)
    expression = _read_text(field, _EXPRESSION, "")
    if kind != _SQL or not expression:
        raise UnsupportedOperationError(f"{subject} is computed by {kind!r}; only SQL expressions are supported")
    require_complete(identifier, expression, where)
    empty = f"({expressions.quote_name(field.name)} IS NULL) AND (({expression}) IS NOT NULL)"
    predicate = empty if not where else f"{empty} AND ({where})"
    with translate_errors(subject):
        if not dataset.count_rows(predicate):
            return 0
        return int(dataset.update({field.name: expression}, where=predicate)["num_rows_updated"])


def require_no_values(data: Rows, dataset: LanceDataset, identifier: Identifier) -> Rows:
    """Return the rows. Raises InvalidInputError if one has a value in a computed column; a stream raises when read."""
    names = [field.name for field in dataset.schema if is_computed(field) and field.name in data.schema.names]
    if not names:
        return data
    if isinstance(data, pa.Table):
        _require_nulls(data, names, identifier)
        return data

    def check_batches() -> Iterator[pa.RecordBatch]:
        for batch in data:
            _require_nulls(batch, names, identifier)
            yield batch

    return pa.RecordBatchReader.from_batches(data.schema, check_batches())


def add_null_columns(data: Rows, dataset: LanceDataset) -> Rows:
    """Return rows to merge with nulls for the computed columns that read one of their columns."""
    names = data.schema.names
    fields = [pa.field(one.name, one.type) for one in _find_dependents(dataset, names) if one.name not in names]
    if not fields:
        return data
    if isinstance(data, pa.Table):
        for field in fields:
            data = data.append_column(field, pa.nulls(data.num_rows, field.type))
        return data
    schema = pa.schema([*data.schema, *fields], data.schema.metadata)

    def extend_batches() -> Iterator[pa.RecordBatch]:
        for batch in data:
            nulls = [pa.nulls(batch.num_rows, field.type) for field in fields]
            yield pa.RecordBatch.from_arrays([*batch.columns, *nulls], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, extend_batches())


def reset_dependents(changes: Mapping[str, str], dataset: LanceDataset, identifier: Identifier) -> dict[str, str]:
    """Return the changes of an update, with NULL for the computed columns that read what they set.

    Raises InvalidInputError if a change sets a computed column.
    """
    tops = {field_paths.parse_path(path)[0] for path in changes}
    for field in dataset.schema:
        if is_computed(field) and field.name in tops:
            raise _backfill_error(field.name, identifier)
    return {**changes, **{field_paths.format_path((one.name,)): "NULL" for one in _find_dependents(dataset, tops)}}


def _find_dependents(dataset: LanceDataset, names: Iterable[str]) -> list[pa.Field]:
    """Return the computed columns that read one of these columns, directly or through another computed column."""
    remaining = [field for field in dataset.schema if is_computed(field)]
    changed = set(names)
    dependents: list[pa.Field] = []
    while True:
        more = [field for field in remaining if changed & set(_list_inputs(field))]
        if not more:
            return dependents
        dependents += more
        changed = {field.name for field in more}
        remaining = [field for field in remaining if field.name not in changed]


def _list_inputs(field: pa.Field) -> list[str]:
    """Return the names of the columns that a computed column reads."""
    try:
        names = json.loads(_read_text(field, _INPUTS, "[]"))
    except ValueError:
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def _read_text(field: pa.Field, key: str, default: str) -> str:
    return str((field.metadata or {}).get(key.encode(), default.encode()).decode())


def _require_nulls(rows: pa.Table | pa.RecordBatch, names: list[str], identifier: Identifier) -> None:
    for name in names:
        if rows.column(name).null_count < rows.num_rows:
            raise _backfill_error(name, identifier)


def _backfill_error(name: str, identifier: Identifier) -> InvalidInputError:
    return InvalidInputError(
        f"Column {name!r} of table {format_identifier(identifier)} is a computed one: only "
        "alter_table_backfill_columns fills it"
    )
