"""Writing the rows of a DataFrame as Lance fragments on executors. They are not visible until they are committed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import ConcurrentModificationError, InvalidInputError
from pennon.identifiers import format_identifier
from pennon.spark import types
from pennon.spark.tables import light_rows
from pennon.spark.tables.schema_evolution import Evolution
from pennon.spark.tables.staged_write import StagedWrite
from pennon.spark.workers import freeze_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lance import LanceOperation
    from lance.fragment import FragmentMetadata
    from pyspark.sql import DataFrame, Row

    from pennon.spark.reading.pinned import PinnedTable
    from pennon.spark.tables.destination import Destination
    from pennon.spark.tables.run_files import RunDirectory
    from pennon.spark.types import WritePlan

MAX_ROWS_PER_FILE = 1024 * 1024
MAX_BYTES_PER_FILE = 4 * 1024**3
"""S3 copies no more in one request, and new root tables are copied to their location."""
REPORT = "fragments string, rows bigint"
_REFUSED = re.compile(r"InvalidInputError: (.+)")


@dataclass(frozen=True)
class FileSettings:
    """The sizes and the format of data files. Without a format version, Lance or the existing table decides."""

    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    data_storage_version: str | None = None

    @classmethod
    def of(cls, max_rows_per_file: int | None, max_bytes_per_file: int | None, version: str | None) -> FileSettings:
        """Return the settings, with defaults for None; raises InvalidInputError for numbers below 1."""
        rows = MAX_ROWS_PER_FILE if max_rows_per_file is None else max_rows_per_file
        size = MAX_BYTES_PER_FILE if max_bytes_per_file is None else max_bytes_per_file
        for name, value in {"max_rows_per_file": rows, "max_bytes_per_file": size}.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidInputError(f"{name} is a whole number from 1, got {value!r}")
        return cls(rows, size, version)


@dataclass(frozen=True)
class WrittenFragments:
    """The fragments that tasks wrote, as Lance describes them, and the number of rows."""

    fragments: tuple[dict[str, Any], ...]
    rows: int

    @classmethod
    def of(cls, parts: Iterable[WrittenFragments]) -> WrittenFragments:
        """Return the fragments of several tasks together."""
        held = list(parts)
        return cls(tuple(fragment for part in held for fragment in part.fragments), sum(part.rows for part in held))

    def parse(self) -> list[FragmentMetadata]:
        """Return the fragments as Lance's objects."""
        from lance.fragment import FragmentMetadata

        return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in self.fragments]

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the data files in the table's directory."""
        return tuple(f"data/{file['path']}" for fragment in self.fragments for file in fragment["files"])

    @property
    def bytes(self) -> int:
        """The total size of the data files."""
        return sum(file["file_size_bytes"] or 0 for fragment in self.fragments for file in fragment["files"])


@dataclass(frozen=True)
class FragmentWriter:
    """Writes the rows of one task; it is sent to executors."""

    destination: Destination
    plan: WritePlan
    run: str
    mode: str
    """The mode for Lance: `append` uses the field ids of `table`, other modes assign new ones."""
    table: PinnedTable | None = None
    settings: FileSettings = FileSettings()
    watched: bool = False
    """Whether the run is noted as open, so that tasks detect if it was settled without them."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the table, if it is new."""

    @property
    def is_new(self) -> bool:
        """Return True if the table is not in the catalog yet."""
        return self.table is None

    def start_run(self) -> FragmentWriter:
        """Note that the run is open; return the writer for its tasks."""
        with self.files() as files:
            files.open_run(self.run)
        return replace(self, watched=True)

    def write(self, batches: Iterator[pa.RecordBatch]) -> WrittenFragments:
        """Write all rows of one task. A failure leaves no files; a killed task leaves notes about its files."""
        # Lance must not be imported before a worker forks.
        from lance.fragment import write_fragments

        freeze_imports()
        rows = _CastBatches(self.plan, batches)
        if rows.first is None:
            return WrittenFragments((), 0)
        with self.files() as files:
            notes = _create_notes(files, self.run)
            try:
                fragments = write_fragments(
                    pa.RecordBatchReader.from_batches(self.plan.schema, rows),
                    self.destination.uri if self.table is None else self.table.open(),
                    schema=self.plan.schema,
                    mode=self.mode,
                    max_rows_per_file=self.settings.max_rows_per_file,
                    max_bytes_per_file=self.settings.max_bytes_per_file,
                    data_storage_version=self.settings.data_storage_version,
                    storage_options=self.destination.options,
                    progress=notes,
                    **self.destination.renewal_arguments,
                )
            except Exception as error:
                # The driver may already have deleted the files that it knew about.
                files.delete_noted(self.run, notes.noted)
                if rows.error is not None:
                    # Lance passes on only the text of an error that the rows raised.
                    raise rows.error from error
                raise
            written = WrittenFragments(tuple(fragment.to_json() for fragment in fragments), rows.count)
            files.note(self.run, *(path for path in written.files if path not in notes.noted))
            if self.watched and not files.is_open(self.run):
                files.delete_noted(self.run, written.files)
                raise ConcurrentModificationError(
                    f"The write to table {format_identifier(self.destination.identifier)} ended before this task"
                )
        return written

    def stage(self, done: WrittenFragments) -> StagedWrite:
        """Return the staged write of the fragments of all tasks."""
        evolution = None
        if self.table is not None and self.plan.new_columns:
            base = self.table.open()
            evolution = Evolution(self.destination.identifier, self.plan.schema, base.schema, done.fragments)
        return StagedWrite(
            self.destination.identifier,
            self._operation(done) if evolution is None else evolution.build_operation(base),
            0 if self.table is None else self.table.version,
            done.rows,
            done.bytes,
            done.files,
            self.destination,
            self.run,
            new=self.is_new,
            blobs=types.has_blobs(self.plan.schema),
            evolution=evolution,
            properties=dict(self.properties),
        )

    def files(self) -> RunDirectory:
        """Open the directory of the destination."""
        return self.destination.files(blobs=types.has_blobs(self.plan.schema))

    def _operation(self, done: WrittenFragments) -> LanceOperation.BaseOperation | None:
        """Return the Lance operation of the write; None for an append without rows."""
        from lance import LanceOperation

        if self.mode != "append":
            return LanceOperation.Overwrite(self.plan.schema, done.parse())
        return LanceOperation.Append(done.parse()) if done.fragments else None


