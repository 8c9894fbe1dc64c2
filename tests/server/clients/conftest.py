"""Fixtures of the tests with clients that nobody here wrote."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from tests.support import create_namespace


@pytest.fixture
def space(catalog) -> str:
    """Create a namespace of the test's own."""
    name = f"c{uuid.uuid4().hex[:12]}"
    create_namespace(catalog, name)
    return name


@pytest.fixture
def fruit() -> pa.Table:
    """Return rows with numbers, texts and vectors."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 0, 0, 1, 1, 1], pa.float32()), 2)
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "text": ["red apple", "green pear", "blue plum"],
            "vector": vectors,
        }
    )
