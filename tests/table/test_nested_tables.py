"""Tables in namespaces: identifiers of several levels, and missing namespaces."""

from __future__ import annotations

import pytest

from pennon import DirectoryNamespace
from tests.support import create_namespace, create_table, fails, ipc

TABLE = ["a", "b", "t"]


@pytest.fixture(params=["v2", "managed"])
def nested(request, tmp_path):
    """Return a namespace with a table two levels deep."""
    properties = {"manifest_enabled": "true", "dir_listing_enabled": "false"}
    with DirectoryNamespace(root=str(tmp_path / "root"), **properties) as ns:
        if request.param == "managed":
            ns.enable_table_version_management()
        create_namespace(ns, "a")
        create_namespace(ns, "a", "b")
        create_table(ns, *TABLE, data=ipc({"x": [1, 2, 3]}))
        yield ns


def test_all_operations_on_a_nested_table(nested):
    nested.create_table_tag({"id": TABLE, "tag": "first", "version": 1})
    nested.create_table_branch({"id": TABLE, "name": "side"})
    made = nested.create_table_index({"id": TABLE, "column": "x", "index_type": "BTREE"})
    found = nested.describe_transaction({"id": [*TABLE, made.transaction_id]})
    assert found.properties["version"] == "2"
    assert (
        nested.alter_table_add_columns({"id": TABLE, "new_columns": [{"name": "y", "expression": "x + 1"}]}).version
        == 3
    )
    assert nested.restore_table({"id": TABLE, "version": 1}).transaction_id
    assert nested.get_table_stats({"id": TABLE}).num_rows == 3
    assert nested.list_table_tags({"id": TABLE}).tags["first"].version == 1
    assert list(nested.list_table_branches({"id": TABLE}).branches) == ["side"]


def test_a_missing_namespace_raises_namespace_not_found(nested):
    gone = ["nowhere", "t"]
    asks = (
        lambda: nested.list_table_tags({"id": gone}),
        lambda: nested.create_table_branch({"id": gone, "name": "b"}),
        lambda: nested.list_table_indices({"id": gone}),
        lambda: nested.create_table_index({"id": gone, "column": "x", "index_type": "BTREE"}),
        lambda: nested.alter_table_drop_columns({"id": gone, "columns": ["x"]}),
        lambda: nested.get_table_stats({"id": gone}),
        lambda: nested.restore_table({"id": gone, "version": 1}),
        lambda: nested.describe_transaction({"id": [*gone, "1"]}),
    )
    for ask in asks:
        with fails(1):
            ask()


BAD_REQUESTS = (
    ("create_table_tag", {"id": TABLE, "tag": "a"}),
    ("create_table_tag", {"id": TABLE, "tag": "a", "version": "one"}),
    ("create_table_index", {"id": TABLE, "index_type": "BTREE"}),
    ("create_table_index", {"id": TABLE, "column": "x", "index_type": "BTREE", "num_partitions": 0}),
    ("alter_table_alter_columns", {"id": TABLE, "alterations": [{"rename": "y"}]}),
    ("alter_table_drop_columns", {"id": TABLE}),
    ("update_field_metadata", {"id": TABLE, "updates": [{"path": "x", "metadata": {"a": 1}}]}),
    ("restore_table", {"id": TABLE, "version": None}),
    ("list_table_tags", {"id": "text"}),
    ("list_table_branches", {"id": []}),
    ("get_table_stats", {"id": ["a", "$"]}),
)


@pytest.mark.parametrize(("operation", "request_"), BAD_REQUESTS)
def test_invalid_requests_raise_invalid_input(nested, operation, request_):
    with fails(13):
        getattr(nested, operation)(request_)
    assert nested.list_table_versions({"id": TABLE}).versions[0].version == 1
