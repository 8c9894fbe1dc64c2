"""Servers that answer nonsense, too much, too slowly, or elsewhere: a clear error each time, and no hang."""

from __future__ import annotations

import pytest
from hostile import HostileServer, Reply, within
from lance_namespace import CountTableRowsRequest
from support import (
    create_namespace,
    create_table,
    describe_namespace,
    describe_table,
    drop_table,
    fails,
    list_namespaces,
    list_tables,
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
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its code is looked at
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
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its code is looked at
        client.list_table_versions({"id": ["a", "t"]})
    assert int(caught.value.code) == 18
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the same
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


def test_compression_that_nobody_asked_for(server, client):
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


def test_nobody_listens(connect):
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


def test_a_busy_server_says_when(server, client):
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


def test_a_server_that_ignores_requirements_manages_no_versions(server, client):
    created = {**TABLE, "properties": {}, "current-snapshot-id": -1}
    server.answer("GET /v1/namespaces/a", Reply(body={}))
    server.answer("DELETE /v1/namespaces/a/tables/t", Reply(204, b""))

    def echo(body: dict) -> Reply:
        return Reply(body={"metadata": {**created, **body}})

    server.answer("POST /v1/namespaces/a/tables", echo({}))
    server.answer("POST /v1/namespaces/a/tables/t", echo({"properties": {"table_type": "lance", "managed_by": "impl"}}))
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its code is looked at
        create_table(client, "a", "t", properties={"managed_by": "impl"})
    assert int(caught.value.code) == 0
    assert server.count("DELETE /v1/namespaces/a/tables/t") == 1


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


def test_another_address_comes_by_the_configuration(server, connect):
    with HostileServer() as other:
        server.answer("GET /v1/config", Reply(body={"overrides": {"uri": other.uri}}))
        other.answer("GET /v1/namespaces", Reply(body={"namespaces": [["there"]]}))
        assert list_namespaces(connect(server.uri)) == ["there"]
        server.answer("GET /v1/config", Reply(body={"overrides": {"uri": "ftp://x"}}))
        with fails(13):
            list_namespaces(connect(server.uri))
