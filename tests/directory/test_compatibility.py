"""Compatibility mode resolves rows before directories, and lists no name and no location twice."""

from __future__ import annotations

import pytest

from tests.directory.on_disk import directory, files, has_manifest, manifest_rows, rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)


@pytest.fixture
def both(root, open_namespace):
    """Open a root in compatibility mode."""
    return open_namespace(root, "compatibility")


def test_directory_only_table_is_listed_and_described(both):
    write_table(directory(both) / "t.lance", [7])
    found = describe_table(both, "t", load_detailed_metadata=True)
    assert (found.location, found.version, found.properties) == (str(directory(both) / "t.lance"), 1, {})
    table_exists(both, "t")
    assert list_tables(both) == ["t"]
    assert list_all_tables(both) == ["t"]
    assert not has_manifest(both)


def test_directory_only_table_blocks_creation_under_its_name(both):
    location = directory(both) / "t.lance"
    write_table(location, [7])
    write_table(directory(both) / "free")
    before = files(both)
    with fails(5, naming="t'"):
        create_table(both, "t")
    with fails(5, naming="t'"):
        declare_table(both, "t")
    with fails(5, naming="t'"):
        declare_table(both, "t", location="elsewhere")
    with fails(5, naming="t'"):
        register_table(both, "t", location="free")
    with fails(5, naming="t'"):
        register_table(both, "t", location="t.lance")
    with fails(2, naming="t'"):
        create_namespace(both, "t")
    assert files(both) == before
    create_table(both, "t", mode="exist_ok")
    assert rows(location) == [7]


def test_directory_only_table_can_be_overwritten_in_place(both):
    location = directory(both) / "t.lance"
    write_table(location, [7])
    made = create_table(both, "t", mode="overwrite", data=ipc({"x": [8]}))
    assert (made.location, made.version) == (str(location), 2)
    assert rows(location) == [8]
    assert list_tables(both) == ["t"]


def test_directory_only_table_can_be_dropped(both):
    write_table(directory(both) / "t.lance")
    create_table(both, "other")
    remove_table(both, "t")
    assert not (directory(both) / "t.lance").exists()
    assert list_tables(both) == ["other"]


def test_directory_only_table_can_be_deregistered_and_registered(both):
    write_table(directory(both) / "t.lance", [7])
    deregister_table(both, "t")
    assert list_tables(both) == []
    with fails(4):
        describe_table(both, "t")
    register_table(both, "t", location="t.lance", properties={"k": "v"})
    assert list_tables(both) == ["t"]
    assert describe_table(both, "t").properties == {"k": "v"}
    assert rows(directory(both) / "t.lance") == [7]


def test_directory_only_table_can_be_registered_over_itself(both):
    write_table(directory(both) / "t.lance", [7])
    register_table(both, "t", location="t.lance", mode="overwrite", properties={"k": "v"})
    assert describe_table(both, "t").properties == {"k": "v"}
    assert list_tables(both) == ["t"]
    remove_table(both, "t")
    assert list_tables(both) == []


def test_directory_only_table_can_be_renamed(both):
    location = directory(both) / "old.lance"
    write_table(location, [7])
    create_namespace(both, "a")
    rename_table(both, "old", to="new", into=["a"])
    assert list_all_tables(both) == ["a$new"]
    found = describe_table(both, "a", "new")
    assert found.location == str(location)
    assert rows(location) == [7]
    with fails(4):
        describe_table(both, "old")


def test_directory_only_table_blocks_rename_to_its_name(both):
    write_table(directory(both) / "taken.lance", [7])
    create_table(both, "t", data=ipc({"x": [1]}))
    with fails(5, naming="taken"):
        rename_table(both, "t", to="taken")
    assert rows(describe_table(both, "taken").location) == [7]
    assert rows(describe_table(both, "t").location) == [1]


def test_directory_of_another_table_cannot_be_registered(both):
    write_table(directory(both) / "t.lance", [7])
    with fails(13, naming="'t'"):
        register_table(both, "thief", location="t.lance")
    assert list_tables(both) == ["t"]


def test_created_root_table_has_a_directory_and_a_row(both):
    create_table(both, "t")
    assert (directory(both) / "t.lance").is_dir()
    assert manifest_rows(both)["t"]["location"] == "t.lance"
    assert list_tables(both) == ["t"]
    assert list_all_tables(both) == ["t"]


