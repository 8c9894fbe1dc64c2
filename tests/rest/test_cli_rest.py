"""Commands on a catalog behind a server."""

from __future__ import annotations

import pytest

from tests.cli.conftest import _nobodys_settings, pennon
from tests.support import create_namespace, create_table, declare_table, ipc

assert _nobodys_settings
assert pennon

ROWS = {"id": [1, 2, 3], "name": ["a", "b", "c"]}


@pytest.fixture
def served(root, open_namespace):
    """Serve a catalog with a namespace and tables, and return its client."""
    client = open_namespace(root)
    create_namespace(client, "prod", properties={"owner": "shop", "api_key": "hunter2hunter2"})
    create_namespace(client, "prod", "raw")
    create_table(client, "prod", "events", data=ipc(ROWS))
    create_table(client, "prod", "raw", "clicks", data=ipc(ROWS))
    declare_table(client, "prod", "promised")
    return client


@pytest.fixture
def remote(served, pennon):
    """Run a command on the server."""

    def call(*arguments: str):
        return pennon("--impl", "rest", "--uri", served._settings.uri, "--json", *arguments)

    return call


def names(result) -> list[str]:
    assert result.code == 0, result.err
    return [one["address"] for one in result.json["entries"]]


def test_ls_lists_children_and_all_tables(remote):
    assert names(remote("ls")) == ["prod"]
    assert names(remote("ls", "prod")) == ["prod.raw", "prod.events", "prod.promised"]
    assert names(remote("ls", "-r")) == ["prod.events", "prod.promised", "prod.raw.clicks"]
    assert names(remote("ls", "prod.events")) == ["prod.events"]
    long = {one["name"]: one for one in remote("ls", "-l", "prod").json["entries"]}
    assert (long["events"]["rows"], long["events"]["columns"], long["promised"]["rows"]) == (3, 2, None)


@pytest.mark.parametrize("limit", ["1", "2", "3"])
def test_pages_of_ls_hold_everything_once(remote, limit):
    found: list[str] = []
    page: list[str] = []
    while True:
        result = remote("ls", "prod", "--limit", limit, *page)
        found += names(result)
        assert len(names(result)) <= int(limit)
        token = result.json["next_page"]
        if token is None:
            break
        page = ["--page", token]
    assert found == ["prod.raw", "prod.events", "prod.promised"]


def test_info_describes_tables_namespaces_and_the_server(remote, served):
    table = remote("info", "prod.events").json
    assert (table["rows"], table["version"], table["columns"]) == (3, 1, 2)
    assert remote("info", "prod.promised").json["declared_only"]
    namespace = remote("info", "prod").json
    assert (namespace["tables"], namespace["namespaces"]) == (2, 1)
    assert namespace["properties"] == {"owner": "shop", "api_key": "***"}
    assert served._settings.uri in remote("info").json["server"]
    missing = remote("info", "prod.none")
    assert missing.code == 3
    assert "prod.none" in missing.err


def test_head_and_count_read_rows_and_versions(remote, served):
    served.insert_into_table({"id": ["prod", "events"]}, ipc({"id": [4], "name": ["d"]}))
    head = remote("head", "prod.events", "-c", "id", "--where", "id > 2").json
    assert (head["rows"], head["version"]) == ([{"id": 3}, {"id": 4}], 2)
    assert remote("head", "prod.events", "-n", "0").json["rows"] == []
    assert remote("count", "prod.events").json["rows"] == 4
    old = remote("count", "prod.events", "--version", "1").json
    assert (old["rows"], old["version"]) == (3, 1)
    served.create_table_tag({"id": ["prod", "events"], "tag": "first", "version": 1})
    assert len(remote("head", "prod.events", "--tag", "first").json["rows"]) == 3
    assert remote("head", "prod.events", "-c", "nothing").code == 3
    assert remote("count", "prod.events", "--where", "nonsense >").code == 2


def test_a_dropped_table_is_in_the_trash_and_can_be_restored(remote):
    assert remote("drop", "prod.events", "prod.none", "--yes").code == 3
    assert remote("drop", "prod.events", "--dry-run").json["tables"] == [{"id": ["prod", "events"]}]
    dropped = remote("drop", "prod.events", "--yes", "--ttl", "0").json["tables"][0]
    (listed,) = remote("trash").json["dropped"]
    assert (listed["id"], listed["drop_id"]) == (["prod", "events"], dropped["drop_id"])
    assert [one["id"] for one in remote("trash", "--due").json["dropped"]] == [["prod", "events"]]
    assert remote("undrop", "prod.events", "--dry-run").code == 0
    assert remote("undrop", "prod.events", "--as", "prod.again").json["id"] == ["prod", "again"]
    assert remote("count", "prod.again").json["rows"] == 3
    assert remote("undrop", "prod.events").code == 3


def test_purge_deletes_what_was_dropped(remote):
    remote("drop", "prod.events", "--yes", "--ttl", "0")
    remote("drop", "prod.raw.clicks", "--yes")
    assert remote("purge", "--dry-run").json["tables"][0]["id"] == ["prod", "events"]
    assert len(remote("trash").json["dropped"]) == 2
    assert len(remote("purge", "--yes").json["tables"]) == 1
    (left,) = remote("trash").json["dropped"]
    chosen = ("purge", "prod.raw.clicks", "--id", left["drop_id"], "--force")
    assert remote(*chosen, "--dry-run").json["tables"][0]["drop_id"] == left["drop_id"]
    assert remote(*chosen, "--yes").code == 0
    assert remote("trash").json["dropped"] == []


def test_a_namespace_is_dropped_and_restored_with_its_contents(remote):
    assert remote("drop", "prod", "--namespace", "--yes").code != 0
    assert remote("drop", "prod", "--namespace", "--cascade", "--yes").code == 0
    assert names(remote("ls")) == []
    assert len(remote("undrop", "prod", "--namespace").json["tables"]) == 3
    assert names(remote("ls", "-r")) == ["prod.events", "prod.promised", "prod.raw.clicks"]


def test_a_catalog_behind_a_server_cannot_be_served_again(remote):
    result = remote("serve", "--port", "0")
    assert result.code == 5
    assert "is served already" in result.err


def test_secrets_are_masked_and_a_server_that_is_away_is_named(pennon):
    away = ("--impl", "rest", "--uri", "http://127.0.0.1:1", "-p", "retry_timeout=0", "-p", "token=hidden-token-7")
    result = pennon(*away, "ls")
    assert (result.code, result.out) == (7, "")
    assert "127.0.0.1:1" in result.err
    assert "hidden-token-7" not in result.err
