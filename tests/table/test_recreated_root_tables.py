"""A root table that another client purges and creates again: no cached data of the old one is returned."""

from __future__ import annotations

import lance
import pytest

from pennon import DirectoryNamespace
from tests.servers import CountingS3
from tests.support import create_table, fails, ipc, remove_table
from tests.table.calls import count, insert, query

MODE = {"manifest_enabled": "false"}


def indexes(ns):
    return [one.index_name for one in ns.list_table_indices({"id": ["t"]}).indexes]


def look_everywhere(ns, values):
    """Read everything of a table that is cached, which fills the caches."""
    assert sorted(query(ns, "t")["x"].to_pylist()) == values
    assert sorted(query(ns, "t", version=2)["x"].to_pylist()) == values
    assert count(ns, "t", predicate=f"x = {values[-1]}") == 1
    assert ns.get_table_stats({"id": ["t"]}).num_rows == len(values)


def require_nothing_old(ns, other, options):
    location = create_table(ns, "t", data=ipc({"x": [1, 2, 3]})).location
    lance.dataset(location, storage_options=options).create_scalar_index("x", "BTREE")
    lance.dataset(location, storage_options=options).tags.create("old", 2)
    lance.dataset(location, storage_options=options).create_branch("side")
    look_everywhere(ns, [1, 2, 3])
    assert (indexes(ns), count(ns, "t", branch="side")) == (["x_idx"], 3)
    remove_table(other, "t")
    create_table(other, "t", data=ipc({"x": [4, 5, 6, 7]}))
    insert(other, "t", data={"x": [8]})
    look_everywhere(ns, [4, 5, 6, 7, 8])
    assert indexes(ns) == []
    with fails(22):
        count(ns, "t", branch="side")
    lance.dataset(location, storage_options=options).create_branch("side")
    assert count(ns, "t", branch="side") == 5
    with fails(8):
        ns.describe_table({"id": ["t"], "tag": "old"})


def test_recreated_root_tables_on_a_disk(tmp_path):
    properties = {"root": str(tmp_path / "root"), **MODE}
    with DirectoryNamespace(**properties) as ns, DirectoryNamespace(**properties) as other:
        require_nothing_old(ns, other, None)


@pytest.mark.s3
def test_recreated_root_tables_in_a_bucket():
    with CountingS3() as server:
        properties = {"root": server.endpoint.uri("root"), **server.endpoint.properties(), **MODE}
        with DirectoryNamespace(**properties) as ns, DirectoryNamespace(**properties) as other:
            require_nothing_old(ns, other, server.endpoint.storage_options())
