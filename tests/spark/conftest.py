"""A Spark session for the whole run, and a lake in a fresh root for each test."""

from __future__ import annotations

import pytest

from tests.spark_session import mark, spark

__all__ = ["spark"]


@pytest.hookimpl(tryfirst=True)  # before the marks are looked at
def pytest_collection_modifyitems(items) -> None:
    """Mark what uses Spark."""
    mark(items, "tests/spark/")


@pytest.fixture
def root(tmp_path):
    """Name an empty root."""
    return str(tmp_path / "root")


@pytest.fixture
def lake(spark, root):
    """Attach a lake in an empty root."""
    from pennon.spark import attach

    return attach(spark, root=root)


@pytest.fixture
def managed_lake(lake):
    """Attach a lake whose catalog manages versions."""
    lake.catalog.enable_table_version_management()
    return lake
