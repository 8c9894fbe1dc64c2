"""The data source `pennon`: plain `spark.read`, `df.write` and streams.

Spark plans a Python source in processes of its own. Each asks for as little as it can: the table is resolved once, when
the source is made, and travels on from there; Lance is imported only where data is read or written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pennon.spark.options import PLAN, SourceOptions
from pennon.spark.reading import filters
from pennon.spark.reading.scan import Scan, parse_scan, plan_scan, read_split
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

    from pennon.spark.reading.splits import Split

_DEFAULT_SPLITS = 8


class PennonDataSource(DataSource):
    """Lance tables of a Pennon catalog, for Spark."""

    @classmethod
    def name(cls) -> str:
        """Name the format."""
        return "pennon"

    @cached_property
    def _asked(self) -> SourceOptions:
        return SourceOptions.of(dict(self.options))

    @cached_property
    def _scan(self) -> Scan:
        """The version that is read: the same for every action on the DataFrame."""
        if self.options.get(PLAN):
            return parse_scan(self.options[PLAN])
        asked = self._asked
        return plan_scan(
            asked.address,
            asked.identifier,
            asked.version_selector(),
            columns=asked.names("columns"),
            where=asked.text("where"),
            limit=asked.number("limit"),
        )

    def schema(self) -> StructType:
        """Tell Spark what the table looks like."""
        if self._asked.text("changes") is not None:
            from pennon.spark import streaming

            return streaming.schema(self._asked, self._scan)
        return self._scan.spark_schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a version of the table; a schema that the caller gave picks columns by name."""
        if self._asked.text("changes") is not None:
            from pennon.spark import streaming

            return streaming.batch_reader(self._asked, schema)
        wanted = self._scan
        names = tuple(schema.fieldNames())
        if names != tuple(wanted.projected_schema().names):
            wanted = replace(wanted, columns=names)
            wanted.projected_schema()
        splits = self._asked.number("splits", least=1) or _DEFAULT_SPLITS
        return PennonReader(wanted, splits, self._asked.number("splitBytes", least=1))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        """Write to the table."""
        from pennon.spark.writing.source_writer import create_writer

        return create_writer(self._asked, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read what is new in the table, micro-batch by micro-batch."""
        from pennon.spark import streaming

        return streaming.reader(self._asked, schema)

    def streamWriter(
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001 - Spark's signature
    ) -> DataSourceStreamArrowWriter:
        """Write the epochs of a stream, each once."""
        from pennon.spark import streaming

        return streaming.writer(self._asked, schema, overwrite=overwrite)


class SplitPartition(InputPartition):
    """One task of a read."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


class PennonReader(DataSourceReader):
    """Reads a pinned version; filters that Lance can do exactly are done there."""

    def __init__(self, wanted: Scan, parallelism: int, max_bytes: int | None) -> None:
        self._wanted = wanted
        self._parallelism = parallelism
        self._max_bytes = max_bytes

    def pushFilters(self, filters_: list[Filter]) -> Iterable[Filter]:
        """Take the filters that Lance evaluates as Spark would, and give the others back."""
        taken: list[str] = []
        for one in filters_:
            predicate = filters.translate_filter(one, self._wanted.schema)
            if predicate is None or self._wanted.limit is not None or find_excess(self._joined(*taken, predicate)):
                yield one
            else:
                taken.append(predicate)
        self._wanted = replace(self._wanted, where=self._joined(*taken) or None)

    def _joined(self, *predicates: str) -> str:
        return " AND ".join(f"({one})" for one in (self._wanted.where, *predicates) if one is not None)

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the read into tasks."""
        if self._wanted.limit is not None:
            from pennon.spark.reading.splits import Split

            # One task: the limit is of the whole read.
            return [SplitPartition(Split(tuple(one.id for one in self._wanted.fragments)))]
        splits = self._wanted.splits(self._parallelism, max_bytes=self._max_bytes)
        return [SplitPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split."""
        if not isinstance(partition, SplitPartition):
            return iter(())  # Spark runs one task where there is nothing to read
        return read_split(self._wanted, partition.split, self._wanted.read_schema())
