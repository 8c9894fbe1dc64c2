"""LoadTable and the listings: what the specification of Lance says, what readers demand, pages, ETags."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from pennon import DirectoryNamespace
from tests.iceberg.irc_servers import facade
from tests.server.http_client import Client, namespace_path, table_path
from tests.support import create_namespace, create_table, declare_table, describe_table, ipc, rename_table


def loaded(client: Client, *names: str, query: str = "") -> dict:
    answer = client.get(table_path(*names) + query)
    assert answer.status == 200, answer.body
    return answer.body["metadata"]


def test_a_table_is_what_the_specification_says(client, server, catalog, space, events):
    answer = client.get(table_path(space, events))
    assert "metadata-location" not in answer.body
    metadata = answer.body["metadata"]
    assert metadata["location"] == f"file://{describe_table(catalog, space, events).location}"
    assert metadata["properties"]["table_type"] == "lance"
    assert metadata["properties"]["managed_by"] == ("impl" if "managed" in str(server.root) else "storage")
    assert metadata["current-snapshot-id"] == catalog._open_table((space, events)).version == 3
    assert [one["schema-id"] for one in metadata["schemas"]] == [metadata["current-schema-id"]] == [1]
    assert [one["snapshot-id"] for one in metadata["snapshots"]] == [1, 2, 3]
    assert [one["snapshot-id"] for one in metadata["snapshot-log"]] == [1, 2, 3]


def test_fields_that_readers_require_exist(client, space, events):
    metadata = loaded(client, space, events)
    assert metadata["format-version"] == 2
    uuid.UUID(metadata["table-uuid"])
    assert metadata["last-sequence-number"] == 3
    assert metadata["last-updated-ms"] == metadata["snapshots"][-1]["timestamp-ms"]
    assert metadata["last-column-id"] >= 3
    assert (metadata["default-spec-id"], metadata["partition-specs"]) == (0, [{"spec-id": 0, "fields": []}])
    assert metadata["last-partition-id"] == 999
    assert (metadata["default-sort-order-id"], metadata["sort-orders"]) == (0, [{"order-id": 0, "fields": []}])
    assert metadata["refs"] == {"main": {"snapshot-id": 3, "type": "branch"}}
    times = [one["timestamp-ms"] for one in metadata["snapshots"]]
    assert times == sorted(times)
    for number, snapshot in enumerate(metadata["snapshots"], 1):
        assert snapshot["sequence-number"] == number
        assert snapshot.get("parent-snapshot-id") == (number - 1 or None)
        assert snapshot["summary"]["operation"] in {"append", "replace", "overwrite", "delete"}
        assert lance.dataset(metadata["location"], version=number).version == number
        assert snapshot["manifest-list"].startswith(metadata["location"] + "/_versions/")


def test_times_are_those_of_the_versions_and_only_grow(client, catalog, space, events):
    folder = Path(describe_table(catalog, space, events).location, "_versions")
    # As after a copy: the newest manifest is the oldest file.
    newest = min(folder.glob("*.manifest"))
    os.utime(newest, (1_000_000, 1_000_000))
    times = [one["timestamp-ms"] for one in loaded(client, space, events)["snapshots"]]
    assert times == sorted(times)
    assert all(0 <= time.time() * 1000 - one < 600_000 for one in times)


def test_a_declared_table_has_no_snapshot(client, catalog, space):
    declare_table(catalog, space, "t")
    metadata = loaded(client, space, "t")
    assert "current-snapshot-id" not in metadata
    assert (metadata["snapshots"], metadata["snapshot-log"], metadata["refs"]) == ([], [], {})
    assert metadata["schemas"] == [{"type": "struct", "schema-id": 1, "fields": []}]


def test_ids_of_columns_stay(client, catalog, space, events):
    before = {one["name"]: one["id"] for one in loaded(client, space, events)["schemas"][0]["fields"]}
    dataset = catalog._open_table((space, events))
    dataset.drop_columns(["id"])
    dataset.alter_columns({"path": "name", "name": "title"})
    dataset.add_columns({"more": "1"})
    after = {one["name"]: one["id"] for one in loaded(client, space, events)["schemas"][0]["fields"]}
    assert (after["title"], after["double"]) == (before["name"], before["double"])
    assert after["more"] not in before.values()


def test_ids_of_parts_are_all_different(client, catalog, space):
    nested = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float32(), 2))])
    data = pa.table(
        {
            "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "list": pa.array([[{"a": 1, "b": [1.0, 2.0]}]], pa.list_(nested)),
            "large": pa.array([["x"]], pa.large_list(pa.string())),
            "struct": pa.array([{"a": 1, "b": [1.0, 2.0]}], nested),
        }
    )
    create_table(catalog, space, "t", data=ipc(data))
    metadata = loaded(client, space, "t")
    found: list[int] = []

    def walk(part: object) -> None:
        if isinstance(part, dict):
            found.extend(value for key, value in part.items() if key in {"id", "element-id", "key-id", "value-id"})
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(metadata["schemas"][0]["fields"])
    assert len(found) == len(set(found)) == 13
    assert max(found) == metadata["last-column-id"]


def test_only_the_current_snapshot_if_asked_so(client, space, events):
    metadata = loaded(client, space, events, query="?snapshots=refs")
    assert [one["snapshot-id"] for one in metadata["snapshots"]] == [3]
    assert [one["snapshot-id"] for one in metadata["snapshot-log"]] == [3]
    assert client.get(table_path(space, events) + "?snapshots=some").error[0] == 400


def test_etag_identifies_the_known_state(client, catalog, space, events):
    first = client.get(table_path(space, events))
    tag = first.headers["ETag"]
    again = client.get(table_path(space, events), **{"If-None-Match": tag})
    assert (again.status, again.body, again.headers["ETag"]) == (304, None, tag)
    assert client.get(table_path(space, events), **{"If-None-Match": f'W/{tag}, "x"'}).status == 304
    assert client.get(table_path(space, events) + "?snapshots=refs", **{"If-None-Match": tag}).status == 200
    catalog._open_table((space, events)).delete("id = 2")
    changed = client.get(table_path(space, events), **{"If-None-Match": tag})
    assert (changed.status, changed.body["metadata"]["current-snapshot-id"]) == (200, 4)
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    client.post(table_path(space, events), body)
    assert client.get(table_path(space, events), **{"If-None-Match": changed.headers["ETag"]}).status == 200


def test_a_uuid_stays_when_the_table_is_renamed_and_the_server_starts_again(tmp_path):
    with DirectoryNamespace(root=str(tmp_path / "root")) as catalog:
        create_namespace(catalog, "a")
        create_table(catalog, "a", "t")
        create_table(catalog, "a", "u")
        with facade(tmp_path, managed=False) as server:
            first = loaded(Client(server.uri), "a", "t")["table-uuid"]
            assert loaded(Client(server.uri), "a", "u")["table-uuid"] != first
        rename_table(catalog, "a", "t", to="w")
        with facade(tmp_path, managed=False) as server:
            assert loaded(Client(server.uri), "a", "w")["table-uuid"] == first


def test_tables_come_in_pages(client, catalog, space):
    names = [f"t{number}" for number in range(5)]
    for name in names:
        declare_table(catalog, space, name)
        create_namespace(catalog, space, f"n{name}")
    path = namespace_path(space) + "/tables"
    assert [one["name"] for one in client.get(path).body["identifiers"]] == names
    seen: list[str] = []
    token, pages = "", 0
    while token is not None:
        answer = client.get(f"{path}?pageSize=2&pageToken={token}").body
        assert len(answer["identifiers"]) <= 2
        seen += [one["name"] for one in answer["identifiers"]]
        token, pages = answer["next-page-token"], pages + 1
    assert (seen, pages) == (names, 3)
    children = client.get(f"/namespaces?parent={space}&pageSize=3").body
    assert [one[-1] for one in children["namespaces"]] == ["nt0", "nt1", "nt2"]
    rest = client.get(f"/namespaces?parent={space}&pageSize=3&pageToken={children['next-page-token']}").body
    assert [one[-1] for one in rest["namespaces"]] == ["nt3", "nt4"]
    assert rest["next-page-token"] is None
    for query in ("pageSize=0", "pageSize=-1", "pageSize=x", "pageToken=nonsense"):
        assert client.get(f"{path}?{query}").error == (400, "BadRequestException")


@pytest.mark.parametrize(
    "name", ["a b", "ä", "日本", "a.b", "100%", "%2F", "x?y#z", "it's", "a+b", "`q`", "%1F", "..."]
)
def test_odd_names_round_trip(client, catalog, space, name):
    assert client.post("/namespaces", {"namespace": [space, name]}).status == 200
    assert client.get(namespace_path(space, name)).body["namespace"] == [space, name]
    create_table(catalog, space, name, name)
    assert client.get(namespace_path(space, name) + "/tables").body["identifiers"] == [
        {"namespace": [space, name], "name": name}
    ]
    metadata = loaded(client, space, name, name)
    assert metadata["current-snapshot-id"] == 1
    assert client.call("HEAD", table_path(space, name, name)).status == 204
    assert client.call("DELETE", table_path(space, name, name)).status == 204
    assert client.call("DELETE", namespace_path(space, name)).status == 204
    assert client.call("HEAD", namespace_path(space, name)).status == 404


def test_missing_tables_and_namespaces_have_different_errors(client, catalog, space):
    assert client.get(table_path(space, "none")).error == (404, "NoSuchTableException")
    # Clients look for `a.b.files` as a table first, and want to hear that it is none.
    assert client.get(table_path("none", "none")).error == (404, "NoSuchTableException")
    assert client.get(table_path(space, "none", "files")).error == (404, "NoSuchTableException")
    assert client.get(table_path(space, "none")).body["error"]["message"] == f"Table does not exist: {space}.none"
    assert client.get(namespace_path("none") + "/tables").error == (404, "NoSuchNamespaceException")
    assert client.get("/namespaces?parent=none").error == (404, "NoSuchNamespaceException")
    assert client.call("HEAD", table_path(space, "none")).status == 404
    assert client.call("DELETE", namespace_path("none")).error == (404, "NoSuchNamespaceException")
    create_table(catalog, space, "t")
    assert client.call("DELETE", namespace_path(space)).error == (409, "NamespaceNotEmptyException")


def test_the_configuration_names_what_is_served(client):
    config = client.get("/config?warehouse=any").body
    assert config["overrides"] == {}
    assert "POST /v1/{prefix}/transactions/commit" in config["endpoints"]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in config["endpoints"]
    assert not any("views" in one or "register" in one for one in config["endpoints"])
