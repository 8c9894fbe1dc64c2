"""Reading sources that are not tables of the catalog, in any format of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, TableNotFoundError, UnsupportedOperationError
from pennon.spark.pipeline.spark_errors import error_condition, shorten_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark.pipeline.model import Source

_ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-<Spark's version>_2.13:<version>"
_MISSING = {"DATA_SOURCE_NOT_FOUND", "AVRO_DATA_SOURCE_NOT_ENABLED"}


def load_source(spark: SparkSession, name: str, source: Source) -> DataFrame:
    """Return a source as a DataFrame.

    Raises UnsupportedOperationError if Spark lacks the format, TableNotFoundError if the files do not exist, and
    InvalidInputError if they cannot be read.
    """
    reader = spark.read.format(str(source.format)).options(**source.options)
    try:
        if source.schema_ is not None:
            reader = reader.schema(source.schema_)
        frame = reader.load() if source.path is None else reader.load(list(source.path))
        frame.schema  # noqa: B018 - Spark Connect reads the source only now
    except Exception as error:  # Spark raises errors of several classes, some of them from Java
        found = error_condition(error)
        if found == "PATH_NOT_FOUND":
            raise TableNotFoundError(f"Source {name!r}: there is nothing at {', '.join(source.path or ())}") from error
        if found in _MISSING:
            raise UnsupportedOperationError(_missing_format(name, str(source.format))) from error
        raise InvalidInputError(f"Source {name!r} cannot be read: {shorten_error(error)}") from error
    return frame


def _missing_format(name: str, kind: str) -> str:
    message = f"Source {name!r}: Spark has no format {kind!r}"
    if kind.lower() == "iceberg":
        return f"{message}; add its jar: --spark-conf spark.jars.packages={_ICEBERG}"
    return f"{message}; if it is in a jar, add that with --spark-conf spark.jars.packages=..."
