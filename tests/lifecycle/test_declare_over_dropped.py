"""A table can be declared and written over a dropped one, and the dropped table is kept."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import lance
import lancedb
import pyarrow as pa
import pytest

from tests.support import (
    MODES,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_tables,
)


def write(home, name, rows):
    """Create a table as plain pylance code does: declare it, then write its first version to the location."""
    return lance.write_dataset(
        pa.table({"x": rows}),
        namespace_client=home.ns,
        table_id=home.id(name),
        storage_options=home.where.options or None,
        mode="create",
    )


def list_dropped(home):
    """Return the dropped tables, oldest first."""
    return sorted(home.ns.list_dropped_tables(home.parent)[0], key=lambda table: table.dropped_at)


def restore(home, table):
    """Restore a dropped table under another name, and return its rows."""
    if home.mode == "v1":
        home.ns.undrop_table(table.id)
        return home.rows(table.id[-1])
    home.ns.undrop_table(table.id, as_id=home.id("restored"), deletion_id=table.deletion_id)
    return home.rows("restored")


def test_lance_can_create_again_after_a_drop(home):
    for round_number in range(3):
        made = write(home, "t", [round_number])
        assert (made.version, made.to_table()["x"].to_pylist()) == (1, [round_number])
        assert home.rows("t") == [round_number]
        with fails(5):
            write(home, "t", [9])
        drop_table(home.ns, *home.id("t"))
        assert list_tables(home.ns, *home.parent) == []
    write(home, "t", [3])
    assert list_tables(home.ns, *home.parent) == ["t"]
    assert [home.open(table.location).to_table()["x"].to_pylist() for table in list_dropped(home)] == [[0], [1], [2]]


def test_lancedb_can_create_again_after_a_drop(home):
    properties = {**home.where.properties, **MODES[home.mode], "vend_input_storage_options": "true"}
    db = lancedb.connect_namespace("pennon.DirectoryNamespace", properties)
    for round_number in range(3):
        db.create_table("t", pa.table({"x": [round_number]}), namespace_path=list(home.parent))
        table = db.open_table("t", namespace_path=list(home.parent))
        table.add(pa.table({"x": [9]}))
        assert table.to_arrow()["x"].to_pylist() == [round_number, 9]
        assert home.rows("t") == [round_number, 9]
        db.drop_table("t", namespace_path=list(home.parent))
    assert len(list_dropped(home)) == 3


def test_table_dropped_before_a_declaration_is_restored_with_its_history(home):
    create_table(home.ns, *home.id("t"), data=ipc({"x": [1]}))
    home.ns.insert_into_table({"id": home.id("t")}, ipc({"x": [2]}))
    home.ns.create_table_tag({"id": home.id("t"), "tag": "first", "version": 1})
    home.ns.create_table_branch({"id": home.id("t"), "name": "side"})
    drop_table(home.ns, *home.id("t"))
    write(home, "t", [9])
    (old,) = list_dropped(home)

    assert restore(home, old) == [1, 2]
    name = old.id if home.mode == "v1" else home.id("restored")
    assert home.ns.get_table_tag_version({"id": name, "tag": "first"}).version == 1
    assert list(home.ns.list_table_branches({"id": name}).branches) == ["side"]
    assert home.ns.count_table_rows({"id": name, "version": 1}).count == 1
    home.ns.insert_into_table({"id": name}, ipc({"x": [3]}))
    assert home.rows(name[-1]) == [1, 2, 3]
    assert home.rows("t") == [9]


def test_declaration_keeps_deletion_id_and_retention_of_the_dropped_table(home):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"), ttl="12h")
    (before,) = list_dropped(home)
    declare_table(home.ns, *home.id("t"))
    (after,) = list_dropped(home)

    assert after.deletion_id == before.deletion_id
    assert after.dropped_at == before.dropped_at
    assert after.purgeable_at >= before.purgeable_at
    assert home.ns.list_purgable_tables() == []
    due = home.ns.list_purgable_tables(datetime.now(timezone.utc) + timedelta(days=1))
    assert [table.deletion_id for table in due] == [before.deletion_id]


def test_purge_of_a_dropped_table_keeps_the_newly_declared_one(home):
    create_table(home.ns, *home.id("t"), data=ipc({"x": [1]}))
    drop_table(home.ns, *home.id("t"))
    write(home, "t", [9])
    (old,) = list_dropped(home)
    home.ns.purge_table(old.id, old.deletion_id, force=True)

    assert list_dropped(home) == []
    assert home.rows("t") == [9]
    assert list_tables(home.ns, *home.parent) == ["t"]


@pytest.mark.parametrize("way", ["create", "insert", "merge"])
def test_table_declared_over_a_dropped_one_is_empty_and_can_be_filled(home, way):
    create_table(home.ns, *home.id("t"), data=ipc({"x": [1]}))
    drop_table(home.ns, *home.id("t"))
    declare_table(home.ns, *home.id("t"))
    assert describe_table(home.ns, *home.id("t"), check_declared=True).is_only_declared is True
    assert list_tables(home.ns, *home.parent) == ["t"]
    assert list_tables(home.ns, *home.parent, include_declared=False) == []
    if way == "create":
        create_table(home.ns, *home.id("t"), data=ipc({"x": [9]}))
    elif way == "insert":
        home.ns.insert_into_table({"id": home.id("t")}, ipc({"x": [9]}))
    else:
        home.ns.merge_insert_into_table({"id": home.id("t"), "on": ["x"]}, ipc({"x": [9]}))
    assert home.rows("t") == [9]
    (old,) = list_dropped(home)
    assert restore(home, old) == [1]


def test_undrop_fails_until_the_declared_table_is_dropped(home):
    create_table(home.ns, *home.id("t"), data=ipc({"x": [1]}))
    drop_table(home.ns, *home.id("t"))
    (old,) = list_dropped(home)
    declare_table(home.ns, *home.id("t"))
    with fails(4 if home.mode == "v1" else 5):
        home.ns.undrop_table(home.id("t"), deletion_id=old.deletion_id)
    assert describe_table(home.ns, *home.id("t"), check_declared=True).is_only_declared is True
    drop_table(home.ns, *home.id("t"), purge="true")
    (again,) = list_dropped(home)
    if home.mode != "v1":
        home.ns.undrop_table(home.id("t"))
        assert home.rows("t") == [1]
    else:
        assert restore(home, again) == [1]


def test_dropped_declared_table_can_be_declared_and_written_again(home):
    for _ in range(2):
        declare_table(home.ns, *home.id("t"))
        drop_table(home.ns, *home.id("t"))
    write(home, "t", [9])
    assert home.rows("t") == [9]
    old = list_dropped(home)[0]
    if home.mode == "v1":
        home.ns.undrop_table(old.id)
        assert describe_table(home.ns, *old.id, check_declared=True).is_only_declared is True
        assert list_tables(home.ns, include_declared=False) == ["t"]


def test_dropped_table_with_the_longest_name_can_be_created_again(home):
    name = "ü" * ((236 - len("$".join(home.id("")))) // 2)
    create_table(home.ns, *home.id(name), data=ipc({"x": [1]}))
    drop_table(home.ns, *home.id(name))
    write(home, name, [9])
    assert home.rows(name) == [9]
    (old,) = list_dropped(home)
    assert restore(home, old) == [1]


def test_append_by_a_client_with_the_dropped_table_open_is_restored(home):
    create_table(home.ns, *home.id("t"), data=ipc({"x": [1]}))
    late = home.open(describe_table(home.ns, *home.id("t")).location)
    drop_table(home.ns, *home.id("t"))
    late.insert(pa.table({"x": [2]}))
    write(home, "t", [9])
    (old,) = list_dropped(home)
    assert restore(home, old) == [1, 2]
    assert home.rows("t") == [9]


def test_table_can_be_declared_at_the_location_of_a_dropped_table(where, open_namespace):
    ns = open_namespace(where, "compatibility")
    create_table(ns, "t", data=ipc({"x": [1]}), properties={"of": "old"})
    drop_table(ns, "t")
    made = declare_table(ns, "t", location="t.lance")
    assert made.location.endswith("/t.lance")
    lance.write_dataset(pa.table({"x": [9]}), made.location, storage_options=where.options or None, mode="create")
    (old,) = ns.list_dropped_tables()[0]
    ns.undrop_table(old.id, as_id=["restored"])
    restored = describe_table(ns, "restored")
    assert restored.properties == {"of": "old"}
    assert ns.count_table_rows({"id": ["restored"]}).count == 1
    assert list_tables(ns) == ["restored", "t"]


def test_table_dropped_while_deregistered_is_restored_as_deregistered(where, open_namespace):
    ns = open_namespace(where, "v1")
    create_table(ns, "t", data=ipc({"x": [1]}))
    deregister_table(ns, "t")
    drop_table(ns, "t")
    declare_table(ns, "t")
    (old,) = ns.list_dropped_tables()[0]
    ns.undrop_table(old.id)
    assert list_tables(ns) == ["t"]
    ns.register_table({"id": old.id, "location": f"{old.id[0]}.lance"})
    assert ns.count_table_rows({"id": old.id}).count == 1
