"""A store that counts requests, and roots on it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.servers import CountingS3
from tests.support import Root

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def s3() -> Iterator[CountingS3]:
    """Return the counting server, which all of these tests share."""
    with CountingS3() as server:
        yield server


@pytest.fixture
def s3_root(s3) -> Root:
    """Return an empty root for each test."""
    return Root(s3.endpoint.uri(f"root-{next(_numbers)}"), s3.endpoint.storage_options())
