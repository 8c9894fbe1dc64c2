"""Write rows to files: Parquet, CSV, JSON and Arrow, batch after batch."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import csv, ipc, parquet

from pennon.cli.arguments import STDIN
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.sources import ARROW, CSV, FORMATS, JSON, PACKED, PARQUET, detect_format
from pennon.cli.values import to_json_value
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BINARY = frozenset({PARQUET, ARROW})
"""Formats that are not text."""
_LONGEST_NAME = 100


def choose_format(file: Path, named: str | None) -> str:
    """Return the format to write. Raises InvalidInputError if it is unknown or does not follow from the name."""
    if named is not None and named not in FORMATS:
        raise InvalidInputError(f"Unknown format {named!r}; known: {', '.join(FORMATS)}")
    if named is None and str(file) == STDIN:
        raise InvalidInputError("Writing to stdout needs --format")
    chosen = named or detect_format(file)
    if chosen in BINARY and file.suffix.lower() in PACKED:
        raise InvalidInputError(f"{chosen} files are compressed inside: leave out {file.suffix!r}")
    return chosen


@contextmanager
def open_new_file(file: Path, *, force: bool) -> Iterator[Any]:
    """Open a file that appears under its name when the block has ended without an error.

    The commit point is the link or the rename at the end. A crash before it leaves a hidden file `.NAME.*.partial`.
    Raises CommandFailure if the file exists, unless `force` replaces it.
    """
    partial = file.with_name(f".{file.name[:_LONGEST_NAME]}.{secrets.token_hex(8)}.partial")
    try:
        raw = partial.open("xb")
    except FileNotFoundError as error:
        raise CommandFailure(f"There is no directory {str(file.parent)!r}", ExitCode.NOT_FOUND) from error
    try:
        with raw:
            with _compress(raw, file) as sink:
                yield sink
            raw.flush()
            os.fsync(raw.fileno())
        _publish(partial, file, force=force)
    finally:
        partial.unlink(missing_ok=True)


def write_rows(
    sink: Any, batches: pa.RecordBatchReader, kind: str, delimiter: str | None, advance: Callable[[int], None]
) -> int:
    """Write batches as they are read, and return the number of rows.

    Raises InvalidInputError for types that the format does not have.
    """
    rows = 0
    try:
        with _open_writer(sink, batches.schema, kind, delimiter) as write:
            for batch in batches:
                write(batch)
                rows += batch.num_rows
                advance(batch.num_rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidInputError(f"These columns cannot be written as {kind}: {error}; try another --format") from error
    sink.flush()
    return rows


@contextmanager
def _open_writer(
    sink: Any, schema: pa.Schema, kind: str, delimiter: str | None
) -> Iterator[Callable[[pa.RecordBatch], Any]]:
    if kind == JSON:
        yield lambda batch: sink.write(_format_lines(batch))
    elif kind == CSV:
        options = csv.WriteOptions(delimiter=delimiter or ",")
        with csv.CSVWriter(sink, schema, write_options=options) as rows:
            yield rows.write_batch
    elif kind == ARROW:
        with ipc.new_file(sink, schema) as stream:
            yield stream.write_batch
    else:
        with parquet.ParquetWriter(sink, schema) as groups:
            yield groups.write_batch


def _format_lines(batch: pa.RecordBatch) -> bytes:
    lines = (json.dumps(to_json_value(row), ensure_ascii=False, allow_nan=False) for row in batch.to_pylist())
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


@contextmanager
def _compress(raw: Any, file: Path) -> Iterator[Any]:
    kinds = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
    kind = kinds.get(file.suffix.lower())
    if kind is None:
        yield raw
        return
    with pa.CompressedOutputStream(pa.PythonFile(raw, mode="w"), kind) as packed:
        yield packed


def _publish(partial: Path, file: Path, *, force: bool) -> None:
    if force:
        partial.replace(file)
        return
    try:
        # Unlike a rename, a link never replaces a file that another program has just written.
        os.link(partial, file)
    except FileExistsError as error:
        raise CommandFailure(f"The file {str(file)!r} exists: --force replaces it", ExitCode.CONFLICT) from error
    except OSError:
        # Some file systems have no links.
        if os.path.lexists(file):
            raise CommandFailure(f"The file {str(file)!r} exists: --force replaces it", ExitCode.CONFLICT) from None
        partial.replace(file)
