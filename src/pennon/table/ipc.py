"""Arrow IPC data in requests and responses."""

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
_SMALL_BYTES = 1 << 16


def read_ipc(data: object) -> pa.Table:
    """Return the rows of an Arrow IPC stream or file, or of a table. Raises InvalidInputError for anything else."""
    if data is None:
        raise InvalidInputError(
            "A table needs its data as an Arrow IPC stream; use declare_table to create one without"
        )
    if isinstance(data, pa.Table):
        return _check_table(data)
    with _translate_arrow_errors():
        buffer = pa.py_buffer(data)
        magic = buffer.slice(0, min(len(buffer), len(_FILE_MAGIC))).to_pybytes()
        is_file = magic == _FILE_MAGIC
        allowance = (check_file if is_file else check_stream)(buffer)
        reader = pa.ipc.open_file(buffer) if is_file else pa.ipc.open_stream(buffer)
        table = reader.read_all()
        table.validate(full=True)
        for batch in table.to_batches():
            allowance.take_views(batch)
        _require_schema_text(table.schema)
    _require_columns(table.schema)
    return _align(table)


def open_ipc(data: object) -> pa.Table | pa.RecordBatchReader:
    """Return the rows of bytes, or a stream of batches for a source that can be read, such as an open file.

    Raises InvalidInputError for anything but Arrow IPC, now or when the batch is read.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if not hasattr(data, "read"):
        return read_ipc(data)
    with _translate_arrow_errors():
        source = CheckedSource(data)
        reader = pa.ipc.open_stream(source)
        _require_schema_text(reader.schema)
    _require_columns(reader.schema)
    return pa.RecordBatchReader.from_batches(reader.schema, _read_batches(reader, source.allowance))


def write_ipc(reader: pa.RecordBatchReader) -> bytes:
    """Return batches as an Arrow IPC file. Only the result is held in memory as a whole."""
    schema = reader.schema
    if has_dictionaries(schema):
        # A file has one dictionary per column, but each batch has its own. A single batch has a common one.
        return _write_small_file(schema, reader.read_all().unify_dictionaries().combine_chunks().to_batches())
    batches = iter(reader)
    first = list(islice(batches, 2))
    if len(first) <= 1:
        return _write_small_file(schema, first)
    # This is slower for a few rows, but it does not copy the result.
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in chain(first, batches):
            writer.write_batch(batch)
    return sink.getvalue()


def _check_table(table: pa.Table) -> pa.Table:
    with _translate_arrow_errors():
        table.validate(full=True)
        _require_schema_text(table.schema)
    _require_columns(table.schema)
    return _align(table)


def _write_small_file(schema: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def has_dictionaries(schema: pa.Schema) -> bool:
    """Return True if a column, or a part of one, is encoded by a dictionary."""
    return any(_has_dictionary(field.type) for field in schema)


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(number).type) for number in range(kind.num_fields))


def _read_batches(reader: pa.RecordBatchReader, allowance: Allowance) -> Iterator[pa.RecordBatch]:
    while True:
        with _translate_arrow_errors():
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            batch.validate(full=True)
            allowance.take_views(batch)
        yield _align(pa.Table.from_batches([batch])).to_batches()[0] if batch.num_rows else batch


@contextmanager
def _translate_arrow_errors() -> Iterator[None]:
    try:
        yield
    except LanceNamespaceError:
        raise
    except (pa.ArrowException, OSError, TypeError, ValueError, struct.error) as error:
        raise InvalidInputError(f"The table's data is not a valid Arrow IPC stream: {error}") from error


def _require_schema_text(schema: pa.Schema) -> None:
    """Raise ValueError for names and metadata that are not valid text. Lance fails or panics on them."""
    _require_text(schema.metadata)
    for field in schema:
        _require_field_text(field)


def _require_field_text(field: pa.Field) -> None:
    kind = field.type
    _ = field.name, kind.tz if pa.types.is_timestamp(kind) else None
    _require_text(field.metadata)
    for number in range(kind.num_fields):
        _require_field_text(kind.field(number))


def _require_text(metadata: Mapping[bytes, bytes] | None) -> None:
    for key, value in (metadata or {}).items():
        _ = key.decode(), value.decode()


def _require_columns(schema: pa.Schema) -> None:
    if len(schema) == 0:
        raise InvalidInputError("The table's data has no columns")


def _align(table: pa.Table) -> pa.Table:
    """Return the rows with aligned buffers, which Lance requires. Rows are copied if necessary."""
    if table.nbytes > _SMALL_BYTES:  # below this size, checking would cost more than copying
        chunks = (chunk for column in table.columns for chunk in column.chunks)
        buffers = (buffer for chunk in chunks for buffer in chunk.buffers() if buffer is not None)
        if all(buffer.address % _ALIGNMENT == 0 for buffer in buffers):
            return table
    memory = pa.default_cpu_memory_manager()
    return pa.Table.from_batches([batch.copy_to(memory) for batch in table.to_batches()], schema=table.schema)


def collect_rows(data: pa.Table | pa.RecordBatchReader) -> pa.Table:
    """Return all rows as a table. Raises InvalidInputError for invalid data."""
    with _translate_arrow_errors():
        return data if isinstance(data, pa.Table) else data.read_all()
