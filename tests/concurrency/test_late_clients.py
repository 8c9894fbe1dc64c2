"""Faults that the model of the marker protocol (tests/lifecycle) found, with real processes on a real S3 server."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from pennon.directory import layout
from pennon.directory.clock import now_ms
from pennon.directory.markers.marker import CREATE, DELETED, REVIVING, Marker
from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import CLAIM, PUT_OBJECT, WRITE_DATA, after, before
from tests.concurrency.places import column, files
from tests.support import create_table, describe_table, drop_table, fails, ipc, list_tables, table_exists

pytestmark = [pytest.mark.concurrency, pytest.mark.s3]

FIRST, SECOND = [1, 1], [2, 2]
LISTED = before("pennon.store.objects:ObjectStore._delete_fenced")
"""After the client that deletes has listed what to delete and checked its claim."""


@pytest.fixture(params=["v1", "compatibility"])
def ns(request, bucket, open_namespace):
    ns = open_namespace(bucket, request.param)
    ns.mode = request.param
    return ns


def kill(bucket, ns, point, operation):
    with Child(workers.die_at, bucket, ns.mode, point, operation, "t") as child:
        child.wait_until_killed()


def test_resumed_settlement_of_a_dead_creation_keeps_a_newer_table(bucket, ns):
    kill(bucket, ns, after(WRITE_DATA), workers.create_own_rows)
    with Child(workers.stop_past_lease, bucket, ns.mode, LISTED, workers.create_own_rows, "t") as child:
        child.wait_until_stopped()
        create_table(ns, "t", data=ipc({"who": SECOND}))
        child.go_on()
        told = child.result()
    assert told.code in {5, 14}, told
    assert column(bucket, ns, "t") == SECOND
    assert list_tables(ns) == ["t"]


def test_creation_on_a_free_name_fails_once_it_was_undone(bucket, ns):
    with Child(workers.stop_past_lease, bucket, ns.mode, after(WRITE_DATA), workers.create_own_rows, "t") as creator:
        creator.wait_until_stopped()
        # The second client takes over and is stopped after it has listed what to delete.
        with Child(workers.stop_past_lease, bucket, ns.mode, LISTED, workers.create_own_rows, "t") as second:
            second.wait_until_stopped()
            creator.go_on()
            told = creator.result()
            second.go_on()
            told_second = second.result()
    acknowledged = [outcome for outcome in (told, told_second) if outcome.acknowledged]
    assert len(acknowledged) <= 1, (told, told_second)
    assert not told.acknowledged, told
    if acknowledged:
        assert column(bucket, ns, "t") == [1] * workers.ROWS


def test_resumed_drop_does_not_hide_a_restored_table(bucket, ns):
    create_table(ns, "t", data=ipc({"who": FIRST}))
    with Child(workers.stop_at, bucket, ns.mode, before(PUT_OBJECT), workers.soft_drop, "t") as child:
        child.wait_until_stopped()
        ns.undrop_table(["t"])
        child.go_on()
        assert child.result().acknowledged
    assert list_tables(ns) == ["t"]
    assert column(bucket, ns, "t") == FIRST
    with workers.open_client(bucket, ns.mode, "reference") as other:
        assert column(bucket, other, "t") == FIRST


@pytest.mark.parametrize("then", ["undrop", "purge"])
def test_late_drop_that_dies_does_not_hide_a_table(bucket, ns, then):
    create_table(ns, "t", data=ipc({"who": FIRST}))
    deletion = Marker(DELETED, deletion_id="d" * 32, deleted_at_ms=now_ms(), ttl_ms=0).with_new_nonce()
    store = ns._store
    late = layout.DROPPED_BODY + deletion.deletion_id.encode()
    drop_table(ns, "t")
    if then == "undrop":
        ns.undrop_table(["t"])
    else:
        ns.purge_table(["t"], force=True)
    store.put("t.lance/.lance-deregistered", late)
    if then == "purge":
        with fails(4):
            describe_table(ns, "t")
        create_table(ns, "t", data=ipc({"who": FIRST}))
    assert column(bucket, ns, "t") == FIRST
    drop_table(ns, "t")
    ns.undrop_table(["t"])
    assert column(bucket, ns, "t") == FIRST
    assert list_tables(ns) == ["t"]


def test_undrop_restores_late_appends_after_a_dead_creation(bucket, ns):
    location = create_table(ns, "t", data=ipc({"who": FIRST})).location
    opened = lance.dataset(location, storage_options=bucket.options)
    drop_table(ns, "t")
    kill(bucket, ns, after(WRITE_DATA), workers.create_own_rows)
    opened.insert(pa.table({"who": SECOND}))
    ns.undrop_table(["t"])
    assert sorted(column(bucket, ns, "t")) == FIRST + SECOND


def test_undrop_does_not_restore_the_version_of_a_dead_creation(bucket, ns):
    create_table(ns, "t", data=ipc({"who": FIRST}))
    drop_table(ns, "t")
    kill(bucket, ns, after("pennon.directory.root_tables.create:write_version"), workers.create_own_rows)
    ns.undrop_table(["t"])
    assert column(bucket, ns, "t") == FIRST


def test_drop_of_a_purged_table_cannot_be_restored(bucket, ns):
    deletion = Marker(DELETED, deletion_id="d" * 32, deleted_at_ms=now_ms(), ttl_ms=0).with_new_nonce()
    ns._store.create(layout.deleted_marker("t"), deletion.body())
    with fails(4):
        ns.undrop_table(["t"])
    assert files(bucket) & {"t.deleted"} == set()
    create_table(ns, "t", data=ipc({"who": FIRST}))
    assert column(bucket, ns, "t") == FIRST


def test_creator_that_dies_on_a_taken_name_hides_no_table(bucket, ns):
    create_table(ns, "t", data=ipc({"who": FIRST}))
    dead = Marker(REVIVING).with_lease(REVIVING, CREATE, -1.0)
    ns._store.create(layout.deleted_marker("t"), dead.body())

    table_exists(ns, "t")
    assert column(bucket, ns, "t") == FIRST
    assert list_tables(ns) == ["t"]
    with fails(5):
        create_table(ns, "t")
    create_table(ns, "t", data=ipc({"who": SECOND}), mode="overwrite")
    drop_table(ns, "t")
    ns.undrop_table(["t"])
    assert column(bucket, ns, "t") == SECOND


def test_table_is_hidden_while_it_is_created(bucket, ns):
    with Child(workers.stop_at, bucket, ns.mode, after(CLAIM), workers.create_own_rows, "t") as child:
        child.wait_until_stopped()
        assert list_tables(ns) == []
        with fails(4):
            table_exists(ns, "t")
        child.go_on()
        assert child.result().acknowledged
    assert list_tables(ns) == ["t"]
