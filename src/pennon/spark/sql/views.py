"""Temporary views of queries over tables of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pennon.spark.lake import Lake
    from pennon.spark.sql import statements as made
    from pennon.spark.sql.query_runner import QueryRunner


def create_temp_view(lake: Lake, asked: made.CreateTempView, reader: QueryRunner) -> DataFrame:
    """Give a name to a query; it goes on showing the versions of tables that it was made with."""
    frame = reader.frame(asked.query)
    if asked.columns is not None:
        if len(asked.columns) != len(frame.columns):
            raise InvalidInputError(
                f"View {asked.name!r} names {len(asked.columns)} columns, and its query has {len(frame.columns)}"
            )
        frame = frame.toDF(*asked.columns)
    name = asked.name if asked.name.isidentifier() else quoted(asked.name)
    if asked.is_global and asked.replace:
        frame.createOrReplaceGlobalTempView(name)
    elif asked.is_global:
        frame.createGlobalTempView(name)
    elif asked.replace:
        frame.createOrReplaceTempView(name)
    else:
        frame.createTempView(name)
    if asked.cache:
        lake.spark.catalog.cacheTable(name)
    return lake.spark.createDataFrame([(asked.name,)], "view string")
