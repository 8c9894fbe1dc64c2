"""Vectors without null elements, as recorded in the files of a table.

Spark checks every element of a vector for null unless the schema excludes nulls. In a scan of vectors, that took 20 %
of Java's time. Lance's schemas cannot express it, but its files record it for each page. So if reading that metadata is
cheap, Spark reads with a schema without nulls. The DataFrame still has the schema of the table, and each batch is
checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from pennon.errors import InternalError
from pennon.spark.quoting import quote_name
from pennon.spark.types.extension import extension_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from pennon.spark.reading.pinned import PinnedTable

# Reading the metadata of a file takes as long as reading this many bytes, about a millisecond.
_BYTES_PER_LOOK = 4 * 1024 * 1024
_MOST_LOOKS = 128
_MOST_COLUMNS = 32
_CACHED_FILES = 4096
# The first file format whose pages record nulls in the way that is parsed here.
_FORMAT = (2, 1)
# The encoding of a page, as pylance formats it; text in quotation marks is data.
_DATA = re.compile(r'b"(?:[^"\\]|\\.)*"')
_LAYERS = re.compile(r"\blayers: \[\s*([^\]]*?),?\s*\]")
_NO_NULLS = "RepdefAllValidItem"
_ELEMENTS = re.compile(r"\bhas_validity: (\w+)")


@dataclass(frozen=True)
class DenseVectors:
    """Columns of vectors without nulls."""

    columns: frozenset[str] = frozenset()

    def mark_non_null(self, schema: StructType) -> StructType:
        """Return the schema with which Spark reads: these vectors have no null elements."""
        return StructType([self._mark_field(field) for field in schema])

    def restore_schema(self, frame: DataFrame, schema: StructType) -> DataFrame:
        """Return a frame with the original schema; Spark removes this step when it optimizes."""
        if not self.columns:
            return frame
        # Not `withColumns`, which loses the metadata of columns on Spark Connect.
        return frame.select(*(self._restore_column(field) for field in schema))

    def check(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch; raises InternalError if a vector contains a null."""
        for name in self.columns:
            if batch.column(name).flatten().null_count:
                raise InternalError(
                    f"Vectors of column {name} contain nulls, but the metadata of the table's files records none"
                )
        return batch

    def _mark_field(self, field: StructField) -> StructField:
        kind = field.dataType
        if field.name not in self.columns or not isinstance(kind, ArrayType):
            return field
        return StructField(field.name, ArrayType(kind.elementType, containsNull=False), field.nullable, field.metadata)

    def _restore_column(self, field: StructField) -> Column:
        column = F.col(quote_name(field.name))
        if field.name not in self.columns:
            return column
        # Spark removes such a cast when it optimizes, and then the whole select.
        return column.cast(field.dataType).alias(field.name, metadata=field.metadata)


def find_dense_vectors(table: PinnedTable, columns: pa.Schema, size: int) -> DenseVectors:
    """Return the columns of vectors without nulls, if looking is worth it for a read of `size` bytes."""
    vectors = {field.name for field in columns if _is_vector(field)}
    # Naming many columns is slow, remote files cost requests, and a branch has two directories.
    if not vectors or len(columns) > _MOST_COLUMNS or "://" in table.uri or table.branch is not None:
        return DenseVectors()
    if len({name.casefold() for name in columns.names}) < len(columns.names):
        return DenseVectors()  # Spark could not distinguish these names
    dataset = table.open()
    fragments = [fragment.metadata.to_json() for fragment in dataset.get_fragments()]
    looks = sum(len(fragment["files"]) for fragment in fragments)
    if not 0 < looks <= min(_MOST_LOOKS, size // _BYTES_PER_LOOK):
        return DenseVectors()
    numbers = {field.id(): field.name() for field in dataset.lance_schema.fields() if field.name() in vectors}
    for fragment in fragments:
        if fragment.get("overlays"):
            return DenseVectors()
        dense = {number for file in fragment["files"] for number in _dense_fields(table.uri, file)}
        numbers = {number: name for number, name in numbers.items() if number in dense}
    return DenseVectors(frozenset(numbers.values()))


def _is_vector(field: pa.Field) -> bool:
    kind = field.type
    return (
        pa.types.is_fixed_size_list(kind)
        and pa.types.is_floating(kind.value_type)
        and extension_name(field) is None
        and extension_name(kind.value_field) is None
    )


def _dense_fields(table: str, file: dict[str, Any]) -> Iterator[int]:
    """Yield the ids of the fields of a data file that certainly contain no null."""
    version = (file["file_major_version"], file["file_minor_version"])
    if version < _FORMAT or file["base_id"] is not None:
        return
    path = Path(table, "data", file["path"])
    if not path.is_file() or path.stat().st_size != file["file_size_bytes"]:
        return  # it is missing or damaged; the task that reads it reports that
    dense = _dense_columns(str(path))
    for number, column in zip(file["fields"], file["column_indices"], strict=True):
        if 0 <= column < len(dense) and dense[column]:
            yield number


@lru_cache(maxsize=_CACHED_FILES)
def _dense_columns(path: str) -> tuple[bool, ...]:
    """Return for each column of a data file, which never changes, whether it certainly contains no null."""
    from lance.file import LanceFileReader

    columns = LanceFileReader(path).metadata().columns
    return tuple(bool(column.pages) and all(_is_dense(page.encoding) for page in column.pages) for column in columns)


def _is_dense(encoding: str) -> bool:
    plain = _DATA.sub("", encoding)
    return _LAYERS.findall(plain) == [_NO_NULLS] and set(_ELEMENTS.findall(plain)) <= {"false"}
