"""MiniStack: flat namespaces that its own API makes, no rename, no drop, and requirements that it does not check."""

from __future__ import annotations

import uuid

import lance
import pyarrow as pa
from lance_namespace import CountTableRowsRequest

from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    describe_table,
    drop_table,
    fails,
    list_namespaces,
    list_tables,
    register_table,
    rename_table,
)


def test_existing_namespaces_and_tables_are_read(mini, connect):
    catalog = connect(mini.uri)
    assert "lake" in list_namespaces(catalog)
    assert describe_namespace(catalog, "lake").properties == {}
    with fails(1, "none"):
        describe_namespace(catalog, "none")


def test_a_table_is_created_and_written(mini, connect):
    catalog = connect(mini.uri)
    name = f"t{uuid.uuid4().hex[:8]}"
    create_table(catalog, "lake", name, properties={"k": "v"})
    assert name in list_tables(catalog, "lake")
    described = describe_table(catalog, "lake", name, load_detailed_metadata=True)
    assert (described.properties["k"], described.properties["table_type"], described.version) == ("v", "lance", 1)
    lance.write_dataset(pa.table({"x": [4]}), namespace_client=catalog, table_id=["lake", name], mode="append")
    assert catalog.count_table_rows(CountTableRowsRequest(id=["lake", name])).count == 4
    with fails(5):
        create_table(catalog, "lake", name)
    with fails(4):
        describe_table(catalog, "lake", "none")
    with fails(1):
        describe_table(catalog, "none", "t")


def test_registered_data_is_found(mini, connect, tmp_path):
    catalog = connect(mini.uri)
    name = f"t{uuid.uuid4().hex[:8]}"
    lance.write_dataset(pa.table({"x": [1, 2]}), str(tmp_path / "data"))
    register_table(catalog, "lake", name, location=str(tmp_path / "data"))
    assert catalog.count_table_rows(CountTableRowsRequest(id=["lake", name])).count == 2


def test_managed_versions_are_refused(mini, connect):
    catalog = connect(mini.uri, managed_by="impl")
    with fails(0, "does not check requirements"):
        create_table(catalog, "lake", f"t{uuid.uuid4().hex[:8]}")


def test_missing_features_raise_clear_errors(mini, connect):
    catalog = connect(mini.uri)
    name = f"t{uuid.uuid4().hex[:8]}"
    create_table(catalog, "lake", name)
    with fails(0):
        create_namespace(catalog, "other")
    with fails(0, name):
        rename_table(catalog, "lake", name, to="u")
    with fails(0, name):
        drop_table(catalog, "lake", name)
    assert catalog.count_table_rows(CountTableRowsRequest(id=["lake", name])).count == 3
