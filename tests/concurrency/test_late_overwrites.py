"""Overwrites that are stopped while their table is dropped, purged or created again."""

from __future__ import annotations

import pytest

from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import COMMIT_DATA, COMMIT_ROWS, WRITE_DATA, after, before
from tests.concurrency.places import column, files
from tests.support import create_table, drop_table, fails, ipc, list_tables, remove_table, table_exists

pytestmark = pytest.mark.concurrency

FIRST, SECOND, OVER = [0, 0], [2, 2], [1] * workers.ROWS
ON_DISK = [after(WRITE_DATA)]  # At later points it holds the lock of the name, and drops wait.
IN_BUCKET = [after(WRITE_DATA), before(COMMIT_DATA)]


@pytest.fixture(
    params=[("disk", point) for point in ON_DISK]
    + [pytest.param(("bucket", point), marks=pytest.mark.s3) for point in IN_BUCKET],
    ids=lambda value: f"{value[0]}-{value[1]}",
)
def where(request):
    kind, point = request.param
    return request.getfixturevalue(kind), point


@pytest.fixture
def stopped(where, mode, open_namespace):
    """Return a catalog with a table, and a process that is stopped while it overwrites the table."""
    root, point = where
    ns = open_namespace(root, mode)
    create_table(ns, "t", data=ipc({"who": FIRST}))
    with Child(workers.stop_at, root, mode, point, workers.create_or_overwrite, "t") as child:
        child.wait_until_stopped()
        yield root, ns, child


def wait_for_outcome(child):
    child.go_on()
    return child.result()


def leftovers(root):
    return {path for path in files(root) if not path.startswith(("__manifest", ".lance-"))}


def test_overwrite_of_a_purged_table_leaves_nothing(stopped):
    root, ns, child = stopped
    remove_table(ns, "t")
    assert wait_for_outcome(child).code == 14
    with fails(4):
        table_exists(ns, "t")
    assert leftovers(root) == set()
    create_table(ns, "t", data=ipc({"who": SECOND}))
    assert column(root, ns, "t") == SECOND


def test_overwrite_of_a_dropped_table_leaves_it_dropped_and_restorable(stopped):
    root, ns, child = stopped
    drop_table(ns, "t")
    assert wait_for_outcome(child).code == 14
    assert list_tables(ns) == []
    assert ns.table_status(["t"]).status == "SoftDeleted"
    ns.undrop_table(["t"])
    assert column(root, ns, "t") in (FIRST, OVER)
    drop_table(ns, "t", ttl="0")
    assert ns.purge_tables().failed == []
    assert leftovers(root) == set()


def test_overwrite_of_a_recreated_table_leaves_it_complete(stopped):
    root, ns, child = stopped
    remove_table(ns, "t")
    create_table(ns, "t", data=ipc({"who": SECOND}))
    outcome = wait_for_outcome(child)
    assert outcome.acknowledged or outcome.code == 14, outcome
    assert column(root, ns, "t") == (OVER if outcome.acknowledged else SECOND)
    remove_table(ns, "t")
    assert leftovers(root) == set()


def test_overwrite_during_a_restore_is_complete(stopped):
    root, ns, child = stopped
    drop_table(ns, "t")
    ns.undrop_table(["t"])
    outcome = wait_for_outcome(child)
    assert outcome.acknowledged, outcome
    assert column(root, ns, "t") == OVER


def test_overwrite_during_a_purge_leaves_nothing(disk, open_namespace):
    ns = open_namespace(disk, "v2")
    create_table(ns, "t", data=ipc({"who": FIRST}))
    stop = workers.stop_at
    with Child(stop, disk, "v2", before(COMMIT_DATA), workers.create_or_overwrite, "t") as writer:
        writer.wait_until_stopped()
        drop_table(ns, "t", ttl="0")
        # It has deleted the directory, but not yet the row.
        with Child(stop, disk, "v2", before(COMMIT_ROWS, 2), workers.purge, "t") as purger:
            purger.wait_until_stopped()
            assert wait_for_outcome(writer).code == 14
            assert wait_for_outcome(purger).acknowledged
    assert leftovers(disk) == set()
