"""Rows whose types differ from a table's only in form: polars has large strings, Python's lists are not fixed in size.

A value is never changed: a number that the table's type cannot hold is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import TableSchemaValidationError
from pennon.identifiers import Identifier, format_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_IS_LIST = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], ...], ...] = (
    (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    (pa.types.is_date,),
    (pa.types.is_time,),
    (pa.types.is_duration,),
)


def fit_rows(
    rows: pa.Table | pa.RecordBatchReader, schema: pa.Schema, identifier: Identifier
) -> pa.Table | pa.RecordBatchReader:
    """Return the rows with the types of the table, where they differ only in form. Other columns stay as they are.

    Raises TableSchemaValidationError, for a stream when it is read, if the table's type cannot hold a value.
    """
    target = pa.schema([_fit_field(field, schema) for field in rows.schema], rows.schema.metadata)
    if target.equals(rows.schema):
        return rows
    if isinstance(rows, pa.Table):
        return _cast(rows, target, identifier)

    def cast_batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield from _cast(pa.Table.from_batches([batch]), target, identifier).to_batches()

    return pa.RecordBatchReader.from_batches(target, cast_batches())


def _cast(rows: pa.Table, target: pa.Schema, identifier: Identifier) -> pa.Table:
    try:
        return rows.cast(target)
    except (pa.ArrowException, ValueError) as error:
        raise TableSchemaValidationError(
            f"The rows do not fit the columns of table {format_identifier(identifier)}: {error}"
        ) from error


def _fit_field(field: pa.Field, schema: pa.Schema) -> pa.Field:
    if schema.names.count(field.name) != 1:
        return field
    wanted = schema.field(field.name).type
    return field.with_type(wanted) if _differ_in_form(field.type, wanted) else field


def _differ_in_form(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return True if values of one type may be cast to the other without changing what they mean."""
    if given.equals(wanted) or pa.types.is_null(given):
        return True
    if _is_any(given, _IS_LIST) and _is_any(wanted, _IS_LIST):
        return _differ_in_form(given.value_type, wanted.value_type)
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        names = [field.name for field in given]
        return names == [field.name for field in wanted] and all(
            _differ_in_form(given.field(name).type, wanted.field(name).type) for name in names
        )
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return bool(given.tz == wanted.tz)
    return any(_is_any(given, family) and _is_any(wanted, family) for family in _FAMILIES)


def _is_any(kind: pa.DataType, family: tuple[Callable[[pa.DataType], bool], ...]) -> bool:
    return any(is_kind(kind) for is_kind in family)
