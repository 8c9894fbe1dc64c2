"""The operations beyond the specification, over HTTP, and the document that describes them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import pennon
from pennon import DirectoryNamespace
from pennon.server.lance.extensions import EXTENSIONS
from tests.server.http_client import LanceClient
from tests.server.served import served
from tests.support import create_table, ipc

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

import pennon_openapi


@pytest.fixture
def table(catalog, space) -> str:
    """Create a table, and return its path."""
    create_table(catalog, space, "t", data=ipc({"x": [1]}))
    return f"/pennon/table/{space}%24t"


def drop(client, table: str, **headers: str) -> None:
    assert client.call("POST", table.removeprefix("/pennon") + "/drop", **headers).status == 200


def test_the_document_is_that_of_the_routes():
    assert pennon_openapi.FILE.read_text() == pennon_openapi.text(), "run scripts/pennon_openapi.py"


@pytest.mark.parametrize("operation", EXTENSIONS, ids=lambda one: one.id)
def test_each_operation_answers_on_objects_that_do_not_exist(client, operation, space):
    path = operation.path.replace("{id}", f"{space}%24nothing")
    answer = client.call(operation.method, path, None if operation.method == "GET" else {})
    if operation.id in {"ManageVersions", "MigrateToManifest", "MigrateMarkers"} and answer.status == 200:
        return
    assert answer.status == operation.status or answer.status in operation.errors - {500, 503}


def test_the_server_says_what_it_is(client):
    first, second = client.get("/pennon").body, client.get("/pennon").body
    instance = first["instance"]
    assert first == second
    assert first == {
        "version": pennon.__version__,
        "idempotency_keys": True,
        "instance": instance,
        "creation_keys": True,
    }
    assert first["instance"]


def test_a_dropped_table_is_listed_and_restored(client, table, space):
    drop(client, table)
    (dropped,) = client.get(f"/pennon/namespace/{space}/dropped?detailed=true").body["tables"]
    assert (dropped["id"], dropped["rows"]) == ([space, "t"], 1)
    assert dropped["dropped_at"].endswith("Z")
    status = client.post(f"{table}/status", {}).body
    assert (status["status"], status["deletion_id"]) == ("SoftDeleted", dropped["deletion_id"])
    body = {"as_id": [space, "u"], "deletion_id": dropped["deletion_id"]}
    assert client.post(f"{table}/undrop", body).body == {"location": dropped["location"]}
    assert client.post(f"/pennon/table/{space}%24u/status", {}).body == {"status": "Exists"}
    assert client.post(f"{table}/undrop", {}).lance_error == (404, 4)


def test_dropped_tables_are_listed_in_pages(client, catalog, space):
    for name in "abc":
        create_table(catalog, space, name)
        drop(client, f"/pennon/table/{space}%24{name}")
    first = client.get(f"/pennon/namespace/{space}/dropped?limit=2").body
    second = client.get(f"/pennon/namespace/{space}/dropped?limit=2&page_token={first['page_token']}").body
    assert [one["id"][1] for one in first["tables"] + second["tables"]] == ["a", "b", "c"]
    assert "page_token" not in second


def test_the_retention_is_kept_unless_a_purge_is_forced(client, table):
    drop(client, table, **{"x-pennon-context-ttl": "1h"})
    assert client.post(f"{table}/purge", {}).lance_error == (409, 19)
    assert client.post(f"{table}/purge", {"force": True}).body["tables"][0]["files"] > 0
    assert client.post(f"{table}/status", {}).body == {"status": "NotFound"}


def test_tables_that_are_due_are_listed_and_purged(client, table, space):
    drop(client, table, **{"x-pennon-context-ttl": "0s"})
    due = [one["id"] for one in client.get("/pennon/table/purgeable").body["tables"]]
    assert [space, "t"] in due
    planned = client.post("/pennon/table/purge", {"ids": [[space, "t"]], "dry_run": True}).body
    assert planned["dry_run"]
    assert client.post("/pennon/table/purge", {"ids": [[space, "t"]]}).body["tables"][0]["id"] == [space, "t"]
    assert client.post(f"{table}/status", {}).body == {"status": "NotFound"}


def test_a_protected_table_is_dropped_only_by_force(client, table):
    assert client.post(f"{table}/protection", {"protected": True}).body == {}
    assert client.call("POST", table.removeprefix("/pennon") + "/drop").lance_error[1] == 19
    drop(client, table, **{"x-pennon-context-force": "true"})


def test_a_dropped_namespace_is_restored_with_its_tables(client, table, space):
    client.post(f"/pennon/namespace/{space}/properties", {"changes": {"a": "b", "c": None}})
    assert client.post(f"/namespace/{space}/describe", {}).body["properties"]["a"] == "b"
    assert client.post(f"/namespace/{space}/drop", {"behavior": "cascade"}).status == 200
    assert client.post(f"/pennon/namespace/{space}/undrop", {}).body == {"tables": [[space, "t"]]}


def test_unknown_fields_are_refused(client, table):
    assert client.post(f"{table}/purge", {"force": True, "everything": True}).lance_error == (400, 13)
    assert client.post(f"{table}/purge", {"id": ["another"]}).lance_error == (400, 13)


def test_care_of_the_catalog(tmp_path):
    with DirectoryNamespace(root=str(tmp_path), manifest_enabled="false") as old:
        create_table(old, "t")
    with DirectoryNamespace(root=str(tmp_path)) as catalog, served(catalog) as url:
        client = LanceClient(url)
        assert client.get("/pennon/problems").body == {"problems": []}
        assert [one["name"] for one in client.post("/pennon/migrate", {}).body["migrated"]] == ["t"]
        assert client.post("/pennon/migrate-markers", {"dry_run": True}).body["dry_run"]
        assert client.post("/pennon/version-management", {"enabled": True}).body["tables"] == 1
        assert client.post("/table/t/describe", {}).body["managed_versioning"]
        assert client.post("/pennon/table/latest-versions", {"ids": [["t"]]}).body == {"versions": [1]}
        assert client.post("/pennon/version-management", {"enabled": False}).body["tables"] == 1
