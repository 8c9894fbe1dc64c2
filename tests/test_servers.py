"""The test servers behave as the other tests require."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import lance
import obstore
import pyarrow as pa
import pytest
import urllib3
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from tests import servers
from tests.servers import CountingS3, Request, S3Endpoint, SeaweedS3, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.s3

CLIENTS = 8
ROUNDS = 2  # SeaweedFS lets a client that finds the key locked wait for whole seconds


@pytest.fixture(scope="module")
def counting() -> Iterator[CountingS3]:
    with CountingS3() as server:
        yield server


@pytest.fixture(scope="module")
def seaweed() -> Iterator[SeaweedS3]:
    with SeaweedS3() as server:
        yield server


@pytest.fixture(scope="module", params=["counting", "seaweed"])
def endpoint(request: pytest.FixtureRequest) -> S3Endpoint:
    server: CountingS3 | SeaweedS3 = request.getfixturevalue(request.param)
    return server.endpoint


@pytest.fixture
def store(endpoint: S3Endpoint) -> S3Store:
    return store_of(endpoint)


def store_of(endpoint: S3Endpoint) -> S3Store:
    return S3Store(endpoint.bucket, config=endpoint.storage_options())


def winners(put: Callable[[int], object], lost: type[Exception]) -> list[int]:
    """Which of the clients that call `put` at once have won."""
    start = Barrier(CLIENTS)

    def client(n: int) -> bool:
        start.wait(10)
        try:
            put(n)
        except lost:
            return False
        return True

    with ThreadPoolExecutor(CLIENTS) as pool:
        return [n for n, won in enumerate(pool.map(client, range(CLIENTS))) if won]


def test_put_if_absent_has_one_winner(store: S3Store) -> None:
    for r in range(ROUNDS):
        key = f"absent/{r}"
        won = winners(
            lambda n, key=key: obstore.put(store, key, b"%d" % n, mode="create"),
            AlreadyExistsError,
        )
        assert len(won) == 1
        assert bytes(obstore.get(store, key).bytes()) == b"%d" % won[0]


def test_compare_and_swap_has_one_winner(store: S3Store) -> None:
    key = "swap"
    e_tag = obstore.put(store, key, b"start")["e_tag"]
    for r in range(ROUNDS):
        won = winners(
            lambda n, r=r, e_tag=e_tag: obstore.put(store, key, b"%d %d" % (r, n), mode={"e_tag": e_tag}),
            PreconditionError,
        )
        assert len(won) == 1
        assert bytes(obstore.get(store, key).bytes()) == b"%d %d" % (r, won[0])
        e_tag = obstore.head(store, key)["e_tag"]


def test_update_with_a_stale_or_missing_e_tag_is_refused(store: S3Store) -> None:
    old = obstore.put(store, "stale", b"1")["e_tag"]
    new = obstore.put(store, "stale", b"2", mode={"e_tag": old})["e_tag"]
    assert new != old
    with pytest.raises(PreconditionError):
        obstore.put(store, "stale", b"3", mode={"e_tag": old})
    with pytest.raises(PreconditionError):
        obstore.put(store, "missing", b"3", mode={"e_tag": old})
    assert bytes(obstore.get(store, "stale").bytes()) == b"2"


def test_delete_if_match(store: S3Store) -> None:
    old = obstore.put(store, "fenced/a b", b"1")["e_tag"]
    new = obstore.put(store, "fenced/a b", b"2")["e_tag"]
    assert old is not None
    assert new is not None
    url = obstore.sign(store, "DELETE", "fenced/a b", timedelta(minutes=1))
    with urllib3.PoolManager(retries=False, timeout=10.0) as http:
        assert http.request("DELETE", url, headers={"If-Match": old}).status == 412
        assert obstore.head(store, "fenced/a b")["e_tag"] == new
        assert http.request("DELETE", url, headers={"If-Match": new}).status == 204
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "fenced/a b")


def test_lance_writes_and_reads(endpoint: S3Endpoint) -> None:
    options = endpoint.storage_options()
    table = pa.table({"x": [1, 2, 3]})
    lance.write_dataset(table, endpoint.uri("t.lance"), storage_options=options)
    lance.write_dataset(table, endpoint.uri("t.lance"), storage_options=options, mode="append")
    found = lance.dataset(endpoint.uri("t.lance"), storage_options=options)
    assert found.version == 2
    assert found.to_table().column("x").to_pylist() == [1, 2, 3, 1, 2, 3]


def test_counting_counts_one_head(counting: CountingS3) -> None:
    store = store_of(counting.endpoint)
    obstore.put(store, "one", b"1")
    before = len(counting.requests)
    with counting.count() as count:
        obstore.head(store, "one")
        assert count.total == 1
    obstore.head(store, "one")
    key = counting.endpoint.storage_options()["aws_access_key_id"]
    assert count.requests == [Request("HEAD", f"/{counting.endpoint.bucket}/one", "", key)]
    assert count.total == 1, count.summary()
    assert len(counting.requests) == before + 2


def test_summary_is_short(counting: CountingS3) -> None:
    store = store_of(counting.endpoint)
    with counting.count() as count:
        obstore.put(store, "data/0b5e3f7c-9a0e-4c3b-8f55-2d2a7a3c9e11.lance", b"")
        obstore.put(store, "_versions/18446744073709551614.manifest", b"")
        obstore.list_with_delimiter(store, "data")
        url = obstore.sign(store, "DELETE", "a b", timedelta(minutes=1))
        urllib3.request("DELETE", url, timeout=60.0).release_conn()
    bucket = counting.endpoint.bucket
    assert count.summary().splitlines() == [
        "4 requests",
        f"  1. PUT /{bucket}/data/0b5e..9e11.lance",
        f"  2. PUT /{bucket}/_versions/..1614.manifest",
        f"  3. GET /{bucket}?delimiter=/&list-type=2&prefix=data/",
        f"  4. DELETE /{bucket}/a b (presigned)",
    ]


def test_counting_servers_do_not_share_objects(counting: CountingS3) -> None:
    store = store_of(counting.endpoint)
    obstore.put(store, "mine", b"1")
    with CountingS3() as other:
        assert other.requests == []
        assert obstore.list_with_delimiter(store_of(other.endpoint))["objects"] == []
        assert len(other.requests) == 1
    assert bytes(obstore.get(store, "mine").bytes()) == b"1"
    with pytest.raises(ConnectionRefusedError):
        connect(other.endpoint).close()


def test_counting_does_not_wait_for_a_stalled_client(counting: CountingS3) -> None:
    path = f"/{counting.endpoint.bucket}/stalled"
    store = store_of(counting.endpoint)
    with connect(counting.endpoint) as client:
        client.sendall(f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf".encode())
        obstore.put(store, "other", b"1")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "stalled")


def connect(endpoint: S3Endpoint) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(endpoint.url).port or 0), 10)


def test_seaweed_refuses_an_expired_signature(seaweed: SeaweedS3) -> None:
    store = store_of(seaweed.endpoint)
    obstore.put(store, "late", b"1")
    url = obstore.sign(store, "DELETE", "late", timedelta(seconds=1))
    with urllib3.PoolManager(retries=False, timeout=10.0) as http:
        time.sleep(2.1)  # signatures are in whole seconds
        assert http.request("DELETE", url).status == 403
    obstore.head(store, "late")


def test_seaweed_that_fails_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    binary = tmp_path / "weed"
    binary.write_text("#!/bin/sh\necho no such luck\nexit 3\n")
    binary.chmod(0o755)
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setattr(servers.tempfile, "tempdir", str(files))
    with monkeypatch.context() as patch:
        patch.setattr(servers, "weed_binary", lambda: binary)
        with pytest.raises(ServerError, match=r"(?s)ended with 3.*no such luck"):
            SeaweedS3().__enter__()
    with pytest.raises(ServerError, match="did not answer"):
        SeaweedS3(timeout=0.3).__enter__()
    assert list(files.iterdir()) == []


def test_seaweed_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = "import servers; s = servers.SeaweedS3(); s._start(); print(s.pid, flush=True); input()"
    owner = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "TMPDIR": str(tmp_path)},
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        os.killpg(pid, 0)
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []
    stat = subprocess.run(["/bin/ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    assert stat.stdout.strip()[:1] in (b"", b"Z")  # gone, or a zombie
