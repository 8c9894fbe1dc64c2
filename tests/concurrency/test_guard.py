"""Purge, undrop and re-creation of one root table: a client that is stopped and resumed destroys nothing."""

from __future__ import annotations

import pytest

from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import PURGE_CLAIM, WRITE_DATA, after, before
from tests.concurrency.places import column
from tests.support import create_table, drop_table, fails, ipc, list_tables

pytestmark = [pytest.mark.concurrency, pytest.mark.s3]

FIRST, SECOND = [1, 1], [2, 2]
LOST = {4, 14, 18}
LISTED = before("pennon.store.objects:ObjectStore._delete_fenced")
"""After the purge has listed what to delete and checked its claim."""


@pytest.fixture(params=["v1", "compatibility"])
def ns(request, bucket, open_namespace):
    """Return a catalog in a bucket with a dropped root table."""
    ns = open_namespace(bucket, request.param)
    ns.mode = request.param
    create_table(ns, "t", data=ipc({"who": FIRST}))
    drop_table(ns, "t")
    return ns


@pytest.mark.parametrize("point", [after(PURGE_CLAIM), LISTED], ids=str)
def test_resumed_purge_keeps_a_newer_table(bucket, ns, point):
    with Child(workers.stop_past_lease, bucket, ns.mode, point, workers.purge, "t") as child:
        child.wait_until_stopped()
        create_table(ns, "t", data=ipc({"who": SECOND}))
        child.go_on()
        told = child.result()
    assert told.code in LOST, told
    assert column(bucket, ns, "t") == SECOND
    assert list_tables(ns) == ["t"]


def test_resumed_purge_without_the_fence_destroys_a_newer_table(bucket, ns):
    with Child(workers.stop_without_a_fence, bucket, ns.mode, LISTED, workers.purge, "t") as child:
        child.wait_until_stopped()
        create_table(ns, "t", data=ipc({"who": SECOND}))
        child.go_on()
        child.result()
    with pytest.raises(Exception, match="t"):
        column(bucket, ns, "t")


def test_resumed_creation_does_not_replace_a_restored_table(bucket, ns):
    with Child(workers.stop_past_lease, bucket, ns.mode, after(WRITE_DATA), workers.create_own_rows, "t") as child:
        child.wait_until_stopped()
        ns.undrop_table(["t"])
        child.go_on()
        told = child.result()
    assert told.code in {4, 5, 14}, told
    assert column(bucket, ns, "t") == FIRST
    assert list_tables(ns) == ["t"]


def test_resumed_creation_without_strict_commits_replaces_a_restored_table(bucket, ns):
    with Child(
        workers.stop_without_a_burnt_version, bucket, ns.mode, after(WRITE_DATA), workers.create_own_rows, "t"
    ) as child:
        child.wait_until_stopped()
        ns.undrop_table(["t"])
        child.go_on()
        child.result()
    assert column(bucket, ns, "t") != FIRST


def test_resumed_undrop_does_not_restore_a_purged_table(bucket, ns):
    with Child(workers.stop_past_lease, bucket, ns.mode, after(PURGE_CLAIM), workers.undrop, "t") as child:
        child.wait_until_stopped()
        assert ns.purge_table(["t"], force=True).failed == []
        child.go_on()
        told = child.result()
    assert told.code in {4, 14}, told
    # This server lists a directory for a while after its files were deleted, so the listing is not checked.
    assert ns.table_status(["t"]).status == "NotFound"
    create_table(ns, "t", data=ipc({"who": SECOND}))
    assert column(bucket, ns, "t") == SECOND


@pytest.mark.parametrize("operation", [workers.purge, workers.undrop], ids=["purge", "undrop"])
def test_one_of_eight_undrops_or_purges_succeeds(crew, bucket, ns, operation):
    results = crew.run(workers.race, bucket, ns.mode, operation, ["t"])
    outcomes = [told for results_of_one in results for told in results_of_one]
    assert [told.acknowledged for told in outcomes].count(True) == 1, outcomes
    assert {told.code for told in outcomes if not told.acknowledged} <= {4, 14}


def test_creation_over_a_dropped_table_fails_once_it_was_undone(bucket, ns):
    point = after("pennon.directory.root_tables.create:write_version")
    with Child(workers.stop_past_lease, bucket, ns.mode, point, workers.create_own_rows, "t") as child:
        child.wait_until_stopped()
        with fails(19):
            ns.purge_table(["t"])  # too early, but the attempt undoes the other creation
        assert ns.table_status(["t"]).status == "SoftDeleted"
        child.go_on()
        told = child.result()
    assert told.code == 14, told
    assert list_tables(ns) == []
    ns.undrop_table(["t"])
    assert column(bucket, ns, "t") == FIRST
