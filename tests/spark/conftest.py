"""A Spark session for the whole run, and a lake in a fresh root for each test."""

from __future__ import annotations

import pytest

from tests.spark_session import mark, spark

__all__ = ["spark"]


@pytest.hookimpl(tryfirst=True)  # before the marks are evaluated
def pytest_collection_modifyitems(items) -> None:
    """Mark tests that use Spark."""
    mark(items, "tests/spark/")


@pytest.fixture
def root(tmp_path):
    """Return the path of a new root."""
    return str(tmp_path / "root")


@pytest.fixture
def lake(spark, root):
    """Return a lake in a new root."""
    from pennon.spark import attach

    return attach(spark, root=root)


@pytest.fixture
def managed_lake(lake):
    """Return a lake whose catalog manages versions."""
    lake.catalog.enable_table_version_management()
    return lake
