"""What of a DataFrame goes into which column of a table, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.spark.types.creating import table_field
from pennon.spark.types.extension import plain_schema
from pennon.spark.types.refusal import refusal

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class WritePlan:
    """How the rows of a DataFrame become rows of a table: the schema that is written, and which columns are new."""

    schema: pa.Schema
    new_columns: tuple[pa.Field, ...]
    sources: tuple[str | None, ...]

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give a batch that Spark sent as the table keeps it; a value that does not fit raises 13 and names the column."""
        arrays = []
        for field, source in zip(self.schema, self.sources, strict=True):
            array = batch.column(source) if source is not None else pa.nulls(batch.num_rows, field.type)
            arrays.append(array if array.type == field.type else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def write_plan(
    incoming: StructType,
    table: pa.Schema,
    *,
    merge_schema: bool = False,
    fill_missing: bool = False,
    case_sensitive: bool = False,
) -> WritePlan:
    """Match the columns of a DataFrame to those of a table, by name; what does not fit raises 13, naming the column.

    With `merge_schema` columns that the table lacks become new, nullable ones, and nullable columns that the DataFrame
    lacks are filled with nulls; `fill_missing` allows only the latter. Names are compared as Spark does by default.
    """
    del case_sensitive
    own = plain_schema(table)
    names = {field.name for field in incoming}
    new = tuple(table_field(f, f.name).with_nullable(nullable=True) for f in incoming if f.name not in table.names)
    if new and not merge_schema:
        raise refusal(f"Column {new[0].name} is not in the table, which has {', '.join(table.names)}")
    missing = [field.name for field in own if field.name not in names]
    if missing and not (merge_schema or fill_missing):
        raise refusal(f"Column {missing[0]} of the table is missing")
    schema = pa.schema([*own, *new])
    return WritePlan(schema, new, tuple(f.name if f.name in names else None for f in schema))
