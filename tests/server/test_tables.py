"""Creating, renaming and dropping tables through the protocol."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tests.server.http_client import namespace_path, table_path
from tests.support import create_namespace, create_table, describe_table, list_tables

X = {"id": 1, "name": "x", "required": True, "type": "long", "doc": "a 😀"}
COLUMNS = {"type": "struct", "schema-id": 0, "fields": [X]}
NONE = {"type": "struct", "fields": []}


def test_a_schema_makes_an_empty_table(client, server, catalog, space):
    body = {"name": "t", "schema": COLUMNS, "properties": {"a": "b", "table_type": "LANCE", "format-version": "2"}}
    answer = client.post(namespace_path(space) + "/tables", body)
    assert answer.status == 200
    assert "metadata-location" not in answer.body
    assert answer.body["metadata"]["current-snapshot-id"] == 1
    assert answer.headers["ETag"]
    dataset = catalog._open_table((space, "t"))
    assert client.get(table_path(space, "t")).body["metadata"]["schemas"][0]["fields"][0]["doc"] == "a 😀"
    assert dataset.schema == pa.schema([pa.field("x", pa.int64(), nullable=False)])
    assert describe_table(catalog, space, "t").properties == {"a": "b"}
    assert Path(describe_table(catalog, space, "t").location).is_relative_to(server.root)
    assert client.post(namespace_path(space) + "/tables", body).error == (409, "AlreadyExistsException")


def test_no_columns_reserve_a_name(client, catalog, space):
    assert client.post(namespace_path(space) + "/tables", {"name": "t", "schema": NONE}).status == 200
    assert describe_table(catalog, space, "t", check_declared=True).is_only_declared


def test_data_in_the_root_gets_a_name(client, server, catalog, space):
    place = server.root / f"{space}_data"
    lance.write_dataset(pa.table({"x": [1, 2]}), str(place))
    lance.write_dataset(pa.table({"x": [3]}), str(place), mode="append")
    body = {"name": "t", "schema": COLUMNS, "location": place.as_uri()}
    answer = client.post(namespace_path(space) + "/tables", body)
    assert (answer.status, answer.body["metadata"]["current-snapshot-id"]) == (200, 2)
    assert catalog._open_table((space, "t")).count_rows() == 3
    assert client.post(namespace_path(space) + "/tables", {**body, "name": "twice"}).error[0] == 400
    assert list_tables(catalog, space) == ["t"]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"name": None}, 400),
        ({"name": ""}, 400),
        ({"name": "a/b"}, 400),
        ({"name": "x" * 300}, 400),
        ({"schema": None}, 400),
        ({"schema": []}, 400),
        ({"schema": {"type": "struct"}}, 400),
        ({"schema": {"fields": [{"name": "x", "type": "nonsense"}]}}, 400),
        ({"schema": {"fields": [{"name": "x", "type": "decimal(99, 1)"}]}}, 400),
        ({"schema": {"fields": [{"name": "x", "type": {"type": "list"}}]}}, 400),
        ({"schema": {"fields": [{"name": "x", "type": "int"}, {"name": "x", "type": "int"}]}}, 400),
        ({"schema": {"fields": [{"name": "x", "type": "int", "required": "yes"}]}}, 400),
        ({"schema": {"fields": [{"name": "x", "type": "int", "write-default": 1}]}}, 406),
        ({"schema": {**COLUMNS, "identifier-field-ids": [1]}}, 406),
        ({"partition-spec": {"fields": [{"source-id": 1, "transform": "identity", "name": "x"}]}}, 406),
        ({"write-order": {"order-id": 1, "fields": [{"source-id": 1}]}}, 406),
        ({"stage-create": True}, 406),
        ({"location": "file:///somewhere/else"}, 400),
        ({"location": "s3://bucket/else"}, 400),
        ({"location": 7}, 400),
        ({"properties": {"a": 1}}, 400),
        ({"properties": ["a"]}, 400),
        ({"properties": {"table_type": "iceberg"}}, 406),
        ({"properties": {"managed_by": "nobody"}}, 400),
        ({"properties": {"gc.enabled": "true"}}, 406),
        ({"properties": {"format-version": "3"}}, 406),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(client, catalog, space, change, status):
    root = Path(catalog._store.identity())
    before = sorted(root.iterdir())
    body = {"name": "t", "schema": COLUMNS, **change}
    assert client.post(namespace_path(space) + "/tables", body).error[0] == status
    assert list_tables(catalog, space) == []
    assert sorted(root.iterdir()) == before


@pytest.mark.parametrize("inside", ["", "__manifest", "__manifest/x", "../outside", "."])
def test_locations_that_are_no_tables_own_are_refused(client, server, catalog, space, inside):
    body = {"name": "t", "schema": NONE, "location": f"file://{server.root}/{inside}"}
    assert client.post(namespace_path(space) + "/tables", body).error[0] == 400
    assert list_tables(catalog, space) == []


def test_deep_schemas_are_refused(client, space):
    kind: object = "int"
    for _ in range(200):
        kind = {"type": "list", "element-id": 1, "element-required": False, "element": kind}
    body = {"name": "t", "schema": {"fields": [{"id": 1, "name": "x", "required": False, "type": kind}]}}
    assert client.post(namespace_path(space) + "/tables", body).error == (400, "BadRequestException")


def test_a_metadata_file_is_not_registered(client, space):
    body = {"name": "t", "metadata-location": "file:///x/metadata.json"}
    assert client.post(namespace_path(space) + "/register", body).error == (406, "UnsupportedOperationException")


def renaming(source: list[str], target: list[str]) -> dict:
    return {
        "source": {"namespace": source[:-1], "name": source[-1]},
        "destination": {"namespace": target[:-1], "name": target[-1]},
    }


def test_a_table_is_renamed(client, catalog, space):
    create_namespace(catalog, space, "inner")
    create_table(catalog, space, "t")
    create_table(catalog, space, "taken")
    moved = client.post("/tables/rename", renaming([space, "t"], [space, "inner", "u"]))
    assert (moved.status, moved.body) == (204, None)
    assert list_tables(catalog, space, "inner") == ["u"]
    again = client.post("/tables/rename", renaming([space, "t"], [space, "w"]))
    assert again.error == (404, "NoSuchTableException")
    taken = client.post("/tables/rename", renaming([space, "inner", "u"], [space, "taken"]))
    assert taken.error == (409, "AlreadyExistsException")
    lost = client.post("/tables/rename", renaming([space, "inner", "u"], ["none", "u"]))
    assert lost.error == (404, "NoSuchNamespaceException")
    assert client.post("/tables/rename", renaming([space, "inner", "u"], ["u"])).error[0] == 400
    assert client.post("/tables/rename", {"source": 1}).error[0] == 400


def test_without_purge_the_data_stays_for_good(client, catalog, space):
    location = create_table(catalog, space, "t").location
    assert client.call("DELETE", table_path(space, "t") + "?purgeRequested=false").status == 204
    assert client.call("DELETE", table_path(space, "t")).error == (404, "NoSuchTableException")
    assert lance.dataset(location).count_rows() == 3
    assert catalog.list_dropped_tables([space])[0] == []


def test_with_purge_the_table_is_dropped_and_can_be_brought_back(client, catalog, space):
    location = create_table(catalog, space, "t").location
    assert client.call("DELETE", table_path(space, "t") + "?purgeRequested=true").status == 204
    assert client.get(table_path(space, "t")).error[0] == 404
    assert catalog.undrop_table([space, "t"]) == location
    assert client.get(table_path(space, "t")).status == 200


def test_a_protected_table_is_not_dropped(client, catalog, space):
    create_table(catalog, space, "t")
    catalog.set_table_protection([space, "t"], protected=True)
    answer = client.call("DELETE", table_path(space, "t") + "?purgeRequested=true")
    assert answer.error == (409, "InvalidTableStateException")
    assert list_tables(catalog, space) == ["t"]


def test_our_namespace_drops_for_a_while_or_for_good(lance_client, catalog, space):
    from tests.support import drop_table, fails

    location = create_table(lance_client, space, "t").location
    drop_table(lance_client, space, "t", ttl="1h")
    dropped = catalog.list_dropped_tables([space])[0][0]
    assert dropped.id[-1] == "t"
    assert catalog.undrop_table([space, "t"]) == location
    drop_table(lance_client, space, "t", purge="true")
    assert not Path(location).exists()
    assert catalog.list_dropped_tables([space])[0] == []
    with fails(0, "keeps dropped tables"):
        lance_client.undrop_table([space, "t"])
