"""Adding, altering and dropping columns. Each operation commits the table's next version."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    TableSchemaValidationError,
)
from pennon.identifiers import format_identifier
from pennon.table import computed_columns, expressions, field_paths
from pennon.table.lance_errors import is_race, translate_errors
from pennon.table.requirements import require_complete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import LanceDataset

    from pennon.identifiers import Identifier

# Texts in errors of Lance if the existing columns, or their values, do not allow a change.
_SCHEMA_CONFLICTS = ("cannot cast", "cast error", "can't cast", "contains null values", "duplicate field name")


@dataclass(frozen=True)
class NewColumn:
    """A column to add: with the values of an expression, or as a computed column."""

    name: str
    expression: str | None = None
    computed: str | None = None


@dataclass(frozen=True)
class Alteration:
    """A change to a column."""

    path: str
    rename: str | None = None
    data_type: pa.DataType | None = None
    nullable: bool | None = None


def add(dataset: LanceDataset, identifier: Identifier, new_columns: Sequence[NewColumn]) -> None:
    """Add columns with the values of expressions over the existing rows, or declare computed columns.

    Later rows have no value in them, so the columns must be nullable. Lance makes a column without nulls not nullable.
    If the expression cannot be rewritten to prevent that, a second version changes it. Raises
    TableSchemaValidationError if a column exists, InvalidInputError, ConcurrentModificationError.
    """
    subject = f"Adding columns to table {format_identifier(identifier)}"
    _check_new(dataset, subject, new_columns)
    require_complete(identifier, *(one.expression for one in new_columns), *(one.computed for one in new_columns))
    if any(one.computed is not None for one in new_columns):
        fields = [
            computed_columns.declare_column(dataset, subject, one.name, one.computed or "") for one in new_columns
        ]
        with translate_errors(subject):
            dataset.add_columns(pa.schema(fields))
        return
    texts = {one.name: one.expression or "" for one in new_columns}
    strict: list[str] = []
    for name, text in texts.items():
        values = expressions.plan_expression(dataset, subject, text)
        if not values.nullable:
            written = expressions.make_nullable(dataset, text, values.type)
            texts[name] = text if written is None else written
            strict += [name] if written is None else []
    with translate_errors(subject):
        dataset.add_columns(texts)
        if strict:
            nullable: Any = [{"path": field_paths.format_path((name,)), "nullable": True} for name in strict]
            dataset.alter_columns(*nullable)


def alter(dataset: LanceDataset, identifier: Identifier, alterations: Sequence[Alteration]) -> None:
    """Rename columns, cast them, and change whether they are nullable, in one commit.

    Raises InvalidTableStateError if an index or a computed column depends on one, TableSchemaValidationError if the
    columns or their values do not allow it, TableColumnNotFoundError, InvalidInputError, ConcurrentModificationError.
    """
    if not alterations:
        raise InvalidInputError(f"No alterations for table {format_identifier(identifier)}")
    changes: Any = [_parse_alteration(dataset, identifier, one) for one in alterations]
    twice = [path for path, count in Counter(one["path"] for one in changes).items() if count > 1]
    if twice:
        raise InvalidInputError(f"Column {twice[0]!r} of table {format_identifier(identifier)} is altered twice")
    _check_renames(dataset, identifier, changes)
    try:
        with translate_errors(f"Altering columns of table {format_identifier(identifier)}"):
            dataset.alter_columns(*changes)
    except (InvalidInputError, OSError, ValueError, RuntimeError) as error:
        cause = error.__cause__ or error
        text = str(cause).lower()
        if is_race(cause):
            raise
        if "index(es) attached" in text:
            raise InvalidTableStateError(
                f"Altering columns of table {format_identifier(identifier)}: {cause}"
            ) from error
        if any(part in text for part in _SCHEMA_CONFLICTS):
            raise TableSchemaValidationError(
                f"Altering columns of table {format_identifier(identifier)}: {cause}"
            ) from error
        raise


def drop(dataset: LanceDataset, identifier: Identifier, paths: Sequence[str]) -> None:
    """Drop columns with the indexes on them.

    Raises InvalidTableStateError if a computed column reads one, TableColumnNotFoundError, InvalidInputError,
    ConcurrentModificationError.
    """
    if not paths:
        raise InvalidInputError(f"No columns to drop from table {format_identifier(identifier)}")
    found = [field_paths.find_column(dataset, identifier, path)[0] for path in paths]
    tops = {field_paths.parse_path(path)[0] for path in found if len(field_paths.parse_path(path)) == 1}
    for path in found:
        computed_columns.require_unused(dataset, identifier, path, dropped=tops)
    if tops == set(dataset.schema.names):
        raise InvalidInputError(f"Table {format_identifier(identifier)} must keep at least one column")
    with translate_errors(f"Dropping columns of table {format_identifier(identifier)}"):
        dataset.drop_columns(list(dict.fromkeys(found)))


def _check_new(dataset: LanceDataset, subject: str, new_columns: Sequence[NewColumn]) -> None:
    if not new_columns:
        raise InvalidInputError(f"{subject}: there are no columns to add")
    for one in new_columns:
        field_paths.require_new_name(one.name)
        if (one.expression is None) == (one.computed is None):
            raise InvalidInputError(f"{subject}: column {one.name!r} needs an expression or a computed one")
    if len({one.computed is None for one in new_columns}) > 1:
        raise InvalidInputError(f"{subject}: computed columns are declared in a request of their own")
    twice = [name for name, count in Counter(one.name for one in new_columns).items() if count > 1]
    if twice:
        raise InvalidInputError(f"{subject}: column {twice[0]!r} is added twice")
    existing = set(dataset.schema.names)
    for one in new_columns:
        if one.name in existing:
            raise TableSchemaValidationError(f"{subject}: column {one.name!r} exists already")


def _parse_alteration(dataset: LanceDataset, identifier: Identifier, alteration: Alteration) -> dict[str, Any]:
    path, field = field_paths.find_column(dataset, identifier, alteration.path)
    if alteration.rename is None and alteration.data_type is None and alteration.nullable is None:
        raise InvalidInputError(f"Column {path!r} of table {format_identifier(identifier)}: the alteration is empty")
    if alteration.rename is not None:
        field_paths.require_new_name(alteration.rename, top_level=len(field_paths.parse_path(path)) == 1)
    if alteration.rename is not None or alteration.data_type is not None:
        computed_columns.require_unused(dataset, identifier, path)
    if computed_columns.is_computed(field) and (alteration.data_type is not None or alteration.nullable is False):
        raise InvalidTableStateError(
            f"Column {path!r} of table {format_identifier(identifier)} is computed: its type cannot be changed"
        )
    changes = {"name": alteration.rename, "data_type": alteration.data_type, "nullable": alteration.nullable}
    return {"path": path} | {key: value for key, value in changes.items() if value is not None}


def _check_renames(dataset: LanceDataset, identifier: Identifier, changes: Sequence[dict[str, Any]]) -> None:
    """Raise TableSchemaValidationError if two columns would have the same name. Columns may swap their names."""
    renamed = {field_paths.parse_path(one["path"]): one["name"] for one in changes if "name" in one}
    parents = {names[:-1] for names in renamed}
    for parent in parents:
        fields: Any = dataset.lance_schema.fields()
        for name in parent:
            fields = next(field for field in fields if field.name() == name).children()
        after = Counter(renamed.get((*parent, field.name()), field.name()) for field in fields)
        for name, count in after.items():
            if count > 1:
                raise TableSchemaValidationError(f"Table {format_identifier(identifier)} has a column {name!r} already")
