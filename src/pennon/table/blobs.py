"""Columns of blobs: large values that Lance keeps beside the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance import LanceDataset

_EXTENSION = "lance.blob"
_METADATA = b"lance-encoding:blob"
_BYTES = (pa.binary(), pa.large_binary())


def has_blobs(field: pa.Field) -> bool:
    """Tell whether a column is made of blobs, or has them inside."""
    metadata = field.metadata or {}
    name = metadata.get(b"ARROW:extension:name", b"").decode(errors="replace")
    if _METADATA in metadata or name.startswith(_EXTENSION):
        return True
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        return _is_extension(kind)
    return any(has_blobs(kind.field(number)) for number in range(kind.num_fields))


def as_blobs(data: pa.Table | pa.RecordBatchReader, dataset: LanceDataset) -> pa.Table | pa.RecordBatchReader:
    """Make blobs of plain bytes in columns that have blobs in the table."""
    names = [field.name for field in data.schema if field.type in _BYTES]
    if not names:
        return data
    wanted = dataset.schema
    names = [name for name in names if name in wanted.names and _is_extension(wanted.field(name).type)]
    if not names:
        return data
    if isinstance(data, pa.Table):
        return pa.Table.from_batches([_converted(batch, names) for batch in data.to_batches()], _schema(data, names))
    return pa.RecordBatchReader.from_batches(_schema(data, names), _each_converted(data, names))


def _each_converted(data: pa.RecordBatchReader, names: list[str]) -> Iterator[pa.RecordBatch]:
    for batch in data:
        yield _converted(batch, names)


def _converted(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    columns = [
        lance.blob_array(column.to_pylist()) if name in names else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_schema(batch, names))


def _schema(data: pa.Table | pa.RecordBatch | pa.RecordBatchReader, names: list[str]) -> pa.Schema:
    fields = [lance.blob_field(field.name) if field.name in names else field for field in data.schema]
    return pa.schema(fields, data.schema.metadata)


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and str(kind.extension_name).startswith(_EXTENSION)
