"""Limits of requests: those that are too many are refused, and slow clients keep nobody out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
import urllib3
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse

from pennon.server import running
from pennon.server.operation.limits import Limits
from pennon.server.operation.metrics import Metrics
from pennon.server.operation.turns import RateLimiter, Turns
from pennon.server.permissions.rights import SCOPE_KEY, Principal

PATIENCE = 60.0


@dataclass
class Application:
    """An application whose requests to `/held` last until the test lets them go."""

    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    released: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, scope, receive, send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        if scope["path"].endswith("/held"):
            await asyncio.to_thread(self._hold)
        if scope["path"] == "/stream":
            await StreamingResponse(self._parts())(scope, receive, send)
        else:
            await PlainTextResponse(str(len(body)))(scope, receive, send)

    def _hold(self) -> None:
        self.began.release()
        assert self.released.wait(PATIENCE)

    async def _parts(self):
        yield b"first"
        await asyncio.to_thread(self._hold)
        yield b"last"


@pytest.fixture
def application():
    made = Application()
    yield made
    made.released.set()


@contextlib.contextmanager
def served(application, **limits):
    """Serve by the server itself; the principal is the one that a header names."""
    turns = Turns(application, Limits(**limits), Metrics())

    async def named(scope, receive, send) -> None:
        names = [value.decode() for key, value in scope["headers"] if key == b"x-user"]
        await turns({**scope, SCOPE_KEY: Principal(*names or ["nobody"])}, receive, send)

    with running.listening("127.0.0.1", 0) as taken:
        server = running.server(named)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield running.address(taken)
        finally:
            application.released.set()
            server.should_exit = True
            thread.join()


def get(url: str, **options) -> urllib3.BaseHTTPResponse:
    return urllib3.request(options.pop("method", "GET"), url, retries=False, timeout=PATIENCE, **options)


def test_requests_beyond_the_queue_get_503_with_retry_after(application):
    with served(application, running=2, queued=1) as url, ThreadPoolExecutor(4) as pool:
        held = [pool.submit(get, url + "/held") for _ in range(2)]
        for _ in held:
            assert application.began.acquire(timeout=PATIENCE)
        # One of these waits, the other is one too many.
        late = [pool.submit(get, url + "/held") for _ in range(2)]
        refused = next(one.result() for one in as_completed(late) if one.result().status == 503)
        assert refused.headers["Retry-After"] == "1"
        assert refused.json()["error"]["type"] == "ServiceUnavailableException"
        lance = get(url + "/v1/namespace/a/list")
        assert (lance.status, lance.json()["code"]) == (503, 17)
        application.released.set()
        assert sorted(one.result().status for one in [*held, *late]) == [200, 200, 200, 503]
        assert get(url).status == 200


def test_a_turn_that_does_not_come_in_time_is_503(application):
    with served(application, running=1, queue_seconds=0.05) as url, ThreadPoolExecutor(1) as pool:
        held = pool.submit(get, url + "/held")
        assert application.began.acquire(timeout=PATIENCE)
        assert get(url).status == 503
        application.released.set()
        assert held.result().status == 200
        assert get(url).status == 200


def test_half_a_body_holds_no_turn(application):
    with served(application, running=1, queued=0) as url, connect(url) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 10\r\n\r\nhalf ")
        assert get(url, method="POST", body=b"whole").data == b"5"
        slow.sendall(b"other")
        assert read_all(slow).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_request_that_has_no_body_cannot_avoid_its_turn_by_one(application, method):
    with served(application) as url:
        assert get(url, method=method, body=b"body").status == 400
        assert get(url, method=method, headers={"Content-Length": "0"}).status == 200


def test_an_answer_that_is_read_slowly_holds_no_turn(application):
    with served(application, running=1, queued=0) as url, connect(url) as slow:
        slow.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert application.began.acquire(timeout=PATIENCE)
        assert get(url).status == 200
        application.released.set()
        assert b"last" in read_all(slow)


def test_a_late_answer_is_504_and_its_work_keeps_the_turn(application):
    with served(application, running=1, queued=0, request_seconds=0.05) as url:
        late = get(url + "/held")
        assert (late.status, late.json()["error"]["type"]) == (504, "CommitStateUnknownException")
        assert get(url).status == 503
        application.released.set()
        while (status := get(url).status) != 200:
            assert status == 503


def test_each_principal_has_a_rate_of_its_own(application):
    with served(application, rate=0.5) as url:
        answers = [get(url, headers={"X-User": "ann"}) for _ in range(3)]
        assert [one.status for one in answers] == [200, 429, 429]
        assert answers[-1].headers["Retry-After"] in {"1", "2"}
        assert get(url, headers={"X-User": "bob"}).status == 200


def test_a_rate_allows_two_seconds_at_once_and_forgets_old_principals():
    limiter = RateLimiter(100.0)
    assert [limiter.seconds_to_wait("ann") for _ in range(200)] == [0] * 200
    assert any(limiter.seconds_to_wait("ann") for _ in range(100))
    for number in range(20_000):
        assert limiter.seconds_to_wait(str(number)) == 0
    assert len(limiter._buckets) <= 10_000
    assert {RateLimiter(0.0).seconds_to_wait("ann") for _ in range(1000)} == {0}


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_body_that_is_too_large_is_413(application, framing):
    with served(application, upload_bytes=1000) as url:
        body = b"x" * 1001
        assert get(url, method="POST", body=body[:1000]).data == b"1000"
        sent = body if framing == "length" else iter([body[:600], body[:401]])
        answer = get(f"{url}/iceberg", method="POST", body=sent)
        assert answer.status == 413
        assert "1,000 bytes" in json.loads(answer.data)["error"]["message"]


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)


def read_all(connection: socket.socket) -> bytes:
    said = b""
    while chunk := connection.recv(65536):
        said += chunk
    return said
