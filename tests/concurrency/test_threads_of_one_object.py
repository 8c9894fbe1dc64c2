"""One namespace object that many threads use at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import pytest

from pennon.directory.manifest import Draft
from tests.concurrency import lives, workers
from tests.concurrency.places import column, entries, location
from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
)

pytestmark = pytest.mark.concurrency

THREADS = 16
ROUNDS = 3


def run_lives(ns, root, mode, rounds):
    """Run 16 threads on one namespace object, and return the outcomes of the shared attempts by round."""
    start = Barrier(THREADS)

    def run(number):
        start.wait(60)
        return lives.live(ns, root, mode, f"thread{number}", rounds)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_sixteen_threads_mix_all_operations_on_one_object(disk, mode, open_namespace):
    ns = open_namespace(disk, mode)
    outcomes = run_lives(ns, disk, mode, ROUNDS)
    expected = sorted(f"thread{thread}_{number}" for thread in range(THREADS) for number in range(ROUNDS))
    expect_outcome(disk, mode, open_namespace, expected, outcomes)
    assert list_tables(ns) == expected


@pytest.mark.parametrize("manifest_mode", ["v2", "compatibility"])
def test_sixteen_threads_and_eight_processes_share_a_root(crew, disk, manifest_mode, open_namespace):
    ns = open_namespace(disk, manifest_mode)
    with ThreadPoolExecutor(1) as pool:
        threads = pool.submit(run_lives, ns, disk, manifest_mode, 2)
        processes = crew.run(workers.live, disk, manifest_mode, 2)
        outcomes = threads.result() + processes
    names = [f"thread{number}" for number in range(THREADS)] + [f"process{number}" for number in range(crew.size)]
    expected = sorted(f"{name}_{number}" for name in names for number in range(2))
    expect_outcome(disk, manifest_mode, open_namespace, expected, outcomes)
    assert list_tables(ns) == expected


def test_one_of_sixteen_threads_creates_a_table(disk, mode, open_namespace):
    ns = open_namespace(disk, mode)
    start = Barrier(THREADS)
    names = [f"t{number}" for number in range(5)]

    def create(thread):
        told = []
        for name in names:
            start.wait(60)
            told.append(workers.attempt(create_table, ns, name, data=ipc({"who": [thread]})))
        return told

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(create, range(THREADS)))
    for name, outcomes in zip(names, zip(*results, strict=True), strict=True):
        (won,) = [thread for thread, told in enumerate(outcomes) if told.acknowledged]
        assert {told.code for told in outcomes} <= {None, 5, 14}
        assert column(disk, ns, name) == [won]
    assert entries(disk) == {location(disk, ns, name) for name in names}


def test_row_of_another_process_between_plan_and_commit_is_a_conflict(disk, open_namespace, monkeypatch):
    other, ns = open_namespace(disk, "v2"), open_namespace(disk, "v2")
    create_namespace(other, "before")
    added = Draft.added
    arrived = []

    def arrive_then_add(draft):
        if not arrived:
            # Another process creates the same namespace, and another thread reads, which brings memory up to date
            # at once, or, where memory is guarded, after this.
            arrived.append(Thread(target=list_namespaces, args=(ns,)))
            create_namespace(other, "n")
            arrived[0].start()
            arrived[0].join(1)
        return added(draft)

    monkeypatch.setattr(Draft, "added", arrive_then_add)
    told = workers.attempt(create_namespace, ns, "n")
    arrived[0].join()
    assert told.code == 2, told


def expect_outcome(root, mode, open_namespace, tables, outcomes):
    """Check that a new client sees what should remain, that nothing else is stored, and one shared winner."""
    ns = open_namespace(root, mode)
    assert list_all_tables(ns) == tables
    directories = {entry for entry in entries(root) if not entry.endswith(".deregistered")}
    assert directories == {location(root, ns, name) for name in tables}
    if mode == "v1":
        return
    rounds = list(zip(*outcomes, strict=True))
    assert list_namespaces(ns) == [f"shared_{number}" for number in range(len(rounds))]
    for number, told in enumerate(rounds):
        winners = [index for index, outcome in enumerate(told) if outcome.acknowledged]
        assert len(winners) == 1, told
        assert {outcome.code for outcome in told} == {None, 2}
        assert describe_namespace(ns, f"shared_{number}").properties["who"].endswith(str(winners[0] % THREADS))
