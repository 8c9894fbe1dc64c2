"""The data source's stream writer: each epoch is one commit, and is committed once.

For every epoch, Spark creates the writer in two Python processes: one plans and sends the writer to the tasks, the
other commits. The tasks return the plan to the commit together with their fragments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier
from pennon.spark.streaming.batch_merge import QUERY_ID
from pennon.spark.streaming.epochs import EpochLog, StreamEpoch
from pennon.spark.tables import find_destination, source_writer
from pennon.spark.tables.fragment_writer import WrittenFragments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pennon.spark.options import SourceOptions
    from pennon.spark.tables.fragment_writer import FragmentWriter

_STREAM, _EPOCH = "pennon.stream", "pennon.epoch"
"""Properties of a transaction."""


def stream_writer(options: SourceOptions, schema: StructType, *, overwrite: bool) -> TableStreamWriter:
    """Return the writer of a prepared epoch.

    Raises NamespaceNotFoundError, TableNotFoundError, TableBranchNotFoundError, or InvalidInputError if options or
    columns do not fit.
    """
    if options.text("jobId") is not None:
        raise InvalidInputError(
            f"Each epoch of a stream to table {format_identifier(options.identifier)} is a job of its own: "
            "jobId cannot be set"
        )
    destination = find_destination(options.address, options.identifier, options.text("branch"))
    prepared = source_writer.prepare_from_options(options, schema, destination, overwrite=overwrite)
    return TableStreamWriter(prepared, options.text("queryId"))


@dataclass(frozen=True)
class EpochReport(WriterCommitMessage):
    """The fragments of one task, with its plan and the id of its query."""

    written: WrittenFragments
    prepared: FragmentWriter
    query: str | None


class TableStreamWriter(DataSourceStreamArrowWriter):
    """Writes fragments on executors, and commits those of an epoch once."""

    def __init__(self, prepared: FragmentWriter, name: str | None) -> None:
        self._prepared = prepared
        self._name = name

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return EpochReport(self._prepared.write(iterator), self._prepared, _query_id())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the fragments of all tasks, unless this epoch was committed before.

        Raises TableNotFoundError, InvalidInputError, ConcurrentModificationError or InvalidTableStateError.
        """
        reports = [one for one in messages if isinstance(one, EpochReport)]
        prepared = reports[0].prepared if reports else self._prepared
        staged = prepared.stage(WrittenFragments.of(report.written for report in reports))
        if staged.is_empty:
            return
        epoch = self._epoch(reports, batchId)
        staged = replace(staged, transaction={_STREAM: epoch.stream, _EPOCH: str(epoch.number)})
        if not staged.new:
            with staged.destination.files() as files:
                since = EpochLog(files, staged.destination, epoch.stream).begin(epoch)
            staged = replace(staged, since=since)
        source_writer.publish_staged(staged, epoch.job)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002 - as above
        """Delete the files of all tasks, including failed ones, if at least one task has reported the plan."""
        reports = [one for one in messages if isinstance(one, EpochReport)]
        if reports:
            source_writer.remove_written(reports[0].prepared)

    def _epoch(self, reports: Sequence[EpochReport], number: int) -> StreamEpoch:
        """Return the epoch; raises InvalidInputError if its query is unknown, because it might be written twice."""
        queries = {report.query for report in reports if report.query is not None}
        query = queries.pop() if queries else self._name
        if query is None:
            raise InvalidInputError(
                f"The query of epoch {number} is unknown, so the epoch might be written twice; name the stream with "
                "option queryId"
            )
        return StreamEpoch(self._name or query, query, number)


def _query_id() -> str | None:
    """Return the id of the streaming query of this task, which is stored in the query's checkpoint."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(QUERY_ID)
