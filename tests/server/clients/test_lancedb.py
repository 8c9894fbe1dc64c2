"""LanceDB as a client: it declares tables through the server, and writes and reads them itself or by queries."""

from __future__ import annotations

import lancedb
import pyarrow as pa
import pytest
from lance_namespace.errors import TableNotFoundError
from lancedb.index import FTS, BTree

from tests.support import create_namespace, list_tables

pytestmark = pytest.mark.interop


@pytest.fixture(params=[[], ["QueryTable", "CreateTable"]], ids=["local", "pushdown"])
def database(request, server):
    return lancedb.connect_namespace("rest", {"uri": server.lance}, namespace_client_pushdown_operations=request.param)


@pytest.fixture
def table(database, space, fruit):
    return database.create_table("fruit", fruit, namespace_path=[space])


def ids(found: pa.Table) -> list[int]:
    return found["id"].to_pylist()


def test_nested_namespaces_come_and_go(database, space):
    database.create_namespace([space, "inner"], properties={"owner": "tests"})
    database.create_namespace([space, "inner", "deep"])
    assert database.list_namespaces([space]).namespaces == ["inner"]
    assert database.list_namespaces([space, "inner"]).namespaces == ["deep"]
    assert database.describe_namespace([space, "inner"]).properties == {"owner": "tests"}
    with pytest.raises(Exception, match="not empty"):
        database.drop_namespace([space, "inner"])
    database.drop_namespace([space, "inner", "deep"])
    database.drop_namespace([space, "inner"])
    assert database.list_namespaces([space]).namespaces == []


def test_a_table_is_created_opened_listed_and_dropped(database, catalog, space, fruit):
    create_namespace(catalog, space, "inner")
    database.create_table("fruit", fruit, namespace_path=[space, "inner"])
    assert database.list_tables([space, "inner"]).tables == ["fruit"] == list_tables(catalog, space, "inner")
    assert database.open_table("fruit", namespace_path=[space, "inner"]).to_arrow() == fruit
    with pytest.raises(ValueError, match="already exists"):
        database.create_table("fruit", fruit, namespace_path=[space, "inner"])
    database.drop_table("fruit", namespace_path=[space, "inner"])
    assert database.list_tables([space, "inner"]).tables == []
    with pytest.raises(TableNotFoundError, match="fruit"):
        database.open_table("fruit", namespace_path=[space, "inner"])


def test_a_table_is_replaced_and_renamed(database, space, fruit):
    database.create_table("fruit", fruit, namespace_path=[space])
    database.create_table("fruit", fruit.slice(0, 1), namespace_path=[space], mode="overwrite")
    assert database.open_table("fruit", namespace_path=[space]).count_rows() == 1
    database.rename_table("fruit", "food", cur_namespace_path=[space], new_namespace_path=[space])
    assert database.list_tables([space]).tables == ["food"]
    assert database.open_table("food", namespace_path=[space]).count_rows() == 1


def test_rows_are_added_updated_merged_and_deleted(database, table, space, fruit):
    table.add(fruit.set_column(0, "id", pa.array([4, 5, 6])))
    table.update(where="id = 1", values={"text": "pink apple"})
    table.delete("id = 2")
    more = fruit.slice(2, 1).set_column(1, "text", pa.array(["dark plum"]))
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(more)
    found = database.open_table("fruit", namespace_path=[space]).to_arrow().select(["id", "text"]).sort_by("id")
    assert found.to_pydict() == {
        "id": [1, 3, 4, 5, 6],
        "text": ["pink apple", "dark plum", "red apple", "green pear", "blue plum"],
    }


def test_rows_that_pennon_writes_are_seen(database, catalog, table, space, fruit):
    catalog._open_table((space, "fruit")).delete("id = 1")
    assert sorted(ids(database.open_table("fruit", namespace_path=[space]).to_arrow())) == [2, 3]


def test_rows_that_lancedb_writes_are_seen(catalog, table, space):
    table.delete("id = 1")
    assert catalog._open_table((space, "fruit")).count_rows() == 2


def test_filters_select_rows(table):
    found = table.search().where("id > 1 AND text LIKE 'blue%'").select(["id"]).to_arrow()
    assert found.to_pydict() == {"id": [3]}


def test_a_vector_search_returns_the_nearest_rows(table):
    found = table.search([1.0, 0.1]).limit(2).to_arrow()
    assert ids(found) == [1, 3]
    assert "_distance" in found.column_names


def test_full_text_and_hybrid_search_find_words(table):
    table.create_index("text", config=FTS())
    assert ids(table.search("pear", query_type="fts").limit(3).to_arrow()) == [2]
    found = table.search(query_type="hybrid").vector([0.0, 1.0]).text("pear").limit(2).to_arrow()
    assert ids(found)[0] == 2


def test_columns_indexes_and_versions_are_kept(database, table, space):
    table.create_index("id", config=BTree())
    table.add_columns({"twice": "id * 2"})
    again = database.open_table("fruit", namespace_path=[space])
    assert again.to_arrow()["twice"].to_pylist() == [2, 4, 6]
    assert [index.columns for index in again.list_indices()] == [["id"]]
    assert [version["version"] for version in again.list_versions()] == [1, 2, 3]
    again.checkout(1)
    again.restore()
    assert "twice" not in database.open_table("fruit", namespace_path=[space]).schema.names