def test_row_takes_precedence_over_directory(root, open_namespace):
    by_manifest, by_both = open_namespace(root, "v2"), open_namespace(root, "compatibility")
    hashed = create_table(by_manifest, "t", data=ipc({"x": [1]}), properties={"k": "v"}).location
    write_table(directory(by_both) / "t.lance", [7])
    found = describe_table(by_both, "t")
    assert (found.location, found.properties) == (hashed, {"k": "v"})
    assert list_tables(by_both) == ["t"]
    assert list_all_tables(by_both) == ["t"]


def test_drop_of_a_name_with_row_and_directory_drops_only_the_manifest_table(root, open_namespace):
    by_manifest, by_both = open_namespace(root, "v2"), open_namespace(root, "compatibility")
    create_table(by_manifest, "t", data=ipc({"x": [1]}))
    stray = directory(by_both) / "t.lance"
    write_table(stray, [7])
    remove_table(by_both, "t")
    assert rows(stray) == [7]


def test_directory_registered_under_another_name_is_listed_once(root, open_namespace):
    by_manifest, by_both = open_namespace(root, "v2"), open_namespace(root, "compatibility")
    write_table(directory(by_both) / "dir.lance", [7])
    create_namespace(by_manifest, "a")
    register_table(by_manifest, "a", "other", location="dir.lance")
    assert list_tables(by_both) == []
    assert list_all_tables(by_both) == ["a$other"]
    with fails(4):
        describe_table(by_both, "dir")
    with fails(4):
        remove_table(by_both, "dir")
    assert rows(describe_table(by_both, "a", "other").location) == [7]


def test_compatibility_mode_lists_tables_of_v1_and_v2_clients(root, open_namespace):
    v1, v2, both = (open_namespace(root, mode) for mode in ("v1", "v2", "compatibility"))
    create_table(v1, "one")
    create_table(v2, "two")
    create_table(both, "three")
    assert list_tables(v1) == ["one", "three"]
    assert list_tables(v2) == ["three", "two"]
    assert list_tables(both) == ["one", "three", "two"]


def test_table_dropped_by_v1_is_hidden_in_compatibility_mode(root, open_namespace):
    v1, both = open_namespace(root, "v1"), open_namespace(root, "compatibility")
    create_table(both, "t", properties={"k": "v"})
    remove_table(v1, "t")
    assert list_tables(both) == []
    for call in (describe_table, table_exists):
        with fails(4):
            call(both, "t")
    made = create_table(both, "t", data=ipc({"x": [9]}))
    assert rows(made.location) == [9]
    assert list_tables(both) == list_tables(v1) == ["t"]


def test_table_dropped_and_recreated_by_v1_has_the_new_data(root, open_namespace):
    v1, both = open_namespace(root, "v1"), open_namespace(root, "compatibility")
    create_table(both, "t", data=ipc({"x": [1]}))
    remove_table(v1, "t")
    create_table(v1, "t", data=ipc({"x": [2]}))
    assert rows(describe_table(both, "t").location) == [2]
    remove_table(both, "t")
    assert list_tables(v1) == []


def test_table_deregistered_by_v1_is_hidden_in_every_mode(root, open_namespace):
    v1, v2, both = (open_namespace(root, mode) for mode in ("v1", "v2", "compatibility"))
    create_table(both, "t", data=ipc({"x": [1]}))
    deregister_table(v1, "t")
    assert list_tables(both) == []
    for ns in (both, v2):
        for call in (describe_table, table_exists):
            with fails(4):
                call(ns, "t")
    register_table(v1, "t", location="t.lance")
    assert list_tables(both) == list_tables(v2) == list_tables(v1) == ["t"]


def test_table_deregistered_by_v1_can_be_registered_in_compatibility_mode(root, open_namespace):
    v1, both = open_namespace(root, "v1"), open_namespace(root, "compatibility")
    create_table(both, "t", data=ipc({"x": [1]}))
    deregister_table(v1, "t")
    register_table(both, "t", location="t.lance")
    assert list_tables(both) == list_tables(v1) == ["t"]


