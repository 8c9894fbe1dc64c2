"""Streams from and to tables: changes of a table, and epochs that are written once (docs/guides/streaming.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamArrowWriter, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from pennon.spark.lake import Lake, Name
    from pennon.spark.options import SourceOptions
    from pennon.spark.reading.scan import Scan


def schema(options: SourceOptions, table: Scan) -> StructType:
    """Return the schema of a stream of the table; a change feed has additional columns."""
    from pennon.spark.streaming.stream_columns import StreamColumns
    from pennon.spark.streaming.stream_settings import StreamSettings

    settings = StreamSettings.of(options)
    return StreamColumns.of(table.projected_schema(), table.table.identifier, feed=settings.feed).spark_schema()


def reader(options: SourceOptions, schema: StructType) -> DataSourceStreamReader:
    """Return a reader of the changes of a table; raises InvalidInputError for bad options."""
    from pennon.spark.streaming.stream_reader import stream_reader

    return stream_reader(options, schema)


def batch_reader(options: SourceOptions, schema: StructType) -> DataSourceReader:
    """Return a reader of all that a stream would read by now; raises InvalidInputError for bad options."""
    from pennon.spark.streaming.stream_reader import TableChangesReader
    from pennon.spark.streaming.stream_settings import StreamSettings

    return TableChangesReader(StreamSettings.of(options), schema)


def writer(options: SourceOptions, schema: StructType, *, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Return a writer that commits each epoch of a stream once; raises InvalidInputError for bad options."""
    from pennon.spark.streaming.stream_writer import stream_writer

    return stream_writer(options, schema, overwrite=overwrite)


def merge_batches(
    lake: Lake,
    id: Name,
    *,
    on: str | Sequence[str],
    query: str | None = None,
    **clauses: Any,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that merges each batch into a table once; clauses are those of `lake.merge`.

    A repeated batch changes nothing. `query` names the stream of one checkpoint, by default the id of the query. On
    Spark Connect, which does not provide that id, the function raises InvalidInputError without `query`.
    """
    from pennon.spark.streaming.batch_merge import create_batch_merge

    return create_batch_merge(lake, id, on=on, query=query, clauses=clauses)
