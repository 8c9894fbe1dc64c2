"""Arrow IPC data as requests carry it, and as answers do."""

from __future__ import annotations

import io
import struct
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError, LanceNamespaceError
from pennon.table.ipc_limits import Allowance, CheckedSource, check_file, check_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FILE_MAGIC = b"ARROW1"
_ALIGNMENT = 64
_LITTLE = 1 << 16


def read_ipc(data: object) -> pa.Table:
    """Read an Arrow IPC stream or file whole; anything else is InvalidInputError (13)."""
    if data is None:
        raise InvalidInputError("Creating a table needs its data as an Arrow IPC stream; use declare_table for none")
    with _garbage_refused():
        buffer = pa.py_buffer(data)
        magic = buffer.slice(0, min(len(buffer), len(_FILE_MAGIC))).to_pybytes()
        is_file = magic == _FILE_MAGIC
        allowance = (check_file if is_file else check_stream)(buffer)
        reader = pa.ipc.open_file(buffer) if is_file else pa.ipc.open_stream(buffer)
        table = reader.read_all()
        table.validate(full=True)
        for batch in table.to_batches():
            allowance.take_views(batch)
        _require_texts(table.schema)
    _require_columns(table.schema)
    return _aligned(table)


def open_ipc(data: object) -> pa.Table | pa.RecordBatchReader:
    """Read bytes whole; of something that can be read from, such as an open file, read batch after batch.

    Anything but Arrow IPC is InvalidInputError (13), raised now or when the batch in question is read.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if not hasattr(data, "read"):
        return read_ipc(data)
    with _garbage_refused():
        source = CheckedSource(data)
        reader = pa.ipc.open_stream(source)
        _require_texts(reader.schema)
    _require_columns(reader.schema)
    return pa.RecordBatchReader.from_batches(reader.schema, _checked(reader, source.allowance))


def write_ipc(reader: pa.RecordBatchReader) -> bytes:
    """Write batches as an Arrow IPC file, each as it comes; there is one copy of the whole, the answer."""
    schema = reader.schema
    if any(_has_dictionary(field.type) for field in schema):
        # A file has one dictionary for each column, and batches come with their own: as one batch they share it.
        return _small_file(schema, reader.read_all().unify_dictionaries().combine_chunks().to_batches())
    batches = iter(reader)
    begin = list(islice(batches, 2))
    if len(begin) <= 1:
        return _small_file(schema, begin)
    # Slower for a few rows, but it hands out what it has collected without copying it.
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in chain(begin, batches):
            writer.write_batch(batch)
    return sink.getvalue()


def _small_file(schema: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(number).type) for number in range(kind.num_fields))


def _checked(reader: pa.RecordBatchReader, allowance: Allowance) -> Iterator[pa.RecordBatch]:
    while True:
        with _garbage_refused():
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            batch.validate(full=True)
            allowance.take_views(batch)
        yield _aligned(pa.Table.from_batches([batch])).to_batches()[0] if batch.num_rows else batch


@contextmanager
def _garbage_refused() -> Iterator[None]:
    try:
        yield
    except LanceNamespaceError:
        raise
    except (pa.ArrowException, OSError, TypeError, ValueError, struct.error) as error:
        raise InvalidInputError(f"The table's data is not a valid Arrow IPC stream: {error}") from error


def _require_texts(schema: pa.Schema) -> None:
    """Read all names and metadata, which raises a ValueError for what is no text: Lance fails at it, or panics."""
    _read(schema.metadata)
    for field in schema:
        _read_names(field)


def _read_names(field: pa.Field) -> None:
    kind = field.type
    _ = field.name, kind.tz if pa.types.is_timestamp(kind) else None
    _read(field.metadata)
    for number in range(kind.num_fields):
        _read_names(kind.field(number))


def _read(metadata: Mapping[bytes, bytes] | None) -> None:
    for key, value in (metadata or {}).items():
        _ = key.decode(), value.decode()


def _require_columns(schema: pa.Schema) -> None:
    if len(schema) == 0:
        raise InvalidInputError("The table's data has no columns")


def _aligned(table: pa.Table) -> pa.Table:
    """Copy data whose buffers lie where wide values cannot be read in place; Lance requires it."""
    if table.nbytes > _LITTLE:  # else looking would cost more than copying
        chunks = (chunk for column in table.columns for chunk in column.chunks)
        buffers = (buffer for chunk in chunks for buffer in chunk.buffers() if buffer is not None)
        if all(buffer.address % _ALIGNMENT == 0 for buffer in buffers):
            return table
    memory = pa.default_cpu_memory_manager()
    return pa.Table.from_batches([batch.copy_to(memory) for batch in table.to_batches()], schema=table.schema)


def collected(data: pa.Table | pa.RecordBatchReader) -> pa.Table:
    """Give all rows at once; garbage among them is InvalidInputError (13)."""
    with _garbage_refused():
        return data if isinstance(data, pa.Table) else data.read_all()
