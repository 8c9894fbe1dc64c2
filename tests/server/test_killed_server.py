"""A server that is killed while others commit through it, and started again: nothing lost, nothing twice."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time

import lance
import pyarrow as pa
import pytest

from pennon import DirectoryNamespace, IcebergNamespace
from tests.iceberg.irc_servers import facade
from tests.server.http_client import Client, table_path
from tests.support import create_namespace, create_table

WRITERS, COMMITS, KILLS = 3, 6, 2
PATIENCE = 120.0


def _append(uri: str, writer: int) -> None:
    with IcebergNamespace(uri=uri, managed_by="impl") as mine:
        for number in range(COMMITS):
            data = pa.table({"x": [writer * 1000 + number]})
            while not _is_appended(mine, data):
                pass


def _is_appended(catalog: IcebergNamespace, data: pa.Table) -> bool:
    """Append rows; False if others came first until Lance's time was over, as on a busy machine."""
    try:
        lance.write_dataset(data, namespace_client=catalog, table_id=["a", "t"], mode="append")
    except OSError as error:
        if "Too many concurrent writers" in str(error):
            return False
        raise
    return True


def _port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


@pytest.mark.concurrency
def test_writers_go_on_when_the_server_is_back(tmp_path):
    arguments = ("--port", _port())
    with DirectoryNamespace(root=str(tmp_path / "root")) as catalog:

        def version() -> int:
            return catalog.latest_table_versions([["a", "t"]])[0]

        with facade(tmp_path, managed=True, arguments=arguments) as server:
            create_namespace(catalog, "a")
            create_table(catalog, "a", "t")
            spawn = multiprocessing.get_context("spawn")
            writers = [spawn.Process(target=_append, args=(server.uri, one)) for one in range(1, WRITERS + 1)]
            for writer in writers:
                writer.start()
            _killed_in_the_middle(server, version)
        for _ in range(KILLS - 1):
            with facade(tmp_path, managed=True, arguments=arguments) as server:
                _killed_in_the_middle(server, version)
        with facade(tmp_path, managed=True, arguments=arguments) as server:
            for writer in writers:
                writer.join()
            assert [writer.exitcode for writer in writers] == [0] * WRITERS
            metadata = Client(server.uri).get(table_path("a", "t")).body["metadata"]
        found = sorted(catalog._open_table(("a", "t")).to_table()["x"].to_pylist())
    wanted = [writer * 1000 + number for writer in range(1, WRITERS + 1) for number in range(COMMITS)]
    assert found == [1, 2, 3, *wanted]
    assert [one["snapshot-id"] for one in metadata["snapshots"]] == list(range(1, WRITERS * COMMITS + 2))


def _killed_in_the_middle(server, version) -> None:
    """Kill the server once some more versions are there."""
    goal = version() + WRITERS
    deadline = time.monotonic() + PATIENCE
    while version() < goal:
        assert time.monotonic() < deadline, "nobody commits"
        time.sleep(0.01)
    os.kill(server.process, signal.SIGKILL)