def test_renamed_root_table_is_hidden_under_its_old_name_in_every_mode(root, open_namespace):
    v1, v2, both = (open_namespace(root, mode) for mode in ("v1", "v2", "compatibility"))
    location = create_table(both, "old", data=ipc({"x": [1]})).location
    rename_table(both, "old", to="new")
    for ns in (v1, v2, both):
        assert "old" not in list_tables(ns)
        for call in (describe_table, table_exists):
            with fails(4):
                call(ns, "old")
    for ns in (v2, both):
        assert list_tables(ns) == ["new"]
        assert describe_table(ns, "new", load_detailed_metadata=True).location == location


def test_old_name_of_a_renamed_root_table_gets_a_hashed_directory(both):
    kept = create_table(both, "old", data=ipc({"x": [1]})).location
    rename_table(both, "old", to="new")
    made = create_table(both, "old", data=ipc({"x": [2]})).location
    assert made.endswith("_old")
    assert list_tables(both) == ["new", "old"]
    remove_table(both, "old")
    assert rows(kept) == [1]
    assert list_tables(both) == ["new"]
    create_table(both, "old", data=ipc({"x": [3]}))
    remove_table(both, "new")
    assert rows(describe_table(both, "old").location) == [3]


def test_old_name_of_a_renamed_root_table_can_be_declared_and_filled(both):
    create_table(both, "old", data=ipc({"x": [1]}))
    rename_table(both, "old", to="new")
    declared = declare_table(both, "old")
    assert describe_table(both, "old", check_declared=True).is_only_declared is True
    assert list_tables(both, include_declared=False) == ["new"]
    assert create_table(both, "old", data=ipc({"x": [2]})).location == declared.location
    assert rows(describe_table(both, "new").location) == [1]


def test_renamed_root_table_can_be_overwritten_under_its_new_name(both):
    location = create_table(both, "old", data=ipc({"x": [1]})).location
    rename_table(both, "old", to="new")
    assert create_table(both, "new", data=ipc({"x": [2]}), mode="exist_ok").location == location
    assert create_table(both, "new", data=ipc({"x": [2]}), mode="overwrite").location == location
    assert rows(location) == [2]


def test_purge_of_a_renamed_root_table_frees_its_directory(both):
    create_table(both, "old")
    rename_table(both, "old", to="new")
    remove_table(both, "new")
    assert create_table(both, "old").location == str(directory(both) / "old.lance")
    assert list_tables(both) == ["old"]


def test_deregistered_renamed_root_table_can_be_registered_under_any_name(both):
    create_table(both, "old", data=ipc({"x": [1]}))
    rename_table(both, "old", to="new")
    for name in ("old", "new", "other", "old"):
        present = list_tables(both)
        if present:
            deregister_table(both, *present)
        register_table(both, name, location="old.lance")
        assert list_tables(both) == [name]
        assert rows(describe_table(both, name).location) == [1]


def test_nested_directories_are_not_tables_without_a_row(both):
    create_namespace(both, "a")
    write_table(directory(both) / "a" / "t.lance")
    write_table(directory(both) / "a$t.lance")
    assert list_tables(both, "a") == []
    assert list_all_tables(both) == []
    with fails(4):
        describe_table(both, "a", "t")


@pytest.mark.parametrize("name", ["x.lance", ".lance"])
def test_hashed_directory_is_not_listed_as_root_table(root, open_namespace, name):
    v2, both = open_namespace(root, "v2"), open_namespace(root, "compatibility")
    create_table(v2, name, data=ipc({"x": [1]}))
    assert list_tables(both) == [name]
    deregister_table(v2, name)
    assert list_tables(both) == []


def test_v1_client_cannot_use_the_directory_of_a_renamed_root_table(root, open_namespace):
    both, flat = open_namespace(root, "compatibility"), open_namespace(root, "v1")
    create_table(both, "old", data=ipc({"x": [7]}))
    location = describe_table(both, "old").location
    rename_table(both, "old", to="new")
    for call in (remove_table, deregister_table, table_exists):
        with fails(4, naming="old"):
            call(flat, "old")
    with fails(13, naming="old"):
        register_table(flat, "old", location="old.lance")
    with fails(5, naming="old"):
        create_table(flat, "old")
    assert list_tables(flat) == []
    assert rows(location) == [7]
    assert list_tables(both) == ["new"]
