"""A shop in a catalog with managed versions, on the Spark of the tests."""

from __future__ import annotations

import pytest
from lance_namespace import CreateNamespaceRequest

from tests.spark.pipeline.shop import Shop


@pytest.fixture
def shop(managed_lake, tmp_path) -> Shop:
    managed_lake.catalog.create_namespace(CreateNamespaceRequest(id=["shop"]))
    made = Shop(managed_lake.address, tmp_path, managed_lake)
    made.write_orders()
    return made
