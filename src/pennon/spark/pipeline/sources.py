"""Reading what is no table of the catalog: any format that Spark knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, TableNotFoundError, UnsupportedOperationError
from pennon.spark.pipeline.spark_errors import condition, short_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark.pipeline.model import Source

_ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-<Spark's version>_2.13:<version>"
_MISSING = {"DATA_SOURCE_NOT_FOUND", "AVRO_DATA_SOURCE_NOT_ENABLED"}


def opened(spark: SparkSession, name: str, source: Source) -> DataFrame:
    """Give a source as a DataFrame; a format that Spark does not have is 0, files that are not there are 4."""
    reader = spark.read.format(str(source.format)).options(**source.options)
    try:
        if source.schema_ is not None:
            reader = reader.schema(source.schema_)
        frame = reader.load() if source.path is None else reader.load(list(source.path))
        frame.schema  # noqa: B018 - Spark Connect looks at it only now
    except Exception as error:  # what Spark raises here has several classes, some of them Java's
        found = condition(error)
        if found == "PATH_NOT_FOUND":
            raise TableNotFoundError(f"Source {name!r}: there is nothing at {', '.join(source.path or ())}") from error
        if found in _MISSING:
            raise UnsupportedOperationError(_missing(name, str(source.format))) from error
        raise InvalidInputError(f"Source {name!r} cannot be read: {short_message(error)}") from error
    return frame


def _missing(name: str, kind: str) -> str:
    message = f"Source {name!r}: Spark has no format {kind!r}"
    if kind.lower() == "iceberg":
        return f"{message}; its jar has to be there: --spark-conf spark.jars.packages={_ICEBERG}"
    return f"{message}; if it comes with a jar, give it with --spark-conf spark.jars.packages=..."
