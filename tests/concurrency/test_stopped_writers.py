"""Processes that are stopped (SIGSTOP) in the middle of an operation, and go on when the world has changed."""

from __future__ import annotations

import pytest
import workers
from crew import Child
from hooks import COMMIT_MANIFEST, COMMIT_ROWS, TRY_COMMIT, WRITE_ROWS, after, before
from places import column, entries, location, versions
from support import (
    create_namespace,
    create_table,
    describe_namespace,
    drop_namespace,
    drop_table,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
)

pytestmark = pytest.mark.concurrency

COMMITS = 105
BETWEEN_PLAN_AND_COMMIT = [
    before(TRY_COMMIT),
    before(COMMIT_ROWS),
    before(WRITE_ROWS),
    after(WRITE_ROWS),
    before(COMMIT_MANIFEST),
]
AFTER_COMMIT = after(COMMIT_MANIFEST)


@pytest.fixture
def prepared(disk, open_namespace):
    """Give a client of a manifest that holds a namespace, a table in it, and a root table."""
    ns = open_namespace(disk, "v2")
    create_namespace(ns, "space")
    create_table(ns, "space", "t", data=ipc({"who": [0]}))
    create_table(ns, "t", data=ipc({"who": [0]}))
    return ns


def make_many_commits(disk, ns):
    """Commit so often that the versions after the one which the stopped process holds are cleaned away."""
    held = versions(disk)[-1]
    for number in range(COMMITS):
        create_namespace(ns, f"n{number:03}")
    ns.close()
    assert held + 1 not in versions(disk), "nothing was cleaned, so this test shows nothing"


NAMES = [f"n{number:03}" for number in range(COMMITS)]


@pytest.mark.parametrize("point", [*BETWEEN_PLAN_AND_COMMIT, AFTER_COMMIT], ids=str)
def test_an_insert_that_was_stopped_is_in_the_latest_version_or_reported(disk, prepared, open_namespace, point):
    with Child(workers.stop_at, disk, "v2", point, workers.make_namespace, "late") as child:
        child.wait_until_stopped()
        make_many_commits(disk, prepared)
        child.go_on()
        told = child.result()
    ns = open_namespace(disk, "v2")
    assert told.acknowledged or told.code == 14, told
    assert list_namespaces(ns) == sorted([*NAMES, "space", *(["late"] if told.acknowledged else [])])


REMOVALS = {"drop": (workers.drop, []), "rename": (workers.rename_to_other, ["other"])}


@pytest.mark.parametrize("point", [BETWEEN_PLAN_AND_COMMIT[0], BETWEEN_PLAN_AND_COMMIT[-1], AFTER_COMMIT], ids=str)
@pytest.mark.parametrize("removal", list(REMOVALS))
def test_a_removal_that_was_stopped_is_in_the_latest_version_or_reported(
    disk, prepared, open_namespace, point, removal
):
    operation, left = REMOVALS[removal]
    with Child(workers.stop_at, disk, "v2", point, operation, "t") as child:
        child.wait_until_stopped()
        make_many_commits(disk, prepared)
        child.go_on()
        told = child.result()
    ns = open_namespace(disk, "v2")
    assert told.acknowledged or told.code == 14, told
    assert list_namespaces(ns) == sorted([*NAMES, "space"])
    assert list_tables(ns) == (left if told.acknowledged else ["t"])


@pytest.mark.parametrize("point", [BETWEEN_PLAN_AND_COMMIT[0], BETWEEN_PLAN_AND_COMMIT[-1], AFTER_COMMIT], ids=str)
def test_a_table_whose_creation_was_stopped_is_whole_or_not_there(disk, prepared, open_namespace, point):
    with Child(workers.stop_at, disk, "v2", point, workers.create_own_rows, "space$late") as child:
        child.wait_until_stopped()
        make_many_commits(disk, prepared)
        child.go_on()
        told = child.result()
    ns = open_namespace(disk, "v2")
    assert list_tables(ns, "space") == (["late", "t"] if told.acknowledged else ["t"]), told
    if told.acknowledged:
        assert column(disk, ns, "space", "late") == [1] * workers.ROWS
    assert entries(disk) == {location(disk, ns, *key.split("$")) for key in list_all_tables(ns)}


@pytest.mark.parametrize("point", [BETWEEN_PLAN_AND_COMMIT[0], BETWEEN_PLAN_AND_COMMIT[-1]], ids=str)
def test_a_name_taken_meanwhile_is_refused(disk, prepared, open_namespace, point):
    with Child(workers.stop_at, disk, "v2", point, workers.make_namespace, "late") as child:
        child.wait_until_stopped()
        create_namespace(prepared, "late", properties={"who": "another"})
        make_many_commits(disk, prepared)
        child.go_on()
        told = child.result()
    assert told.code == 2, told
    assert describe_namespace(open_namespace(disk, "v2"), "late").properties == {"who": "another"}


@pytest.mark.parametrize("point", [BETWEEN_PLAN_AND_COMMIT[0], BETWEEN_PLAN_AND_COMMIT[-1]], ids=str)
def test_a_table_in_a_namespace_dropped_meanwhile_is_refused(disk, prepared, open_namespace, point):
    with Child(workers.stop_at, disk, "v2", point, workers.create_own_rows, "space$late") as child:
        child.wait_until_stopped()
        drop_table(prepared, "space", "t")
        drop_namespace(prepared, "space")
        make_many_commits(disk, prepared)
        child.go_on()
        told = child.result()
    assert told.code == 1, told
    ns = open_namespace(disk, "v2")
    assert list_namespaces(ns) == NAMES
    assert entries(disk) == {location(disk, ns, "t")}


def test_a_reader_that_was_stopped_sees_the_latest_version(disk, prepared):
    point = after("pennon.directory.manifest.versions:latest")
    with Child(workers.list_after_stop, disk, "v2", point) as child:
        child.wait_until_stopped()
        make_many_commits(disk, prepared)
        child.go_on()
        first, second = child.result()
    assert first is None or set(first) <= {"space", *NAMES}
    assert second == sorted([*NAMES, "space"])


def test_a_cleaning_that_was_stopped_takes_nothing_that_came_since(disk, prepared, open_namespace):
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
