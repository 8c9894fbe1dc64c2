"""Reading sources that are not tables of the catalog, in any format of Spark."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, TableNotFoundError, UnsupportedOperationError
from pennon.spark.pipeline.spark_errors import error_condition, shorten_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark.pipeline.model import Source

_ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-<Spark's version>_2.13:<version>"
_MISSING = {"DATA_SOURCE_NOT_FOUND", "AVRO_DATA_SOURCE_NOT_ENABLED"}
_FILE_FORMATS = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})
_WITH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_WILD = re.compile(r"[*?\[\]{}\\]")
# With these, paths may lead to another file system by default.
_HADOOP_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME")
_DEFAULT_FILE_SYSTEM = ("fs.defaultFS", "fs.default.name")


def is_file_format(kind: str) -> bool:
    """Return True if Spark reads files in this format."""
    return kind.lower() in _FILE_FORMATS


def is_local_file(path: str) -> bool:
    """Return True if a path leads to a single file of this machine."""
    return Path(path.removeprefix("file:")).is_file()


def find_missing_path(kind: str, paths: Iterable[str], settings: Mapping[str, str]) -> str | None:
    """Return the first path at which this machine has nothing, or None if there is none or only Spark can tell."""
    if not is_file_format(kind):
        return None
    elsewhere = any(name in os.environ for name in _HADOOP_VARIABLES) or any(
        key.endswith(_DEFAULT_FILE_SYSTEM) for key in settings
    )
    for path in paths:
        local = path.removeprefix("file:")
        is_known = local != path or not (elsewhere or _WITH_SCHEME.match(path))
        if is_known and not _WILD.search(local) and not Path(local).exists():
            return path
    return None


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
