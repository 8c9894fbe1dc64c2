"""Servers that answer nonsense, too much, too slowly, or elsewhere: a clear error each time, and no hang."""

from __future__ import annotations

import io
import itertools

import pyarrow as pa
import pytest

from pennon import RestNamespace
from pennon.errors import LanceNamespaceError, UnsupportedOperationError
from pennon.http_transport import BadAnswerError, UnknownOutcomeError
from tests.iceberg.hostile import HostileServer, Reply, within
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    drop_table,
    fails,
    list_namespaces,
    table_exists,
)

LIST = "GET /v1/namespace/%24/list"
DESCRIBE = "POST /v1/table/a%24t/describe"
QUERY = "POST /v1/table/t/query"
INSERT = "POST /v1/table/t/insert"
STREAM = "application/vnd.apache.arrow.stream"


@pytest.fixture
def client(hostile):
    with RestNamespace(
        uri=hostile.uri, retry_timeout="1s", read_timeout="1s", connect_timeout="1s", max_answer_bytes="100000"
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    "body", [b"{", b"<html>", b"[]", b"null", b'"text"', b"\xff\xfe", b"[" * 90000, b"{}x", {"namespaces": [1]}, {}]
)
def test_an_answer_that_is_not_the_protocols_is_refused(hostile, client, body):
    hostile.answer(LIST, Reply(body=body))
    with fails(18, "list_namespaces"), within(5):
        list_namespaces(client)


@pytest.mark.parametrize(
    "change", [{"location": 5}, {"version": "x"}, {"storage_options": {"k": 1}}, {"namespace": "a"}, {"properties": []}]
)
def test_wrong_types_in_a_description_are_refused(hostile, client, change):
    hostile.answer(DESCRIBE, Reply(body={"location": "s3://b/t", **change}))
    with fails(18, "a.t"):
        describe_table(client, "a", "t")


def test_an_answer_that_is_too_large_is_refused(hostile, client):
    hostile.answer(LIST, Reply(body=b'{"namespaces": [' + b" " * 200_000))
    with fails(18, "max_answer_bytes"), within(5):
        list_namespaces(client)


def test_a_redirect_does_not_take_the_token_elsewhere(hostile):
    with HostileServer() as other:
        hostile.answer(LIST, Reply(307, headers={"Location": f"{other.uri}/v1/namespace/%24/list"}))
        with fails(18, "redirects"):
            list_namespaces(RestNamespace(uri=hostile.uri, token="secret-token"))
        assert other.asked == []


@pytest.mark.parametrize(
    "reply", [Reply(pause=5), Reply(body={"namespaces": ["a"] * 1000}, drip=0.05), Reply(raw=b"HTTP/1.1 2", drip=0.5)]
)
def test_an_answer_that_does_not_come_in_time_ends(hostile, client, reply):
    hostile.answer(LIST, reply)
    with fails(17), within(10):
        list_namespaces(client)


def test_pages_that_never_end_end(hostile, client, monkeypatch):
    monkeypatch.setattr("pennon.rest.namespace._MOST_PAGES", 20)
    tokens = itertools.count()
    hostile.answer("GET /v1/table", Reply(body=lambda _: {"tables": [], "page_token": str(next(tokens))}))
    with fails(18, "do not end"):
        client.list_all_tables({})
    assert hostile.count("GET /v1/table") == 20


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, {"code": 4, "error": "gone"}, 4),
        (404, {"code": 1, "error": "gone"}, 1),
        (409, {"code": 14, "error": "other"}, 14),
        (400, {"code": 5, "error": "there"}, 5),
        (400, b"<html>", 13),
        (401, {}, 16),
        (403, {"error": 5}, 15),
        (404, b"nothing", 0),
        (409, {"code": "x"}, 14),
        (404, {"code": 10**30, "error": "x" * 10**4}, 0),
        (404, {"code": True}, 0),
        (418, b"", 18),
        (501, b"", 0),
    ],
)
def test_an_error_becomes_the_class_of_its_code_and_names_the_table(hostile, client, status, body, code):
    hostile.answer(DESCRIBE, Reply(status, body))
    with fails(code, "a.t"), within(5):
        describe_table(client, "a", "t")


def test_control_characters_of_the_server_are_not_shown(hostile, client):
    hostile.answer(DESCRIBE, Reply(404, {"code": 4, "error": "gone \x1b[31m\n'a.t'"}))
    with pytest.raises(LanceNamespaceError) as caught:
        describe_table(client, "a", "t")
    assert str(caught.value) == "gone  [31m 'a.t'"


def test_a_server_without_pennons_routes_is_named(hostile, client):
    with pytest.raises(UnsupportedOperationError) as caught:
        client.undrop_table(["a", "t"])
    assert hostile.uri in str(caught.value)
    assert "undrop_table of 'a.t'" in str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "..", "\ud800"])
def test_names_that_cannot_be_in_a_path_are_refused(hostile, client, name):
    with fails(13):
        table_exists(client, name)
    assert hostile.asked == []


def stream_of(table: pa.Table, rows: int = 10) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


ROWS = pa.table({"id": range(100)})


