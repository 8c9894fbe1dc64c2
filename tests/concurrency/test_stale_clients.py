"""A client that has the catalog in memory, after another client has changed it."""

from __future__ import annotations

import pytest

from pennon.directory.lookup import resolve
from tests.concurrency.places import column, entries, location
from tests.concurrency.workers import attempt, read_catalog
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    drop_namespace,
    fails,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
    remove_table,
    rename_table,
    table_exists,
)

pytestmark = pytest.mark.concurrency


@pytest.fixture
def two_clients(disk, mode, open_namespace):
    """Return a client that knows only the empty catalog and table `old`, and another client."""
    other = open_namespace(disk, mode)
    create_table(other, "old", data=ipc({"who": [0]}))
    stale = open_namespace(disk, mode)
    read_catalog(stale)
    return stale, other


@pytest.fixture(params=["v2", "compatibility"])
def mode_with_manifest(request):
    return request.param


@pytest.fixture
def two_manifest_clients(disk, mode_with_manifest, open_namespace):
    other = open_namespace(disk, mode_with_manifest)
    create_table(other, "old", data=ipc({"who": [0]}))
    create_namespace(other, "space")
    stale = open_namespace(disk, mode_with_manifest)
    read_catalog(stale)
    return stale, other


def test_drop_of_a_table_dropped_by_another_client_raises_not_found(two_clients):
    stale, other = two_clients
    remove_table(other, "old")
    with fails(4):
        remove_table(stale, "old")


def test_table_dropped_by_another_client_is_not_found(two_clients):
    stale, other = two_clients
    remove_table(other, "old")
    with fails(4):
        describe_table(stale, "old")
    with fails(4):
        table_exists(stale, "old")
    with fails(4):
        deregister_table(stale, "old")
    assert list_tables(stale) == []


def test_table_dropped_by_another_client_can_be_created(two_clients, disk):
    stale, other = two_clients
    remove_table(other, "old")
    create_table(stale, "old", data=ipc({"who": [1]}))
    assert column(disk, other, "old") == [1]
    assert entries(disk) == {location(disk, other, "old")}


def test_create_of_a_table_created_by_another_client_raises_already_exists(two_clients, disk):
    stale, other = two_clients
    create_table(other, "new", data=ipc({"who": [1]}))
    with fails(5):
        create_table(stale, "new", data=ipc({"who": [2]}))
    with fails(5):
        declare_table(stale, "new")
    create_table(stale, "new", data=ipc({"who": [2]}), mode="exist_ok")
    assert column(disk, stale, "new") == [1]
    assert entries(disk) == {location(disk, other, name) for name in ("old", "new")}


def test_table_declared_by_another_client_is_filled(two_clients, disk):
    stale, other = two_clients
    where = declare_table(other, "new").location
    create_table(stale, "new", data=ipc({"who": [1]}))
    assert column(disk, other, "new") == [1]
    assert describe_table(other, "new", check_declared=True).is_only_declared is False
    assert describe_table(stale, "new").location == where
    assert len(entries(disk)) == 2


def test_name_created_and_dropped_by_another_client_is_free(two_clients, disk):
    stale, other = two_clients
    create_table(other, "new")
    remove_table(other, "new")
    create_table(stale, "new", data=ipc({"who": [2]}))
    assert column(disk, other, "new") == [2]


def test_name_created_and_renamed_by_another_client_is_free(two_manifest_clients, disk):
    stale, other = two_manifest_clients
    create_table(other, "new", data=ipc({"who": [1]}))
    rename_table(other, "new", to="newer")
    create_table(stale, "new", data=ipc({"who": [2]}))
    assert column(disk, other, "new") == [2]
    assert column(disk, stale, "newer") == [1]


def test_table_renamed_by_another_client_is_dropped_only_under_its_new_name(two_manifest_clients, disk):
    stale, other = two_manifest_clients
    rename_table(other, "old", to="renamed")
    with fails(4):
        remove_table(stale, "old")
    with fails(4):
        rename_table(stale, "old", to="third")
    assert column(disk, stale, "renamed") == [0]
    remove_table(stale, "renamed")
    assert list_all_tables(other) == []


def test_table_recreated_by_another_client_is_dropped_completely(two_manifest_clients, disk):
    stale, other = two_manifest_clients
    remove_table(other, "old")
    create_table(other, "old", data=ipc({"who": [7]}))
    remove_table(stale, "old")
    assert list_tables(other) == []
    assert entries(disk) == set()


def test_create_in_a_namespace_dropped_by_another_client_raises_not_found(two_manifest_clients, disk):
    stale, other = two_manifest_clients
    drop_namespace(other, "space")
    before = entries(disk)
    with fails(1):
        create_table(stale, "space", "t")
    with fails(1):
        declare_table(stale, "space", "t")
    with fails(1):
        create_namespace(stale, "space", "child")
    with fails(1):
        rename_table(stale, "old", to="t", into=["space"])
    assert entries(disk) == before
    assert list_tables(stale) == ["old"]


def test_create_in_a_namespace_created_by_another_client_succeeds(two_manifest_clients, disk):
    stale, other = two_manifest_clients
    create_namespace(other, "later")
    create_table(stale, "later", "t", data=ipc({"who": [3]}))
    assert column(disk, other, "later", "t") == [3]
    with fails(3):
        drop_namespace(other, "later")
    assert list_namespaces(stale) == ["later", "space"]


def test_table_dropped_while_it_is_inspected_is_not_reported_as_declared(two_manifest_clients, disk, monkeypatch):
    stale, other = two_manifest_clients
    create_table(other, "space", "t", data=ipc({"who": [0]}))
    read_catalog(stale)
    look = resolve.look_at

    def drop_then_look(*arguments, **options):
        attempt(remove_table, other, "space", "t")
        return look(*arguments, **options)

    monkeypatch.setattr(resolve, "look_at", drop_then_look)
    told = attempt(create_table, stale, "space", "t", data=ipc({"who": [1]}))
    monkeypatch.undo()
    if told.acknowledged:
        assert column(disk, other, "space", "t") == [1]
    else:
        assert told.code in {5, 14}
        assert list_tables(other, "space") == []
    known = {location(disk, other, *key.split("$")) for key in list_all_tables(other)}
    assert entries(disk) == known


def test_client_that_missed_many_commits_writes_without_reading_first(two_manifest_clients):
    stale, other = two_manifest_clients
    for number in range(120):
        create_namespace(other, f"n{number:03}")
    other.close()
    with fails(2):
        create_namespace(stale, "n007")
    create_namespace(stale, "later")
    assert len(list_namespaces(stale)) == 122
    remove_table(stale, "old")
    assert list_tables(stale) == []
