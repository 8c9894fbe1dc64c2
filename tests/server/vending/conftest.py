from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.vending.services import Sts, serve_locally
from tests.servers import CountingS3
from tests.spark_session import mark, spark

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["spark"]


@pytest.hookimpl(tryfirst=True)  # before the marks are looked at
def pytest_collection_modifyitems(items) -> None:
    """Mark what uses Spark."""
    mark(items, "tests/server/vending/")


@pytest.fixture
def sts(monkeypatch) -> Iterator[Sts]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-servers-own")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-server")
    found = Sts()
    with serve_locally(found.serve) as found.url:
        yield found


@pytest.fixture(scope="module")
def bucket() -> Iterator[CountingS3]:
    with CountingS3() as server:
        yield server
