"""Values that Spark and Lance represent differently: UUIDs as text, bfloat16 as float, blobs as bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_UUID_BYTES = 16
_UUID_DIGITS = 32
_UUID_LENGTH = 36
_DASHES = (8, 13, 18, 23)
_UUID_TEXT = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

_NOT_DASHES = np.array([place for place in range(_UUID_LENGTH) if place not in _DASHES])


def uuid_to_text(array: pa.Array) -> pa.Array:
    """Return UUIDs, stored as 16 bytes, as text in lower case with dashes."""
    flat, nulls = _fixed_bytes(array, bytes(_UUID_BYTES))
    digits = flat.tobytes().hex().encode()
    text = np.full((len(array), _UUID_LENGTH), ord("-"), np.uint8)
    text[:, _NOT_DASHES] = np.frombuffer(digits, np.uint8).reshape(len(array), _UUID_DIGITS)
    offsets = pa.array(np.arange(len(array) + 1, dtype=np.int32) * _UUID_LENGTH)
    made = pa.StringArray.from_buffers(len(array), offsets.buffers()[1], pa.py_buffer(text))
    return made if nulls is None else pc.if_else(nulls, None, made)


def text_to_uuid(array: pa.Array) -> pa.Array:
    """Return UUIDs from text in any case; raises ArrowInvalid for other text."""
    lower = pc.utf8_lower(array.cast(pa.large_string()))
    right = pc.match_substring_regex(lower, _UUID_TEXT)
    if pc.any(pc.invert(right)).as_py():
        wrong = array.filter(pc.invert(right))[0].as_py()
        raise pa.ArrowInvalid(f"{wrong!r} is not a UUID")
    digits = "".join(pc.replace_substring(lower.drop_null(), "-", "").to_pylist())
    packed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(_UUID_BYTES), len(digits) // _UUID_DIGITS, [None, pa.py_buffer(bytes.fromhex(digits))]
    )
    if not array.null_count:
        return packed
    places = np.cumsum(array.is_valid().to_numpy(zero_copy_only=False)) - 1
    return packed.take(pa.array(places, mask=array.is_null().to_numpy(zero_copy_only=False)))


def bfloat16_to_float(array: pa.Array) -> pa.Array:
    """Return bfloat16, stored as two bytes, as float32, without loss."""
    flat, nulls = _fixed_bytes(array, bytes(2))
    bits = flat.view("<u2").astype("<u4") << 16
    return pa.array(bits.view("<f4"), mask=None if nulls is None else nulls.to_numpy(zero_copy_only=False))


def float_to_bfloat16(array: pa.Array) -> pa.Array:
    """Return float32 as bfloat16, rounded to nearest, ties to even."""
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    values = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    bits = values.view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
    kept = np.where(np.isnan(values), (bits >> 16) | np.uint32(0x40), rounded).astype("<u2")
    packed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(2), len(array), [None, pa.py_buffer(kept)])
    return packed if nulls is None else pc.if_else(pa.array(nulls), None, packed)


def bytes_to_blob(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return bytes in the form in which Lance accepts blobs."""
    parts = [array.cast(kind.field(0).type)]
    parts += [pa.nulls(len(array), kind.field(number).type) for number in range(1, kind.num_fields)]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=null_mask(array))


def null_mask(array: pa.Array) -> pa.Array | None:
    """Return which values are null, or None if no value is."""
    return array.is_null() if array.null_count else None


def without_offset(array: pa.Array) -> pa.Array:
    """Return an array without an offset in its buffers; only a slice is copied."""
    return copy_array(array) if array.offset else array


def copy_array(array: pa.Array) -> pa.Array:
    """Return a copy with its own, aligned buffers."""
    return pa.concat_arrays([array, array.slice(0, 0)])


def _fixed_bytes(array: pa.Array, nothing: bytes) -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], pa.Array | None]:
    """Return the bytes of an array of values with a fixed size, and which of them are null."""
    width = array.type.byte_width
    nulls = null_mask(array)
    if nulls is not None:
        array = array.fill_null(pa.scalar(nothing, array.type))
    data = array.buffers()[1]
    start = array.offset * width
    if data is None:
        return np.zeros(0, np.uint8), nulls
    return np.frombuffer(data, np.uint8)[start : start + len(array) * width], nulls
