"""Requests that are sent again with the same `Idempotency-Key` are done once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from starlette.responses import Response

from pennon.errors import InvalidInputError, ServiceUnavailableError
from pennon.server.lance.idempotency import KeptAnswers
from tests.support import create_table, ipc

if TYPE_CHECKING:
    from tests.server.http_client import Answer

KEY = "idempotency-key"


def twice(client, path: str, body: object, key: str = "k") -> tuple[Answer, Answer]:
    """Send a request twice with one key."""
    key = f"{path}-{key}"
    return client.call("POST", path, body, **{KEY: key}), client.call("POST", path, body, **{KEY: key})


def same(answers: tuple[Answer, Answer]) -> bool:
    first, second = answers
    return first.status == second.status == 200 and first.body == second.body


def test_creations_are_done_once(client, space):
    assert same(twice(client, f"/namespace/{space}%24n/create", {"properties": {"a": "b"}}))
    assert same(twice(client, f"/table/{space}%24d/declare", {}))
    assert same(twice(client, f"/table/{space}%24t/create", ipc({"x": [1]})))
    assert client.post(f"/table/{space}%24t/create", ipc({"x": [1]})).lance_error == (409, 5)


def test_changes_are_done_once(client, catalog, space):
    create_table(catalog, space, "t", data=ipc({"x": [1]}))
    assert same(twice(client, f"/table/{space}%24t/insert", ipc({"x": [2]})))
    assert client.post(f"/table/{space}%24t/count_rows", {}).body == 2
    assert same(twice(client, f"/table/{space}%24t/rename", {"new_table_name": "u"}))
    assert same(twice(client, f"/table/{space}%24u/drop", None))
    assert same(twice(client, f"/pennon/table/{space}%24u/undrop", {}))


def test_a_large_body_is_done_once(client, catalog, space):
    create_table(catalog, space, "t", data=ipc({"x": [1]}))
    rows = ipc({"x": list(range(1_500_000))})
    assert same(twice(client, f"/table/{space}%24t/insert", rows))
    assert client.post(f"/table/{space}%24t/count_rows", {}).body == 1_500_001


def test_a_key_is_for_one_request(client, space):
    path = f"/namespace/{space}%24n/create"
    assert client.call("POST", path, {}, **{KEY: f"{space}-1"}).status == 200
    assert client.call("POST", path, {"properties": {"a": "b"}}, **{KEY: f"{space}-1"}).lance_error == (400, 13)
    other = f"/namespace/{space}%24m/create"
    assert client.call("POST", other, {}, **{KEY: f"{space}-1"}).lance_error == (400, 13)
    for bad in ("", "x" * 256):
        assert client.call("POST", other, {}, **{KEY: bad}).lance_error == (400, 13)


def test_errors_are_not_kept(client, space):
    path = f"/table/{space}%24t/drop"
    assert client.call("POST", path, **{KEY: f"{space}-2"}).lance_error == (404, 4)
    assert client.post(f"/table/{space}%24t/declare", {}).status == 200
    assert client.call("POST", path, **{KEY: f"{space}-2"}).status == 200


def test_a_request_that_is_not_answered_yet_is_not_done_again():
    answers = KeptAnswers()
    begun, end = threading.Event(), threading.Event()

    def handle() -> Response:
        begun.set()
        assert end.wait(60)
        return Response(b"done")

    first = threading.Thread(target=answers.answer_once, args=("me", "k", b"f", handle))
    first.start()
    assert begun.wait(60)
    with pytest.raises(ServiceUnavailableError, match="not finished"):
        answers.answer_once("me", "k", b"f", handle)
    assert answers.answer_once("you", "k", b"f", lambda: Response(b"yours")).body == b"yours"
    end.set()
    first.join()
    assert answers.answer_once("me", "k", b"f", handle).body == b"done"
    with pytest.raises(InvalidInputError):
        answers.answer_once("me", "k", b"g", handle)


def test_answers_are_forgotten_when_they_are_old_or_too_many():
    numbers = iter(range(100))

    def handle() -> Response:
        return Response(str(next(numbers)).encode())

    brief = KeptAnswers(seconds=0)
    assert [brief.answer_once("me", "k", b"f", handle).body for _ in range(2)] == [b"0", b"1"]
    small = KeptAnswers(most_bytes=5_000)
    for number in range(20):
        assert small.answer_once("me", f"k{number}", b"f", handle).body == str(number + 2).encode()
    assert small.answer_once("me", "k19", b"f", handle).body == b"21"
    assert small.answer_once("me", "k0", b"f", handle).body == b"22"
