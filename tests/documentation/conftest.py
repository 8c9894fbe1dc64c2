"""The session of Spark, for pages that need one."""

from __future__ import annotations

import pytest

from tests.spark_session import mark, spark

__all__ = ["spark"]


@pytest.hookimpl(tryfirst=True)  # before the marks are evaluated
def pytest_collection_modifyitems(items) -> None:
    """Mark tests that use Spark."""
    mark(items, "tests/documentation/")
