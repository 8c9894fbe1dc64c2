"""Operations inside tables, through an Iceberg REST catalog: each commit goes where it belongs."""

from __future__ import annotations

import pyarrow as pa
import urllib3
from lance_namespace import CountTableRowsRequest

from tests.support import create_table, declare_table, describe_table, fails, ipc


def content(catalog, space: str) -> dict[str, list]:
    data = catalog.query_table({"id": [space, "t"], "k": 100, "vector": {}}).data
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    return table.sort_by("x").to_pydict()


def commits(catalog, irc, space: str, managed_by: str) -> int:
    """Return the latest version, and make sure that the server knows it if it decides."""
    latest = describe_table(catalog, space, "t", load_detailed_metadata=True).version
    if managed_by == "impl":
        answer = urllib3.request("GET", f"{irc.uri}/v1/namespaces/{space}/tables/t", timeout=60.0).json()
        assert answer["metadata"]["current-snapshot-id"] == latest
    return latest


def test_rows_are_inserted_changed_and_deleted(catalog, space, irc, managed_by):
    create_table(catalog, space, "t", data=ipc({"x": [1, 2], "y": ["a", "b"]}))
    name = [space, "t"]
    catalog.insert_into_table({"id": name}, ipc({"x": [3], "y": ["c"]}))
    catalog.update_table({"id": name, "predicate": "x = 1", "updates": [["y", "'changed'"]]})
    catalog.delete_from_table({"id": name, "predicate": "x = 2"})
    catalog.merge_insert_into_table(
        {"id": name, "on": ["x"], "when_matched_update_all": True, "when_not_matched_insert_all": True},
        ipc({"x": [3, 4], "y": ["merged", "new"]}),
    )
    assert content(catalog, space) == {"x": [1, 3, 4], "y": ["changed", "merged", "new"]}
    assert commits(catalog, irc, space, managed_by) == 5
    with fails(13):
        catalog.delete_from_table({"id": name, "predicate": "nonsense ="})
    assert commits(catalog, irc, space, managed_by) == 5


def test_columns_come_and_go(catalog, space, irc, managed_by):
    create_table(catalog, space, "t")
    name = [space, "t"]
    catalog.alter_table_add_columns({"id": name, "new_columns": [{"name": "y", "expression": "x * 2"}]})
    assert content(catalog, space) == {"x": [1, 2, 3], "y": [2, 4, 6]}
    catalog.alter_table_drop_columns({"id": name, "columns": ["y"]})
    assert content(catalog, space) == {"x": [1, 2, 3]}
    commits(catalog, irc, space, managed_by)


def test_tags_and_restore(catalog, space, irc, managed_by):
    create_table(catalog, space, "t")
    name = [space, "t"]
    catalog.create_table_tag({"id": name, "tag": "first", "version": 1})
    catalog.insert_into_table({"id": name}, ipc({"x": [4]}))
    assert catalog.list_table_tags({"id": name}).tags["first"].version == 1
    catalog.restore_table({"id": name, "version": 1})
    assert content(catalog, space) == {"x": [1, 2, 3]}
    assert commits(catalog, irc, space, managed_by) == 3


def test_an_index_is_made(catalog, space, irc, managed_by):
    create_table(catalog, space, "t")
    name = [space, "t"]
    catalog.create_table_scalar_index({"id": name, "column": "x", "index_type": "BTREE"})
    assert [one.columns for one in catalog.list_table_indices({"id": name}).indexes] == [["x"]]
    assert commits(catalog, irc, space, managed_by) == 2


def test_an_insert_fills_a_declared_table(catalog, space, irc, managed_by):
    declare_table(catalog, space, "t")
    catalog.insert_into_table({"id": [space, "t"]}, ipc({"x": [1]}))
    assert catalog.count_table_rows(CountTableRowsRequest(id=[space, "t"])).count == 1
    assert commits(catalog, irc, space, managed_by) == 1


def test_a_branch_has_its_own_rows(catalog, space):
    create_table(catalog, space, "t")
    name = [space, "t"]
    catalog.create_table_branch({"id": name, "name": "side"})
    catalog.insert_into_table({"id": name, "branch": "side"}, ipc({"x": [4]}))
    assert catalog.count_table_rows(CountTableRowsRequest(id=name)).count == 3
    assert catalog.count_table_rows(CountTableRowsRequest(id=name, branch="side")).count == 4
