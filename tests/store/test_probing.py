"""Probes of real stores: what they find, and that they leave nothing."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pennon.errors import LanceNamespaceError, UnsupportedOperationError
from pennon.store import open_store
from pennon.store.probing import PROBE_PREFIX, find_file_system, probe_store
from tests.servers import CountingS3, SeaweedS3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.store import Store

_numbers = itertools.count(1)
CONDITIONS = {"put-if-absent", "compare-and-swap", "conditional deletion"}
EVERYWHERE = {
    "writing",
    "read after write",
    "concurrent writes",
    "listing",
    "copying",
    "deletion",
    "clock",
    *CONDITIONS,
}
ON_DISKS = {"hard links", "locks", "case of names", "file system"}


@pytest.fixture(scope="module")
def counting_s3() -> Iterator[CountingS3]:
    with CountingS3() as server:
        yield server


@pytest.fixture(scope="module")
def seaweed_s3() -> Iterator[SeaweedS3]:
    with SeaweedS3() as server:
        yield server


@pytest.fixture(
    params=["local", pytest.param("counting", marks=pytest.mark.s3), pytest.param("seaweed", marks=pytest.mark.s3)]
)
def store(request, tmp_path) -> Iterator[Store]:
    if request.param == "local":
        (tmp_path / "root").mkdir()
        opened = open_store(str(tmp_path / "root"), {})
    else:
        endpoint = request.getfixturevalue(f"{request.param}_s3").endpoint
        opened = open_store(endpoint.uri(f"root-{next(_numbers)}"), endpoint.storage_options())
    yield opened
    opened.close()


def open_bucket(server: CountingS3) -> Store:
    return open_store(server.endpoint.uri("root"), server.endpoint.storage_options())


def faults(found) -> dict[str, str]:
    return {one.promise.name: one.fault for one in found.results if one.fault and one.promise.weight != "note"}


def left_over(store: Store) -> list[str]:
    if store.is_local:
        return [path.name for path in Path(store.identity()).iterdir()]
    return [*(file.name for file in store.list_level().files), *(name for name in store.list_names(""))]


def test_good_stores_keep_every_promise_and_nothing_is_left(store):
    found = probe_store(store)
    assert faults(found) == {}
    assert {one.promise.name for one in found.results} == EVERYWHERE | (ON_DISKS if store.is_local else set())
    assert 0 < found.round_trip_ms < 60_000
    assert abs(found.clock_ahead_seconds) < 30
    assert all(one.promise.needed_for for one in found.results)
    assert left_over(store) == []
    assert bool(found.file_system) == store.is_local


@pytest.mark.s3
def test_pages_are_listed_completely(counting_s3):
    store = open_store(counting_s3.endpoint.uri("pages"), counting_s3.endpoint.storage_options())
    with counting_s3.count() as count:
        found = probe_store(store, pages=True)
    assert faults(found) == {}
    assert [one.fault for one in found.results if one.promise.name == "listing in pages"] == [""]
    assert count.total < 1_150
    assert left_over(store) == []
    store.close()


@pytest.mark.s3
def test_probes_cost_few_requests(counting_s3):
    store = open_store(counting_s3.endpoint.uri("few"), counting_s3.endpoint.storage_options())
    with counting_s3.count() as count:
        probe_store(store)
    assert count.total <= 90, count.summary()
    store.close()


@pytest.mark.s3
@pytest.mark.parametrize(
    ("ignored", "wrong"),
    [
        (("PUT", "If-None-Match"), {"put-if-absent", "concurrent writes"}),
        (("PUT", "If-Match"), {"compare-and-swap", "concurrent writes"}),
        (("DELETE", "If-Match"), {"conditional deletion"}),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else "",
)
def test_ignored_conditions_are_found_under_their_names(ignored, wrong):
    with CountingS3(ignoring=[ignored]) as server:
        store = open_bucket(server)
        found = faults(probe_store(store))
        assert found.keys() == wrong
        (first, *_) = found.values()
        assert "does not honour" in first
        with pytest.raises(UnsupportedOperationError, match=first):
            store.require_conditional_writes()
        assert left_over(store) == []
        store.close()


@pytest.mark.s3
@pytest.mark.parametrize(("ahead", "weight"), [(12, "warning"), (-12, "warning"), (600, "error"), (-600, "error")])
def test_difference_of_clocks_is_measured(ahead, weight):
    with CountingS3(clock_ahead=ahead) as server:
        store = open_bucket(server)
        found = probe_store(store)
        (clock,) = [one for one in found.results if one.promise.name == "clock"]
        assert abs(found.clock_ahead_seconds - ahead) < 4
        assert ("ahead of" if ahead > 0 else "behind") in clock.fault
        assert clock.promise.weight == weight
        store.close()


@pytest.mark.s3
def test_refused_writes_are_one_fault(seaweed_s3):
    access, secret = seaweed_s3.reader
    options = seaweed_s3.endpoint.storage_options()
    options |= {"aws_access_key_id": access, "aws_secret_access_key": secret}
    store = open_store(seaweed_s3.endpoint.uri("readonly"), options)
    found = probe_store(store)
    assert found.is_readonly
    assert faults(found).keys() == {"writing"}
    assert "writes are refused" in faults(found)["writing"]
    store.close()


READONLY_PROBE = """
import os, sys
from pennon.store import open_store, local, probing
from pennon.store.probing import probe_store
if os.geteuid() == 0:
    os.setuid(65534)
print([one.promise.name for one in probe_store(open_store(sys.argv[1], {})).results if one.fault])
"""


def test_readonly_directory_is_one_fault():
    # The system's root may write everywhere, so another user probes.
    with tempfile.TemporaryDirectory(prefix="pennon-readonly-") as folder:
        Path(folder).chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", READONLY_PROBE, folder], capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == ("['writing']\n", "")
        assert list(Path(folder).iterdir()) == []


@pytest.mark.parametrize("store", ["local", pytest.param("counting", marks=pytest.mark.s3)], indirect=True)
@pytest.mark.parametrize("moment", ["conditional writes", "listing", "clock"])
def test_interrupted_probe_leaves_nothing(store, moment):
    def interrupt(name: str) -> None:
        if name == moment:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        probe_store(store, report=interrupt)
    assert left_over(store) == []


def test_probe_touches_nothing_else(store):
    store.put("mine.lance/data/file", b"kept")
    before = {name for name in store.list_names("") if not name.startswith(".lance-")}
    probe_store(store)
    assert {name for name in store.list_names("") if not name.startswith(".lance-")} == before
    assert store.get("mine.lance/data/file").body == b"kept"
    assert not any(name.startswith(PROBE_PREFIX) for name in store.list_names(""))


def test_store_that_does_not_answer_raises():
    options = {"aws_endpoint": "http://127.0.0.1:9", "allow_http": "true", "aws_region": "x", "retry_timeout": "1s"}
    options |= {"aws_access_key_id": "a", "aws_secret_access_key": "b", "max_retries": "0"}
    store = open_store("s3://bucket/root", options)
    with pytest.raises(LanceNamespaceError):
        probe_store(store)
    store.close()


def test_file_system_of_a_directory_is_named():
    assert find_file_system("/proc/self") == "proc"
    assert find_file_system(str(Path(__file__).parent))
