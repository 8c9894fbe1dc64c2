"""Read the files from which `pennon create` and `pennon append` take rows: Parquet, CSV, JSON and Arrow."""

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

from pennon.cli.arguments import STDIN
from pennon.cli.terminal_text import escape_controls
from pennon.errors import InvalidInputError
from pennon.progress import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PARQUET, CSV, JSON, ARROW = "parquet", "csv", "json", "arrow"
FORMATS = (PARQUET, CSV, JSON, ARROW)
_BY_SUFFIX = {
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".csv": CSV,
    ".tsv": CSV,
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".arrow": ARROW,
    ".arrows": ARROW,
    ".feather": ARROW,
    ".ipc": ARROW,
}
PACKED = {".gz", ".bz2", ".zst", ".lz4"}
_ARROW_MAGIC = b"ARROW1"
_IN_MEMORY_BYTES = 64 << 20
_BATCH_ROWS = 64 * 1024
_CHUNK_BYTES = 256 << 10
_PLAIN_KINDS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
)

Batches = tuple[pa.Schema, "Iterator[pa.RecordBatch]"]


@contextmanager
def read_table(
    files: Sequence[Path], format_: str | None, *, delimiter: str | None = None, expected: pa.Schema | None = None
) -> Iterator[pa.Table]:
    """Read files into one table. Columns are matched by name. Raises InvalidInputError if a file cannot be read.

    Values of CSV and JSON get the types of the `expected` columns, if there are any. Large data is written to a
    temporary file and mapped, so that a table can be larger than the memory.
    """
    if not files:
        raise InvalidInputError("At least one file is needed")
    names = [one for file in files for one in _list_files(file, format_)]
    formats = [format_ or detect_format(name) for name in names]
    with tempfile.TemporaryDirectory(prefix="pennon-read-") as folder:
        sources = [_Source(name, _save_stdin(folder) if str(name) == STDIN else name) for name in names]
        with show_progress("reading (rows)", None) as advance:
            parts = [
                _open_batches(one, known, delimiter, expected) for one, known in zip(sources, formats, strict=True)
            ]
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
    name = Path(file.stem) if file.suffix.lower() in PACKED else file
    return _BY_SUFFIX.get(name.suffix.lower())


def detect_format(file: Path) -> str:
    """Return the format that follows from a name. Raises InvalidInputError if none does."""
    found = _suffix_format(file)
    if found is None:
        raise InvalidInputError(f"The format of {str(file)!r} cannot be derived from its name: use --format")
    return found


def _open_batches(source: _Source, format_: str, delimiter: str | None, expected: pa.Schema | None) -> Batches:
    """Open a file. Its batches are read one by one."""
    if format_ not in FORMATS:
        raise InvalidInputError(f"Unknown format {format_!r}; known: {', '.join(FORMATS)}")
    file = source.path
    with _translate_read_errors(source):
        if format_ == PARQUET:
            return _open_parquet(file)
        if format_ == CSV:
            name = file.with_suffix("").name if file.suffix.lower() in PACKED else file.name
            chosen = delimiter or ("\t" if name.lower().endswith(".tsv") else ",")
            # pyarrow decompresses by the suffix.
            reader = csv.open_csv(
                pa.input_stream(str(file)),
                parse_options=csv.ParseOptions(delimiter=chosen),
                convert_options=csv.ConvertOptions(column_types=_choose_csv_types(expected)),
            )
            return reader.schema, iter(reader)
        if format_ == JSON:
            table = _read_json(file, expected)
            return table.schema, iter(table.to_batches(_BATCH_ROWS))
        return _open_arrow(file)


def _open_parquet(file: Path) -> Batches:
    source = parquet.ParquetFile(str(file))
    return source.schema_arrow, source.iter_batches(_BATCH_ROWS)


def _choose_csv_types(expected: pa.Schema | None) -> dict[str, pa.DataType]:
    """Return the types that CSV can hold. `00123` stays a text if the column has texts."""
    if expected is None:
        return {}
    return {field.name: field.type for field in expected if _is_readable_from_text(field.type)}


def _read_json(file: Path, expected: pa.Schema | None) -> pa.Table:
    """Read JSON: one object per line, or one array of objects."""
    with pa.input_stream(str(file)) as stream:
        body = stream.read()
    if bytes(body[:64]).lstrip()[:1] == b"[":
        rows = json.loads(body)
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("the array contains values that are not objects")
        return pa.Table.from_pylist(rows)
    return arrow_json.read_json(pa.BufferReader(body), parse_options=_choose_json_types(expected))


def _choose_json_types(expected: pa.Schema | None) -> arrow_json.ParseOptions:
    kept = [pa.field(one.name, one.type) for one in expected or () if _is_in_json(one.type)]
    return arrow_json.ParseOptions(explicit_schema=pa.schema(kept), unexpected_field_behavior="infer")


def _is_in_json(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_in_json(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_in_json(kind.field(number).type) for number in range(kind.num_fields))
    return _is_readable_from_text(kind)


def _is_readable_from_text(kind: pa.DataType) -> bool:
    """Return True for plain types that pyarrow reads from CSV and from JSON. Bytes have no common form as text."""
    return any(is_kind(kind) for is_kind in _PLAIN_KINDS) and not pa.types.is_float16(kind)


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
