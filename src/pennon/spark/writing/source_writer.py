"""`df.write.format("pennon")`: the same write as `lake.write`, in the steps that Spark's data sources have.

Spark plans the write, runs its tasks, and commits or aborts, each in a Python process of its own: the plan travels
from one to the next. Spark knows the modes `append` and `overwrite` for such sources; it refuses the others itself.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pennon.errors import ConcurrentModificationError, InvalidInputError, TableAlreadyExistsError
from pennon.identifiers import format_identifier
from pennon.spark.commits import publish, table_commits
from pennon.spark.commits.run_files import UNCLEAR
from pennon.spark.writing.dataframe_write import find_destination, find_earlier_write
from pennon.spark.writing.fragment_writer import FileSettings, WrittenFragments
from pennon.spark.writing.prepared_write import PreparedWrite, prepare_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pennon.spark.address import Address, Client
    from pennon.spark.commits.destination import Destination
    from pennon.spark.commits.staged_write import StagedWrite
    from pennon.spark.options import SourceOptions


def create_writer(asked: SourceOptions, schema: StructType, *, overwrite: bool) -> PennonWriter:
    """Plan a write; what cannot be written is refused here. Errors 1, 4, 13, 22."""
    job_id = asked.text("jobId")
    table_commits.require_job_id(job_id)
    destination = find_destination(asked.address, asked.identifier, asked.text("branch"))
    if destination is not None and find_earlier_write(destination, job_id) is not None:
        return PennonWriter(asked.address, None, job_id)
    prepared = prepare_from_options(asked, schema, destination, overwrite=overwrite)
    return PennonWriter(asked.address, replace(prepared, writer=prepared.writer.start_run()), job_id)


def prepare_from_options(
    asked: SourceOptions, schema: StructType, destination: Destination | None, *, overwrite: bool
) -> PreparedWrite:
    """Plan a write by the options of the data source; those that are for reading raise 13."""
    for name in ("version", "tag", "asOf", "columns", "where", "limit"):
        if asked.text(name) is not None:
            raise InvalidInputError(
                f"Option {name!r} is for reading; table {format_identifier(asked.identifier)} is written"
            )
    given = {
        "max_rows_per_file": asked.number("maxRowsPerFile", least=1),
        "max_bytes_per_file": asked.number("maxBytesPerFile", least=1),
        "data_storage_version": asked.text("dataStorageVersion"),
    }
    return prepare_write(
        asked.address,
        asked.identifier,
        destination,
        schema,
        overwrite=overwrite,
        merge_schema=asked.flag("mergeSchema"),
        settings=FileSettings(**{name: value for name, value in given.items() if value is not None}),  # type: ignore[arg-type]  # as their fields are
    )


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """What one task wrote."""

    written: WrittenFragments


class PennonWriter(DataSourceArrowWriter):
    """Writes fragments on executors, and makes one commit of them."""

    def __init__(self, address: Address, planned: PreparedWrite | None, job_id: str | None) -> None:
        self._address = address
        self._planned = planned
        self._job_id = job_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; nothing if an earlier run of the job has written them."""
        if self._planned is None:
            return TaskReport(WrittenFragments((), 0))
        return TaskReport(self._planned.writer.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make a version of what the tasks wrote, once for each job; errors 4, 14."""
        if self._planned is None:
            return
        done = WrittenFragments.of(one.written for one in messages if isinstance(one, TaskReport))
        publish_staged(self._address, self._planned.stage(done), self._job_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - notes tell more
        """Remove what the tasks wrote, also those that were killed."""
        if self._planned is None:
            return
        remove_written(self._planned)


def publish_staged(address: Address, staged: StagedWrite, job_id: str | None) -> None:
    """Make what is staged a version; if nobody knows what came of that, `remove` leaves it alone."""
    try:
        publish.publish(_AddressAccess(address), staged, job_id=job_id)
    except TableAlreadyExistsError as error:
        raise ConcurrentModificationError(
            f"Table {format_identifier(staged.identifier)} was created by another while it was written; write again"
        ) from error
    except BaseException as error:
        if isinstance(error, table_commits.NOT_COMMITTED) and not isinstance(error, table_commits.RevertedCommitError):
            raise
        # Spark aborts now, and must not delete what may be a version.
        with suppress(Exception), staged.destination.files() as files:
            files.note(staged.run, UNCLEAR)
        raise


def remove_written(prepared: PreparedWrite) -> None:
    """Remove what the tasks of a write have written, also those that were killed."""
    task = prepared.writer
    with task.files() as files:
        if UNCLEAR in files.noted_files(task.run):
            return
        if prepared.is_new:
            files.delete_tree()
        else:
            files.settle(task.run)


@dataclass(frozen=True)
class _AddressAccess:
    """As much of a lake as publishing needs."""

    address: Address

    @property
    def catalog(self) -> Client:
        return self.address.connect()
