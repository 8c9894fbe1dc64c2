"""Root tables whose creator or dropper is stopped past its lease, while another client takes the name over."""

from __future__ import annotations

import pytest

from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import CLAIM, PURGE_CLAIM, PUT, WRITE_DATA, after, before
from tests.concurrency.places import column, entries
from tests.support import create_table, declare_table, describe_table, ipc, list_tables, remove_table

pytestmark = pytest.mark.concurrency

SECOND = [2, 2]
OVER = {4, 5, 14}


@pytest.fixture(params=["v1", "compatibility"])
def listing_mode(request):
    return request.param


@pytest.fixture
def second(disk, listing_mode, open_namespace):
    """Return a client that works while the first one is stopped."""
    return open_namespace(disk, listing_mode)


def expect_second_stands(disk, ns):
    assert list_tables(ns) == ["t"]
    assert column(disk, ns, "t") == SECOND
    assert entries(disk) == {"t.lance"}


@pytest.mark.parametrize("point", [after(CLAIM), before(WRITE_DATA), after(WRITE_DATA)], ids=str)
def test_creator_stopped_past_its_lease_fails_and_the_second_table_remains(
    disk, listing_mode, second, open_namespace, point
):
    with Child(workers.stop_past_lease, disk, listing_mode, point, workers.create_own_rows, "t") as child:
        child.wait_until_stopped()
        create_table(second, "t", data=ipc({"who": SECOND}))
        child.go_on()
        told = child.result()
    assert told.code in OVER, told
    expect_second_stands(disk, open_namespace(disk, listing_mode))


@pytest.mark.parametrize("point", [after(CLAIM), after(PUT)], ids=str)
def test_declaration_stopped_past_its_lease_fails_and_the_second_table_remains(
    disk, listing_mode, second, open_namespace, point
):
    with Child(workers.stop_past_lease, disk, listing_mode, point, workers.declare, "t") as child:
        child.wait_until_stopped()
        create_table(second, "t", data=ipc({"who": SECOND}))
        child.go_on()
        told = child.result()
    assert told.code in OVER, told
    ns = open_namespace(disk, listing_mode)
    assert column(disk, ns, "t") == SECOND
    assert describe_table(ns, "t", check_declared=True).is_only_declared is False


def test_creator_does_not_fill_a_table_declared_after_its_lease(disk, listing_mode, second, open_namespace):
    with Child(workers.stop_past_lease, disk, listing_mode, after(WRITE_DATA), workers.create_own_rows, "t") as child:
        child.wait_until_stopped()
        told_second = workers.attempt(declare_table, second, "t")
        child.go_on()
        told_first = child.result()
    ns = open_namespace(disk, listing_mode)
    if told_second.acknowledged:
        assert told_first.code in OVER, told_first
        assert describe_table(ns, "t", check_declared=True).is_only_declared
    else:
        assert list_tables(ns) == (["t"] if told_first.acknowledged else [])


# At later points it holds the lock of the name, and nobody takes over until it is resumed or dies.
@pytest.mark.parametrize("point", [after(PURGE_CLAIM)], ids=str)
def test_drop_stopped_past_its_lease_does_not_delete_a_newer_table(disk, listing_mode, second, open_namespace, point):
    create_table(second, "t", data=ipc({"who": [0]}))
    with Child(workers.stop_past_lease, disk, listing_mode, point, workers.drop, "t") as child:
        child.wait_until_stopped()
        create_table(second, "t", data=ipc({"who": SECOND}))
        child.go_on()
        told = child.result()
    # Either client may have deleted the old table: both outcomes are correct.
    assert told.acknowledged or told.code in OVER, told
    expect_second_stands(disk, open_namespace(disk, listing_mode))


def test_creator_whose_table_is_taken_over_and_dropped_leaves_the_name_free(disk, listing_mode, second, open_namespace):
    point = after("pennon.directory.root_tables.create:write_version")
    with Child(workers.stop_past_lease, disk, listing_mode, point, workers.create_own_rows, "t") as child:
        child.wait_until_stopped()
        remove_table(second, "t")
        child.go_on()
        told = child.result()
    ns = open_namespace(disk, listing_mode)
    if told.acknowledged:
        # The drop came after the commit of the creation, so both may succeed, but then the table stays dropped.
        assert list_tables(ns) == []
        assert entries(disk) == set()
    create_table(ns, "t", data=ipc({"who": SECOND}))
    assert column(disk, ns, "t") == SECOND


@pytest.mark.s3
@pytest.mark.parametrize("point", [after(CLAIM), after(WRITE_DATA)], ids=str)
def test_creator_stopped_past_its_lease_on_s3_does_not_delete_the_second_table(
    bucket, listing_mode, open_namespace, point
):
    ns = open_namespace(bucket, listing_mode)
    with Child(workers.stop_past_lease, bucket, listing_mode, point, workers.create_own_rows, "t") as child:
        child.wait_until_stopped()
        create_table(ns, "t", data=ipc({"who": SECOND}))
        child.go_on()
        told = child.result()
    assert told.code in OVER, told
    assert column(bucket, ns, "t") == SECOND
    assert entries(bucket) == {"t.lance"}
