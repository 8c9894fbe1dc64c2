"""Bodies that are larger than what the server holds in memory, and results of any size."""

from __future__ import annotations

import http.client
import io
import json
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pennon.server.lance.streams import HELD_BYTES
from tests.iceberg.irc_servers import facade
from tests.server.http_client import LanceClient
from tests.support import create_table, declare_table, ipc

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 50_000
SCHEMA = pa.schema({"id": pa.int64(), "text": pa.string()})
SOAK_BYTES = int(float(os.environ.get("PENNON_SOAK_GB", "10")) * 0.5e9)
MOST_GROWTH = 800 << 20
"""What Lance's own buffers need for writing and reading, whatever the size of the table is."""
STREAM = "application/vnd.apache.arrow.stream"


def batch(number: int) -> pa.RecordBatch:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.record_batch([pa.array(ids), pa.array([f"{one:0>92}" for one in ids])], schema=SCHEMA)


def stream(batches: int) -> Iterator[bytes]:
    """Return an Arrow IPC stream in parts."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        for number in range(batches):
            writer.write_batch(batch(number))
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


@pytest.fixture(scope="module")
def large() -> bytes:
    """Return a body that goes to a file."""
    body = b"".join(stream(4))
    assert len(body) > 2 * HELD_BYTES
    return body


def test_a_table_is_created_from_a_large_body(client, catalog, space, large):
    assert client.post(f"/table/{space}%24t/create", large).body["version"] == 1
    assert client.post(f"/table/{space}%24t/create", large).lance_error == (409, 5)
    assert client.post(f"/table/{space}%24t/create?mode=overwrite", large).body["version"] == 2
    assert client.post(f"/table/{space}%24t/insert", large).body["num_inserted_rows"] == 4 * ROWS
    found = catalog._open_table((space, "t")).to_table()
    assert found.num_rows == 8 * ROWS
    assert found.slice(ROWS, ROWS) == pa.Table.from_batches([batch(1)])


def test_a_declared_table_gets_its_rows_from_a_large_body(client, catalog, space, large):
    for name, operation in (("t", "insert"), ("u", "merge_insert?on=id")):
        declare_table(catalog, space, name)
        assert client.post(f"/table/{space}%24{name}/{operation}", large).body["num_inserted_rows"] == 4 * ROWS
        assert catalog._open_table((space, name)).to_table()["id"].to_pylist() == list(range(4 * ROWS))


def test_a_large_body_is_merged(client, catalog, space, large):
    create_table(catalog, space, "t", data=ipc(pa.table({"id": [0, -1], "text": ["a", "b"]})))
    path = f"/table/{space}%24t/merge_insert?on=id&when_matched_update_all=true&when_not_matched_insert_all=true"
    answer = client.post(path, large).body
    assert (answer["num_updated_rows"], answer["num_inserted_rows"]) == (1, 4 * ROWS - 1)


def test_nothing_is_written_of_a_large_body_that_is_cut_or_damaged(client, catalog, space, large):
    create_table(catalog, space, "t", data=ipc(pa.table({"id": [1], "text": ["a"]})))
    damaged = large[: len(large) // 2]
    assert client.post(f"/table/{space}%24new/create", damaged).lance_error == (400, 13)
    assert client.post(f"/table/{space}%24t/insert", damaged).lance_error == (400, 13)
    assert client.post(f"/table/{space}%24t/merge_insert?on=id", damaged).lance_error == (400, 13)
    assert client.post(f"/table/{space}%24t/insert", b"x" * (HELD_BYTES + 1)).lance_error == (400, 13)
    assert catalog.list_tables({"id": [space]}).tables == ["t"]
    assert catalog._open_table((space, "t")).version == 1


def test_nothing_is_written_if_the_client_hangs_up(server, client, catalog, space, large):
    create_table(catalog, space, "t", data=ipc(pa.table({"id": [1], "text": ["a"]})))
    host, port = server.lance.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = f"POST /v1/table/{space}%24t/insert HTTP/1.1\r\nHost: localhost\r\nContent-Type: {STREAM}\r\n"
        connection.sendall(f"{head}Content-Length: {len(large)}\r\n\r\n".encode() + large[: len(large) // 2])
    assert client.post(f"/table/{space}%24t/count_rows", {}).body == 1
    assert catalog._open_table((space, "t")).version == 1


def words(first: int, count: int) -> pa.Table:
    """Return rows whose words are encoded by dictionaries, also within a struct."""
    texts = pa.array([f"word {one % 300}" for one in range(first, first + count)]).dictionary_encode()
    return pa.table(
        {"id": range(first, first + count), "word": texts, "inner": pa.StructArray.from_arrays([texts], ["w"])}
    )


def test_a_result_with_dictionaries_is_sent_in_parts(client, catalog, space):
    create_table(catalog, space, "t", data=ipc(words(0, ROWS)))
    for number in (1, 2):
        assert client.post(f"/table/{space}%24t/insert", ipc(words(ROWS * number + 7, ROWS))).status == 200
    answer = client.post(f"/table/{space}%24t/query", {"k": 1 << 40, "vector": {}})
    assert answer.headers["transfer-encoding"] == "chunked"
    found = pa.ipc.open_file(answer.body).read_all()
    wanted = pa.concat_tables([words(0, ROWS), words(ROWS + 7, ROWS), words(2 * ROWS + 7, ROWS)])
    assert found.schema.field("word").type == wanted.schema.field("word").type
    for name in wanted.column_names:
        assert found[name].to_pylist() == wanted[name].to_pylist()


@pytest.mark.soak
def test_memory_does_not_depend_on_the_size_of_a_body_or_a_result(tmp_path):
    with facade(tmp_path, managed=False) as server:
        client = LanceClient(server.lance)
        client.post("/namespace/a/create", {})
        client.post("/table/a%24t/create", b"".join(stream(4)))
        client.post("/table/a%24t/query", {"k": 1, "vector": {}})
        before = memory(server.process)
        batches = SOAK_BYTES // batch(0).nbytes
        peak = Peak(server.process)
        with peak:
            assert post(server.lance, "/v1/table/a%24big/create", stream(batches)) > 0
            assert post(server.lance, "/v1/table/a%24t/insert", stream(batches)) > 0
            query = json.dumps({"k": 1 << 40, "vector": {}})
            assert post(server.lance, "/v1/table/a%24big/query", query) > SOAK_BYTES * 0.9
        assert client.post("/table/a%24t/count_rows", {}).body == (batches + 4) * ROWS
    assert peak.most - before < MOST_GROWTH


def post(url: str, path: str, body: str | Iterator[bytes]) -> int:
    """Send a request, and return the size of its answer, which is not kept."""
    kind = "application/json" if isinstance(body, str) else STREAM
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=3600)
    connection.request("POST", path, body, {"Content-Type": kind}, encode_chunked=not isinstance(body, str))
    answer = connection.getresponse()
    assert answer.status == 200
    size = 0
    while part := answer.read(1 << 20):
        size += len(part)
    connection.close()
    return size


def memory(process: int) -> int:
    """Return the bytes of a process that are in memory."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


class Peak:
    """Watches the memory of a process."""

    def __init__(self, process: int) -> None:
        self.most = 0
        self._process = process
        self._done = threading.Event()
        self._watching = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.most = max(self.most, memory(self._process))

    def __enter__(self) -> None:
        self._watching.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watching.join()
