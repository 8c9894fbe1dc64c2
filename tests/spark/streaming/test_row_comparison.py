"""Comparison of two columns row by row, for every kind of type."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from pennon.spark.streaming.row_comparison import find_differing_rows

LIST = pa.list_(pa.float32())
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    ("kind", "left", "right", "expected"),
    [
        (pa.int64(), [1, 2, None, None], [1, 3, None, 4], [False, True, False, True]),
        (pa.float64(), [math.nan, math.nan, 0.0, None], [math.nan, 1.0, 0.0, math.nan], [False, True, False, True]),
        (pa.string(), ["a", "", None], ["a", None, "b"], [False, True, True]),
        (pa.binary(), [b"a", b"b"], [b"a", b"c"], [False, True]),
        (pa.null(), [None, None], [None, None], [False, False]),
        (
            LIST,
            [[1.0], [], None, [1.0, 2.0], [3.0]],
            [[1.0], None, None, [1.0, 3.0], []],
            [False, True, False, True, True],
        ),
        (LIST, [[math.nan], [1.0, None]], [[math.nan], [1.0, 2.0]], [False, True]),
        (pa.list_(pa.float32(), 2), [[1, 2], None, [3, 4]], [[1, 2], [5, 6], [3, 5]], [False, True, True]),
        (
            STRUCT,
            [{"a": 1, "b": ["x"]}, {"a": 1, "b": ["x"]}, None, {"a": None, "b": None}],
            [{"a": 1, "b": ["x"]}, {"a": 1, "b": ["y"]}, None, None],
            [False, True, False, True],
        ),
        (
            pa.map_(pa.string(), pa.int64()),
            [[("k", 1)], [("k", 1)], None],
            [[("k", 1)], [("k", 2)], None],
            [False, True, False],
        ),
        (pa.list_(LIST), [[[1.0], [2.0]], [[1.0]]], [[[1.0], [2.0]], [[1.5]]], [False, True]),
    ],
)
def test_differing_rows_of_every_type_are_found(kind, left, right, expected):
    assert find_differing_rows(pa.array(left, kind), pa.array(right, kind)).tolist() == expected
    assert find_differing_rows(pa.array(right, kind), pa.array(left, kind)).tolist() == expected


def test_slices_are_compared():
    left, right = pa.array([[0], [1, 2], [3]]), pa.array([[9], [1, 2], [4]])
    assert find_differing_rows(left.slice(1), right.slice(1)).tolist() == [False, True]
    assert find_differing_rows(left.slice(0, 0), right.slice(0, 0)).tolist() == []
