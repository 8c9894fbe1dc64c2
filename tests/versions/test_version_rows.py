"""Version rows follow their table through all operations: none is left without a table."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    drop_namespace,
    drop_table,
    fails,
    ipc,
    register_table,
    remove_table,
    rename_table,
)
from tests.versions.shelf import Shelf


def trash_keys(shelf) -> list[str]:
    return [key for key in shelf.version_rows() if key.startswith("__trash$")]


def test_create_and_append_add_rows(managed_shelf):
    shelf = managed_shelf
    shelf.create("t", [1], [2])
    lance.write_dataset(pa.table({"x": [5]}), **shelf.through("u"), mode="create")
    assert shelf.version_rows() == {shelf.key("t"): [1, 2], shelf.key("u"): [1]}
    for name, version in (("t", 1), ("t", 2), ("u", 1)):
        row = shelf.row(name, version)
        assert row["manifest_path"] == shelf._store.from_absolute(shelf.describe_version(name, version).manifest_path)
        assert int(row["manifest_size"]) == shelf._store.size(row["manifest_path"])
        assert all(isinstance(value, str) for value in row.values())


def test_filling_a_declared_table_adds_a_row(near_managed_shelf):
    shelf = near_managed_shelf
    declare_table(shelf.ns, *shelf.id("t"))
    assert shelf.version_rows() == {}
    create_table(shelf.ns, *shelf.id("t"), data=ipc({"x": [1]}))
    assert shelf.version_rows() == {shelf.key("t"): [1]}
    shelf.check_same("t")
    declare_table(shelf.ns, *shelf.id("u"))
    lance.write_dataset(pa.table({"x": [5]}), **shelf.through("u"), mode="append")
    assert shelf.version_rows() == {shelf.key("t"): [1], shelf.key("u"): [1]}
    shelf.check_same("u")


def test_drop_and_undrop_move_the_rows(managed_shelf):
    shelf = managed_shelf
    shelf.create("t", [1], [2], [3])
    drop_table(shelf.ns, *shelf.id("t"))
    assert shelf.key("t") not in shelf.version_rows()
    with fails(4):
        shelf.list_versions("t")
    shelf.ns.undrop_table(shelf.id("t"))
    assert shelf.version_rows() == {shelf.key("t"): [1, 2, 3]}
    shelf.check_same("t")
    assert shelf.append("t", [4]) == 4


def test_dropped_table_keeps_its_rows_in_the_trash(new_shelf):
    shelf = new_shelf("local", "v2-managed")
    shelf.create("t", [1], [2])
    drop_table(shelf.ns, "t")
    (key,) = trash_keys(shelf)
    assert shelf.version_rows() == {key: [1, 2]}
    shelf.create("t", [7])
    assert shelf.version_rows() == {key: [1, 2], "t": [1]}
    shelf.ns.undrop_table(["t"], as_id=["old"])
    assert shelf.version_rows() == {"old": [1, 2], "t": [1]}
    assert (shelf.rows("t"), shelf.rows("old")) == ([7], [1, 2])
    shelf.check_same("old")


def test_create_over_a_dropped_root_table_continues_its_versions(new_shelf):
    """The new table uses the same directory, so its first version has the next number."""
    shelf = new_shelf("local", "compatibility-managed")
    shelf.create("t", [1], [2])
    drop_table(shelf.ns, "t")
    assert shelf.version_rows() == {}
    create_table(shelf.ns, "t", data=ipc({"x": [7]}))
    assert shelf.version_rows() == {"t": [1, 2, 3]}
    assert shelf.rows("t") == [7]
    shelf.check_same("t")


def test_undrop_of_a_root_table_under_another_name_moves_the_rows(new_shelf):
    shelf = new_shelf("local", "compatibility-managed")
    shelf.create("t", [1], [2])
    drop_table(shelf.ns, "t")
    shelf.ns.undrop_table(["t"], as_id=["u"])
    assert shelf.version_rows() == {"u": [1, 2]}
    shelf.check_same("u")
    assert shelf.append("u", [3]) == 3


def test_purge_removes_the_rows(managed_shelf):
    shelf = managed_shelf
    shelf.create("kept", [1])
    for name in ("t", "u"):
        shelf.create(name, [1], [2])
    drop_table(shelf.ns, *shelf.id("t"), ttl="0s")
    shelf.ns.purge_table(shelf.id("t"), force=True)
    assert shelf.version_rows() == {shelf.key("kept"): [1], shelf.key("u"): [1, 2]}
    remove_table(shelf.ns, *shelf.id("u"))
    assert shelf.version_rows() == {shelf.key("kept"): [1]}
    create_table(shelf.ns, *shelf.id("t"), data=ipc({"x": [9]}))
    assert shelf.list_versions("t") == [1]
    assert shelf.rows("t") == [9]


def test_rename_moves_the_rows(managed_shelf):
    shelf = managed_shelf
    shelf.create("t", [1], [2])
    create_namespace(shelf.ns, *shelf.id("n"))
    rename_table(shelf.ns, *shelf.id("t"), to="u")
    assert shelf.version_rows() == {shelf.key("u"): [1, 2]}
    shelf.check_same("u")
    rename_table(shelf.ns, *shelf.id("u"), to="1", into=shelf.id("n"))
    inner = Shelf(shelf.ns, shelf.where, tuple(shelf.id("n")), is_managed=True)
    assert shelf.version_rows() == {inner.key("1"): [1, 2]}
    assert inner.append("1", [3]) == 3
    inner.check_same("1")
    shelf.create("t", [5])
    assert shelf.version_rows() == {inner.key("1"): [1, 2, 3], shelf.key("t"): [1]}


def test_tables_that_swap_names_keep_their_rows(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1], [2], [3])
    shelf.create("u", [7])
    rename_table(shelf.ns, *shelf.id("t"), to="spare")
    rename_table(shelf.ns, *shelf.id("u"), to="t")
    rename_table(shelf.ns, *shelf.id("spare"), to="u")
    assert shelf.version_rows() == {shelf.key("t"): [1], shelf.key("u"): [1, 2, 3]}
    assert (shelf.rows("t"), shelf.rows("u")) == ([7], [1, 2, 3])
    assert shelf.append("t", [8]) == 2
    assert shelf.append("u", [4]) == 4
    shelf.check_same("t")
    shelf.check_same("u")


def test_cascade_drop_and_undrop_move_the_rows(managed_shelf):
    shelf = managed_shelf
    create_namespace(shelf.ns, "n")
    create_namespace(shelf.ns, "n", "m")
    outer = Shelf(shelf.ns, shelf.where, ("n",), is_managed=True)
    inner = Shelf(shelf.ns, shelf.where, ("n", "m"), is_managed=True)
    outer.create("1", [1], [2])
    inner.create("t", [3], [4], [5])
    drop_namespace(shelf.ns, "n", behavior="cascade")
    rows = shelf.version_rows()
    assert sorted(rows.values()) == [[1, 2], [1, 2, 3]]
    assert all(key.startswith("__trash$") for key in rows)
    # A table may have the name of the dropped namespace, so its version rows get the keys of that namespace's tables.
    shelf.parent = ()
    shelf.create("n", [9], [8])
    assert shelf.version_rows()["n"] == [1, 2]
    remove_table(shelf.ns, "n")
    shelf.ns.undrop_namespace(["n"])
    assert shelf.version_rows() == {"n$1": [1, 2], "n$m$t": [1, 2, 3]}
    assert (outer.rows("1"), inner.rows("t")) == ([1, 2], [3, 4, 5])
    inner.check_same("t")
    assert outer.append("1", [6]) == 3


def test_deregister_removes_and_register_imports_the_rows(managed_shelf):
    shelf = managed_shelf
    location = shelf._store.relative(shelf.create("t", [1], [2]))
    deregister_table(shelf.ns, *shelf.id("t"))
    assert shelf.version_rows() == {}
    lance.write_dataset(
        pa.table({"x": [3]}), shelf._store.location(location), mode="append", storage_options=shelf.where.options
    )
    register_table(shelf.ns, *shelf.id("u"), location=location)
    assert shelf.version_rows() == {shelf.key("u"): [1, 2, 3]}
    assert shelf.append("u", [4]) == 4
    shelf.check_same("u")


def test_register_over_a_table_replaces_the_rows(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1], [2], [3])
    location = shelf._store.relative(shelf.create("u", [7]))
    deregister_table(shelf.ns, *shelf.id("u"))
    register_table(shelf.ns, *shelf.id("t"), location=location, mode="overwrite")
    assert shelf.version_rows() == {shelf.key("t"): [1]}
    assert shelf.rows("t") == [7]
    shelf.check_same("t")


def test_overwrite_adds_a_row(managed_shelf):
    shelf = managed_shelf
    shelf.create("t", [1], [2])
    made = create_table(shelf.ns, *shelf.id("t"), data=ipc({"y": ["a"]}), mode="overwrite")
    assert made.version == 3
    assert shelf.version_rows() == {shelf.key("t"): [1, 2, 3]}
    shelf.check_same("t")
    assert shelf.open("t").to_table().to_pydict() == {"y": ["a"]}


def test_commit_to_a_dropped_table_adds_no_row(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    handle = shelf.open("t")
    drop_table(shelf.ns, *shelf.id("t"))
    with pytest.raises(OSError, match="t"):
        handle.insert(pa.table({"x": [2]}))
    shelf.ns.undrop_table(shelf.id("t"))
    assert shelf.version_rows() == {shelf.key("t"): [1]}
    handle.insert(pa.table({"x": [2]}))
    assert shelf.rows("t") == shelf.plain_rows("t") == [1, 2]
    # pylance keeps its staged manifest because it does not know the outcome. The file does no harm.
    assert shelf.list_versions("t") == [1, 2]


# Clients that list directories and ignore the manifest


def test_table_without_a_manifest_row_is_not_managed(new_shelf, open_namespace):
    shelf = new_shelf("local", "compatibility-managed")
    plain = open_namespace(shelf.where, "v1")
    for name in ("t", "u", "w"):
        create_table(plain, name, data=ipc({"x": [1]}))
    assert shelf.version_rows() == {}
    assert shelf.append("t", [2]) == 2
    assert shelf.list_versions("t") == [1, 2]
    rename_table(shelf.ns, "t", to="s")
    assert shelf.rows("s") == [1, 2]
    assert shelf.append("s", [3]) == 3
    assert shelf.version_rows()["s"] == [1, 2, 3]
    create_table(shelf.ns, "u", data=ipc({"x": [5]}), mode="overwrite")
    assert shelf.rows("u") == [5]
    shelf.check_same("u")
    shelf.ns.migrate_to_manifest()
    assert shelf.version_rows() == {"s": [1, 2, 3], "u": [1, 2], "w": [1]}


def test_batch_creates_versions_of_a_managed_and_an_unmanaged_table(new_shelf, open_namespace):
    """The managed table still gets a version row."""
    shelf = new_shelf("local", "compatibility-managed")
    create_table(open_namespace(shelf.where, "v1"), "other", data=ipc({"x": [1]}))
    shelf.create("t", [1])
    entries = [shelf.stage("other", [2]), shelf.stage("t", [3])]
    answer = shelf.ns.batch_create_table_versions({"entries": entries})
    assert [one.version for one in answer.versions] == [2, 2]
    assert "other" in answer.versions[0].manifest_path
    assert shelf.version_rows() == {"t": [1, 2]}
    assert (shelf.rows("other"), shelf.rows("t")) == ([1, 2], [1, 3])


def test_root_table_dropped_by_a_v1_client_is_restored_completely(new_shelf, open_namespace, monkeypatch):
    """Its rows still exist, and one of its versions is unfinished."""
    shelf = new_shelf("local", "compatibility-managed")
    shelf.create("t", [1], [2])
    shelf.append_unfinished(monkeypatch, "t", [3])
    drop_table(open_namespace(shelf.where, "v1"), "t")
    assert shelf.version_rows() == {"t": [1, 2, 3]}
    shelf.ns.undrop_table(["t"])
    assert shelf.rows("t") == [1, 2, 3]
    shelf.check_same("t")


def test_root_table_dropped_by_a_v1_client_is_restored_under_another_name(new_shelf, open_namespace, monkeypatch):
    shelf = new_shelf("local", "compatibility-managed")
    shelf.create("t", [1], [2])
    shelf.append_unfinished(monkeypatch, "t", [3])
    drop_table(open_namespace(shelf.where, "v1"), "t")
    shelf.ns.undrop_table(["t"], as_id=["u"])
    assert shelf.rows("u") == [1, 2, 3]
    shelf.check_same("u")


def test_create_over_a_root_table_dropped_by_a_v1_client(new_shelf, open_namespace, monkeypatch):
    shelf = new_shelf("local", "compatibility-managed")
    shelf.create("t", [1], [2])
    shelf.append_unfinished(monkeypatch, "t", [3])
    drop_table(open_namespace(shelf.where, "v1"), "t")
    create_table(shelf.ns, "t", data=ipc({"x": [7]}))
    assert shelf.rows("t") == [7]
    assert shelf.rows("t", version=3) == [1, 2, 3]
    shelf.check_same("t")


def test_create_over_a_root_table_purged_by_a_v1_client(new_shelf, open_namespace):
    """The rows of the purged versions are removed."""
    shelf = new_shelf("local", "compatibility-managed")
    shelf.create("t", [1], [2], [3])
    remove_table(open_namespace(shelf.where, "v1"), "t")
    create_table(shelf.ns, "t", data=ipc({"x": [7]}))
    assert shelf.version_rows() == {"t": [1]}
    assert shelf.rows("t") == [7]
    shelf.check_same("t")


def test_client_that_has_not_seen_version_management_yet(new_shelf, open_namespace):
    shelf = new_shelf("local", "v2")
    shelf.create("t", [1])
    late = open_namespace(shelf.where, "v2")
    late.list_table_versions({"id": ["t"]})
    shelf.ns.enable_table_version_management()
    create_table(late, "u", data=ipc({"x": [5]}))
    assert shelf.rows("u") == [5]
    assert shelf.append("u", [6]) == 2
    shelf.check_same("u")
    assert shelf.version_rows() == {"t": [1], "u": [1, 2]}
