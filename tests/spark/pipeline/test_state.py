"""A run's state in the store: written once, one owner at a time, and nothing that a catalog would take for a table."""

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
from pennon.spark.pipeline import lease as leases
from pennon.spark.pipeline.state import RunState, checked_run_id, new_run_id
from pennon.store import open_store
from tests.support import fails, list_tables

HOLDER = """
import sys, time
from pennon.spark.pipeline.state import RunState
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
    """Let another process hold the lease."""
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


def test_run_ids():
    assert new_run_id() != new_run_id()
    assert checked_run_id(new_run_id())
    for bad in ("", "a/b", "../x", ".x", "a b", "x" * 101, "a\n"):
        with pytest.raises(InvalidInputError, match="Bad run id"):
            checked_run_id(bad)


def test_what_is_recorded_first_stays(state):
    assert state.beginning() is None
    noted = state.begin("f1", {"a": {"version": 3}})
    assert state.begin("f2", {})["fingerprint"] == "f1"
    assert state.beginning()["reads"] == {"a": {"version": 3}}
    state.require_same(noted, "f1")
    with pytest.raises(InvalidTableStateError, match="another definition or other variables"):
        state.require_same(noted, "f2")
    kept, mine = state.record("step.a", {"rows": 1})
    assert (kept["rows"], mine) == (1, True)
    kept, mine = state.record("step.a", {"rows": 1})
    assert (kept["rows"], mine) == (1, False)
    assert list(state.all_done()) == ["step.a"]
    state.undo("step.a")
    assert state.done("step.a") is None


def test_a_forgotten_run_can_begin_anew(state, tmp_path):
    state.begin("f1", {})
    state.record("step.a", {})
    place = state.data_path("step.a")
    state.store.put(f"{place}/x", b"data")
    state.forget({"status": "checks failed"})
    assert state.beginning() is None
    assert state.all_done() == []
    left = {path.name for path in (tmp_path / "root/__pennon").rglob("*") if path.is_file()}
    assert left == {"last-report.json"}
    assert state.begin("f2", {})["fingerprint"] == "f2"


def test_damaged_state_is_refused(state):
    state.begin("f", {})
    state.store.put("__pennon/runs/p/r/run.json", b"{")
    with pytest.raises(InvalidTableStateError, match=r"run\.json' in its state cannot be used"):
        state.beginning()
    state.store.put("__pennon/runs/p/r/run.json", json.dumps({"format": 99, "fingerprint": "f"}).encode())
    with pytest.raises(InvalidTableStateError, match="another version of Pennon"):
        state.require_same(state.beginning(), "f")


@pytest.mark.parametrize("flags", [{}, {"manifest_enabled": "false"}, {"dir_listing_enabled": "false"}])
def test_no_catalog_takes_it_for_a_table(state, tmp_path, flags):
    state.begin("f", {})
    with DirectoryNamespace(root=str(tmp_path / "root"), **flags) as ns:
        assert list_tables(ns) == []
        for location in ("__pennon", "__pennon/runs/p/r"):
            with fails(13):
                ns.register_table({"id": ["t"], "location": location})


# The lease


def test_a_second_process_is_refused_until_the_first_is_done(state, other_process):
    with pytest.raises(ConcurrentModificationError) as caught, state.lease():
        pass
    assert f"process {other_process.pid} on " in str(caught.value)
    assert "--take-over" in str(caught.value)
    other_process.communicate("done")
    with state.lease() as held:
        held.require()
    with state.lease():
        pass


def test_the_lease_of_a_killed_process_is_taken_at_once(state, other_process):
    other_process.send_signal(signal.SIGKILL)
    other_process.wait()
    with state.lease() as held:
        held.require()


def test_a_stopped_process_finds_that_it_was_replaced(state, other_process):
    os.kill(other_process.pid, signal.SIGSTOP)
    with state.lease(take_over=True) as second:
        second.require()
        with pytest.raises(ConcurrentModificationError), state.lease():
            pass
        with state.lease(take_over=True):
            assert not second.is_held
            with pytest.raises(ConcurrentModificationError, match="was taken over by process"):
                second.require()
    # The first one must not remove what belongs to another by now.
    with state.lease():
        os.kill(other_process.pid, signal.SIGCONT)
        other_process.communicate("done")
        assert other_process.returncode == 0
        with pytest.raises(ConcurrentModificationError), state.lease():
            pass


def test_a_lease_that_is_not_renewed_is_over(state, monkeypatch, tmp_path):
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


def test_a_lease_is_renewed_in_the_background(state, monkeypatch):
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


def test_what_a_weak_store_leaves_counts_as_absent(state):
    state.store.create("__pennon/runs/p/r/lease.json", b"-")
    with state.lease() as held:
        held.require()
