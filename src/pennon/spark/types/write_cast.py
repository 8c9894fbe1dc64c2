"""Casting values from Spark to the types of a table; a value that does not fit is an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pennon.spark.types.encodings import (
    bfloat16_to_float,
    bytes_to_blob,
    copy_array,
    float_to_bfloat16,
    null_mask,
    text_to_uuid,
    without_offset,
)
from pennon.spark.types.extension import BFLOAT16, BLOB, UUID, is_list, known_extension
from pennon.spark.types.lazy_errors import invalid_input

if TYPE_CHECKING:
    from collections.abc import Callable

_INTEGER_DIGITS = 20  # of 64 bits
_ALIGNMENT = 16  # bytes of a decimal


@dataclass(frozen=True)
class WriteTarget:
    """A field of the table in plain form, and the number of its source in the batch or in the enclosing struct.

    Without a source, the field is filled with nulls. The parts of a struct, list or map are its fields, its element, or
    its key and value. Other types have no parts.
    """

    field: pa.Field
    column: str
    source: int | None = None
    parts: tuple[WriteTarget, ...] = ()


def cast_array(array: pa.Array, target: WriteTarget, outer_nulls: pa.Array | None = None) -> pa.Array:
    """Return an array from Spark with the type of a field; raises InvalidInputError for bad values and nulls.

    Where the enclosing struct is null (`outer_nulls`), the field may be null too.
    """
    try:
        cast = _cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        shown = known_extension(target.field) or target.field.type
        raise invalid_input(f"Column {target.column} cannot be written as {shown}: {error}") from error
    if not target.field.nullable and cast.null_count:
        wrong = cast.is_null() if outer_nulls is None else pc.and_not(cast.is_null(), outer_nulls)
        if pc.any(wrong).as_py():
            raise invalid_input(f"Column {target.column} is null in a row, but the table does not allow nulls")
    return cast


def null_array(rows: int, target: WriteTarget) -> pa.Array:
    """Return nulls for a field that is not in the DataFrame."""
    return pa.nulls(rows, target.field.type)


def _cast(array: pa.Array, target: WriteTarget) -> pa.Array:
    kind = target.field.type
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if target.parts and pa.types.is_struct(kind):
        return _cast_struct(array, target)
    if target.parts and pa.types.is_map(kind):
        array = without_offset(array)
        keys, items = cast_array(array.keys, target.parts[0]), cast_array(array.items, target.parts[1])
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=null_mask(array))
    if target.parts and pa.types.is_fixed_size_list(kind):
        return _cast_vectors(array, target)
    if target.parts and is_list(kind):
        array = without_offset(array)
        values = cast_array(array.values, target.parts[0])
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), values, type=kind, mask=null_mask(array))
        return pa.LargeListArray.from_arrays(array.offsets.cast(pa.int64()), values, type=kind, mask=null_mask(array))
    return _cast_leaf(array, target.field)


def _cast_struct(array: pa.Array, target: WriteTarget) -> pa.Array:
    array = without_offset(array)  # Lance panics on slices of nested structs
    nulls = null_mask(array)
    given = array.flatten()  # includes the nulls of the struct
    made = [
        null_array(len(array), part) if part.source is None else cast_array(given[part.source], part, nulls)
        for part in target.parts
    ]
    return pa.StructArray.from_arrays(made, fields=[part.field for part in target.parts], mask=nulls)


def _cast_vectors(array: pa.Array, target: WriteTarget) -> pa.Array:
    """Return lists of one length as vectors; without nulls, values are not copied."""
    width = target.field.type.list_size
    lengths = pc.list_value_length(array)
    wrong = pc.not_equal(lengths, width)
    if pc.any(wrong).as_py():
        length = lengths.filter(wrong)[0].as_py()
        raise pa.ArrowInvalid(f"a row has {length} values, but the vectors of the column have {width}")
    kind = target.field.type
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    made = pa.FixedSizeListArray.from_arrays(cast_array(array.flatten(), target.parts[0]), type=kind)
    if not array.null_count:
        return made
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return made.take(pa.array(np.cumsum(valid) - 1, mask=~valid))


def _cast_leaf(array: pa.Array, field: pa.Field) -> pa.Array:
    kind = field.type
    known = known_extension(field)
    if known == BLOB:
        return bytes_to_blob(array, kind)
    if pa.types.is_decimal(kind):
        return _align(_cast_decimals(array, kind))
    if known == UUID and not pa.types.is_binary(array.type) and not pa.types.is_large_binary(array.type):
        return text_to_uuid(array)
    if known == BFLOAT16:
        narrow = _narrow(array, pa.float32())
        return _require_finite(narrow, float_to_bfloat16(narrow), bfloat16_to_float, "lance.bfloat16")
    if pa.types.is_dictionary(kind):
        return array.cast(kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_floating(kind):
        return _narrow(array, kind)
    return array if array.type == kind else array.cast(kind)


def _cast_decimals(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(_INTEGER_DIGITS, 0))
    return array if array.type == kind else array.cast(kind)


def _align(array: pa.Array) -> pa.Array:
    """Return an array with aligned values: Lance panics on decimals that are not, as they come from Spark."""
    values = array.buffers()[1]
    if values is None or values.address % _ALIGNMENT == 0:
        return array
    return copy_array(array)


def _narrow(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return numbers rounded to a float type; raises ArrowInvalid if a number is out of range."""
    if not pa.types.is_floating(array.type):
        array = array.cast(pa.float64() if pa.types.is_decimal(array.type) else _wide(kind))
    if array.type.bit_width <= kind.bit_width:
        return array.cast(kind)
    return _require_finite(array, array.cast(kind), lambda made: made.cast(pa.float32()), str(kind))


def _wide(kind: pa.DataType) -> pa.DataType:
    # Arrow has no checked cast from integers to float16.
    return pa.float32() if kind.bit_width < pa.float32().bit_width else kind


def _require_finite(given: pa.Array, made: pa.Array, widened: Callable[[pa.Array], pa.Array], name: str) -> pa.Array:
    """Return the cast numbers; raises ArrowInvalid if a number became infinite."""
    beyond = pc.and_(pc.is_inf(widened(made)), pc.is_finite(given))
    if pc.any(beyond).as_py():
        raise pa.ArrowInvalid(f"{given.filter(beyond)[0].as_py()} is beyond the range of {name}")
    return made
