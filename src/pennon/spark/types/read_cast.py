"""Batches of a table as Spark wants them: without copying values wherever Arrow allows that."""

from __future__ import annotations

import pyarrow as pa

from pennon.spark.types.refusal import refusal


def to_spark(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Cast a batch of a table to the schema that `read_schema` gave for it; columns are found by name.

    A value that Spark's type cannot hold exactly raises 13, naming the column.
    """
    arrays = []
    for field in target:
        number = batch.schema.get_field_index(field.name)
        array = batch.column(number)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        try:
            arrays.append(array if array.type == field.type else array.cast(field.type))
        except pa.ArrowInvalid as error:
            raise refusal(f"Column {field.name} cannot be read by Spark as {field.type}: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=target)
