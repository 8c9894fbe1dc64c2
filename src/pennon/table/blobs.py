"""Columns of blobs: large values that Lance stores separately from the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa

if TYPE_CHECKING:
    from lance import LanceDataset

_EXTENSION = "lance.blob"
_METADATA = b"lance-encoding:blob"
_BYTES = (pa.binary(), pa.large_binary())


def has_blobs(field: pa.Field) -> bool:
    """Return True if a column contains blobs, at any depth."""
    metadata = field.metadata or {}
    name = metadata.get(b"ARROW:extension:name", b"").decode(errors="replace")
    if _METADATA in metadata or name.startswith(_EXTENSION):
        return True
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        return _is_extension(kind)
    return any(has_blobs(kind.field(number)) for number in range(kind.num_fields))


def is_blob_column(field: pa.Field) -> bool:
    """Return True for a column of blobs, which `take_blobs` opens. It cannot open blobs inside structs and lists."""
    return has_blobs(field) and not pa.types.is_nested(field.type)


def convert_blobs(data: pa.Table | pa.RecordBatchReader, dataset: LanceDataset) -> pa.Table | pa.RecordBatchReader:
    """Return the rows with blobs in place of plain bytes, for the columns that are blobs in the table."""
    names = [field.name for field in data.schema if field.type in _BYTES]
    if not names:
        return data
    schema = dataset.schema
    names = [name for name in names if name in schema.names and _is_extension(schema.field(name).type)]
    if not names:
        return data
    fields = [lance.blob_field(field.name) if field.name in names else field for field in data.schema]
    target = pa.schema(fields, data.schema.metadata)
    if isinstance(data, pa.Table):
        return pa.Table.from_batches([_convert_batch(batch, target, names) for batch in data.to_batches()], target)
    return pa.RecordBatchReader.from_batches(target, (_convert_batch(batch, target, names) for batch in data))


def _convert_batch(batch: pa.RecordBatch, target: pa.Schema, names: list[str]) -> pa.RecordBatch:
    columns = [
        lance.blob_array(column.to_pylist()) if name in names else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and str(kind.extension_name).startswith(_EXTENSION)
