"""The data source's stream writer: an epoch is one commit, and each epoch is committed once.

For every epoch Spark makes the writer in two Python processes: one that plans, from where it travels to the tasks, and
one that commits. What the tasks were told comes back to the commit with what they wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier
from pennon.spark.streaming.epochs import EpochLog, StreamEpoch
from pennon.spark.writing import find_destination, source_writer
from pennon.spark.writing.fragment_writer import WrittenFragments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pennon.spark.address import Address
    from pennon.spark.options import SourceOptions
    from pennon.spark.writing.prepared_write import PreparedWrite

# What Spark calls the id of a streaming query in the properties of its tasks.
_QUERY_ID = "sql.streaming.queryId"
_STREAM, _EPOCH = "pennon.stream", "pennon.epoch"
"""Properties of a transaction."""


def stream_writer(asked: SourceOptions, schema: StructType, *, overwrite: bool) -> TableStreamWriter:
    """Plan the write of an epoch; what cannot be written is refused here. Errors 1, 4, 13, 22."""
    if asked.text("jobId") is not None:
        raise InvalidInputError(
            f"Each epoch of a stream to table {format_identifier(asked.identifier)} is a job of its own: "
            "jobId cannot be given"
        )
    destination = find_destination(asked.address, asked.identifier, asked.text("branch"))
    planned = source_writer.prepare_from_options(asked, schema, destination, overwrite=overwrite)
    return TableStreamWriter(asked.address, planned, asked.text("queryId"))


@dataclass(frozen=True)
class EpochReport(WriterCommitMessage):
    """What one task wrote, by which plan, and for which query."""

    written: WrittenFragments
    planned: PreparedWrite
    query: str | None


class TableStreamWriter(DataSourceStreamArrowWriter):
    """Writes fragments on executors, and makes one commit of those of an epoch."""

    def __init__(self, address: Address, planned: PreparedWrite, name: str | None) -> None:
        self._address = address
        self._planned = planned
        self._name = name

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return EpochReport(self._planned.writer.write(iterator), self._planned, _query_id())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Make a version of what the tasks wrote, unless there is one for this epoch; errors 4, 13, 14, 19."""
        reports = [one for one in messages if isinstance(one, EpochReport)]
        planned = reports[0].planned if reports else self._planned
        staged = planned.stage(WrittenFragments.of(report.written for report in reports))
        if staged.is_empty:
            return
        epoch = self._epoch(reports, batchId)
        staged = replace(staged, transaction={_STREAM: epoch.stream, _EPOCH: str(epoch.number)})
        if not staged.new:
            with staged.destination.files() as files:
                since = EpochLog(files, staged.destination, epoch.stream).begin(epoch)
            staged = replace(staged, since=since)
        source_writer.publish_staged(self._address, staged, epoch.job)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002 - as above
        """Remove what the tasks wrote, also those that failed; only the reports of others name the files."""
        reports = [one for one in messages if isinstance(one, EpochReport)]
        if reports:
            source_writer.remove_written(reports[0].planned)

    def _epoch(self, reports: Sequence[EpochReport], number: int) -> StreamEpoch:
        """Tell which epoch of which stream this is; nothing is written that could be written twice."""
        queries = {report.query for report in reports if report.query is not None}
        query = queries.pop() if queries else self._name
        if query is None:
            raise InvalidInputError(
                f"Nobody can tell to which query epoch {number} belongs, so it might be written twice; give the "
                "stream a name with option queryId"
            )
        return StreamEpoch(self._name or query, query, number)


def _query_id() -> str | None:
    """Give the id of the streaming query that this task belongs to: it is kept in the query's checkpoint."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY_ID)
