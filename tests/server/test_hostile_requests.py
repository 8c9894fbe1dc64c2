"""Requests that nobody should send: each is answered with an error of the protocol, and the server goes on."""

from __future__ import annotations

import contextlib
import json
import socket
from urllib.parse import urlsplit

import pytest

from pennon import DirectoryNamespace
from tests.server.http_client import namespace_path, table_path
from tests.support import create_table, list_namespaces, list_tables


@pytest.fixture
def server(managed):
    return managed


BODIES = [
    b"",
    b"nonsense",
    b"{",
    b"[]",
    b'"text"',
    b"null",
    b"7",
    b"\xff\xfe\x00",
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"namespace": ["\\ud800"]}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"namespace": ' + b"9" * 10_000 + b"}",
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:20].decode("latin-1") or "empty")
@pytest.mark.parametrize("path", ["/namespaces", "/tables/rename", "/transactions/commit"])
def test_invalid_bodies_are_refused(client, path, body):
    assert client.call("POST", path, body).error == (400, "BadRequestException")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"namespace": None},
        {"namespace": []},
        {"namespace": "a"},
        {"namespace": [1]},
        {"namespace": [""]},
        {"namespace": ["a/b"]},
        {"namespace": ["a$b"]},
        {"namespace": [".."]},
        {"namespace": ["__manifest"]},
        {"namespace": ["__pennon_trash"]},
        {"namespace": ["a\x00b"]},
        {"namespace": ["a\x1fb"]},
        {"namespace": ["x" * 10_000]},
        {"namespace": ["x"] * 10_000},
        {"namespace": ["fine"], "properties": []},
        {"namespace": ["fine"], "properties": {"a": {"b": "c"}}},
        {"namespace": ["fine"], "properties": {"": "x"}},
    ],
    ids=lambda body: str(body)[:40],
)
def test_invalid_namespaces_are_refused(client, catalog, body):
    before = list_namespaces(catalog)
    assert client.post("/namespaces", body).error == (400, "BadRequestException")
    assert list_namespaces(catalog) == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"requirements": [], "updates": {}},
        {"requirements": None, "updates": []},
        {"requirements": [7], "updates": []},
        {"requirements": [{"type": "assert-everything"}], "updates": []},
        {"requirements": [{"type": "assert-ref-snapshot-id"}], "updates": []},
        {"requirements": [{"type": "assert-table-uuid", "uuid": 7}], "updates": []},
        {"requirements": [], "updates": [7]},
        {"requirements": [], "updates": [{"action": "add-snapshot"}]},
        {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": {"summary": {"lance.version": 1}}}]},
        {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": 1}}]},
        {"requirements": [], "updates": [{"action": "remove-properties", "removals": [1]}]},
        {"requirements": [], "updates": [{"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 1 << 70}]},
        {"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": "all"}]},
        {"requirements": [], "updates": [{"action": "set-location"}]},
        {"requirements": [], "updates": [], "identifier": {"namespace": ["other"], "name": "t"}},
    ],
    ids=lambda body: str(body)[:60],
)
def test_invalid_changes_are_refused(client, catalog, space, body):
    create_table(catalog, space, "t")
    before = client.get(table_path(space, "t")).body
    assert client.post(table_path(space, "t"), body).error == (400, "BadRequestException")
    assert client.get(table_path(space, "t")).body == before


def test_errors_name_the_field_and_not_its_value(client):
    answer = client.post("/namespaces", {"namespace": ["fine"], "properties": {"note": 42424242}})
    assert answer.error == (400, "BadRequestException")
    assert "properties.note: " in answer.body["error"]["message"]
    assert "42424242" not in answer.body["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"namespace": ["a"], "properties": {str(number): 1 for number in range(50_000)}},
        {"namespace": ["a"], "properties": {"x" * 100_000: 1}},
    ],
    ids=["many", "long"],
)
def test_errors_stay_short(client, body):
    answer = client.post("/namespaces", body)
    assert answer.error == (400, "BadRequestException")
    assert len(answer.body["error"]["message"]) < 2000


def test_properties_that_are_set_and_removed(client, space):
    body = {"removals": ["a"], "updates": {"a": "b"}}
    answer = client.post(namespace_path(space) + "/properties", body)
    assert answer.error == (422, "UnprocessableEntityException")
    assert client.post(namespace_path(space) + "/properties", {"updates": {"a": 1}}).error[0] == 400


@pytest.mark.parametrize(
    "path",
    [
        "/namespaces/a%2Fb",
        "/namespaces/..%2F..%2Fetc",
        "/namespaces/%00",
        "/namespaces/%1F",
        "/namespaces/a%1F",
        "/namespaces/a%1F%1Fb",
        "/namespaces/%FF%FE",
        "/namespaces/__manifest",
        "/namespaces/a/tables/..%2Fx",
        "/namespaces/a/tables/%0A",
        "/namespaces?parent=a%1F",
    ],
)
def test_paths_without_a_valid_name_get_400(client, path):
    assert client.get(path).error == (400, "BadRequestException")


def test_unknown_routes_are_refused(client):
    assert client.get("/none").error == (404, "NoSuchEndpointException")
    assert client.get("/namespaces/a/views").error == (404, "NoSuchEndpointException")
    assert client.call("PUT", "/namespaces", {}).error == (405, "NoSuchEndpointException")
    assert client.call("PATCH", "/config", {}).error == (405, "NoSuchEndpointException")
    assert client.get("/../../docs").status == 404


def test_bodies_of_other_kinds_are_not_read(client, catalog):
    before = list_namespaces(catalog)
    body = json.dumps({"namespace": ["sneaked"]}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = client.call("POST", "/namespaces", body, **{"Content-Type": kind})
        assert answer.error == (415, "BadRequestException")
    assert list_namespaces(catalog) == before


def test_a_huge_body_is_cut_off(client):
    answer = client.call("POST", "/namespaces", b'{"namespace": ["' + b"x" * (17 << 20) + b'"]}')
    assert answer.error == (413, "BadRequestException")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET /iceberg/v1/config HTTP/1.1\r\n\r\n",
        b"GET /iceberg/v1/config HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"POST /iceberg/v1/namespaces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
        b"POST /iceberg/v1/namespaces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n{}",
    ],
    ids=["binary", "no host", "huge header", "cut body", "negative length"],
)
def test_invalid_http_does_not_stop_the_server(client, server, raw):
    parts = urlsplit(server.uri)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        said = b""
        # The server may hang up before it has read all.
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(raw)
            with contextlib.suppress(OSError):  # not connected any more
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                said += chunk
        assert b" 200 " not in said.partition(b"\r\n")[0]
    assert client.get("/config").status == 200
    log = (server.root.parent / "log").read_text()
    assert "Traceback" not in log
    assert "ERROR" not in log


def test_root_tables_and_other_catalogs_are_out_of_reach(client, server):
    with DirectoryNamespace(root=str(server.root)) as catalog:
        create_table(catalog, "at_the_root")
        assert "at_the_root" in list_tables(catalog)
    assert client.get("/namespaces//tables").error[0] == 404
    assert client.get("/namespaces/at_the_root").error == (404, "NoSuchNamespaceException")
