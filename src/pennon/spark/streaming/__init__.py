"""Streams of tables, both ways: what is new in a table, and epochs that are written once (docs/guides/streaming.md)."""

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


def schema(asked: SourceOptions, table: Scan) -> StructType:
    """Tell what a stream of the table looks like: a change feed has columns of its own."""
    from pennon.spark.streaming.stream_columns import StreamColumns
    from pennon.spark.streaming.stream_settings import StreamSettings

    settings = StreamSettings.of(asked)
    return StreamColumns.of(table.projected_schema(), table.table.identifier, feed=settings.feed).spark_schema()


def reader(asked: SourceOptions, schema: StructType) -> DataSourceStreamReader:
    """Read what is new in a table; bad options raise 13."""
    from pennon.spark.streaming.stream_reader import stream_reader

    return stream_reader(asked, schema)


def batch_reader(asked: SourceOptions, schema: StructType) -> DataSourceReader:
    """Read at once what a stream would read; bad options raise 13."""
    from pennon.spark.streaming.stream_reader import TableChangesReader
    from pennon.spark.streaming.stream_settings import StreamSettings

    return TableChangesReader(StreamSettings.of(asked), schema)


def writer(asked: SourceOptions, schema: StructType, *, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Write the epochs of a stream, each once; bad options raise 13."""
    from pennon.spark.streaming.stream_writer import stream_writer

    return stream_writer(asked, schema, overwrite=overwrite)


def merge_batches(
    lake: Lake,
    id: Name,
    *,
    on: str | Sequence[str],
    query: str | None = None,
    **clauses: Any,
) -> Callable[[DataFrame, int], None]:
    """Give a function for `foreachBatch` that merges every batch into a table, each once; clauses as of `lake.merge`.

    A repeated batch changes nothing. `query` names the stream, for one checkpoint; without it the id of the query is
    taken, which Spark Connect does not tell (13).
    """
    from pennon.spark.streaming.batch_merge import create_batch_merge

    return create_batch_merge(lake, id, on=on, query=query, clauses=clauses)
