"""The state of a run: it is written once, has one owner at a time, and is never taken for a table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from lance_namespace.errors import ConcurrentModificationError, InvalidInputError, InvalidTableStateError

from pennon import DirectoryNamespace
from pennon.pipeline_runs import lease as leases
from pennon.pipeline_runs.run_state import RunState, new_run_id, validate_run_id
from pennon.store import open_store
from tests.support import fails, list_tables

HOLDER = """
import sys, time
from pennon.pipeline_runs.run_state import RunState
from pennon.store import open_store
with RunState(open_store(sys.argv[1], {}), "p", "r").lease():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path):
    return RunState(open_store(str(tmp_path / "root"), {}), "p", "r")


@pytest.fixture
def other_process(tmp_path):
    """Start another process that holds the lease."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "root")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_malformed_run_id_raises_invalid_input():
    assert new_run_id() != new_run_id()
    assert validate_run_id(new_run_id())
    for bad in ("", "a/b", "../x", ".x", "a b", "x" * 101, "a\n"):
        with pytest.raises(InvalidInputError, match="Bad run id"):
            validate_run_id(bad)


def test_first_record_wins(state):
    assert state.read_start() is None
    noted = state.begin("f1", {"a": {"version": 3}})
    assert state.begin("f2", {})["fingerprint"] == "f1"
    assert state.read_start()["reads"] == {"a": {"version": 3}}
    state.require_same(noted, "f1")
    with pytest.raises(InvalidTableStateError, match="another definition or other variables"):
        state.require_same(noted, "f2")
    kept, mine = state.record("step.a", {"rows": 1})
    assert (kept["rows"], mine) == (1, True)
    kept, mine = state.record("step.a", {"rows": 1})
    assert (kept["rows"], mine) == (1, False)
    assert list(state.finished_work()) == ["step.a"]
    state.undo("step.a")
    assert state.read_note("step.a") is None


def test_forgotten_run_can_begin_again(state, tmp_path):
    state.begin("f1", {})
    state.record("step.a", {})
    place = state.data_path("step.a")
    state.store.put(f"{place}/x", b"data")
    state.forget({"status": "checks failed"})
    assert state.read_start() is None
    assert state.finished_work() == []
    left = {path.name for path in (tmp_path / "root/__pennon").rglob("*") if path.is_file()}
    assert left == {"last-report.json"}
    assert state.begin("f2", {})["fingerprint"] == "f2"


def test_malformed_state_raises_invalid_table_state(state):
    state.begin("f", {})
    state.store.put("__pennon/runs/p/r/run.json", b"{")
    with pytest.raises(InvalidTableStateError, match=r"run\.json' in its state cannot be used"):
        state.read_start()
    state.store.put("__pennon/runs/p/r/run.json", json.dumps({"format": 99, "fingerprint": "f"}).encode())
    with pytest.raises(InvalidTableStateError, match="another version of Pennon"):
        state.require_same(state.read_start(), "f")


@pytest.mark.parametrize("flags", [{}, {"manifest_enabled": "false"}, {"dir_listing_enabled": "false"}])
def test_state_is_never_a_table_of_a_catalog(state, tmp_path, flags):
    state.begin("f", {})
    with DirectoryNamespace(root=str(tmp_path / "root"), **flags) as ns:
        assert list_tables(ns) == []
        for location in ("__pennon", "__pennon/runs/p/r"):
            with fails(13):
                ns.register_table({"id": ["t"], "location": location})


# The lease


def test_second_process_gets_the_lease_after_the_first_releases_it(state, other_process):
    with pytest.raises(ConcurrentModificationError) as caught, state.lease():
        pass
    assert f"process {other_process.pid} on " in str(caught.value)
    assert "--take-over" in str(caught.value)
    other_process.communicate("done")
    with state.lease() as held:
        held.require()
    with state.lease():
        pass


def test_lease_of_a_killed_process_is_taken_over_immediately(state, other_process):
    other_process.send_signal(signal.SIGKILL)
    other_process.wait()
    with state.lease() as held:
        held.require()


def test_stopped_process_loses_its_lease(state, other_process):
    os.kill(other_process.pid, signal.SIGSTOP)
    with state.lease(take_over=True) as second:
        second.require()
        with pytest.raises(ConcurrentModificationError), state.lease():
            pass
        with state.lease(take_over=True):
            assert not second.is_held
            with pytest.raises(ConcurrentModificationError, match="was taken over by process"):
                second.require()
    # The first process must not delete the lease of another one.
    with state.lease():
        os.kill(other_process.pid, signal.SIGCONT)
        other_process.communicate("done")
        assert other_process.returncode == 0
        with pytest.raises(ConcurrentModificationError), state.lease():
            pass


def test_lease_expires_without_renewal(state, monkeypatch, tmp_path):
    store = open_store(str(tmp_path / "root"), {})
    elsewhere = {"host": "h", "machine": "another machine", "process": 1, "token": "t"}
    path = "__pennon/runs/p/r/lease.json"
    store.create(path, json.dumps(elsewhere).encode())
    with pytest.raises(ConcurrentModificationError, match="process 1 on h"), state.lease():
        pass
    modified = store.get(path).modified
    monkeypatch.setattr(type(store), "now", lambda _: modified + leases.SECONDS + 1)
    with state.lease() as held:
        held.require()


def test_lease_is_renewed_in_the_background(state, monkeypatch):
    monkeypatch.setattr(leases, "SECONDS", 0.2)
    renewed = threading.Event()
    swap = type(state.store).swap

    def noticed(self, path, body, e_tag):
        renewed.set()
        return swap(self, path, body, e_tag)

    monkeypatch.setattr(type(state.store), "swap", noticed)
    with state.lease() as held:
        before = state.store.get("__pennon/runs/p/r/lease.json").body
        assert renewed.wait(30)
        deadline = time.monotonic() + 30
        while state.store.get("__pennon/runs/p/r/lease.json").body == before:
            assert time.monotonic() < deadline
        held.require()


def test_released_lease_of_a_store_without_conditional_deletes_counts_as_absent(state):
    state.store.create("__pennon/runs/p/r/lease.json", b"-")
    with state.lease() as held:
        held.require()
