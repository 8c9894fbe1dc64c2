"""Lance commits through the server: writers of one table rebase, and a killed server loses nothing."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import lance
import lance_namespace
import pyarrow as pa
import pytest
import urllib3

from pennon import DirectoryNamespace
from tests.iceberg.irc_servers import facade
from tests.server.http_client import LanceClient
from tests.support import Root, create_namespace, create_table, ipc
from tests.versions.shelf import Shelf

THREADS, COMMITS = 4, 4
WRITERS, KILLS = 16, 2
PATIENCE = 120.0


@pytest.fixture
def server(managed):
    """Only a server whose catalog manages versions."""
    return managed


def write(client, space: str, rows: dict, mode: str = "append") -> None:
    lance.write_dataset(pa.table(rows), namespace_client=client, table_id=[space, "t"], mode=mode)


def test_lance_commits_through_the_server(pylance, catalog, space):
    write(pylance, space, {"x": [1]}, mode="create")
    write(pylance, space, {"x": [2]})
    dataset = lance.dataset(namespace_client=pylance, table_id=[space, "t"])
    dataset.delete("x = 1")
    dataset.create_scalar_index("x", "BTREE")
    assert dataset.to_table()["x"].to_pylist() == [2]
    # The versions are rows of the catalog: none was committed past the server.
    assert catalog.latest_table_versions([[space, "t"]]) == [4] == [dataset.version]
    listed = pylance.list_table_versions(lance_namespace.ListTableVersionsRequest(id=[space, "t"], descending=True))
    assert [one.version for one in listed.versions] == [4, 3, 2, 1]


def test_concurrent_writers_rebase(server, pylance, catalog, space):
    write(pylance, space, {"x": [-1]}, mode="create")
    start = threading.Barrier(THREADS)

    def append(writer: int) -> None:
        mine = lance_namespace.connect("rest", {"uri": server.lance})
        start.wait()
        for number in range(COMMITS):
            write(mine, space, {"x": [writer * COMMITS + number]})

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(append, range(THREADS)))
    dataset = catalog._open_table((space, "t"))
    assert sorted(dataset.to_table()["x"].to_pylist()) == list(range(-1, THREADS * COMMITS))
    assert dataset.version == THREADS * COMMITS + 1


def test_versions_of_several_tables_are_created_together(client, server, catalog, space):
    shelf = Shelf(catalog, Root(str(server.root)), (space,), is_managed=True)
    ids = [[space, "a"], [space, "b"]]
    for name in ("a", "b"):
        shelf.create(name, [1])
    late = shelf.stage("b", [7])
    shelf.append("b", [2])
    refused = client.post("/table/version/batch-create", {"entries": [shelf.stage("a", [8]), late]})
    assert refused.lance_error == (409, 14)
    assert catalog.latest_table_versions(ids) == [1, 2]
    made = client.post("/table/version/batch-create", {"entries": [shelf.stage("a", [9]), shelf.stage("b", [9])]})
    assert [one["version"] for one in made.body["versions"]] == [2, 3]
    assert (shelf.rows("a"), shelf.rows("b")) == ([1, 9], [1, 2, 9])
    ranges = {"ranges": [{"start_version": 1, "end_version": 2}]}
    assert client.post(f"/table/{space}%24a/version/delete", ranges).body["deleted_count"] == 1
    assert shelf.list_versions("a") == [2]


def test_a_version_is_created_once(client, server, catalog, space):
    shelf = Shelf(catalog, Root(str(server.root)), (space,), is_managed=True)
    shelf.create("a", [1])
    staged = [shelf.stage("a", [2]), shelf.stage("a", [3])]
    answers = [client.post(f"/table/{space}%24a/version/create", one) for one in staged]
    assert [one.status for one in answers] == [200, 409]
    assert answers[1].lance_error == (409, 14)
    assert shelf.rows("a") == [1, 2]


@dataclass
class Writer:
    """Sends requests one after the other, and remembers which of them were answered."""

    number: int
    tried: set[int] = field(default_factory=set)
    inserted: set[int] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)

    def run(self, client: LanceClient, done: threading.Event) -> None:
        """Insert a row, create a namespace and a table, again and again. What is not answered is not tried again."""
        for step in itertools.count():
            if done.is_set():
                return
            value, name = self.number * 1_000_000 + step, f"w{self.number}_{step}"
            self.tried.add(value)
            if self.answered(client, "/table/a%24t/insert", ipc({"x": [value]})):
                self.inserted.add(value)
            if self.answered(client, f"/namespace/a%24{name}/create", {}):
                self.namespaces.add(name)
            if self.answered(client, f"/table/a%24{name}_t/create", ipc({"x": [value]})):
                self.tables.add(f"{name}_t")

    def answered(self, client: LanceClient, path: str, body: object) -> bool:
        try:
            answer = client.post(path, body)
        except urllib3.exceptions.HTTPError:
            time.sleep(0.05)  # nobody serves
            return False
        # A conflict is an answer, too: nothing was done.
        assert answer.status == 200 or answer.body["code"] in {14, 17}, answer.body
        return answer.status == 200


@pytest.mark.concurrency
@pytest.mark.parametrize("managed", [True, False], ids=["managed", "plain"])
def test_nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed(tmp_path, managed):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    writers, done = [Writer(number) for number in range(WRITERS)], threading.Event()
    with DirectoryNamespace(root=str(tmp_path / "root")) as catalog, ThreadPoolExecutor(WRITERS) as pool:
        running = []
        for kill in range(KILLS + 1):
            with facade(tmp_path, managed=managed, arguments=("--port", port)) as server:
                if not running:
                    create_namespace(catalog, "a")
                    create_table(catalog, "a", "t", data=ipc({"x": [-1]}))
                    client = LanceClient(f"{server.lance}")
                    running = [pool.submit(writer.run, client, done) for writer in writers]
                progress = sum(len(one.tables) for one in writers) + WRITERS
                deadline = time.monotonic() + PATIENCE
                while sum(len(one.tables) for one in writers) < progress:
                    assert time.monotonic() < deadline, "nothing is answered"
                    assert not any(one.done() for one in running), [one.exception() for one in running if one.done()]
                    time.sleep(0.01)
                if kill < KILLS:
                    os.kill(server.process, signal.SIGKILL)
                else:
                    done.set()
                    for one in running:
                        one.result()
        found = catalog._open_table(("a", "t")).to_table()["x"].to_pylist()
        assert len(found) == len(set(found))
        assert set().union(*(one.inserted for one in writers)) <= set(found)
        assert set(found) - {-1} <= set().union(*(one.tried for one in writers))
        assert set().union(*(one.namespaces for one in writers)) <= set(
            catalog.list_namespaces({"id": ["a"]}).namespaces
        )
        made = set().union(*(one.tables for one in writers))
        assert made <= set(catalog.list_tables({"id": ["a"]}).tables)
        assert catalog.count_table_rows({"id": ["a", next(iter(made))]}).count == 1
