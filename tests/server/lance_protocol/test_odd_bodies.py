"""Requests with odd values that once broke a request, or made an answer as large as the request."""

from __future__ import annotations

import pytest

from tests.support import create_table, ipc

LONGEST = 10_000


@pytest.mark.parametrize("context", ["text", True, 7, [{}], {"a": {}}])
def test_a_context_that_is_no_map_of_texts_is_refused(client, space, context):
    path, header = f"/namespace/{space}/exists", {"X-Pennon-Context-Ttl": "1d"}
    assert client.call("POST", path, {"context": context}, **header).lance_error == (400, 13)
    assert client.call("POST", path, {"context": None}, **header).status == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("drop_columns", {"columns": ["x" * 1_000_000]}),
        ("describe", {"id": ["x" * 1_000_000]}),
        ("count_rows", {"predicate": "x" * 1_000_000}),
    ],
)
def test_an_error_does_not_repeat_a_large_request(client, catalog, space, path, body):
    create_table(catalog, space, "t", data=ipc({"x": [1]}))
    answer = client.post(f"/table/{space}%24t/{path}", body)
    assert answer.status >= 400
    assert 0 < len(answer.body["error"]) < LONGEST
