"""Servers that answer nonsense, too much, too slowly, or elsewhere: a clear error each time, and no hang."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_namespace import CountTableRowsRequest

from tests.iceberg.hostile import Asked, HostileServer, Reply, within
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    drop_table,
    fails,
    list_namespaces,
    list_tables,
    register_table,
)

TABLE = {"location": "file:///tmp/none", "table-uuid": "u", "properties": {"table_type": "lance"}}


@pytest.fixture
def server():
    with HostileServer() as hostile:
        yield hostile


@pytest.fixture
def client(server, connect):
    return connect(server.uri, retry_timeout="1s", read_timeout="1s", connect_timeout="1s", max_answer_bytes="100000")


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"[]", b"null", b'"text"', b"\xff\xfe", b"[" * 90000, b"{}x"])
def test_broken_json(server, client, body):
    server.answer("GET /v1/namespaces", Reply(body=body))
    with fails(18), within(5):
        list_namespaces(client)
    server.answer("GET /v1/namespaces/a/tables/t", Reply(body=body))
    with fails(18), within(5):
        describe_table(client, "a", "t")


@pytest.mark.parametrize("config", [b"{", [], {"defaults": []}, {"overrides": {"a": 1}}, {"endpoints": "all"}])
def test_a_broken_configuration(server, client, config):
    server.answer("GET /v1/config", Reply(body=config))
    with fails(18), within(5):
        list_namespaces(client)


@pytest.mark.parametrize(
    "namespaces", [None, {}, "a", [1], ["a"], [[]], [[1]], [None], {"namespaces": [["a"]]}, [[["a"]]]]
)
def test_wrong_types_of_namespaces(server, client, namespaces):
    server.answer("GET /v1/namespaces", Reply(body={"namespaces": namespaces}))
    with fails(18):
        list_namespaces(client)


@pytest.mark.parametrize(
    "change",
    [
        {"location": None},
        {"location": 5},
        {"properties": []},
        {"properties": {"table_type": 1}},
        {"table-uuid": 7},
        {"current-snapshot-id": "1"},
        {"refs": {"main": 1}},
        {"refs": {"main": {"snapshot-id": "1"}}},
        {"location": "file:///../.."},
        {"location": "nowhere"},
    ],
)
def test_wrong_types_of_tables(server, client, change):
    server.answer("GET /v1/namespaces/a/tables/t", Reply(body={"metadata": {**TABLE, **change}}))
    with pytest.raises(Exception) as caught:
        describe_table(client, "a", "t")
    assert int(caught.value.code) in {13, 18}
    for answer in ({"metadata": []}, {}, {"metadata": TABLE, "config": []}):
        server.answer("GET /v1/namespaces/a/tables/t", Reply(body=answer))
        with fails(18):
            describe_table(client, "a", "t")


@pytest.mark.parametrize("snapshots", [{}, [1], [{}], [{"snapshot-id": "1"}]])
def test_wrong_types_of_snapshots(server, client, snapshots):
    metadata = {**TABLE, "properties": {"table_type": "LANCE", "managed_by": "IMPL"}, "current-snapshot-id": 1}
    server.answer("GET /v1/namespaces/a/tables/t", Reply(body={"metadata": {**metadata, "snapshots": snapshots}}))
    server.answer("GET /v1/namespaces/a", Reply(body={}))
    with pytest.raises(Exception) as caught:
        client.list_table_versions({"id": ["a", "t"]})
    assert int(caught.value.code) == 18
    with pytest.raises(Exception) as caught:
        client.count_table_rows(CountTableRowsRequest(id=["a", "t"]))
    assert int(caught.value.code) in {18, 19}


def test_an_answer_that_is_too_large(server, client):
    server.answer("GET /v1/namespaces", Reply(body=b'{"namespaces": [' + b" " * 200_000))
    with fails(18, "max_answer_bytes"), within(5):
        list_namespaces(client)


def test_pages_that_never_end(server, client):
    server.answer("GET /v1/namespaces", Reply(body={"namespaces": [["a"]], "next-page-token": "again"}))
    with fails(18, "do not end"), within(5):
        list_namespaces(client)


def test_unrequested_compression_raises(server, client):
    server.answer("GET /v1/namespaces", Reply(body=b"x", headers={"Content-Encoding": "gzip"}))
    with fails(18, "compressed"):
        list_namespaces(client)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(server, client, status):
    with HostileServer() as other:
        server.answer("GET /v1/namespaces", Reply(status, headers={"Location": f"{other.uri}/v1/namespaces"}))
        with fails(18, "redirects"):
            list_namespaces(client)
        server.answer("POST /v1/namespaces", Reply(status, headers={"Location": f"{other.uri}/v1/namespaces"}))
        server.answer("GET /v1/namespaces/a", Reply(404))
        with fails(18, "redirects"):
            create_namespace(client, "a")
        assert other.asked == []


def test_an_answer_that_never_comes(server, client):
    server.answer("GET /v1/namespaces", Reply(pause=30))
    with fails(17), within(8):
        list_namespaces(client)


def test_a_body_that_trickles(server, client):
    server.answer("GET /v1/namespaces", Reply(body={"namespaces": [["a" * 500]]}, drip=0.2))
    with fails(17), within(8):
        list_namespaces(client)


def test_headers_that_trickle(server, client):
    server.answer("GET /v1/namespaces", Reply(raw=b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 500, drip=0.2))
    with fails(17), within(8):
        list_namespaces(client)


def test_an_answer_that_breaks_off(server, client):
    server.answer("GET /v1/namespaces", Reply(body={"namespaces": [["a"]]}, cut=5), Reply(body={"namespaces": [["a"]]}))
    assert list_namespaces(client) == ["a"]


def test_garbage_instead_of_http(server, client):
    server.answer("GET /v1/namespaces", Reply(raw=b"SSH-2.0-OpenSSH\r\n"))
    with fails(17), within(8):
        list_namespaces(client)


def test_no_server_raises_service_unavailable(connect):
    with HostileServer() as gone:
        uri = gone.uri
    with fails(17), within(8):
        list_namespaces(connect(uri, retry_timeout="1s"))


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 13), (401, 16), (403, 15), (405, 0), (419, 16), (422, 13), (429, 21), (500, 18), (501, 0), (502, 17)],
)
def test_statuses_become_codes(server, client, status, code):
    server.answer("GET /v1/namespaces/a", Reply(status, {"error": {"message": "because", "type": "T", "code": status}}))
    with fails(code, "because"):
        describe_namespace(client, "a")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_asked_again(server, client, status):
    server.answer("GET /v1/namespaces", Reply(status), Reply(status), Reply(body={"namespaces": [["a"]]}))
    assert list_namespaces(client) == ["a"]
    assert server.count("GET /v1/namespaces") == 3


def test_retry_after_is_respected(server, client):
    server.answer("GET /v1/namespaces", Reply(503, headers={"Retry-After": "0"}), Reply(body={"namespaces": [["a"]]}))
    assert list_namespaces(client) == ["a"]
    server.answer("GET /v1/namespaces", Reply(503, headers={"Retry-After": "3600"}))
    with fails(17), within(3):
        list_namespaces(client)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_change_is_not_sent_again_blindly(server, client, status):
    server.answer("POST /v1/namespaces", Reply(status))
    server.answer("GET /v1/namespaces/a", Reply(404, {"error": {"type": "NoSuchNamespaceException"}}))
    with fails(17):
        create_namespace(client, "a")
    assert server.count("POST /v1/namespaces") == 1
    server.answer("GET /v1/namespaces/a", Reply(body={"namespace": ["a"]}))
    with fails(17, "nobody knows"):
        create_namespace(client, "a")


def test_purge_is_never_requested(server, client):
    server.answer("GET /v1/namespaces/a/tables/t", Reply(body={"metadata": TABLE}))
    server.answer("DELETE /v1/namespaces/a/tables/t", Reply(204, b""))
    server.answer("GET /v1/namespaces", Reply(body={"namespaces": []}))
    drop_table(client, "a", "t", purge="true")
    deletes = [one.path for one in server.asked if one.method == "DELETE"]
    assert deletes == ["/v1/namespaces/a/tables/t?purgeRequested=false"]


def test_what_the_server_does_not_offer_is_not_tried(server, client):
    server.answer("GET /v1/config", Reply(body={"endpoints": ["GET /v1/{prefix}/namespaces"]}))
    server.answer("GET /v1/namespaces", Reply(body={"namespaces": [["a"]]}))
    assert list_namespaces(client) == ["a"]
    before = len(server.asked)
    with fails(0, "no such endpoint"):
        list_tables(client, "a")
    assert len(server.asked) == before


class Tables:
    """One table at `/v1/namespaces/a/tables/t`, kept by a server that does what it is told, but for `change`."""

    def __init__(self, server: HostileServer, **change: object) -> None:
        self.server, self.change, self.there = server, change, {}
        server.answer("GET /v1/namespaces/a", Reply(body={}))
        server.answer("POST /v1/namespaces/a/tables", Reply(body=self.create))
        server.answer("POST /v1/namespaces/a/tables/t", Reply(body=self.update))
        server.answer("DELETE /v1/namespaces/a/tables/t", Reply(204, b""))

    def create(self, asked: Asked) -> dict:
        body = json.loads(asked.body)
        location = body.get("location", "file:///tmp/chosen")
        made = {"location": location, "table-uuid": "u", "properties": body["properties"], "current-snapshot-id": -1}
        self.there = {"metadata": {**made, **self.change}}
        self.server.answer("GET /v1/namespaces/a/tables/t", Reply(body=self.there))
        return self.there

    def update(self, asked: Asked) -> dict:
        for one in json.loads(asked.body)["updates"]:
            self.there["metadata"]["properties"] |= one.get("updates", {})
        return self.there

    @property
    def drops(self) -> int:
        return self.server.count("DELETE /v1/namespaces/a/tables/t")


def test_a_server_that_ignores_requirements_manages_no_versions(server, client):
    tables = Tables(server)
    with fails(0, "does not check requirements"):
        create_table(client, "a", "t", properties={"managed_by": "impl"})
    assert tables.drops == 1


@pytest.mark.parametrize("found", [{}, {"pennon.creation-id": "of somebody else", "table_type": "lance"}, TABLE])
@pytest.mark.parametrize("managed_by", ["storage", "impl"])
def test_existing_table_in_the_answer_is_kept(server, client, found, managed_by, tmp_path):
    properties = found.get("properties", found)
    tables = Tables(server, location=(tmp_path / "theirs").as_uri(), properties=properties)
    with fails(5, "a.t"):
        declare_table(client, "a", "t", properties={"managed_by": managed_by})
    with fails(5, "a.t"):
        declare_table(client, "a", "t", location=str(tmp_path / "mine"), properties={"managed_by": managed_by})
    assert tables.drops == 0
    assert server.count("POST /v1/namespaces/a/tables/t") == 0


def test_new_table_without_properties_is_recognized_by_its_location(server, client):
    tables = Tables(server, properties={})
    declare_table(client, "a", "t")
    assert tables.there["metadata"]["properties"]["table_type"] == "lance"


@pytest.mark.parametrize(
    ("given", "advice"), [({}, "without the property 'root'"), ({"location": "file:///tmp/mine"}, "be registered")]
)
def test_server_that_chooses_another_location_raises_unsupported(server, client, given, advice):
    tables = Tables(server, location="file:///tmp/theirs")
    with fails(0, advice):
        declare_table(client, "a", "t", **given)
    assert tables.drops == 1


def test_data_is_kept_if_the_answer_to_create_is_invalid(server, client, client_root):
    server.answer("GET /v1/namespaces/a", Reply(body={}))
    server.answer("POST /v1/namespaces/a/tables", Reply(body=b"<html>"))
    with fails(18):
        create_table(client, "a", "t")
    assert len(list(Path(client_root).glob("*/_versions/*.manifest"))) == 1


def test_data_is_deleted_if_no_entry_exists(server, client, client_root):
    server.answer("GET /v1/namespaces/a", Reply(body={}))
    server.answer("POST /v1/namespaces/a/tables", Reply(403, {"error": {"type": "ForbiddenException"}}))
    with fails(15):
        create_table(client, "a", "t")
    assert list(Path(client_root).glob("*/_versions/*.manifest")) == []


@pytest.mark.parametrize("managed_by", ["storage", "impl"])
@pytest.mark.parametrize("numbered", ["v1", "v12-9a9326a8-9c21-4b50-8937-d3aa029b2ca4", "v3.gz"])
def test_a_table_that_is_deleted_with_its_entry_is_not_deregistered(server, client, tmp_path, managed_by, numbered):
    lance.write_dataset(pa.table({"x": [1]}), str(tmp_path / "data"))
    properties = {"table_type": "lance", "managed_by": managed_by}
    table = {**TABLE, "location": (tmp_path / "data").as_uri(), "properties": properties}
    loaded = {
        "metadata": table,
        "metadata-location": f"{(tmp_path / 'data').as_uri()}/metadata/{numbered}.metadata.json",
    }
    server.answer("GET /v1/namespaces/a/tables/t", Reply(body=loaded))
    server.answer("GET /v1/namespaces", Reply(body={"namespaces": []}))
    with fails(0, "Copy the data first"):
        deregister_table(client, "a", "t")
    with fails(0, "Copy the data first"):
        register_table(client, "a", "t", location=str(tmp_path / "data"), mode="overwrite")
    with fails(0, "Copy the data first"):
        drop_table(client, "a", "t", purge="true")
    assert server.count("DELETE /v1/namespaces/a/tables/t") == 0


def test_server_that_deletes_data_unasked_raises_internal_error(server, client, tmp_path):
    data = tmp_path / "data"
    lance.write_dataset(pa.table({"x": [1]}), str(data))
    table = {**TABLE, "location": data.as_uri()}
    server.answer("GET /v1/namespaces/a/tables/t", Reply(body={"metadata": table}))

    def delete(_: Asked) -> bytes:
        shutil.rmtree(data)
        return b""

    server.answer("DELETE /v1/namespaces/a/tables/t", Reply(204, delete))
    with fails(18, "the server deleted it"):
        deregister_table(client, "a", "t")


def trashed(server, trash: str, name: str, **properties: str) -> None:
    for other in ("pennon_trash", "__pennon_trash"):
        missing = Reply(404, {"error": {"type": "NoSuchNamespaceException"}})
        server.replies.setdefault(f"GET /v1/namespaces/{other}/tables", [missing])
    kept = {"table_type": "lance", "pennon.dropped-from": f"a${name}", **properties}
    body = {"metadata": {**TABLE, "properties": kept}}
    server.answer(f"GET /v1/namespaces/{trash}/tables/{name}", Reply(body=body))
    server.answer(f"GET /v1/namespaces/{trash}/tables", Reply(body={"identifiers": [{"name": name}]}))
    server.answer(f"DELETE /v1/namespaces/{trash}/tables/{name}", Reply(204, b""))


LONG_AGO = {"pennon.dropped-at-ms": "1700000000000", "pennon.drop-ttl-ms": "0"}


@pytest.mark.parametrize(
    "change",
    [
        {"pennon.drop-ttl-ms": "7d"},
        {"pennon.drop-ttl-ms": "-1"},
        {"pennon.drop-ttl-ms": ""},
        {"pennon.drop-ttl-ms": "1" * 5000},
        {"pennon.dropped-at-ms": "1700000000"},
        {"pennon.dropped-at-ms": "1700000000000000"},
        {"pennon.dropped-at-ms": "never"},
    ],
)
def test_dropped_table_with_unreadable_retention_is_kept(server, client, change):
    trashed(server, "pennon_trash", "t", **{**LONG_AGO, **change})
    server.answer("GET /v1/namespaces", Reply(body={"namespaces": []}))
    (kept,), _ = client.list_dropped_tables(["a"])
    assert kept.id == ["a", "t"]
    assert client.purge_tables().tables == []
    with fails(19):
        client.purge_table(["a", "t"])
    assert server.count("DELETE /v1/namespaces/pennon_trash/tables/t") == 0
    assert [one.error for one in client.purge_table(["a", "t"], force=True).tables] == [None]
    assert server.count("DELETE /v1/namespaces/pennon_trash/tables/t") == 1


def test_what_was_dropped_under_the_old_name_is_found_restored_and_purged(server, client):
    trashed(server, "__pennon_trash", "t", **LONG_AGO)
    trashed(server, "pennon_trash", "u", **LONG_AGO)
    server.answer("POST /v1/tables/rename", Reply(204, b""))
    server.answer("GET /v1/namespaces", Reply(body={"namespaces": [["__pennon_trash"], ["a"], ["pennon_trash"]]}))
    server.answer("GET /v1/namespaces/a/tables", Reply(body={"identifiers": []}))
    assert list_namespaces(client) == ["a"]
    assert sorted(one.id[-1] for one in client.list_dropped_tables(["a"])[0]) == ["t", "u"]
    client.undrop_table(["a", "t"])
    source = json.loads(next(one.body for one in server.asked if one.path == "/v1/tables/rename"))["source"]
    assert source == {"namespace": ["__pennon_trash"], "name": "t"}
    assert sorted(one.id[-1] for one in client.purge_tables().tables) == ["t", "u"]
    for place in ("__pennon_trash/tables/t", "pennon_trash/tables/u"):
        assert server.count(f"DELETE /v1/namespaces/{place}") == 1


def test_a_server_that_refuses_the_old_name_has_nothing_under_it(server, client):
    trashed(server, "pennon_trash", "u", **LONG_AGO)
    server.answer("GET /v1/namespaces/__pennon_trash/tables", Reply(400, {"error": {"type": "BadRequestException"}}))
    assert [one.id for one in client.list_dropped_tables(["a"])[0]] == [["a", "u"]]


@pytest.mark.parametrize("name", ["pennon_trash", "__pennon_trash"])
def test_namespaces_of_dropped_tables_cannot_be_named(client, name):
    for ask in (describe_namespace, create_namespace, drop_namespace, list_tables):
        with fails(13, name):
            ask(client, name)
    for ask in (describe_table, declare_table, drop_table, create_table):
        with fails(13, name):
            ask(client, name, "t")
    with fails(13, name):
        client.count_table_rows(CountTableRowsRequest(id=[name, "t"]))
    with fails(13, name):
        client.undrop_table(["a", "t"], as_id=[name, "t"])


def test_a_missing_namespace_that_lists_nothing_is_missing(server, client):
    server.answer("GET /v1/namespaces/a/tables", Reply(body={"identifiers": []}))
    server.answer("GET /v1/namespaces/a", Reply(404, {"error": {"type": "NoSuchNamespaceException"}}))
    with fails(1, "a"):
        list_tables(client, "a")


def test_the_configuration_is_merged(server, connect):
    server.answer(
        "GET /v1/config",
        Reply(body={"defaults": {"prefix": "low"}, "overrides": {"prefix": "cat/x"}}),
    )
    server.answer("GET /v1/cat/x/namespaces", Reply(body={"namespaces": [["a"]]}))
    client = connect(server.uri, prefix="mine", warehouse="w h")
    assert list_namespaces(client) == ["a"]
    assert server.asked[0].path == "/v1/config?warehouse=w+h"
    server.answer("GET /v1/config", Reply(body={"defaults": {"prefix": "low"}}))
    server.answer("GET /v1/mine/namespaces", Reply(body={"namespaces": [["b"]]}))
    assert list_namespaces(connect(server.uri, prefix="mine")) == ["b"]
    server.answer("GET /v1/low/namespaces", Reply(body={"namespaces": [["c"]]}))
    assert list_namespaces(connect(server.uri)) == ["c"]


def test_configuration_can_change_the_uri(server, connect):
    with HostileServer() as other:
        server.answer("GET /v1/config", Reply(body={"overrides": {"uri": other.uri}}))
        other.answer("GET /v1/namespaces", Reply(body={"namespaces": [["there"]]}))
        assert list_namespaces(connect(server.uri)) == ["there"]
        server.answer("GET /v1/config", Reply(body={"overrides": {"uri": "ftp://x"}}))
        with fails(13):
            list_namespaces(connect(server.uri))
