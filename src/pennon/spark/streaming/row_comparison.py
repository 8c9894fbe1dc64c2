"""Comparison of two columns row by row; null equals null, and NaN equals NaN."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pennon.spark.types.extension import is_list


def find_differing_rows(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Return for each row whether two columns of the same type and length differ."""
    nulls = _bools(pc.not_equal(left.is_null(), right.is_null()))
    nulls |= _values_differ(left, right)
    return nulls


def _values_differ(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Return for each row whether the values differ; the result is meaningless for rows where one of them is null."""
    kind = left.type
    if pa.types.is_null(kind):
        return np.zeros(len(left), dtype=bool)
    if pa.types.is_struct(kind):
        return _structs(left, right)
    if is_list(kind):
        return _lists(left, right)
    if pa.types.is_map(kind):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return np.fromiter((one != other for one, other in pairs), dtype=bool, count=len(left))
    unequal = pc.fill_null(pc.not_equal(left, right), False)  # noqa: FBT003 - the value, not a flag
    if pa.types.is_floating(kind):
        both = pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False)  # noqa: FBT003 - as above
        unequal = pc.and_not(unequal, both)
    return _bools(unequal)


def _structs(left: pa.Array, right: pa.Array) -> np.ndarray:
    result = np.zeros(len(left), dtype=bool)
    for one, other in zip(left.flatten(), right.flatten(), strict=True):
        result |= find_differing_rows(one, other)
    return result


def _lists(left: pa.Array, right: pa.Array) -> np.ndarray:
    lengths = [pc.fill_null(pc.list_value_length(one), 0).to_numpy(zero_copy_only=False) for one in (left, right)]
    result: np.ndarray = lengths[0] != lengths[1]
    alike = np.flatnonzero(~result)
    if len(alike):
        picked = pa.array(alike)
        values = find_differing_rows(left.take(picked).flatten(), right.take(picked).flatten())
        result[np.repeat(alike, lengths[0][alike])[values]] = True
    return result


def _bools(array: pa.Array) -> np.ndarray:
    return np.array(array.to_numpy(zero_copy_only=False), dtype=bool)
