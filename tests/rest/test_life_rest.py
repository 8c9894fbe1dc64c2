"""The life of tables on a server: drops, restores, purges, protection, and answers that get lost."""

from __future__ import annotations

from datetime import datetime, timezone

import lance
import pytest

from pennon import ManagementReport, MarkerReport, RestNamespace, TableStatus
from tests.iceberg.irc_servers import LossyProxy
from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    drop_namespace,
    drop_table,
    fails,
    ipc,
    list_tables,
)


@pytest.fixture
def client(root, open_namespace):
    """Return a client of a catalog with a namespace and two tables."""
    made = open_namespace(root, "v2")
    create_namespace(made, "a")
    create_table(made, "a", "t")
    create_table(made, "a", "u")
    return made


def test_a_dropped_table_is_listed_restored_and_purged(client):
    drop_table(client, "a", "t")
    status = client.table_status(["a", "t"])
    assert (status.status, client.table_status(["a", "u"]).status) == (TableStatus.SOFT_DELETED, TableStatus.EXISTS)
    (listed,), token = client.list_dropped_tables(["a"])
    assert (listed.id, listed.deletion_id, token) == (["a", "t"], status.deletion_id, None)
    assert listed == client._directory.list_dropped_tables(["a"])[0][0]
    assert client.undrop_table(["a", "t"], ["a", "again"]) == listed.location
    assert list_tables(client, "a") == ["again", "u"]
    drop_table(client, "a", "u", ttl="0")
    assert [one.id for one in client.list_purgable_tables(detailed=True)] == [["a", "u"]]
    assert client.list_purgable_tables(datetime(2020, 1, 1, tzinfo=timezone.utc)) == []
    told: list[tuple[list[str], int, int]] = []
    assert client.purge_tables(dry_run=True).dry_run
    report = client.purge_tables(progress=lambda one, number, total: told.append((one.id, number, total)))
    assert [one.id for one in report.tables] == [["a", "u"]]
    assert told == [(["a", "u"], 1, 1)]
    assert client.table_status(["a", "u"]).status == TableStatus.NOT_FOUND


def test_pages_of_dropped_tables_hold_each_once(client):
    for name in ("t", "u"):
        drop_table(client, "a", name)
    first, token = client.list_dropped_tables(["a"], limit=1)
    second, end = client.list_dropped_tables(["a"], token, 1)
    assert [one.id[-1] for one in [*first, *second]] == ["t", "u"]
    assert end is None


def test_one_drop_is_purged_before_its_time_only_by_force(client):
    drop_table(client, "a", "t")
    with fails(19):
        client.purge_table(["a", "t"])
    report = client.purge_table(["a", "t"], client.table_status(["a", "t"]).deletion_id, force=True)
    assert [one.id for one in report.tables] == [["a", "t"]]
    with fails(4):
        client.purge_table(["a", "t"])
    with fails(4):
        client.undrop_table(["a", "t"])


def test_protected_objects_are_not_dropped(client):
    client.set_table_protection(["a", "t"], True)
    with fails(19, "protected"):
        drop_table(client, "a", "t")
    client.set_table_protection(["a", "t"], False)
    drop_table(client, "a", "t")
    client.set_namespace_protection(["a"], True)
    with fails(19):
        drop_namespace(client, "a", behavior="cascade")
    client.set_namespace_protection(["a"], False)


def test_a_namespace_comes_back_with_its_tables(client):
    drop_namespace(client, "a", behavior="cascade")
    assert sorted(client.undrop_namespace(["a"])) == [["a", "t"], ["a", "u"]]
    assert list_tables(client, "a") == ["t", "u"]


def test_properties_of_a_namespace_are_set_and_removed(client):
    assert client.alter_namespace_properties(["a"], {"k": "v", "x": "1"}) == {"k": "v", "x": "1"}
    assert client.alter_namespace_properties(["a"], {"x": None}) == {"k": "v"}
    assert describe_namespace(client, "a").properties == {"k": "v"}


@pytest.fixture
def lossy(client):
    """Return a client whose server's answers get lost on the way, as often as the test says."""
    with LossyProxy(client._settings.uri) as proxy:
        yield proxy, RestNamespace(uri=proxy.uri)


def test_changes_whose_answers_get_lost_are_done_once(lossy, client):
    proxy, far = lossy
    for part in ("namespace/b/create", "/insert", "/drop", "/undrop"):
        proxy.lose("POST", part, "after")
    create_namespace(far, "b")
    version = far.insert_into_table({"id": ["a", "t"]}, ipc(rows(client))).version
    drop_table(far, "a", "u")
    assert far.undrop_table(["a", "u"])
    assert len(proxy.lost) == 4
    assert version == 2
    assert client.count_table_rows({"id": ["a", "t"]}).count == 2 * rows(client).num_rows


def rows(client):
    return lance.dataset(client.describe_table({"id": ["a", "t"]}).location, version=1).to_table()


def test_root_tables_are_migrated_and_versions_managed_through_the_client(root, open_namespace):
    old = open_namespace(root, "v1")
    for name in ("t", "u"):
        create_table(old, name)
    client = open_namespace(root, "v2")
    assert [one.name for one in client.migrate_to_manifest(dry_run=True, names={"t"}).migrated] == ["t"]
    assert list_tables(client) == []
    report = client.migrate_to_manifest(names={"t"})
    assert ([one.name for one in report.migrated], report.dry_run) == (["t"], False)
    assert list_tables(client) == ["t"]
    assert client.migrate_markers() == MarkerReport(dry_run=False)
    assert client.enable_table_version_management() == ManagementReport(1, 1)
    assert client.describe_table({"id": ["t"]}).managed_versioning
    client.require_common_commits([["t"]])
    assert client.disable_table_version_management() == ManagementReport(1, 1)
    assert not client.describe_table({"id": ["t"]}).managed_versioning
