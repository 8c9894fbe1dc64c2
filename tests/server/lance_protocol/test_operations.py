"""The table of operations is that of the specification, and each operation answers as it documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pennon.server.lance.operations import OPERATIONS
from tests.support import create_table, ipc

SPECIFICATION = yaml.load(
    (Path(__file__).parents[2] / "specs" / "lance-namespace-openapi.yaml").read_text(), yaml.CSafeLoader
)
ROWS = "application/vnd.apache.arrow.stream"
DOCUMENTED = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in SPECIFICATION["paths"].items()
    for method, operation in methods.items()
    if method != "parameters"
}


def test_the_operations_are_those_of_the_specification():
    assert {(one.id, one.method, f"/v1{one.path}") for one in OPERATIONS} == {
        (name, method, path) for name, (method, path, _) in DOCUMENTED.items()
    }
    assert len(OPERATIONS) == len(DOCUMENTED) == 54


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.id)
def test_statuses_and_bodies_are_those_of_the_specification(operation):
    _, _, documented = DOCUMENTED[operation.id]
    statuses = {int(one) for one in documented["responses"] if one != "5XX"}
    assert operation.status in statuses
    assert operation.errors == (statuses - {operation.status}) | {500}
    kinds = set(documented.get("requestBody", {}).get("content", {}))
    assert operation.takes_rows == (kinds == {ROWS})


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.id)
def test_each_operation_answers_with_a_documented_status(client, operation, space):
    path = operation.path.replace("{id}", f"{space}%24nothing").replace("{index_name}", "none")
    body: Any = None if operation.method == "GET" else ipc({"x": [1]}) if operation.takes_rows else {}
    answer = client.call(operation.method, path, body)
    assert answer.status == operation.status or answer.status in operation.errors - {500, 503}
    if answer.status >= 400:
        status, code = answer.lance_error
        assert status == answer.status
        assert code not in {16, 17, 18}


def test_each_method_exists(catalog):
    assert [one.call for one in OPERATIONS if not callable(getattr(catalog, one.call, None))] == []


def test_a_body_that_contradicts_the_path_is_refused(client, catalog, space):
    create_table(catalog, space, "t")
    assert client.post(f"/table/{space}%24t/describe", {"id": [space, "u"]}).lance_error == (400, 13)
    assert client.post(f"/table/{space}%24t/index/a/stats", {"index_name": "b"}).lance_error == (400, 13)
    assert client.post(f"/table/{space}%24t/describe", {"id": [space, "t"]}).status == 200


def test_a_body_may_have_the_identifier_in_one_piece(client, catalog, space):
    create_table(catalog, space, "t")
    found = client.post(f"/table/{space}%24t/describe", {"id": [f"{space}$t"]})
    assert (found.body["namespace"], found.body["table"]) == ([space], "t")


def test_other_delimiters_work(client, catalog, space):
    create_table(catalog, space, "t")
    assert client.post(f"/table/{space}.t/describe?delimiter=.", {}).body["table"] == "t"
    assert client.post(f"/table/{space}%2Ft/describe?delimiter=%2F", {}).body["table"] == "t"
    assert space in client.get("/namespace/%2F/list?delimiter=%2F").body["namespaces"]
    assert space in client.get("/namespace/$/list").body["namespaces"]
    assert f"{space}::t" in client.get("/table?delimiter=::").body["tables"]
    assert client.get("/namespace/$/list?delimiter=").lance_error == (400, 13)
    assert client.post(f"/table/{space}%24t/describe?delimiter=.", {}).lance_error[0] == 400


def test_query_parameters_stand_for_fields_of_the_body(client, catalog, space):
    create_table(catalog, space, "t")
    path = f"/table/{space}%24t/describe?with_table_uri=true"
    assert client.call("POST", path).body["table_uri"]
    assert "table_uri" not in client.post(path, {"with_table_uri": False}).body
    for wrong in ("version=x", "with_table_uri=maybe", "version=-1"):
        assert client.call("POST", f"/table/{space}%24t/describe?{wrong}").lance_error == (400, 13)


def test_pages_of_listings_are_the_whole_listing(client, catalog, space):
    for name in "abcde":
        create_table(catalog, space, name)
    found, token = [], ""
    while True:
        page = client.get(f"/namespace/{space}/table/list?limit=2&page_token={token}").body
        assert 0 < len(page["tables"]) <= 2
        found += page["tables"]
        token = page.get("page_token")
        if not token:
            break
    assert found == list("abcde")
    assert client.get(f"/namespace/{space}/table/list?limit=0").body == {"tables": []}
    assert "page_token" not in client.get(f"/namespace/{space}/table/list?limit=5").body


def test_a_context_may_be_sent_by_headers(client, catalog, space):
    create_table(catalog, space, "t")
    assert client.call("POST", f"/table/{space}%24t/drop", **{"x-pennon-context-purge": "true"}).status == 200
    assert str(catalog.table_status([space, "t"]).status) == "NotFound"


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("PUT", "/table", 405), ("GET", "/table/t/drop", 405)]
)
def test_unknown_routes_have_the_error_body_too(client, method, path, status):
    assert client.call(method, path).lance_error == (status, 0)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"id": 3}', b'{"properties": {"a": 1}}', b"\xff"])
def test_bad_bodies_are_refused(client, body):
    answer = client.call("POST", "/namespace/x/create", body, **{"Content-Type": "application/json"})
    assert answer.lance_error == (400, 13)


def test_bodies_of_other_types_are_refused(client):
    assert client.call("POST", "/namespace/x/create", b"{}", **{"Content-Type": "text/plain"}).lance_error == (400, 13)
    assert client.call("POST", "/table/t/create", ipc({"x": [1]}), **{"Content-Type": "text/plain"}).lance_error == (
        400,
        13,
    )
    assert client.call("POST", "/namespace/x/create", {"a": "x" * (5 << 20)}).lance_error == (400, 13)