def write_dataframe(df: DataFrame, writer: FragmentWriter) -> WrittenFragments:
    """Write a DataFrame as one Spark job; return the fragments of the successful attempt of each task.

    If the job fails or is interrupted, its tasks are stopped and their files are deleted.
    """
    spark = df.sparkSession
    spark.addTag(writer.run)
    try:
        written = _run_job(df, writer.start_run())
    except BaseException as error:
        spark.interruptTag(writer.run)
        with writer.files() as files:
            files.settle(writer.run)
        refused = _REFUSED.search(str(error))
        if refused is not None:
            raise InvalidInputError(
                f"Table {format_identifier(writer.destination.identifier)}: {refused[1]}"
            ) from error
        raise
    finally:
        spark.removeTag(writer.run)
    return written


def _run_job(df: DataFrame, writer: FragmentWriter) -> WrittenFragments:
    light = light_rows.mark_light_rows(df)
    if light is not None:
        with light_rows.without_weighing(df.sparkSession):
            reports = light.mapInArrow(_create_light_task(writer), REPORT).collect()
        made = _from_reports(reports)
        if all(report.fragments is not None for report in reports):
            return made
        with writer.files() as files:
            files.delete_noted(writer.run, made.files)
    return _from_reports(df.mapInArrow(_create_task(writer), REPORT).collect())


def _from_reports(reports: list[Row]) -> WrittenFragments:
    parts = (WrittenFragments(tuple(json.loads(report.fragments or "[]")), report.rows) for report in reports)
    return WrittenFragments.of(parts)


def _create_task(writer: FragmentWriter) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = writer.write(batches)
        if written.fragments:
            yield _create_report(json.dumps(written.fragments), written.rows)

    return write


def _create_light_task(writer: FragmentWriter) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    write = _create_task(writer)

    def write_light(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from write(light_rows.unpack_light_rows(batches))
        except light_rows.HeavyRowError:
            # Spark would retry a task that fails, so this is reported instead.
            yield _create_report(None, 0)

    return write_light


def _create_report(fragments: str | None, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"fragments": pa.array([fragments], pa.string()), "rows": pa.array([rows], pa.int64())})


class _CastBatches:
    """Iterates over the batches of a task with the types of the table, and counts their rows; skips empty batches."""

    def __init__(self, plan: WritePlan, batches: Iterator[pa.RecordBatch]) -> None:
        self._plan = plan
        self._batches = (batch for batch in batches if batch.num_rows)
        self.count = 0
        self.error: BaseException | None = None
        self.first = next(self._batches, None)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            batch = self.first
            while batch is not None:
                self.count += batch.num_rows
                yield self._plan.cast(batch)
                batch = next(self._batches, None)
        except BaseException as error:
            self.error = error
            raise


def _create_notes(files: RunDirectory, run_id: str) -> Any:
    """Return the callback with which Lance reports each complete file except the last one."""
    from lance.progress import FragmentWriteProgress

    class Notes(FragmentWriteProgress):
        def __init__(self) -> None:
            self.noted: set[str] = set()

        def begin(self, fragment: Any, **_: Any) -> None:
            """Do nothing: the file has no name yet."""

        def complete(self, fragment: Any, **_: Any) -> None:
            """Note the files of a fragment."""
            paths = {f"data/{file.path}" for file in fragment.files}
            files.note(run_id, *sorted(paths))
            self.noted |= paths

    return Notes()
