"""Clients that have a root open see the new catalog after the root was deleted and created again."""

from __future__ import annotations

import pytest

from tests.servers import CountingS3
from tests.support import Root, create_namespace, create_table, fails, list_namespaces, list_tables, namespace_exists


def replace_root(root, open_namespace):
    """Delete everything below a root and create another catalog there, at the same version of its manifest."""
    before, other = open_namespace(root), open_namespace(root)
    create_namespace(before, "old")
    create_table(before, "old", "t")
    assert list_namespaces(other) == ["old"]
    for name in before._store.list_names(""):
        before._store.delete_tree(name)
    after = open_namespace(root)
    create_namespace(after, "new")
    create_table(after, "new", "t")
    return before, other


def require_new(*clients):
    for client in clients:
        assert list_namespaces(client) == ["new"]
        assert list_tables(client, "new") == ["t"]
        with fails(1):
            namespace_exists(client, "old")


def test_open_clients_see_the_recreated_catalog(root, open_namespace):
    require_new(*replace_root(root, open_namespace))


def test_open_client_writes_to_the_recreated_catalog(root, open_namespace):
    before, other = replace_root(root, open_namespace)
    create_namespace(other, "more")
    assert sorted(list_namespaces(before)) == sorted(list_namespaces(other)) == ["more", "new"]


@pytest.mark.s3
def test_open_clients_of_a_bucket_see_the_recreated_catalog(open_namespace):
    with CountingS3() as server:
        root = Root(server.endpoint.uri("root"), server.endpoint.storage_options())
        require_new(*replace_root(root, open_namespace))
