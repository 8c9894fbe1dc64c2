"""Creations that are repeated after their server is gone: the client gets an answer, and there is one object."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
import urllib3.exceptions

from pennon import DirectoryNamespace
from tests.iceberg.irc_servers import facade
from tests.server.http_client import LanceClient
from tests.server.served import served
from tests.support import MODES, create_namespace, create_table, ipc

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "idempotency-key"
WRITERS, KILLS = 4, 3
PATIENCE = 120.0


@pytest.fixture(params=["v2", "compatibility", "managed"])
def pair(request, tmp_path) -> Iterator[tuple[LanceClient, LanceClient, DirectoryNamespace]]:
    """Serve one root by two servers that do not know each other's answers."""
    mode = MODES["compatibility" if request.param == "managed" else request.param]
    with (
        DirectoryNamespace(root=str(tmp_path), **mode) as first,
        DirectoryNamespace(root=str(tmp_path), **mode) as second,
    ):
        create_namespace(first, "a")
        if request.param == "managed":
            first.enable_table_version_management()
        with served(first) as one, served(second) as other:
            yield LanceClient(one), LanceClient(other), second


def repeat(pair, path: str, body: object, *, key: str = "k", query: str = "") -> tuple[Any, Any]:
    """Send a creation to one server and again to the other, and return both answers."""
    answers = [one.call("POST", path + query, body, **{KEY: key}) for one in pair[:2]]
    assert [one.status for one in answers] == [200, 200], answers[1]
    return answers[0].body, answers[1].body


def test_a_namespace_is_created_once(pair):
    first, second = repeat(pair, "/namespace/a%24n/create", {"properties": {"p": "q"}})
    assert first == second == {"properties": {"p": "q"}}
    assert pair[1].call("POST", "/namespace/a%24n/create", {}, **{KEY: "other"}).lance_error == (409, 2)
    assert pair[1].post("/namespace/a%24n/create", {"properties": {"p": "q"}}).lance_error == (409, 2)
    assert pair[2].describe_namespace({"id": ["a", "n"]}).properties == {"p": "q"}


@pytest.mark.parametrize("name", ["t", "a%24t"])
def test_a_table_is_created_once(pair, name):
    first, second = repeat(pair, f"/table/{name}/create", ipc({"x": [1]}), query='?properties={"p":"q"}')
    assert first.pop("version") >= 1
    assert first == second
    identifier = name.split("%24")
    assert pair[2].count_table_rows({"id": identifier}).count == 1
    assert pair[1].call("POST", f"/table/{name}/create", ipc({"x": [1]}), **{KEY: "other"}).lance_error == (409, 5)
    assert pair[2].describe_table({"id": identifier}).properties == {"p": "q"}


@pytest.mark.parametrize("name", ["t", "a%24t"])
def test_a_declared_table_is_declared_and_filled_once(pair, name):
    first, second = repeat(pair, f"/table/{name}/declare", {"properties": {"p": "q"}})
    assert first == second
    repeat(pair, f"/table/{name}/create", ipc({"x": [1]}), key="fill")
    assert pair[2].describe_table({"id": name.split("%24")}).properties == {"p": "q"}
    assert pair[1].call("POST", f"/table/{name}/create", ipc({"x": [1]}), **{KEY: "other"}).lance_error == (409, 5)


def test_a_table_is_registered_once(pair, tmp_path):
    lance.write_dataset(pa.table({"x": [1]}), str(tmp_path / "there"))
    first, second = repeat(pair, "/table/a%24r/register", {"location": "there", "properties": {"p": "q"}})
    assert first == second


def test_a_table_is_overwritten_once(pair):
    create_table(pair[2], "a", "t", data=ipc({"x": [1]}))
    answer = pair[0].call("POST", "/table/a%24t/create?mode=overwrite", ipc({"x": [2]}), **{KEY: "k"})
    assert answer.status == 200
    pair[2].insert_into_table({"id": ["a", "t"]}, ipc({"x": [3]}))
    answer = pair[1].call("POST", "/table/a%24t/create?mode=overwrite", ipc({"x": [2]}), **{KEY: "k"})
    assert answer.status == 200
    assert pair[2].count_table_rows({"id": ["a", "t"]}).count == 2


def test_other_changes_keep_the_request_and_do_not_show_it(pair):
    create, drop = "/namespace/a%24n/create", "/namespace/a%24n/drop"
    assert pair[0].call("POST", create, {}, **{KEY: "k"}).status == 200
    pair[2].set_namespace_protection(["a", "n"], True)
    pair[2].alter_namespace_properties(["a", "n"], {"p": "q"})
    assert pair[1].call("POST", create, {}, **{KEY: "k"}).body == {"properties": {"p": "q"}}
    pair[2].set_namespace_protection(["a", "n"], False)
    assert pair[1].post(drop, {}).body == {"properties": {"p": "q"}}
    # What was dropped is created again by a server that does not know the first answer.
    assert pair[1].call("POST", create, {}, **{KEY: "new"}).status == 200


def _create_all(root: str, uri: str, writer: int, end: threading.Event, failures: list[str]) -> None:
    """Create objects of each kind until the end, each with a key that is sent until there is an answer."""
    number = 0
    while not end.is_set():
        number += 1
        name = f"w{writer}x{number}"
        rows = ipc({"x": [number]})
        for path, body in (
            (f"/namespace/{name}n/create", {"properties": {"p": "q"}}),
            (f"/table/{name}d/declare", {}),
            (f"/table/{name}t/create", rows),
            (f"/table/a%24{name}/declare", {}),
            (f"/table/a%24{name}/create", rows),
            (f"/table/a%24{name}c/create", rows),
        ):
            answer = _send_until_answered(uri, path, body)
            if answer.status != 200:
                failures.append(f"{path}: {answer.status} {answer.body}")


def _send_until_answered(uri: str, path: str, body: object) -> Any:
    key, deadline = uuid.uuid4().hex, time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < deadline, "the server does not come back"
        try:
            answer = LanceClient(uri).call("POST", path, body, **{KEY: key})
        except urllib3.exceptions.HTTPError:
            time.sleep(0.05)
            continue
        if answer.status != 503:
            return answer


@pytest.mark.concurrency
@pytest.mark.parametrize("managed", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_creations_survive_a_killed_server(tmp_path, managed):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        arguments = ("--port", str(taken.getsockname()[1]))
    end, failures = threading.Event(), []
    writers: list[threading.Thread] = []
    root = tmp_path / "root"
    for life in range(KILLS + 1):
        with facade(tmp_path, managed=managed and not life, arguments=arguments) as server:
            if not life:
                with DirectoryNamespace(root=str(root)) as catalog:
                    create_namespace(catalog, "a")
                writers = [
                    threading.Thread(target=_create_all, args=(str(root), server.lance, one, end, failures))
                    for one in range(WRITERS)
                ]
                for writer in writers:
                    writer.start()
            _wait_for_more(root)
            if life < KILLS:
                os.kill(server.process, signal.SIGKILL)
                continue
            end.set()
            for writer in writers:
                writer.join()
    assert not failures


def _wait_for_more(root) -> None:
    """Wait until some objects more are in the root."""

    def count() -> int:
        return len(list(root.iterdir()))

    goal, deadline = count() + 10, time.monotonic() + PATIENCE
    while count() < goal:
        assert time.monotonic() < deadline, "nothing is created"
        time.sleep(0.005)
