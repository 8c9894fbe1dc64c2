"""A drop hides a table and keeps its data; undrop restores the table."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    register_table,
    rename_table,
    table_exists,
)


def test_dropped_table_is_not_found_by_any_operation(home):
    create_table(home.ns, *home.id("t"))
    create_table(home.ns, *home.id("other"))

    drop_table(home.ns, *home.id("t"))

    assert list_tables(home.ns, *home.parent) == ["other"]
    assert list_all_tables(home.ns) == ["$".join(home.id("other"))]
    for call in (table_exists, describe_table, deregister_table, drop_table):
        with fails(4, naming="t'"):
            call(home.ns, *home.id("t"))


def test_open_reader_survives_the_drop(home):
    create_table(home.ns, *home.id("t"), data=ipc({"x": list(range(1000))}))
    batches = home.open(describe_table(home.ns, *home.id("t")).location).to_batches(batch_size=100)
    first = next(iter(batches))

    drop_table(home.ns, *home.id("t"))

    assert first.num_rows + sum(batch.num_rows for batch in batches) == 1000


def test_undrop_restores_data_versions_and_properties(home):
    properties = None if home.mode == "v1" else {"k": "v"}
    location = create_table(home.ns, *home.id("t"), properties=properties).location
    options = home.where.options or None
    lance.write_dataset(pa.table({"x": [4]}), location, mode="append", storage_options=options)
    drop_table(home.ns, *home.id("t"))

    assert home.ns.undrop_table(home.id("t")) == location

    described = describe_table(home.ns, *home.id("t"))
    assert (described.location, described.properties) == (location, properties)
    assert home.rows("t") == [1, 2, 3, 4]
    assert [version["version"] for version in home.open(location).versions()] == [1, 2]
    assert list_tables(home.ns, *home.parent) == ["t"]


def test_undrop_keeps_rows_appended_after_the_drop(home):
    location = create_table(home.ns, *home.id("t")).location
    drop_table(home.ns, *home.id("t"))
    lance.write_dataset(pa.table({"x": [4]}), location, mode="append", storage_options=home.where.options or None)

    home.ns.undrop_table(home.id("t"))

    assert home.rows("t") == [1, 2, 3, 4]


def test_undrop_of_live_table_raises_not_found(home):
    create_table(home.ns, *home.id("live"))
    for name in ("live", "never"):
        with fails(4, naming=f"{name}'"):
            home.ns.undrop_table(home.id(name))
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"))
    with fails(4, naming="t'"):
        home.ns.undrop_table(home.id("t"), deletion_id="another")


def test_undrop_to_a_taken_name_raises_already_exists_and_suggests_as_id(home):
    create_table(home.ns, *home.id("t"), data=ipc({"x": [1]}))
    drop_table(home.ns, *home.id("t"))
    if home.by_marker:
        if home.mode == "v1":
            pytest.skip("in V1, only the next version of a dropped root table can take its name")
        create_namespace(home.ns, *home.id("t"))
    else:
        create_table(home.ns, *home.id("t"), data=ipc({"x": [2]}))

    with fails(5, naming="as_id"):
        home.ns.undrop_table(home.id("t"))

    home.ns.undrop_table(home.id("t"), as_id=home.id("back"))
    assert home.rows("back") == [1]


def test_undrop_restores_under_another_name(home):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"))
    if home.mode == "v1":
        with fails(0):
            home.ns.undrop_table(home.id("t"), as_id=home.id("back"))
        assert home.ns.table_status(home.id("t")).status == "SoftDeleted"
        return

    home.ns.undrop_table(home.id("t"), as_id=home.id("back"))

    assert list_tables(home.ns, *home.parent) == ["back"]
    assert home.rows("back") == [1, 2, 3]
    assert home.ns.table_status(home.id("t")).status == "NotFound"
    create_table(home.ns, *home.id("t"), data=ipc({"x": [9]}))
    assert home.rows("t") == [9]


def test_create_over_dropped_table_adds_a_version_or_a_new_table(home):
    old = create_table(home.ns, *home.id("t")).location
    drop_table(home.ns, *home.id("t"))

    made = create_table(home.ns, *home.id("t"), data=ipc({"y": ["a"]}))

    assert home.open(made.location).to_table().to_pydict() == {"y": ["a"]}
    assert (made.location == old) == home.by_marker
    assert made.version == (2 if home.by_marker else 1)
    assert home.ns.table_status(home.id("t")).status == "Exists"
    waiting, _ = home.ns.list_dropped_tables(home.parent)
    assert [table.id for table in waiting] == ([] if home.by_marker else [home.id("t")])


def test_several_drops_of_one_name_are_restored_by_deletion_id(home):
    if home.by_marker:
        pytest.skip("a root table is dropped at most once at a time")
    for number in range(3):
        create_table(home.ns, *home.id("t"), data=ipc({"x": [number]}))
        drop_table(home.ns, *home.id("t"))
    waiting, _ = home.ns.list_dropped_tables(home.parent)
    first = min(waiting, key=lambda table: table.dropped_at)

    home.ns.undrop_table(home.id("t"), as_id=home.id("latest"))
    home.ns.undrop_table(home.id("t"), as_id=home.id("first"), deletion_id=first.deletion_id)

    assert home.rows("latest") == [2]
    assert home.rows("first") == [0]


@pytest.mark.parametrize("mode", ["create", "exist_ok", "overwrite"])
def test_every_create_mode_works_over_a_dropped_table(home, mode):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"))

    create_table(home.ns, *home.id("t"), data=ipc({"x": [7]}), mode=mode)

    assert home.rows("t") == [7]


def test_failed_creation_keeps_the_dropped_table(home):
    create_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"))
    unstorable = ipc(pa.table({"x": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}))

    with fails(13):
        create_table(home.ns, *home.id("t"), data=unstorable)

    assert home.ns.table_status(home.id("t")).status == "SoftDeleted"
    home.ns.undrop_table(home.id("t"))
    assert home.rows("t") == [1, 2, 3]


def test_dropped_declared_table_can_be_restored(home):
    declare_table(home.ns, *home.id("t"))
    drop_table(home.ns, *home.id("t"))
    assert list_tables(home.ns, *home.parent) == []

    home.ns.undrop_table(home.id("t"))

    assert describe_table(home.ns, *home.id("t"), check_declared=True).is_only_declared


def test_dropped_renamed_table_can_be_restored(home):
    if home.mode == "v1":
        pytest.skip("V1 has no rename")
    create_table(home.ns, *home.id("t"))
    rename_table(home.ns, *home.id("t"), to="u")
    drop_table(home.ns, *home.id("u"))
    assert list_tables(home.ns, *home.parent) == []

    home.ns.undrop_table(home.id("u"))

    assert home.rows("u") == [1, 2, 3]
    assert list_tables(home.ns, *home.parent) == ["u"]


def test_restored_root_table_stays_deregistered(home):
    if not home.by_marker:
        pytest.skip("a deregistered manifest table is no longer in the catalog")
    create_table(home.ns, "t")
    deregister_table(home.ns, "t")
    drop_table(home.ns, "t")
    with fails(13):
        register_table(home.ns, "t", location="t.lance")

    home.ns.undrop_table(["t"])

    assert list_tables(home.ns) == []
    register_table(home.ns, "t", location="t.lance")
    assert home.rows("t") == [1, 2, 3]


def test_undrop_into_a_dropped_namespace_raises_namespace_not_found(where, open_namespace):
    ns = open_namespace(where)
    create_namespace(ns, "a")
    create_table(ns, "a", "t")
    drop_table(ns, "a", "t")
    ns.drop_namespace({"id": ["a"]})

    with fails(1, naming="a'"):
        ns.undrop_table(["a", "t"])
    ns.undrop_table(["a", "t"], as_id=["t"])
    assert list_tables(ns) == ["t"]


def test_v1_and_compatibility_clients_agree_on_a_dropped_root_table(where, open_namespace):
    clients = [open_namespace(where, mode) for mode in ("v1", "compatibility")]
    for dropper in clients:
        create_table(clients[1], "t", properties={"k": "v"})
        drop_table(dropper, "t")
        for client in clients:
            assert list_tables(client) == []
            assert client.table_status(["t"]).status == "SoftDeleted"
            with fails(4):
                describe_table(client, "t")
        clients[0].undrop_table(["t"])
        for client in clients:
            assert list_tables(client) == ["t"]
            assert table_exists(client, "t") is not None
        drop_table(clients[0], "t", purge="true")


def test_large_table_is_created_over_a_dropped_one(where, open_namespace):
    ns = open_namespace(where, "v1")
    create_table(ns, "t")
    drop_table(ns, "t")

    made = create_table(ns, "t", data=ipc({"x": list(range(1_000_001))}))

    assert made.version == 2
    assert lance.dataset(made.location, storage_options=where.options or None).count_rows() == 1_000_001
