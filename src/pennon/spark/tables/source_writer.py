"""`df.write.format("pennon")`: the same write as `lake.write`, through Spark's interface for data sources.

Spark plans the write, runs its tasks, and commits or aborts, each in a separate Python process, and sends the plan from
one to the next. For such sources Spark supports the modes `append` and `overwrite`, and rejects others itself.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pennon.errors import ConcurrentModificationError, InvalidInputError, TableAlreadyExistsError
from pennon.identifiers import format_identifier
from pennon.spark.tables import job_commits, publishing
from pennon.spark.tables.dataframe_write import find_destination, find_earlier_write
from pennon.spark.tables.fragment_writer import FileSettings, FragmentWriter, WrittenFragments
from pennon.spark.tables.prepared_write import prepare_write
from pennon.spark.tables.run_files import UNCLEAR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pennon.spark.options import SourceOptions
    from pennon.spark.tables.destination import Destination
    from pennon.spark.tables.staged_write import StagedWrite


def create_writer(options: SourceOptions, schema: StructType, *, overwrite: bool) -> PennonWriter:
    """Return the writer of a planned write.

    Raises NamespaceNotFoundError, TableNotFoundError, TableBranchNotFoundError, or InvalidInputError if columns do not
    fit.
    """
    job_id = options.text("jobId")
    job_commits.require_job_id(job_id)
    destination = find_destination(options.address, options.identifier, options.text("branch"))
    if destination is not None and find_earlier_write(destination, job_id) is not None:
        return PennonWriter(None, job_id)
    prepared = prepare_from_options(options, schema, destination, overwrite=overwrite)
    return PennonWriter(prepared.start_run(), job_id)


def prepare_from_options(
    options: SourceOptions, schema: StructType, destination: Destination | None, *, overwrite: bool
) -> FragmentWriter:
    """Return a write planned by the options of the data source; raises InvalidInputError for options of reads."""
    for name in ("version", "tag", "asOf", "columns", "where", "limit"):
        if options.text(name) is not None:
            raise InvalidInputError(
                f"Option {name!r} is for reading; table {format_identifier(options.identifier)} is written"
            )
    settings = FileSettings.of(
        options.number("maxRowsPerFile", least=1),
        options.number("maxBytesPerFile", least=1),
        options.text("dataStorageVersion"),
    )
    merge_schema = options.flag("mergeSchema")
    return prepare_write(
        *(options.address, options.identifier, destination, schema),
        overwrite=overwrite,
        merge_schema=merge_schema,
        settings=settings,
    )


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """The fragments of one task."""

    written: WrittenFragments


class PennonWriter(DataSourceArrowWriter):
    """Writes fragments on executors, and commits them once."""

    def __init__(self, writer: FragmentWriter | None, job_id: str | None) -> None:
        self._writer = writer
        self._job_id = job_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task, or nothing if an earlier run of the job has written them."""
        if self._writer is None:
            return TaskReport(WrittenFragments((), 0))
        return TaskReport(self._writer.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the fragments of all tasks, once for each job.

        Raises TableNotFoundError or ConcurrentModificationError.
        """
        if self._writer is None:
            return
        done = WrittenFragments.of(one.written for one in messages if isinstance(one, TaskReport))
        publish_staged(self._writer.stage(done), self._job_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - the notes are complete
        """Delete the files of all tasks, including killed ones."""
        if self._writer is not None:
            remove_written(self._writer)


def publish_staged(staged: StagedWrite, job_id: str | None) -> None:
    """Publish a staged write. If the outcome is unknown, `remove_written` keeps its files."""
    try:
        publishing.publish(staged, job_id=job_id)
    except TableAlreadyExistsError as error:
        raise ConcurrentModificationError(
            f"Table {format_identifier(staged.identifier)} was created by another client during the write; write again"
        ) from error
    except BaseException as error:
        if isinstance(error, job_commits.NOT_COMMITTED) and not isinstance(error, job_commits.RevertedCommitError):
            raise
        # Spark calls abort now, which must not delete files that may belong to a version.
        with suppress(Exception), staged.destination.files() as files:
            files.note(staged.run, UNCLEAR)
        raise


def remove_written(writer: FragmentWriter) -> None:
    """Delete the files that the tasks of a write have written, including killed ones."""
    with writer.files() as files:
        if UNCLEAR in files.noted_files(writer.run):
            return
        if writer.is_new:
            files.delete_tree()
        else:
            files.settle(writer.run)
