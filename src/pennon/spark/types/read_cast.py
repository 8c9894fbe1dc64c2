"""Casting batches of a table for Spark, without copying values where Arrow allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pennon.spark.types.encodings import bfloat16_to_float, null_mask, uuid_to_text, without_offset
from pennon.spark.types.extension import BFLOAT16, UUID, extension_name
from pennon.spark.types.lazy_errors import invalid_input

if TYPE_CHECKING:
    from collections.abc import Iterator

_NANOSECONDS = 1_000  # in a microsecond
# Spark addresses strings and binaries in a batch with 32 bits. A much smaller batch is already large for a worker.
_MOST_BYTES = 1 << 30


def to_spark(batch: pa.RecordBatch, target: pa.Schema, *, truncate_nanoseconds: bool = False) -> pa.RecordBatch:
    """Return a batch of a table with a schema from `read_schema`, for all or some of its columns.

    Raises InvalidInputError if Spark cannot represent a value exactly. Nanoseconds are an error unless truncated.
    """
    arrays = []
    for wanted in target:
        number = batch.schema.get_field_index(wanted.name)
        if number < 0:
            raise invalid_input(
                f"Column {wanted.name} is not among the columns that were read: {', '.join(batch.schema.names)}"
            )
        try:
            cast = _cast(batch.column(number), batch.schema.field(number), wanted.type, floor=truncate_nanoseconds)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise invalid_input(_describe_failure(batch.schema.field(number), wanted, error)) from error
        arrays.append(cast)
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def split_batch(batch: pa.RecordBatch, most_bytes: int = _MOST_BYTES) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts that are small enough for Spark: long strings and blobs may be too large."""
    if batch.num_rows <= 1 or batch.nbytes <= most_bytes:
        yield batch
        return
    half = batch.num_rows // 2
    yield from split_batch(batch.slice(0, half), most_bytes)
    yield from split_batch(batch.slice(half), most_bytes)


def _describe_failure(field: pa.Field, wanted: pa.Field, error: Exception) -> str:
    hint = ""
    if "would lose data" in str(error):
        hint = "; Spark has only microseconds and whole days, so truncate nanoseconds or leave the column out"
    return f"Column {field.name} of the Arrow type {field.type} cannot be read by Spark as {wanted.type}: {error}{hint}"


def _cast(array: pa.Array, field: pa.Field, target: pa.DataType, *, floor: bool) -> pa.Array:
    name = extension_name(field)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if name == UUID:
        return uuid_to_text(array)
    if name == BFLOAT16:
        return bfloat16_to_float(array)
    kind = array.type
    special = _needs_own_cast(kind, floor=floor)
    if kind == target and not special:
        return array
    if pa.types.is_dictionary(kind):
        decoded = array.dictionary_decode()
        return _cast(decoded, pa.field(field.name, decoded.type), target, floor=floor)
    if pa.types.is_nested(kind) and special:
        return _cast_nested(array, kind, target, floor=floor)
    if special:
        array = _to_microseconds(array, floor=floor)
    return array.cast(target)


def _needs_own_cast(kind: pa.DataType, *, floor: bool) -> bool:
    """Return True if a type, or a type nested in it, needs more than Arrow's own cast."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
        return True
    if not pa.types.is_nested(kind):
        # Spark stores times of day in nanoseconds, but with a precision of microseconds.
        return getattr(kind, "unit", None) == "ns" and (floor or pa.types.is_time64(kind))
    return any(
        extension_name(kind.field(number)) is not None or _needs_own_cast(kind.field(number).type, floor=floor)
        for number in range(kind.num_fields)
    )


def _cast_nested(array: pa.Array, kind: pa.DataType, target: pa.DataType, *, floor: bool) -> pa.Array:
    nulls = null_mask(array)
    if pa.types.is_struct(kind):
        parts = [
            _cast(array.field(number), kind.field(number), target.field(number).type, floor=floor)
            for number in range(kind.num_fields)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=nulls)
    if pa.types.is_fixed_size_list(kind):
        width = kind.list_size
        values = array.values.slice(array.offset * width, len(array) * width)
        read = _cast(values, kind.value_field, target.value_type, floor=floor)
        return pa.FixedSizeListArray.from_arrays(read, width, mask=nulls).cast(target)
    array = without_offset(array)
    if pa.types.is_map(kind):
        keys = _cast(array.keys, kind.key_field, target.key_type, floor=floor)
        items = _cast(array.items, kind.item_field, target.item_type, floor=floor)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=nulls)
    values = _cast(array.values, kind.value_field, target.value_type, floor=floor)
    return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), values, type=target, mask=nulls)


def _to_microseconds(array: pa.Array, *, floor: bool) -> pa.Array:
    """Return nanoseconds as microseconds: rounded down if `floor`, otherwise exact or ArrowInvalid is raised."""
    kind = array.type
    if pa.types.is_time64(kind):
        coarse = pa.time64("us")
    elif pa.types.is_duration(kind):
        coarse = pa.duration("us")
    else:
        coarse = pa.timestamp("us", tz=kind.tz)
    if not floor:
        return array.cast(coarse)
    counts = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(np.floor_divide(counts, _NANOSECONDS), pa.int64(), mask=nulls).cast(coarse)
