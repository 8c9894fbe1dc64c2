"""Processes that are stopped (SIGSTOP) during an operation, and resumed after others changed the catalog.

Several are stopped at once, each at a point of its own; then another client commits so often that the versions which
they hold, and those after them, are cleaned away.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import COMMIT_MANIFEST, COMMIT_ROWS, TRY_COMMIT, WRITE_ROWS, after, before
from tests.concurrency.places import column, entries, location, versions
from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    drop_namespace,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
    remove_table,
)

pytestmark = pytest.mark.concurrency

BETWEEN_PLAN_AND_COMMIT = [
    before(TRY_COMMIT),
    before(COMMIT_ROWS),
    before(WRITE_ROWS),
    after(WRITE_ROWS),
    before(COMMIT_MANIFEST),
]
AFTER_COMMIT = after(COMMIT_MANIFEST)
POINTS = [*BETWEEN_PLAN_AND_COMMIT, AFTER_COMMIT]
BEFORE_COMMIT = [before(TRY_COMMIT), before(COMMIT_MANIFEST)]
FEW_POINTS = [*BEFORE_COMMIT, AFTER_COMMIT]
NAMES = [f"n{number:03}" for number in range(105)]


@pytest.fixture
def prepared(disk, open_namespace):
    """Return a client of a manifest with a namespace, a table in it, and a root table per point."""
    ns = open_namespace(disk, "v2")
    create_namespace(ns, "space")
    create_table(ns, "space", "t", data=ipc({"who": [0]}))
    for number in range(len(FEW_POINTS)):
        create_table(ns, f"t{number}", data=ipc({"who": [number]}))
    return ns


def make_many_commits(disk, ns):
    """Commit until the versions that the stopped processes use are removed."""
    held = versions(disk)[-1]
    for name in NAMES:
        create_namespace(ns, name)
    ns.close()
    assert held + 1 not in versions(disk), "nothing was cleaned, so this test shows nothing"


def outcomes(disk, prepared, points, operation, *, name, while_stopped=None):
    """Stop a process at each point, change the catalog, resume them, and return the outcome of each, by number."""
    with ExitStack() as stack:
        children = []
        for number, point in enumerate(points):
            arguments = (disk, "v2", point, operation, f"{name}{number}")
            children.append(stack.enter_context(Child(workers.stop_at, *arguments)))
        for child in children:
            child.wait_until_stopped()
        if while_stopped is not None:
            while_stopped()
        make_many_commits(disk, prepared)
        told = []
        for child in children:
            child.go_on()
            told.append(child.result())
        return told


def find_unexpected(points, told, allowed):
    """Return the points at which a process neither succeeded nor got one of the codes."""
    return [
        f"{point}: {outcome}"
        for point, outcome in zip(points, told, strict=True)
        if not outcome.acknowledged and outcome.code not in allowed
    ]


def test_resumed_inserts_are_in_the_latest_version_or_reported(disk, prepared, open_namespace):
    told = outcomes(disk, prepared, POINTS, workers.make_namespace, name="late")
    late = [f"late{number}" for number, outcome in enumerate(told) if outcome.acknowledged]
    assert list_namespaces(open_namespace(disk, "v2")) == sorted([*NAMES, "space", *late]), told
    assert not find_unexpected(POINTS, told, {14})


def test_resumed_drops_are_in_the_latest_version_or_reported(disk, prepared, open_namespace):
    told = outcomes(disk, prepared, FEW_POINTS, workers.drop, name="t")
    ns = open_namespace(disk, "v2")
    assert list_namespaces(ns) == sorted([*NAMES, "space"])
    assert list_tables(ns) == [f"t{number}" for number, outcome in enumerate(told) if not outcome.acknowledged], told
    assert not find_unexpected(FEW_POINTS, told, {14})
    assert entries(disk) == {location(disk, ns, *key.split("$")) for key in list_all_tables(ns)}


def test_resumed_renames_are_in_the_latest_version_or_reported(disk, prepared, open_namespace):
    told = outcomes(disk, prepared, FEW_POINTS, workers.rename_aside, name="t")
    ns = open_namespace(disk, "v2")
    expected = [f"t{number}_aside" if outcome.acknowledged else f"t{number}" for number, outcome in enumerate(told)]
    assert list_tables(ns) == sorted(expected), told
    assert [column(disk, ns, name) for name in expected] == [[0], [1], [2]]
    assert not find_unexpected(FEW_POINTS, told, {14})


def test_resumed_creations_leave_complete_tables_or_none(disk, prepared, open_namespace):
    told = outcomes(disk, prepared, FEW_POINTS, workers.create_own_rows, name="space$late")
    ns = open_namespace(disk, "v2")
    late = [f"late{number}" for number, outcome in enumerate(told) if outcome.acknowledged]
    assert list_tables(ns, "space") == [*late, "t"], told
    assert all(column(disk, ns, "space", name) == [1] * workers.ROWS for name in late)
    assert entries(disk) == {location(disk, ns, *key.split("$")) for key in list_all_tables(ns)}
    assert not find_unexpected(FEW_POINTS, told, {14})


def test_resumed_creations_of_taken_names_are_refused(disk, prepared, open_namespace):
    def take_the_names():
        for number in range(len(BEFORE_COMMIT)):
            create_namespace(prepared, f"late{number}", properties={"who": "another"})

    operation = workers.make_namespace
    told = outcomes(disk, prepared, BEFORE_COMMIT, operation, name="late", while_stopped=take_the_names)
    assert [outcome.code for outcome in told] == [2] * len(told), told
    ns = open_namespace(disk, "v2")
    for number in range(len(told)):
        assert describe_namespace(ns, f"late{number}").properties == {"who": "another"}


def test_resumed_creations_in_a_dropped_namespace_are_refused(disk, prepared, open_namespace):
    def drop_the_namespace():
        remove_table(prepared, "space", "t")
        drop_namespace(prepared, "space")

    operation = workers.create_own_rows
    told = outcomes(disk, prepared, BEFORE_COMMIT, operation, name="space$late", while_stopped=drop_the_namespace)
    assert [outcome.code for outcome in told] == [1] * len(told), told
    ns = open_namespace(disk, "v2")
    assert list_namespaces(ns) == NAMES
    assert entries(disk) == {location(disk, ns, name) for name in list_tables(ns)}


def test_resumed_reader_sees_the_latest_version(disk, prepared):
    point = after("pennon.directory.manifest.history:find_latest")
    with Child(workers.list_after_stop, disk, "v2", point) as child:
        child.wait_until_stopped()
        make_many_commits(disk, prepared)
        child.go_on()
        first, second = child.result()
    assert first is None or set(first) <= {"space", *NAMES}
    assert second == sorted([*NAMES, "space"])


def test_resumed_upkeep_keeps_newer_versions(disk, prepared, open_namespace):
    early = [f"early{number:02}" for number in range(45)]
    for name in early:
        create_namespace(prepared, name)
    point = before("lance.dataset:LanceDataset.cleanup_old_versions")
    with Child(workers.clean_after_stop, disk, point) as child:
        child.wait_until_stopped()
        make_many_commits(disk, prepared)
        child.go_on()
        child.result()
    ns = open_namespace(disk, "v2")
    assert list_namespaces(ns) == sorted([*early, *NAMES, "space"])
    create_namespace(ns, "after")
    assert column(disk, ns, "space", "t") == [0]
