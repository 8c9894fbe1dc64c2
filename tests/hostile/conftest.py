"""Fixtures of the tests that store hostile data in a root."""

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
def hostile_s3() -> Iterator[CountingS3]:
    """Start one S3 server for all of these tests."""
    with CountingS3() as server:
        yield server


@pytest.fixture(params=["disk", pytest.param("bucket", marks=pytest.mark.s3)])
def somewhere(request, tmp_path) -> Root:
    """Return an empty root on a disk and in a bucket. Both have other files beside the root."""
    if request.param == "disk":
        return Root(str(tmp_path / "place" / "root"))
    endpoint = request.getfixturevalue("hostile_s3").endpoint
    return Root(endpoint.uri(f"place-{next(_numbers)}/root"), endpoint.storage_options())
