"""Arrow IPC bodies: rows that clients send, and results that are sent while they are read.

A body is received completely before the operation begins, so a slow client holds neither a thread nor the version that
it changes. A large body goes to a temporary file. Memory does not depend on the size of a body or a result.
"""

from __future__ import annotations

import io
from contextlib import asynccontextmanager
from itertools import chain, islice
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING

import anyio
import pyarrow as pa
from starlette.responses import Response, StreamingResponse

from pennon.errors import InvalidInputError
from pennon.table.ipc import has_dictionaries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request

STREAM, FILE = "application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file"
HELD_BYTES = 8 << 20
"""Bodies up to this size are held in memory."""
CHUNK_SECONDS = 30.0
"""How long a client may send nothing."""
_WRITTEN_BYTES = 4 << 20


@asynccontextmanager
async def receive_rows(request: Request) -> AsyncIterator[bytes | IO[bytes]]:
    """Receive a body, and return its bytes, or the file that has them until the end of the block.

    Raises InvalidInputError if it is of another type, or does not arrive.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != STREAM:
        # Browsers send only other types to foreign servers without asking.
        raise InvalidInputError(f"The body must be {STREAM}, not {kind!r}")
    chunks = request.stream()
    held = bytearray()
    while (chunk := await _next_chunk(chunks)) is not None:
        held += chunk
        if len(held) > HELD_BYTES:
            break
    else:
        yield bytes(held)
        return
    with await anyio.to_thread.run_sync(TemporaryFile) as file:
        while held:
            await anyio.to_thread.run_sync(file.write, bytes(held))
            held.clear()
            while len(held) < _WRITTEN_BYTES and (chunk := await _next_chunk(chunks)) is not None:
                held += chunk
        file.seek(0)
        yield file


async def _next_chunk(chunks: AsyncIterator[bytes]) -> bytes | None:
    """Return what arrives next, or None at the end."""
    try:
        with anyio.fail_after(CHUNK_SECONDS):
            return await anext(chunks, None)
    except TimeoutError as error:
        raise InvalidInputError("The body did not come in time") from error


def send_rows(reader: pa.RecordBatchReader, accepted: str) -> Response:
    """Return the answer with the rows: as an Arrow IPC file, or as a stream if the client accepts only that.

    A client that reads slowly slows down the query. An error after the first batches ends the connection.
    """
    as_stream = STREAM in accepted and FILE not in accepted
    kind = STREAM if as_stream else FILE
    batches = iter(reader)
    first = list(islice(batches, 2))
    rows: Iterator[pa.RecordBatch] = chain(first, batches)
    if len(first) > 1 and not as_stream and has_dictionaries(reader.schema):
        rows = _unify_dictionaries(reader.schema, rows)
    parts = _write_parts(reader.schema, rows, as_stream=as_stream)
    if len(first) <= 1:
        return Response(b"".join(parts), media_type=kind)
    return StreamingResponse(parts, media_type=kind)


def _unify_dictionaries(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the batches with one dictionary for each column, as a file needs them.

    The dictionaries are known when the last batch was read, so all are kept in a temporary file until then.
    """
    with TemporaryDirectory(prefix="pennon-") as folder:
        path = f"{folder}/rows"
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        # Everything but the dictionaries and the numbers of their values stays in the file.
        with pa.memory_map(path) as kept, pa.ipc.open_stream(kept) as stored:
            yield from stored.read_all().unify_dictionaries().to_batches()


def _write_parts(schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, as_stream: bool) -> Iterator[bytes]:
    sink = _Parts()
    with (pa.ipc.new_stream if as_stream else pa.ipc.new_file)(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _Parts(io.RawIOBase):
    """A file whose content is taken away while it is written."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, content: object) -> int:
        part = bytes(memoryview(content))  # type: ignore[arg-type]
        self._parts.append(part)
        self._position += len(part)
        return len(part)

    def tell(self) -> int:
        return self._position

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken
