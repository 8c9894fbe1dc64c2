"""Processes that are killed at any call of Pennon's own functions, spread over the whole operation."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from lance_namespace.errors import TableNotFoundError

from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.places import column, entries
from tests.support import create_table, describe_table, ipc, list_tables, remove_table

pytestmark = pytest.mark.concurrency

OPERATIONS = {
    "create": (workers.create_own_rows, None, [None, [1] * workers.ROWS]),
    "drop": (workers.drop, [0], [None, [0]]),
    "rename": (workers.rename_to_other, [0], [None, [0]]),
}


def measure(root, mode, operation, before):
    """Return the number of calls of an undisturbed run, on a root of its own."""
    prepare(root, mode, before)
    with Child(workers.measure_calls, root, mode, operation, "t") as child:
        return child.result()


def prepare(root, mode, before):
    with workers.open_client(root, mode) as ns:
        create_table(ns, "bystander", data=ipc({"who": ["bystander"]}))
        if before is not None:
            create_table(ns, "t", data=ipc({"who": before}))


def content(root, ns, name):
    try:
        describe_table(ns, name)
    except TableNotFoundError:
        assert name not in list_tables(ns)
        return None
    assert name in list_tables(ns)
    return column(root, ns, name)


def kill_and_check(root, mode, name, count):
    operation, before, allowed = OPERATIONS[name]
    prepare(root, mode, before)
    with Child(workers.die_after_calls, root, mode, count, operation, "t") as child:
        child.was_killed()  # or has finished: the number of calls varies a little
    with workers.open_client(root, mode) as ns:
        seen, other = content(root, ns, "t"), content(root, ns, "other")
        assert seen in allowed
        assert other is None or (seen is None and other in allowed)
        if other is None and before is not None and operation is workers.rename_to_other:
            assert seen == before
        told = workers.attempt(create_table, ns, "t", data=ipc({"who": [2]}))
        assert told.acknowledged or told.code == 5, told
        assert content(root, ns, "t") == ([2] if told.acknowledged else content(root, ns, "t"))
        assert content(root, ns, "t") is not None
        remove_table(ns, "t")
        assert content(root, ns, "t") is None
        assert content(root, ns, "other") == other
        assert content(root, ns, "bystander") == ["bystander"]
        if other is None:
            assert {entry for entry in entries(root) if entry.startswith("t.")} == set()


def sweep(new_roots, mode, name, points):
    operation, before, _ = OPERATIONS[name]
    roots = new_roots(points + 1)
    total = measure(roots[0], mode, operation, before)
    chosen = sorted(random.sample(range(1, total), min(points, total - 1)))

    def one(pair):
        root, count = pair
        try:
            kill_and_check(root, mode, name, count)
        except AssertionError as error:
            return f"killed at call {count} of {total}: {error}"
        return None

    with ThreadPoolExecutor(2) as pool:
        faults = [fault for fault in pool.map(one, zip(roots[1:], chosen, strict=False)) if fault]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", ["create", "drop"])
def test_root_table_survives_kills_at_random_calls(new_roots, name):
    sweep(new_roots, "compatibility", name, 6)


@pytest.mark.soak
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_tables_survive_kills_at_many_random_calls(new_roots, mode, name):
    if (mode, name) == ("v1", "rename"):
        name = "drop"  # V1 has no rename
    sweep(new_roots, mode, name, 60)
