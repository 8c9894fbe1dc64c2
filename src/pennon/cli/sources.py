"""Read the files from which `pennon create` creates a table: Parquet, CSV, JSON and Arrow."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyarrow import csv, ipc, parquet
from pyarrow import json as arrow_json

from pennon.cli.terminal_text import escape_controls
from pennon.errors import InvalidInputError
from pennon.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STDIN = "-"
_PARQUET, _CSV, _JSON, _ARROW = "parquet", "csv", "json", "arrow"
FORMATS = (_PARQUET, _CSV, _JSON, _ARROW)
_BY_SUFFIX = {
    ".parquet": _PARQUET,
    ".pq": _PARQUET,
    ".csv": _CSV,
    ".tsv": _CSV,
    ".json": _JSON,
    ".jsonl": _JSON,
    ".ndjson": _JSON,
    ".arrow": _ARROW,
    ".arrows": _ARROW,
    ".feather": _ARROW,
    ".ipc": _ARROW,
}
_PACKED = {".gz", ".bz2", ".zst", ".lz4"}
_ARROW_MAGIC = b"ARROW1"
_IN_MEMORY_BYTES = 64 << 20
_BATCH_ROWS = 64 * 1024
_CHUNK_BYTES = 256 << 10

Batches = tuple[pa.Schema, "Iterator[pa.RecordBatch]"]


@contextmanager
def read_table(files: Sequence[Path], format_: str | None, *, delimiter: str | None = None) -> Iterator[pa.Table]:
    """Read files into one table. Columns are matched by name. Raises InvalidInputError if a file cannot be read.

    Large data is written to a temporary file and mapped, so that a table can be larger than the memory.
    """
    if not files:
        raise InvalidInputError("Creating a table needs at least one file")
    names = [one for file in files for one in _list_files(file, format_)]
    formats = [format_ or _detect_format(name) for name in names]
    with tempfile.TemporaryDirectory(prefix="pennon-create-") as folder:
        sources = [_Source(name, _save_stdin(folder) if str(name) == STDIN else name) for name in names]
        with show_progress("reading", None) as advance:
            parts = [_open_batches(one, known, delimiter) for one, known in zip(sources, formats, strict=True)]
            schema = _unify_schemas(sources, [schema for schema, _ in parts])
            batches = _match_columns(sources, [one for _, one in parts], schema, advance)
            if sum(source.path.stat().st_size for source in sources) <= _IN_MEMORY_BYTES:
                yield pa.Table.from_batches(list(batches), schema)
                return
            spool = Path(folder, "data.arrow")
            with pa.OSFile(str(spool), "wb") as sink, ipc.new_file(sink, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            with pa.memory_map(str(spool)) as mapped:
                yield ipc.open_file(mapped).read_all()


class _Source(NamedTuple):
    """Data of one argument, and the file that holds it: another one for stdin."""

    argument: Path
    path: Path

    def __str__(self) -> str:
        return "stdin" if str(self.argument) == STDIN else repr(str(self.argument))


def _save_stdin(folder: str) -> Path:
    """Copy stdin to a file.

    pyarrow would read stdin in a thread of its own. Nothing ends such a thread: after Ctrl-C the process would wait for
    the program that writes, or abort. A file object would do several reads before it looks for Ctrl-C.
    """
    saved = Path(folder, "stdin")
    with saved.open("wb") as file:
        while chunk := os.read(sys.stdin.fileno(), _CHUNK_BYTES):
            file.write(chunk)
    return saved


def _list_files(file: Path, format_: str | None) -> list[Path]:
    """Return the file, or the data files of a directory."""
    if str(file) == STDIN:
        if format_ is None:
            raise InvalidInputError("Reading from stdin needs --format")
        return [file]
    if file.is_dir():
        inside = sorted(one for one in file.rglob("*") if one.is_file() and not _is_hidden(one.relative_to(file)))
        found = [one for one in inside if _suffix_format(one) == format_ or (format_ is None and _suffix_format(one))]
        if not found:
            raise InvalidInputError(f"The directory {str(file)!r} contains no file of a known format")
        return found
    if not file.exists():
        raise InvalidInputError(f"The file {str(file)!r} does not exist")
    return [file]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _suffix_format(file: Path) -> str | None:
    name = Path(file.stem) if file.suffix.lower() in _PACKED else file
    return _BY_SUFFIX.get(name.suffix.lower())


def _detect_format(file: Path) -> str:
    found = _suffix_format(file)
    if found is None:
        raise InvalidInputError(f"The format of {str(file)!r} cannot be derived from its name: use --format")
    return found


def _open_batches(source: _Source, format_: str, delimiter: str | None) -> Batches:
    """Open a file. Its batches are read one by one."""
    if format_ not in FORMATS:
        raise InvalidInputError(f"Unknown format {format_!r}; known: {', '.join(FORMATS)}")
    file = source.path
    with _translate_read_errors(source):
        if format_ == _PARQUET:
            return _open_parquet(file)
        if format_ == _CSV:
            name = file.with_suffix("").name if file.suffix.lower() in _PACKED else file.name
            chosen = delimiter or ("\t" if name.lower().endswith(".tsv") else ",")
            # pyarrow decompresses by the suffix.
            reader = csv.open_csv(pa.input_stream(str(file)), parse_options=csv.ParseOptions(delimiter=chosen))
            return reader.schema, iter(reader)
        if format_ == _JSON:
            table = _read_json(file)
            return table.schema, iter(table.to_batches(_BATCH_ROWS))
        return _open_arrow(file)


def _open_parquet(file: Path) -> Batches:
    source = parquet.ParquetFile(str(file))
    return source.schema_arrow, source.iter_batches(_BATCH_ROWS)


def _read_json(file: Path) -> pa.Table:
    """Read JSON: one object per line, or one array of objects."""
    with pa.input_stream(str(file)) as stream:
        body = stream.read()
    if bytes(body[:64]).lstrip()[:1] == b"[":
        rows = json.loads(body)
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("the array contains values that are not objects")
        return pa.Table.from_pylist(rows)
    return arrow_json.read_json(pa.BufferReader(body))


def _open_arrow(file: Path) -> Batches:
    with pa.OSFile(str(file), "rb") as raw:
        is_file = raw.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC
    if is_file:
        reader = ipc.open_file(pa.memory_map(str(file)))
        return reader.schema, (reader.get_batch(index) for index in range(reader.num_record_batches))
    stream = ipc.open_stream(pa.input_stream(str(file)))
    return stream.schema, iter(stream)


def _unify_schemas(sources: Sequence[_Source], schemas: Sequence[pa.Schema]) -> pa.Schema:
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowException, ValueError) as error:
        names = ", ".join(map(str, sources[:3]))
        raise InvalidInputError(f"The columns of {names} do not match: {error}") from error
    if len(schema) == 0:
        raise InvalidInputError(f"{sources[0]} has no columns")
    if len(set(schema.names)) < len(schema):
        twice = next(name for name in schema.names if schema.names.count(name) > 1)
        raise InvalidInputError(f"{sources[0]} has the column {escape_controls(twice)!r} twice")
    return schema


def _match_columns(
    sources: Sequence[_Source],
    parts: Sequence[Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    advance: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    """Yield all batches with the columns of the schema. Columns that a file does not have are null."""
    for source, batches in zip(sources, parts, strict=True):
        with _translate_read_errors(source):
            for batch in batches:
                advance(batch.num_rows)
                yield _conform(batch, schema)


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@contextmanager
def _translate_read_errors(source: _Source) -> Iterator[None]:
    try:
        yield
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInputError(f"{source} cannot be read: {error}") from error
