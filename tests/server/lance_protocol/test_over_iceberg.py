"""The Lance protocol over a catalog on an Iceberg REST server."""

from __future__ import annotations

import lance
import lance_namespace
import pyarrow as pa
import pytest

from tests.server.http_client import LanceClient
from tests.server.served import served
from tests.server.test_serving import started
from tests.support import ipc


@pytest.fixture
def url(lance_client):
    """Serve a namespace over the Iceberg server."""
    with served(lance_client) as served_at:
        yield served_at


def test_the_life_of_a_table(url, space):
    client = LanceClient(url)
    table = f"/table/{space}%24t"
    assert client.post(f"{table}/create", ipc({"x": [1, 2]})).body["version"] == 1
    assert client.post(f"{table}/insert", ipc({"x": [3]})).body["num_inserted_rows"] == 1
    answer = client.post(f"{table}/query", {"k": 10, "vector": {}, "filter": "x > 1"})
    assert sorted(pa.ipc.open_file(answer.body).read_all()["x"].to_pylist()) == [2, 3]
    assert client.get(f"/namespace/{space}/table/list").body["tables"] == ["t"]
    assert client.post(f"{table}/drop", None).status == 200
    # The Iceberg server itself keeps what is dropped.
    assert client.post(f"/pennon{table}/undrop", {}).lance_error == (406, 0)
    assert client.post(f"{table}/exists", {}).lance_error == (404, 4)


def test_lance_commits_through_both_servers(url, space, server):
    client = lance_namespace.connect("rest", {"uri": url})
    for mode in ("create", "append"):
        lance.write_dataset(pa.table({"x": [1]}), namespace_client=client, table_id=[space, "t"], mode=mode)
    assert lance.dataset(namespace_client=client, table_id=[space, "t"]).count_rows() == 2


def test_what_only_directories_have_is_refused(url, space):
    client = LanceClient(url)
    assert client.get("/pennon/problems").lance_error == (406, 0)
    assert client.post(f"/pennon/namespace/{space}/protection", {"protected": True}).lance_error == (406, 0)
    assert client.call("GET", "/../iceberg/v1/config").status == 404


def test_the_command_serves_it(server, space, tmp_path):
    options = ("--impl", "iceberg", "--property", f"uri={server.uri}", "--port", "0")
    with started(*options, cwd=tmp_path) as (_, said):
        assert said["iceberg"] is None
        assert said["hidden"] == 0
        assert LanceClient(said["lance"]).post(f"/namespace/{space}/exists", {}).status == 200
