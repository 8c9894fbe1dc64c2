"""A purge deletes dropped tables permanently, after their retention or by force, and never a live table."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest

from tests.support import (
    Root,
    create_namespace,
    create_table,
    drop_namespace,
    drop_table,
    fails,
    ipc,
    list_tables,
    rename_table,
)


def files(home):
    store = home.ns._store
    names = store.list_names("") if store.is_local else {key.split("/")[0] for key in _keys(store)}
    return {name for name in names if not name.startswith((".lance-", "__manifest"))}


def _keys(store):
    prefix = store._key("") + "/"
    return [key.removeprefix(prefix) for key, _ in store._walk("")]


def test_table_is_purged_after_its_retention(home):
    for name, ttl in (("now", "0"), ("later", "1h"), ("usual", None)):
        create_table(home.ns, *home.id(name))
        drop_table(home.ns, *home.id(name), **({} if ttl is None else {"ttl": ttl}))

    assert [table.id for table in home.ns.list_purgable_tables()] == [home.id("now")]
    report = home.ns.purge_tables()

    assert [table.id for table in report.tables] == [home.id("now")]
    assert report.tables[0].files >= 3
    assert report.tables[0].bytes > 0
    assert report.failed == []
    assert home.ns.table_status(home.id("now")).status == "NotFound"
    for name in ("later", "usual"):
        assert home.ns.table_status(home.id(name)).status == "SoftDeleted"
        home.ns.undrop_table(home.id(name))
        assert home.rows(name) == [1, 2, 3]


def test_drop_ttl_property_sets_the_default_retention(where, open_namespace, mode):
    ns = open_namespace(where, mode, drop_ttl="0")
    create_table(ns, "t")
    drop_table(ns, "t")
    assert [table.id for table in ns.list_purgable_tables()] == [["t"]]


@pytest.mark.parametrize("ttl", ["7", "-1s", "soon", "1.5h", ""])
def test_invalid_ttl_raises_invalid_input_and_drops_nothing(home, ttl):
    create_table(home.ns, *home.id("t"))
    with fails(13, naming="ttl"):
        drop_table(home.ns, *home.id("t"), ttl=ttl)
    assert list_tables(home.ns, *home.parent) == ["t"]


def test_purge_leaves_no_files(home):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"), ttl="0")
    home.ns.purge_tables()
    assert files(home) == set()
    create_table(home.ns, *home.id("t"), data=ipc({"x": [5]}))
    assert home.rows("t") == [5]


def test_purge_within_the_retention_requires_force(home):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"))
    with fails(19, naming="t'"):
        home.ns.purge_table(home.id("t"))
    assert home.ns.table_status(home.id("t")).status == "SoftDeleted"

    (purged,) = home.ns.purge_table(home.id("t"), force=True).tables

    assert purged.error is None
    assert home.ns.table_status(home.id("t")).status == "NotFound"


def test_purge_refuses_a_live_table(home):
    create_table(home.ns, *home.id("live"))
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"), ttl="0")
    with fails(13, naming="live'"):
        home.ns.purge_tables([home.id("t"), home.id("live")], force=True)
    assert home.ns.table_status(home.id("t")).status == "SoftDeleted"
    assert home.rows("live") == [1, 2, 3]
    with fails(4, naming="never'"):
        home.ns.purge_tables([home.id("never")])


def test_purge_dry_run_reports_and_changes_nothing(home):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"), ttl="0")
    report = home.ns.purge_tables(dry_run=True)
    assert (report.dry_run, [table.id for table in report.tables]) == (True, [home.id("t")])
    assert home.ns.table_status(home.id("t")).status == "SoftDeleted"


def test_purge_reports_progress_per_table(home):
    for number in range(3):
        create_table(home.ns, *home.id(f"t{number}"))
        drop_table(home.ns, *home.id(f"t{number}"), ttl="0")
    reported = []
    home.ns.purge_tables(progress=lambda table, done, total: reported.append((table.id[-1], done, total)))
    assert reported == [("t0", 1, 3), ("t1", 2, 3), ("t2", 3, 3)]


def test_purge_honours_deleted_before(home):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"), ttl="0")
    now = datetime.now(timezone.utc)
    assert home.ns.purge_tables(deleted_before=now - timedelta(hours=1)).tables == []
    assert [table.id for table in home.ns.list_purgable_tables(now + timedelta(hours=1))] == [home.id("t")]
    assert len(home.ns.purge_tables(deleted_before=now + timedelta(hours=1)).tables) == 1


def test_purge_of_a_dropped_table_keeps_its_successor(home):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"), ttl="0")
    create_table(home.ns, *home.id("t"), data=ipc({"x": [2]}))

    home.ns.purge_tables()

    assert home.rows("t") == [2]


def test_purge_of_a_renamed_root_table_frees_its_old_name(where, open_namespace):
    ns = open_namespace(where)
    create_table(ns, "old")
    rename_table(ns, "old", to="new")
    drop_table(ns, "new", ttl="0")
    ns.purge_tables()
    made = create_table(ns, "old", data=ipc({"x": [1]}))
    assert made.location.endswith("/old.lance")
    assert list_tables(open_namespace(where, "v1")) == ["old"]


def test_dropped_tables_are_listed_in_pages(home):
    for number in range(7):
        create_table(home.ns, *home.id(f"t{number}"))
        drop_table(home.ns, *home.id(f"t{number}"))
    found, token = [], None
    while True:
        tables, token = home.ns.list_dropped_tables(home.parent, token, 3)
        found += tables
        if token is None:
            break
    assert [table.id for table in found] == [home.id(f"t{number}") for number in range(7)]
    assert len({table.deletion_id for table in found}) == 7
    for table in found:
        assert timedelta(days=7) <= table.purgeable_at - table.dropped_at < timedelta(days=7, minutes=1)
        assert (table.rows, table.bytes) == (None, None)


def test_detailed_listing_returns_rows_and_bytes(home):
    create_table(home.ns, *home.id("t"), data=ipc({"x": [1, 2]}))
    home.ns.declare_table({"id": home.id("empty")})
    for name in ("t", "empty"):
        drop_table(home.ns, *home.id(name), ttl="0")

    empty, full = home.ns.list_dropped_tables(home.parent, detailed=True)[0]
    assert (empty.rows, full.rows) == (None, 2)
    planned = {table.id[-1]: (table.files, table.bytes) for table in home.ns.purge_tables(dry_run=True).tables}
    purged = {table.id[-1]: (table.files, table.bytes) for table in home.ns.purge_tables().tables}

    assert planned["t"][1] == full.bytes > 0
    assert planned["t"] == purged["t"]
    assert home.ns.list_purgable_tables(detailed=True) == []


def test_datetime_without_time_zone_raises_invalid_input(home):
    with fails(13, naming="time zone"):
        home.ns.list_purgable_tables(datetime(2030, 1, 1))
    with fails(13, naming="time zone"):
        home.ns.purge_tables(deleted_before=datetime(2030, 1, 1))


class Clock:
    """A replacement for the module `time` whose clock is wrong by some seconds."""

    def __init__(self, wrong_by):
        self.wrong_by = wrong_by

    def time(self):
        return time.time() + self.wrong_by


@pytest.mark.parametrize("wrong_by", [-3600, 3600], ids=["slow", "fast"])
def test_retention_uses_the_clock_of_the_store(s3, open_namespace, monkeypatch, wrong_by):
    """A client with a wrong clock drops, and a client whose clock is wrong in the other direction purges."""
    for mode in ("v1", "compatibility"):
        ns = open_namespace(Root(s3.endpoint.uri(f"clock-{mode}{wrong_by}"), s3.endpoint.storage_options()), mode)
        for name, ttl in (("short", "30m"), ("none", "0")):
            create_table(ns, name)
            monkeypatch.setattr("pennon.directory.clock.time", Clock(-wrong_by))
            drop_table(ns, name, ttl=ttl)
            monkeypatch.setattr("pennon.directory.clock.time", Clock(wrong_by))
        assert [table.id for table in ns.purge_tables().tables] == [["none"]]
        with fails(19):
            ns.purge_table(["short"])
        monkeypatch.undo()
        ns.undrop_table(["short"])
        assert list_tables(ns) == ["short"]


def test_drop_with_purge_deletes_the_table_immediately(home):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"), purge="true")
    assert home.ns.table_status(home.id("t")).status == "NotFound"
    assert files(home) == set()


# Protection


def test_protected_table_is_neither_dropped_nor_purged(home):
    create_table(home.ns, *home.id("t"))
    home.ns.set_table_protection(home.id("t"), protected=True)
    with fails(19, naming="protected"):
        drop_table(home.ns, *home.id("t"))
    assert home.rows("t") == [1, 2, 3]
    drop_table(home.ns, *home.id("t"), force="true", ttl="0")

    (refused,) = home.ns.purge_tables().tables

    assert "protected" in refused.error
    home.ns.undrop_table(home.id("t"))
    with fails(19):
        drop_table(home.ns, *home.id("t"))
    home.ns.set_table_protection(home.id("t"), protected=False)
    drop_table(home.ns, *home.id("t"), ttl="0")
    assert home.ns.purge_tables().failed == []


def test_protection_is_not_a_property_and_survives_an_overwrite(home):
    if home.mode == "v1":
        pytest.skip("V1 has no properties")
    create_table(home.ns, *home.id("t"), properties={"k": "v"})
    home.ns.set_table_protection(home.id("t"), protected=True)
    made = create_table(home.ns, *home.id("t"), mode="overwrite", properties={"k": "w"})
    assert made.properties == {"k": "w"}
    with fails(19):
        drop_table(home.ns, *home.id("t"))


# Namespaces


@pytest.fixture
def tree(where, open_namespace):
    ns = open_namespace(where)
    for names in (["a"], ["a", "b"], ["other"]):
        create_namespace(ns, *names, properties={"name": names[-1]})
    for names in (["a", "t"], ["a", "b", "t"], ["other", "t"]):
        create_table(ns, *names, data=ipc({"x": [len(names)]}), properties={"k": "v"})
    return ns


def test_namespace_tree_is_dropped_and_restored_as_a_whole(tree):
    drop_namespace(tree, "a", behavior="cascade")
    assert list_tables(tree, "other") == ["t"]
    with fails(1):
        list_tables(tree, "a")

    assert sorted(tree.undrop_namespace(["a"])) == [["a", "b", "t"], ["a", "t"]]

    assert list_tables(tree, "a", "b") == list_tables(tree, "a") == ["t"]
    assert tree.describe_namespace({"id": ["a", "b"]}).properties == {"name": "b"}
    assert tree.describe_table({"id": ["a", "b", "t"]}).properties == {"k": "v"}


def test_protected_child_prevents_cascade(tree):
    for protect in (
        lambda **on: tree.set_namespace_protection(["a", "b"], **on),
        lambda **on: tree.set_table_protection(["a", "b", "t"], **on),
    ):
        protect(protected=True)
        with fails(19, naming="protected"):
            drop_namespace(tree, "a", behavior="cascade")
        assert list_tables(tree, "a", "b") == ["t"]
        protect(protected=False)
    drop_namespace(tree, "a", behavior="cascade")


def test_dropped_namespace_tree_is_purged(tree):
    drop_namespace(tree, "a", behavior="cascade", context={"ttl": "0"})
    assert sorted(table.id for table in tree.purge_tables().tables) == [["a", "b", "t"], ["a", "t"]]
    with fails(1):
        tree.undrop_namespace(["a"])
    assert list_tables(tree, "other") == ["t"]
