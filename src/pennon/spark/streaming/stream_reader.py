"""The data source's stream reader, in two forms: PySpark 4.2 says from where a micro-batch starts, 4.1 does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from pennon.errors import translate_errors
from pennon.identifiers import format_identifier
from pennon.spark.streaming.batch_planner import BatchLimits, BatchPlanner
from pennon.spark.streaming.stream_position import StreamPosition
from pennon.spark.streaming.stream_settings import StreamSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pennon.spark.options import SourceOptions
    from pennon.spark.streaming.stream_tasks import StreamTask

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1
    ADMISSION_CONTROL = False
else:
    ADMISSION_CONTROL = True

Offset = dict[str, Any]
# A batch of more versions would take long to plan, and all of it is lost if it fails.
_DEFAULT_VERSIONS = 1000
_NO_LIMIT = 2**63 - 1


def stream_reader(asked: SourceOptions, schema: StructType) -> DataSourceStreamReader:
    """Give the reader that this PySpark can use; bad options raise 13."""
    settings = StreamSettings.of(asked)
    if ADMISSION_CONTROL:
        return TableStreamReader(settings, schema)
    return PlainTableStreamReader(settings, schema)


class TaskPartition(InputPartition):
    """One task of a micro-batch."""

    def __init__(self, task: StreamTask) -> None:
        super().__init__(task)
        self.task = task


class TableChangesReader(DataSourceReader):
    """Reads at once what a stream would read from its start until now."""

    def __init__(self, settings: StreamSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Cut all there is into tasks."""
        with translate_errors(f"Reading changes of table {format_identifier(self._settings.identifier)}"):
            planner = BatchPlanner(self._settings, self._schema)
            return [
                TaskPartition(task)
                for task in planner.plan_tasks(planner.initial_position(), planner.latest_position())
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Do one task."""
        assert isinstance(partition, TaskPartition)
        return partition.task.read()


class _StreamReader(DataSourceStreamReader):
    """What both readers do: Spark makes it in several processes, of which only one plans."""

    def __init__(self, settings: StreamSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema
        self._opened: BatchPlanner | None = None

    @property
    def _planner(self) -> BatchPlanner:
        if self._opened is None:
            self._opened = BatchPlanner(self._settings, self._schema)
        return self._opened

    def _translated(self) -> AbstractContextManager[None]:
        return translate_errors(f"Reading table {format_identifier(self._settings.identifier)} as a stream")

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Cut what lies between two offsets into tasks."""
        with self._translated():
            return [
                TaskPartition(task)
                for task in self._planner.plan_tasks(StreamPosition.from_offset(start), StreamPosition.from_offset(end))
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Do one task."""
        assert isinstance(partition, TaskPartition)
        return partition.task.read()

    def stop(self) -> None:
        """Let go of the table."""
        self._opened = None


class PlainTableStreamReader(_StreamReader):
    """For PySpark 4.1, which does not say from where a micro-batch starts: it is remembered from what was asked before.

    When a query is started again, Spark first asks for the partitions between its last offset and the same one.
    """

    def __init__(self, settings: StreamSettings, schema: StructType) -> None:
        super().__init__(settings, schema)
        self._reached: StreamPosition | None = None

    def initialOffset(self) -> Offset:
        """Begin where `startingVersion` says; Spark asks for the end of the first batch before it asks for this."""
        if self._reached is None:
            with self._translated():
                self._reached = self._planner.initial_position()
        return self._reached.to_offset()

    def latestOffset(self) -> Offset:  # type: ignore[override]
        """Tell how far the next micro-batch goes."""
        start = StreamPosition.from_offset(self.initialOffset())
        # A limit that nobody asked for would end a query with Trigger.AvailableNow early: there it makes one batch.
        limits = BatchLimits(self._settings.max_versions, self._settings.max_rows)
        with self._translated():
            return self._planner.next_position(start, limits).to_offset()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Cut what lies between two offsets into tasks."""
        self._reached = StreamPosition.from_offset(end)
        return super().partitions(start, end)


if ADMISSION_CONTROL:

    class TableStreamReader(_StreamReader, SupportsTriggerAvailableNow):
        """For PySpark 4.2 and later."""

        def __init__(self, settings: StreamSettings, schema: StructType) -> None:
            super().__init__(settings, schema)
            self._target: int | None = None

        def getDefaultReadLimit(self) -> ReadLimit:
            """Tell that micro-batches are limited; PySpark has no limit by versions, so it is applied here."""
            return ReadMaxRows(self._settings.max_rows or _NO_LIMIT)

        def initialOffset(self) -> Offset:
            """Begin where `startingVersion` says."""
            with self._translated():
                return self._planner.initial_position(self._target).to_offset()

        def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
            """Tell how far the next micro-batch goes."""
            limits = BatchLimits(self._settings.max_versions or _DEFAULT_VERSIONS, self._settings.max_rows)
            if isinstance(limit, ReadAllAvailable):
                limits = BatchLimits()
            with self._translated():
                return self._planner.next_position(StreamPosition.from_offset(start), limits, self._target).to_offset()

        def reportLatestOffset(self) -> Offset:
            """Tell how far there is to go; Spark asks right after it asked how far the batch goes."""
            with self._translated():
                return self._planner.last_seen_position().to_offset()

        def prepareForTriggerAvailableNow(self) -> None:
            """Go no further than what is there now."""
            with self._translated():
                self._target = self._planner.history.refresh()
