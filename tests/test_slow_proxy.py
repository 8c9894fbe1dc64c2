"""The proxy passes requests on unchanged, delays each one, does not serialise them, and records them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from obstore.store import S3Store

from tests.servers import SeaweedS3
from tests.slow_proxy import ProxiedRequest, SlowProxy, longest_chain

pytestmark = pytest.mark.s3

DELAY = 0.05


@pytest.fixture(scope="module")
def proxy():
    with SeaweedS3() as server, SlowProxy(server.endpoint, delay=DELAY) as proxy:
        yield proxy


@pytest.fixture
def store(proxy) -> S3Store:
    """Return the bucket behind the proxy. SeaweedFS checks the signatures."""
    store = S3Store(proxy.endpoint.bucket, config=proxy.endpoint.storage_options())
    proxy.clear()
    return store


@pytest.mark.parametrize("size", [0, 10, 12_000_000], ids=["empty", "small", "in parts"])
def test_objects_pass_through_unchanged(size, store):
    content = bytes(range(250)) * (size // 250 + 1)
    obstore.put(store, "a b/é+%", content[:size])

    assert obstore.get(store, "a b/é+%").bytes() == content[:size]
    assert obstore.head(store, "a b/é+%")["size"] == size
    assert [entry["path"] for entry in obstore.list(store, "a b").collect()] == ["a b/é+%"]
    obstore.delete(store, "a b/é+%")
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "a b/é+%")


def test_each_request_is_recorded_and_takes_both_delays(proxy, store):
    start = time.monotonic()
    obstore.put(store, "recorded", b"x", use_multipart=False)
    obstore.list(store, "recorded").collect()
    end = time.monotonic()

    put, listing = proxy.requests()
    assert str(put) == "PUT /seaweed/recorded"
    assert str(listing).startswith("GET /seaweed?")
    assert "prefix=recorded" in listing.query
    assert start <= put.start < put.end <= listing.start < listing.end <= end
    assert min(put.end - put.start, listing.end - listing.start) >= 2 * DELAY - 0.002


def test_concurrent_requests_overlap(proxy, store):
    obstore.put(store, "read", b"x")
    with ThreadPoolExecutor(32) as pool:
        for _ in range(2):  # the first round opens the connections
            proxy.clear()
            list(pool.map(lambda _: obstore.get(store, "read").bytes(), range(32)))

    requests = proxy.requests()
    assert len(requests) == 32
    assert len(longest_chain(requests)) == 1


def test_requests_without_delay_are_recorded_too(proxy, store):
    proxy.set_delay(0.0)
    try:
        obstore.put(store, "fast", b"x")
    finally:
        proxy.set_delay(DELAY)

    assert [request.path for request in proxy.requests()] == ["/seaweed/fast"]


def test_longest_chain_counts_overlapping_requests_once():
    times = {"a": (0, 3), "b": (1, 4), "c": (4, 7), "d": (5, 9), "e": (9, 12), "long": (0, 12)}
    requests = [ProxiedRequest("GET", path, "", start, end) for path, (start, end) in times.items()]

    assert [request.path for request in longest_chain(requests)] == ["a", "c", "e"]
