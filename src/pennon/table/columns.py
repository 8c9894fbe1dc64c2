"""Columns of a table: add, alter, drop. Each commits the table's next version."""

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
from pennon.table import computed, expressions, field_paths
from pennon.table.lance_errors import bad_input_told, is_race
from pennon.table.requirements import require_complete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import LanceDataset

    from pennon.identifiers import Identifier

# What Lance says when the columns that are there, or their values, do not allow a change.
_AGAINST_THE_TABLE = ("cannot cast", "cast error", "can't cast", "contains null values", "duplicate field name")


@dataclass(frozen=True)
class NewColumn:
    """A column that is asked for: the values of an expression, or the declaration of a computed column."""

    name: str
    expression: str | None = None
    computed: str | None = None


@dataclass(frozen=True)
class Alteration:
    """What is to become of a column."""

    path: str
    rename: str | None = None
    data_type: pa.DataType | None = None
    nullable: bool | None = None


def add(dataset: LanceDataset, identifier: Identifier, wanted: Sequence[NewColumn]) -> None:
    """Add columns with the values of expressions over the rows that are there, or declare computed ones.

    Rows that come later have no value in them. A column whose expression gives no nulls may have none, as far as Lance
    goes; where that cannot be said in the expression, a second version says it. Errors 13, 14, 20 (a column is there).
    """
    subject = f"Adding columns to table {format_identifier(identifier)}"
    _check_new(dataset, subject, wanted)
    require_complete(identifier, *(one.expression for one in wanted), *(one.computed for one in wanted))
    if any(one.computed is not None for one in wanted):
        fields = [computed.declared(dataset, subject, one.name, one.computed or "") for one in wanted]
        with bad_input_told(subject):
            dataset.add_columns(pa.schema(fields))
        return
    texts = {one.name: one.expression or "" for one in wanted}
    strict: list[str] = []
    for name, text in texts.items():
        values = expressions.planned(dataset, subject, text)
        if not values.nullable:
            written = expressions.nullable(dataset, text, values.type)
            texts[name] = text if written is None else written
            strict += [name] if written is None else []
    with bad_input_told(subject):
        dataset.add_columns(texts)
        if strict:
            nullable: Any = [{"path": field_paths.canonical((name,)), "nullable": True} for name in strict]
            dataset.alter_columns(*nullable)


def alter(dataset: LanceDataset, identifier: Identifier, alterations: Sequence[Alteration]) -> None:
    """Rename columns, cast them, and let them have nulls or not, all in one commit.

    Errors 12, 13, 14, 19 (an index or a computed column needs it as it is), 20 (the columns or their values do not
    allow it).
    """
    if not alterations:
        raise InvalidInputError(f"There is nothing to alter in table {format_identifier(identifier)}")
    asked: Any = [_altered(dataset, identifier, one) for one in alterations]
    twice = [path for path, count in Counter(one["path"] for one in asked).items() if count > 1]
    if twice:
        raise InvalidInputError(f"Column {twice[0]!r} of table {format_identifier(identifier)} is altered twice")
    _check_renames(dataset, identifier, asked)
    try:
        with bad_input_told(f"Altering columns of table {format_identifier(identifier)}"):
            dataset.alter_columns(*asked)
    except (InvalidInputError, OSError, ValueError, RuntimeError) as error:
        cause = error.__cause__ or error
        text = str(cause).lower()
        if is_race(cause):
            raise
        if "index(es) attached" in text:
            raise InvalidTableStateError(
                f"Altering columns of table {format_identifier(identifier)}: {cause}"
            ) from error
        if any(part in text for part in _AGAINST_THE_TABLE):
            raise TableSchemaValidationError(
                f"Altering columns of table {format_identifier(identifier)}: {cause}"
            ) from error
        raise


def drop(dataset: LanceDataset, identifier: Identifier, paths: Sequence[str]) -> None:
    """Take columns away, with the indexes on them; errors 12, 13, 14, 19 (a computed column reads it)."""
    if not paths:
        raise InvalidInputError(f"There is no column to drop from table {format_identifier(identifier)}")
    found = [field_paths.resolved(dataset, identifier, path)[0] for path in paths]
    tops = {field_paths.parsed(path)[0] for path in found if len(field_paths.parsed(path)) == 1}
    for path in found:
        computed.require_no_input(dataset, identifier, path, leaving=tops)
    if tops == set(dataset.schema.names):
        raise InvalidInputError(f"Table {format_identifier(identifier)} cannot lose all of its columns")
    with bad_input_told(f"Dropping columns of table {format_identifier(identifier)}"):
        dataset.drop_columns(list(dict.fromkeys(found)))


def _check_new(dataset: LanceDataset, subject: str, wanted: Sequence[NewColumn]) -> None:
    if not wanted:
        raise InvalidInputError(f"{subject}: there is none to add")
    for one in wanted:
        field_paths.require_new_name(one.name)
        if (one.expression is None) == (one.computed is None):
            raise InvalidInputError(f"{subject}: column {one.name!r} needs an expression, or a computed one, not both")
    if len({one.computed is None for one in wanted}) > 1:
        raise InvalidInputError(f"{subject}: computed columns are declared in a request of their own")
    twice = [name for name, count in Counter(one.name for one in wanted).items() if count > 1]
    if twice:
        raise InvalidInputError(f"{subject}: column {twice[0]!r} is added twice")
    there = set(dataset.schema.names)
    for one in wanted:
        if one.name in there:
            raise TableSchemaValidationError(f"{subject}: column {one.name!r} is there already")


def _altered(dataset: LanceDataset, identifier: Identifier, wanted: Alteration) -> dict[str, Any]:
    path, field = field_paths.resolved(dataset, identifier, wanted.path)
    if wanted.rename is None and wanted.data_type is None and wanted.nullable is None:
        raise InvalidInputError(
            f"Column {path!r} of table {format_identifier(identifier)}: nothing about it is altered"
        )
    if wanted.rename is not None:
        field_paths.require_new_name(wanted.rename, top_level=len(field_paths.parsed(path)) == 1)
    if wanted.rename is not None or wanted.data_type is not None:
        computed.require_no_input(dataset, identifier, path)
    if computed.is_declared(field) and (wanted.data_type is not None or wanted.nullable is False):
        raise InvalidTableStateError(
            f"Column {path!r} of table {format_identifier(identifier)} is a computed one: its type is fixed"
        )
    changes = {"name": wanted.rename, "data_type": wanted.data_type, "nullable": wanted.nullable}
    return {"path": path} | {key: value for key, value in changes.items() if value is not None}


def _check_renames(dataset: LanceDataset, identifier: Identifier, asked: Sequence[dict[str, Any]]) -> None:
    """Raise 20 if two columns would have one name; several may take each other's."""
    renamed = {field_paths.parsed(one["path"]): one["name"] for one in asked if "name" in one}
    parents = {names[:-1] for names in renamed}
    for parent in parents:
        fields: Any = dataset.lance_schema.fields()
        for name in parent:
            fields = next(field for field in fields if field.name() == name).children()
        after = Counter(renamed.get((*parent, field.name()), field.name()) for field in fields)
        for name, count in after.items():
            if count > 1:
                raise TableSchemaValidationError(f"Table {format_identifier(identifier)} has a column {name!r} already")
