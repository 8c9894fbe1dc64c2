"""Fixtures of the races: eight processes for the whole run, and roots on disk and on a real S3 server."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.concurrency.crew import Crew
from tests.servers import SeaweedS3
from tests.support import Root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMBERS = 8


@pytest.fixture(scope="session")
def crew() -> Iterator[Crew]:
    """Return eight processes."""
    with Crew(MEMBERS) as members:
        yield members


@pytest.fixture(scope="session")
def seaweed() -> Iterator[SeaweedS3]:
    """Return a real S3 server."""
    with SeaweedS3() as server:
        yield server


@pytest.fixture
def disk(tmp_path) -> Root:
    """Return an empty root on local disk."""
    return Root(str(tmp_path / "root"))


@pytest.fixture
def new_roots(tmp_path) -> Callable[[int], list[Root]]:
    """Return a function that creates empty roots on local disk."""
    return lambda count: [Root(str(tmp_path / f"root_{number}")) for number in range(count)]


_prefixes = itertools.count()


@pytest.fixture
def bucket(seaweed) -> Root:
    """Return an empty root on the S3 server."""
    endpoint = seaweed.endpoint
    return Root(endpoint.uri(f"root-{next(_prefixes)}"), endpoint.storage_options())
