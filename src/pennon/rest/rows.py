"""Rows on their way to a server: an Arrow IPC stream, sent in chunks."""

from __future__ import annotations

import io
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pennon.http_transport import StreamedBody

STREAM = "application/vnd.apache.arrow.stream"
FILE = "application/vnd.apache.arrow.file"
FILE_MAGIC = b"ARROW1"
_CHUNK = 1 << 20


def make_body(data: object) -> bytes | StreamedBody:
    """Return the body that sends rows: those of a table or a reader, or bytes or an open file with Arrow IPC data.

    Only bytes, tables and files with a position are sent again after an error of the connection.
    """
    if data is None:
        raise InvalidInputError(
            "A table needs its data as an Arrow IPC stream; use declare_table to create one without"
        )
    if isinstance(data, pa.Table):
        return _Chunks(lambda: _write_stream(data.schema, data.to_batches()))
    if isinstance(data, pa.RecordBatchReader):
        return _Chunks(lambda: _write_stream(data.schema, data), once=True)
    if hasattr(data, "read"):
        return _make_file_body(data)
    try:
        buffer = pa.py_buffer(data)
    except TypeError as error:
        raise InvalidInputError(f"The table's data is not a valid Arrow IPC stream: {error}") from error
    if buffer.slice(0, min(len(FILE_MAGIC), len(buffer))).to_pybytes() == FILE_MAGIC:
        return _Chunks(lambda: _convert_file(buffer))
    return buffer.to_pybytes() if not isinstance(data, bytes) else data


class _Chunks:
    """A body whose chunks are made by a function, again for each attempt unless that is possible only `once`."""

    def __init__(self, make: Callable[[], Iterable[bytes]], *, once: bool = False) -> None:
        self._make = make
        self._once = once
        self._was_read = False

    @property
    def can_repeat(self) -> bool:
        return not (self._once and self._was_read)

    def chunks(self) -> Iterator[bytes]:
        for chunk in self._make():
            self._was_read = True
            yield chunk


def _make_file_body(file: Any) -> StreamedBody:
    position = file.tell() if getattr(file, "seekable", lambda: False)() else None

    def read() -> Iterator[bytes]:
        if position is not None:
            file.seek(position)
        first = file.read(_CHUNK)
        if first[: len(FILE_MAGIC)] == FILE_MAGIC:
            # The footer has to be read first.
            yield from _convert_file(pa.py_buffer(first + file.read()))
            return
        while first:
            yield bytes(first)
            first = file.read(_CHUNK)

    return _Chunks(read, once=position is None)


def _convert_file(buffer: pa.Buffer) -> Iterator[bytes]:
    """Return the stream with the rows of an Arrow IPC file, which the protocol does not take."""
    try:
        reader = pa.ipc.open_file(buffer)
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"The table's data is not a valid Arrow IPC file: {error}") from error
    return _write_stream(reader.schema, batches)


def _write_stream(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    sink = io.BytesIO()
    writer = pa.ipc.new_stream(sink, schema)
    for batch in chain(batches, [None]):
        if batch is None:
            writer.close()
        else:
            writer.write_batch(batch)
        yield sink.getvalue()
        sink.seek(0)
        sink.truncate()
