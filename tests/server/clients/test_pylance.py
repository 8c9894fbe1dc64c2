"""pylance as a client: Lance itself writes and reads tables that the server manages."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import lance
import lance_namespace
import pyarrow as pa
import pytest

from tests.support import create_table, describe_table, ipc

pytestmark = pytest.mark.interop


@pytest.fixture
def through(server, space):
    """Return the arguments by which Lance opens the table `t` through the server."""
    return {"namespace_client": lance_namespace.connect("rest", {"uri": server.lance}), "table_id": [space, "t"]}


def test_a_table_is_written_appended_to_and_overwritten(through, catalog, space, fruit):
    lance.write_dataset(fruit, mode="create", **through)
    lance.write_dataset(fruit, mode="append", **through)
    assert lance.dataset(**through).count_rows() == 6 == catalog._open_table((space, "t")).count_rows()
    lance.write_dataset(fruit.slice(1), mode="overwrite", **through)
    assert lance.dataset(**through).to_table() == fruit.slice(1)
    with pytest.raises(Exception, match="already exists"):
        lance.write_dataset(fruit, mode="create", **through)


def test_versions_are_those_of_the_catalog(through, catalog, space, fruit):
    lance.write_dataset(fruit, mode="create", **through)
    lance.dataset(**through).delete("id = 1")
    catalog._open_table((space, "t")).delete("id = 2")
    found = lance.dataset(**through)
    assert [one["version"] for one in found.versions()] == [1, 2, 3]
    assert lance.dataset(**through, version=2).to_table()["id"].to_pylist() == [2, 3]
    found.checkout_version(1).restore()
    assert catalog._open_table((space, "t")).count_rows() == 3


def test_columns_and_indexes_are_made_and_used(through, fruit):
    lance.write_dataset(fruit, mode="create", **through)
    dataset = lance.dataset(**through)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.add_columns({"twice": "id * 2"})
    found = lance.dataset(**through)
    assert found.to_table(filter="id = 2")["twice"].to_pylist() == [4]
    assert found.to_table(full_text_query="pear")["id"].to_pylist() == [2]
    assert "ScalarIndexQuery" in found.scanner(filter="id = 2").explain_plan()


def test_tags_and_branches_are_kept(through, fruit):
    lance.write_dataset(fruit, mode="create", **through)
    dataset = lance.dataset(**through)
    dataset.tags.create("first", 1)
    dataset.delete("id = 1")
    assert lance.dataset(**through, version="first").count_rows() == 3
    assert list(lance.dataset(**through).tags.list()) == ["first"]


@pytest.mark.parametrize("server", ["managed"], indirect=True)
def test_concurrent_writers_all_commit_through_the_server(through, catalog, space, fruit):
    lance.write_dataset(fruit.slice(0, 0), mode="create", **through)
    writers, each = 4, 3

    def write(writer: int) -> None:
        for number in range(each):
            rows = fruit.slice(0, 1).set_column(0, "id", pa.array([writer * each + number]))
            lance.write_dataset(rows, mode="append", **through)

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    found = catalog._open_table((space, "t"))
    assert sorted(found.to_table()["id"].to_pylist()) == list(range(writers * each))
    assert found.version == 1 + writers * each
    assert describe_table(catalog, space, "t").managed_versioning


def test_a_table_of_the_catalog_is_opened(through, catalog, space, fruit):
    create_table(catalog, space, "t", data=ipc(fruit))
    assert lance.dataset(**through).to_table() == fruit
