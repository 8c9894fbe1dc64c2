"""Values of computed columns beside changes of rows: only a backfill gives them.

Rows that are inserted have none. Rows that get other values in a column which a computed one reads lose theirs, so
that no row has a value of what it was before; the next backfill fills both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier
from pennon.table import field_paths
from pennon.table.computed import inputs, is_declared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import TypeAlias

    from lance import LanceDataset

    Rows: TypeAlias = pa.Table | pa.RecordBatchReader


def without_values(data: Rows, dataset: LanceDataset, identifier: Identifier) -> Rows:
    """Give the rows again; 13 if one has a value in a computed column, for a stream as soon as that is read."""
    names = [field.name for field in dataset.schema if is_declared(field) and field.name in data.schema.names]
    if not names:
        return data
    if isinstance(data, pa.Table):
        _require_empty(data, names, identifier)
        return data
    return pa.RecordBatchReader.from_batches(data.schema, _each_empty(data, names, identifier))


def emptying(data: Rows, dataset: LanceDataset) -> Rows:
    """Let rows that are merged take the values of computed columns away which read one of their columns."""
    wanted = [field for field in _reading(dataset, data.schema.names) if field.name not in data.schema.names]
    if not wanted:
        return data
    fields = [pa.field(field.name, field.type) for field in wanted]
    if isinstance(data, pa.Table):
        for field in fields:
            data = data.append_column(field, pa.nulls(data.num_rows, field.type))
        return data
    schema = pa.schema([*data.schema, *fields], data.schema.metadata)
    return pa.RecordBatchReader.from_batches(schema, _each_emptied(data, schema, fields))


def emptied(changes: Mapping[str, str], dataset: LanceDataset, identifier: Identifier) -> dict[str, str]:
    """Give the changes of an update, with those that take values away; 13 if one sets a computed column."""
    tops = {field_paths.parsed(path)[0] for path in changes}
    for field in dataset.schema:
        if is_declared(field) and field.name in tops:
            raise _refusal(field.name, identifier)
    return {**changes, **{field_paths.canonical((field.name,)): "NULL" for field in _reading(dataset, tops)}}


def _reading(dataset: LanceDataset, names: Iterable[str]) -> list[pa.Field]:
    """Find the computed columns that read one of these, or a computed column that does."""
    left = [field for field in dataset.schema if is_declared(field)]
    changed = set(names)
    found: list[pa.Field] = []
    while True:
        more = [field for field in left if changed & set(inputs(field))]
        if not more:
            return found
        found += more
        changed = {field.name for field in more}
        left = [field for field in left if field.name not in changed]


def _each_empty(data: pa.RecordBatchReader, names: list[str], identifier: Identifier) -> Iterator[pa.RecordBatch]:
    for batch in data:
        _require_empty(batch, names, identifier)
        yield batch


def _each_emptied(
    data: pa.RecordBatchReader, schema: pa.Schema, fields: Collection[pa.Field]
) -> Iterator[pa.RecordBatch]:
    for batch in data:
        nulls = [pa.nulls(batch.num_rows, field.type) for field in fields]
        yield pa.RecordBatch.from_arrays([*batch.columns, *nulls], schema=schema)


def _require_empty(rows: pa.Table | pa.RecordBatch, names: list[str], identifier: Identifier) -> None:
    for name in names:
        if rows.column(name).null_count < rows.num_rows:
            raise _refusal(name, identifier)


def _refusal(name: str, identifier: Identifier) -> InvalidInputError:
    return InvalidInputError(
        f"Column {name!r} of table {format_identifier(identifier)} is a computed one: only "
        "alter_table_backfill_columns fills it"
    )
