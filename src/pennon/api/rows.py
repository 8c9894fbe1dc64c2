"""Rows as callers pass them: pyarrow, pandas, polars, plain Python, and streams of batches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads

from pennon.errors import InvalidInputError
from pennon.progress import show_progress

if TYPE_CHECKING:
    from typing import TypeAlias

    Rows: TypeAlias = Any
    """A pyarrow table, batch, reader, dataset or schema; a pandas or polars DataFrame; an object with an Arrow stream;
    a list of dicts; a dict of columns; an iterable of batches."""

_KINDS = (
    "a pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Schema, a pandas or polars DataFrame, an object with "
    "an Arrow stream, a list of dicts, a dict of columns, or an iterable of batches"
)


def to_rows(data: Rows) -> pa.Table | pa.RecordBatchReader:
    """Return rows as a table if they are in memory, or as a reader if they are a stream. A schema has no rows.

    A pandas index becomes columns if it has a name, and is dropped otherwise.
    Raises InvalidInputError for anything else, and for batches without a schema.
    """
    try:
        return _convert(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"These rows cannot be used: {error}") from error


@contextmanager
def show_reading(
    rows: pa.Table | pa.RecordBatchReader, title: str, *, progress: bool | None
) -> Iterator[pa.Table | pa.RecordBatchReader]:
    """Yield the rows. If they are a stream, a bar counts those that are read."""
    if isinstance(rows, pa.Table):
        yield rows
        return
    with show_progress(f"{title} (rows)", wanted=progress) as advance:

        def count() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                advance(batch.num_rows)
                yield batch

        yield pa.RecordBatchReader.from_batches(rows.schema, count())


@contextmanager
def spool_stream(rows: pa.Table | pa.RecordBatchReader) -> Iterator[Any]:
    """Yield rows as `create_table` of a catalog in this process takes them: a stream goes to a temporary file first.

    The first version of a table is written by a function that reads the rows twice.
    """
    if isinstance(rows, pa.Table):
        yield rows
        return
    with tempfile.TemporaryFile(prefix="pennon-rows-") as file:
        with pa.ipc.new_stream(file, rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        file.seek(0)
        yield file


def _convert(data: Any) -> pa.Table | pa.RecordBatchReader:
    if isinstance(data, (pa.Table, pa.RecordBatchReader)):
        return data
    if isinstance(data, pa.Schema):
        return data.empty_table()
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pads.Dataset):
        return data.scanner().to_reader()
    return _convert_frame(data)


def _convert_frame(data: Any) -> pa.Table | pa.RecordBatchReader:
    library = type(data).__module__.partition(".")[0]
    if library == "pandas":
        return _convert_pandas(data)
    if library == "polars":
        frame = data.collect() if hasattr(data, "collect") else data
        return _require_table(frame.to_arrow())
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    return _convert_values(data)


def _convert_values(data: Any) -> pa.Table | pa.RecordBatchReader:
    if isinstance(data, Mapping):
        return pa.table(dict(data))
    if isinstance(data, (list, tuple)) and data and all(isinstance(one, Mapping) for one in data):
        return pa.Table.from_pylist(list(data))
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return _convert_batches(iter(data))
    raise InvalidInputError(f"Rows are {_KINDS}, got {type(data).__name__}")


def _convert_pandas(frame: Any) -> pa.Table:
    if not hasattr(frame, "columns"):
        raise InvalidInputError("Rows are a pandas DataFrame, not a Series")
    is_named = any(name is not None for name in frame.index.names)
    table = pa.Table.from_pandas(frame, preserve_index=is_named)
    return table.replace_schema_metadata(None)


def _require_table(found: Any) -> pa.Table:
    if not isinstance(found, pa.Table):
        raise InvalidInputError("Rows are a polars DataFrame, not a Series")
    return found


def _convert_batches(parts: Iterator[Any]) -> pa.RecordBatchReader:
    batches = (batch for part in parts for batch in _to_batches(part))
    first = next(batches, None)
    if first is None:
        raise InvalidInputError("An iterable without batches has no schema: pass a schema, or a RecordBatchReader")
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))


def _to_batches(part: Any) -> Iterable[pa.RecordBatch]:
    if isinstance(part, pa.RecordBatch):
        return [part]
    converted = _convert(part)
    found: list[pa.RecordBatch] | pa.RecordBatchReader = (
        converted.to_batches() if isinstance(converted, pa.Table) else converted
    )
    return found