@pytest.mark.parametrize("body", [b"", b"{}", b"ARROW1", b"\xff" * 100, stream_of(ROWS)[:200], b"ARROW1\0\0" * 20])
def test_rows_that_are_not_arrow_are_refused(hostile, client, body):
    hostile.answer(QUERY, Reply(body=body))
    with pytest.raises(BadAnswerError, match="query_table of 't'"):
        client.query_batches({"id": ["t"], "k": 1, "vector": {}}).read_all()


def test_rows_that_break_off_raise_an_error(hostile, client):
    hostile.answer(QUERY, Reply(body=stream_of(ROWS), cut=2000))
    with pytest.raises(UnknownOutcomeError, match="broke off"):
        client.query_batches({"id": ["t"], "k": 1, "vector": {}}).read_all()


def test_a_small_answer_that_needs_much_memory_is_refused(hostile, client):
    hostile.answer(QUERY, Reply(body=stream_of(pa.table({"x": pa.nulls(1 << 28)}), rows=1 << 28)))
    with pytest.raises(BadAnswerError, match="memory"):
        client.query_batches({"id": ["t"], "k": 1, "vector": {}}).read_all()


def test_a_busy_server_is_asked_again(hostile, client):
    hostile.answer(LIST, Reply(503), Reply(429, headers={"Retry-After": "0"}), Reply(body={"namespaces": ["a"]}))
    assert list_namespaces(client) == ["a"]


def test_a_change_is_repeated_if_the_server_refused_it(hostile, client):
    hostile.answer("POST /v1/namespace/a/create", Reply(429), Reply(503, headers={"Retry-After": "0"}), Reply(body={}))
    create_namespace(client, "a")
    sent = [one.headers["Idempotency-Key"] for one in hostile.asked if one.method == "POST"]
    assert (len(sent), len(set(sent))) == (3, 1)


@pytest.mark.parametrize("reply", [Reply(cut=1), Reply(500), Reply(502), Reply(503), Reply(raw=b"")])
def test_a_change_whose_answer_is_lost_is_not_repeated(hostile, client, reply):
    hostile.answer("POST /v1/table/a%24t/drop", reply)
    with pytest.raises(UnknownOutcomeError):
        drop_table(client, "a", "t")
    assert hostile.count("POST /v1/table/a%24t/drop") == 1


@pytest.mark.parametrize("reply", [Reply(cut=1), Reply(502), Reply(raw=b"")])
def test_a_change_whose_answer_is_lost_is_repeated_on_a_server_that_recognizes_it(hostile, client, reply):
    hostile.answer("GET /v1/pennon", Reply(body={"idempotency_keys": True, "instance": "i"}))
    hostile.answer("POST /v1/table/a%24t/drop", reply, Reply(body={"location": "l"}))
    assert drop_table(client, "a", "t").location == "l"
    sent = [one for one in hostile.asked if one.method == "POST"]
    assert len(sent) == 2
    assert len({one.headers["Idempotency-Key"] for one in sent}) == 1


def test_a_change_is_not_repeated_on_a_server_that_was_started_again(hostile, client):
    infos = [Reply(body={"idempotency_keys": True, "instance": name}) for name in ("first", "second")]
    hostile.answer("GET /v1/pennon", *infos)
    hostile.answer("POST /v1/table/a%24t/drop", Reply(cut=1), Reply(body={"location": "l"}))
    with pytest.raises(UnknownOutcomeError):
        drop_table(client, "a", "t")
    assert drop_table(client, "a", "t").location == "l"
    assert hostile.count("GET /v1/pennon") == 2


@pytest.mark.parametrize("recognizes", [(True, True), (True, False), (False, True)])
def test_a_creation_is_repeated_on_a_server_that_was_started_again_if_it_recognizes_it(hostile, client, recognizes):
    infos = [
        Reply(body={"idempotency_keys": True, "instance": str(position), "creation_keys": known})
        for position, known in enumerate(recognizes)
    ]
    hostile.answer("GET /v1/pennon", *infos)
    hostile.answer("POST /v1/namespace/a/create", Reply(cut=1), Reply(body={"properties": {"p": "q"}}))
    if all(recognizes):
        assert create_namespace(client, "a").properties == {"p": "q"}
    else:
        with pytest.raises(UnknownOutcomeError):
            create_namespace(client, "a")
    sent = [one.headers["Idempotency-Key"] for one in hostile.asked if one.method == "POST"]
    assert len(sent) == (2 if all(recognizes) else 1)
    assert len(set(sent)) == 1


def test_two_changes_have_two_keys(hostile, client):
    hostile.answer("POST /v1/namespace/a/create", Reply(body={}))
    create_namespace(client, "a")
    create_namespace(client, "a")
    assert len({one.headers["Idempotency-Key"] for one in hostile.asked if one.method == "POST"}) == 2


def test_rows_of_a_reader_are_not_sent_twice(hostile, client):
    hostile.answer(INSERT, Reply(429))
    with pytest.raises(LanceNamespaceError) as caught:
        client.insert_into_table({"id": ["t"]}, ROWS.to_reader())
    assert int(caught.value.code) == 21
    assert hostile.count(INSERT) == 1


def test_a_server_that_is_away_is_named():
    away = RestNamespace(uri="http://127.0.0.1:1", retry_timeout="0", connect_timeout="1s")
    with fails(17, "127.0.0.1:1"), within(5):
        create_table(away, "t")
