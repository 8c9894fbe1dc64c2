"""Rows through the server: Arrow IPC in and out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support import create_table, ipc

FILE, STREAM = "application/vnd.apache.arrow.file", "application/vnd.apache.arrow.stream"
ALL = {"k": 1 << 30, "vector": {"single_vector": []}}


@pytest.fixture
def table(catalog, space) -> str:
    """Return the path of a table with one row."""
    create_table(catalog, space, "t", data=ipc({"id": [1], "name": ["a"]}))
    return f"/table/{space}%24t"


def test_a_query_returns_an_arrow_file(client, table):
    answer = client.post(f"{table}/query", ALL)
    assert answer.headers["content-type"] == FILE
    assert pa.ipc.open_file(answer.body).read_all().to_pydict() == {"id": [1], "name": ["a"]}


def test_a_query_returns_a_stream_if_that_is_accepted(client, table):
    answer = client.call("POST", f"{table}/query", ALL, accept=STREAM)
    assert answer.headers["content-type"] == STREAM
    assert pa.ipc.open_stream(answer.body).read_all().num_rows == 1


@pytest.mark.parametrize("accept", [FILE, STREAM])
def test_a_large_result_is_complete(client, table, accept):
    rows = pa.table({"id": range(300_000), "name": ["x" * 20] * 300_000})
    assert client.post(f"{table}/insert?mode=overwrite", ipc(rows)).body["num_inserted_rows"] == 300_000
    answer = client.call("POST", f"{table}/query", ALL, accept=accept)
    assert answer.headers.get("content-length") is None
    reader = pa.ipc.open_file(answer.body) if accept == FILE else pa.ipc.open_stream(answer.body)
    assert reader.read_all() == rows


def test_errors_of_a_query_come_before_its_rows(client, table):
    assert client.post(f"{table}/query", {**ALL, "filter": "nothing > 1"}).lance_error[0] in {400, 404}
    assert client.post(f"{table}/query", {}).lance_error == (400, 13)


@pytest.mark.parametrize("rows", [b"", b"nothing", ipc({"id": [1], "name": ["a"]})[:-40]])
def test_rows_that_are_no_arrow_stream_are_refused(client, table, rows):
    for operation in ("insert", "merge_insert?on=id"):
        assert client.post(f"{table}/{operation}", rows).lance_error == (400, 13)
    assert client.post(f"{table}/count_rows", {}).body == 1


def test_a_merge_matches_by_its_parameters(client, table):
    path = f"{table}/merge_insert?on=id&when_matched_update_all=true&when_not_matched_insert_all=true"
    answer = client.post(path, ipc({"id": [1, 2], "name": ["b", "c"]}))
    assert (answer.body["num_updated_rows"], answer.body["num_inserted_rows"]) == (1, 1)
