"""The data source's stream readers: one for PySpark 4.2, which passes the start of a micro-batch, one for 4.1."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from pennon.errors import translate_errors
from pennon.identifiers import format_identifier
from pennon.spark.streaming.batch_planner import BatchLimits, BatchPlanner
from pennon.spark.streaming.stream_columns import StreamColumns
from pennon.spark.streaming.stream_position import StreamPosition
from pennon.spark.streaming.stream_settings import StreamSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pennon.spark.options import SourceOptions
    from pennon.spark.reading.scan import Scan
    from pennon.spark.streaming.stream_tasks import StreamTask

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1
    ADMISSION_CONTROL = False
else:
    ADMISSION_CONTROL = True

Offset = dict[str, Any]
# Larger batches take long to plan, and are lost if they fail.
_DEFAULT_VERSIONS = 1000
_NO_LIMIT = 2**63 - 1


def stream_schema(options: SourceOptions, table: Scan) -> StructType:
    """Return the schema of a stream of the table; a change feed has additional columns."""
    feed = StreamSettings.of(options).feed
    return StreamColumns.of(table.projected_schema(), table.table.identifier, feed=feed).spark_schema()


def stream_reader(options: SourceOptions, schema: StructType) -> DataSourceStreamReader:
    """Return the reader for this version of PySpark; raises InvalidInputError for bad options."""
    return (TableStreamReader if ADMISSION_CONTROL else PlainTableStreamReader)(StreamSettings.of(options), schema)


class TableChangesReader(DataSourceReader):
    """Reads everything that a stream would read from its start until now."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Raise InvalidInputError for bad options."""
        self._settings = StreamSettings.of(options)
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks of the read."""
        with translate_errors(f"Reading changes of table {format_identifier(self._settings.identifier)}"):
            planner = BatchPlanner(self._settings, self._schema)
            tasks = planner.plan_tasks(planner.initial_position(), planner.last_seen_position())
            return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run one task."""
        return _read_task(partition)


def _read_task(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    task: StreamTask | None = partition.value
    # Spark runs one task even if there is nothing to read.
    return iter(()) if task is None else task.read()


class _StreamReader(DataSourceStreamReader):
    """The common part of both readers. Spark creates it in several processes; only one of them plans."""

    def __init__(self, settings: StreamSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    @cached_property
    def _planner(self) -> BatchPlanner:
        return BatchPlanner(self._settings, self._schema)

    def _translate_errors(self) -> AbstractContextManager[None]:
        return translate_errors(f"Reading table {format_identifier(self._settings.identifier)} as a stream")

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the tasks between two offsets."""
        with self._translate_errors():
            tasks = self._planner.plan_tasks(StreamPosition.from_offset(start), StreamPosition.from_offset(end))
            return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run one task."""
        return _read_task(partition)

    def stop(self) -> None:
        """Close the table."""
        self.__dict__.pop("_planner", None)


class PlainTableStreamReader(_StreamReader):
    """For PySpark 4.1, which does not pass the start of a micro-batch: it is remembered from earlier calls.

    When a query is restarted, Spark first asks for the partitions between its last offset and the same offset.
    """

    def __init__(self, settings: StreamSettings, schema: StructType) -> None:
        super().__init__(settings, schema)
        self._reached: StreamPosition | None = None

    def initialOffset(self) -> Offset:
        """Return the position of `startingVersion`. Spark asks for the end of the first batch before this."""
        if self._reached is None:
            with self._translate_errors():
                self._reached = self._planner.initial_position()
        return self._reached.to_offset()

    def latestOffset(self) -> Offset:  # type: ignore[override]
        """Return the end of the next micro-batch."""
        start = StreamPosition.from_offset(self.initialOffset())
        # A default limit would end a query with Trigger.AvailableNow early, because it runs only one batch here.
        limits = BatchLimits(self._settings.max_versions, self._settings.max_rows)
        with self._translate_errors():
            return self._planner.next_position(start, limits).to_offset()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the tasks between two offsets."""
        self._reached = StreamPosition.from_offset(end)
        return super().partitions(start, end)


if ADMISSION_CONTROL:

    class TableStreamReader(_StreamReader, SupportsTriggerAvailableNow):
        """For PySpark 4.2 and later."""

        def __init__(self, settings: StreamSettings, schema: StructType) -> None:
            super().__init__(settings, schema)
            self._target: int | None = None

        def getDefaultReadLimit(self) -> ReadLimit:
            """Return the limit of micro-batches. PySpark has no limit by versions, so `latestOffset` applies it."""
            return ReadMaxRows(self._settings.max_rows or _NO_LIMIT)

        def initialOffset(self) -> Offset:
            """Return the position of `startingVersion`."""
            with self._translate_errors():
                return self._planner.initial_position(self._target).to_offset()

        def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
            """Return the end of the next micro-batch."""
            limits = BatchLimits(self._settings.max_versions or _DEFAULT_VERSIONS, self._settings.max_rows)
            if isinstance(limit, ReadAllAvailable):
                limits = BatchLimits()
            with self._translate_errors():
                return self._planner.next_position(StreamPosition.from_offset(start), limits, self._target).to_offset()

        def reportLatestOffset(self) -> Offset:
            """Return the latest position. Spark calls this right after `latestOffset`."""
            with self._translate_errors():
                return self._planner.last_seen_position().to_offset()

        def prepareForTriggerAvailableNow(self) -> None:
            """Ignore versions that are committed from now on."""
            with self._translate_errors():
                self._target = self._planner.history.refresh()
