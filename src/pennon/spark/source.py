"""The data source `pennon`: plain `spark.read`, `df.write` and streams.

Spark plans a Python source in separate processes. The table is resolved once, when the source is created, and the
result is passed on. Lance is imported only where data is read or written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pennon.spark.options import PLAN, SourceOptions
from pennon.spark.reading import filters
from pennon.spark.reading.scan import Scan, parse_scan, plan_scan, read_split
from pennon.spark.reading.splits import Split
from pennon.table.expression_limits import find_excess

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        Filter,
    )
    from pyspark.sql.types import StructType


class PennonDataSource(DataSource):
    """The data source for Lance tables of a Pennon catalog."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pennon"

    @cached_property
    def _source_options(self) -> SourceOptions:
        return SourceOptions.of(dict(self.options))

    @cached_property
    def _scan(self) -> Scan:
        """The version to read, which is the same for every action on the DataFrame."""
        if self.options.get(PLAN):
            return parse_scan(self.options[PLAN])
        options = self._source_options
        return plan_scan(
            options.address,
            options.identifier,
            options.version_selector(),
            columns=options.names("columns"),
            where=options.text("where"),
            limit=options.number("limit"),
        )

    def schema(self) -> StructType:
        """Return the schema of the table."""
        if self._source_options.text("changes") is not None:
            from pennon.spark.streaming.stream_reader import stream_schema

            return stream_schema(self._source_options, self._scan)
        return self._scan.spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of a version of the table. A schema given by the user selects columns by name."""
        if self._source_options.text("changes") is not None:
            from pennon.spark.streaming.stream_reader import TableChangesReader

            return TableChangesReader(self._source_options, schema)
        scan = self._scan
        names = tuple(schema.fieldNames())
        if names != tuple(scan.projected_schema().names):
            scan = replace(scan, columns=names)
            scan.projected_schema()
        return PennonReader(scan, self._source_options.splits, self._source_options.number("splitBytes", least=1))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        """Return a writer to the table."""
        from pennon.spark.tables.source_writer import create_writer

        return create_writer(self._source_options, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the changes to the table, in micro-batches."""
        from pennon.spark.streaming.stream_reader import stream_reader

        return stream_reader(self._source_options, schema)

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - Spark's signature
    ) -> DataSourceStreamArrowWriter:
        """Return a writer that commits each epoch of a stream once."""
        from pennon.spark.streaming.stream_writer import stream_writer

        return stream_writer(self._source_options, schema, overwrite=overwrite)


class PennonReader(DataSourceReader):
    """Reads a pinned version. Lance evaluates the filters that mean exactly the same to it as to Spark."""

    def __init__(self, scan: Scan, parallelism: int, max_bytes: int | None) -> None:
        self._scan = scan
        self._parallelism = parallelism
        self._max_bytes = max_bytes

    def pushFilters(self, filters_: list[Filter]) -> Iterable[Filter]:
        """Accept the filters that Lance evaluates as Spark does, and yield the others."""
        accepted: list[str] = []
        for one in filters_:
            predicate = filters.translate_filter(one, self._scan.schema)
            if predicate is None or self._scan.limit is not None or find_excess(self._join(*accepted, predicate)):
                yield one
            else:
                accepted.append(predicate)
        self._scan = replace(self._scan, where=self._join(*accepted) or None)

    def _join(self, *predicates: str) -> str:
        return " AND ".join(f"({one})" for one in (self._scan.where, *predicates) if one is not None)

    def partitions(self) -> Sequence[InputPartition]:
        """Split the read into tasks."""
        if self._scan.limit is not None:
            # One task, because the limit applies to the whole read.
            return [InputPartition(Split(tuple(one.id for one in self._scan.fragments)))]
        return [InputPartition(one) for one in self._scan.splits(self._parallelism, max_bytes=self._max_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split."""
        if partition.value is None:
            return iter(())  # Spark runs one task even if there is nothing to read
        return read_split(self._scan, partition.value, self._scan.read_schema())
