"""The data source's stream writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType

    from pennon.spark.options import SourceOptions


def stream_writer(asked: SourceOptions, schema: StructType, *, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Give the writer."""
    raise UnsupportedOperationError("later")
