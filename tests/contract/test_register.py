"""Registering existing data, and deregistering without losing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pennon.testing import TableRegistration
from tests.contract.disk import OnDisk, contents, directory, rows, write_table
from tests.support import (
    create_namespace,
    create_table,
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


class TestTableRegistration(OnDisk, TableRegistration):
    pass


def test_a_registered_table_is_there(nested):
    create_namespace(nested, "a")
    for names, location in ((["t"], "one"), (["a", "t"], "deep/two")):
        write_table(directory(nested) / location, [7])
        register_table(nested, *names, location=location, properties={"k": "v"})
        found = describe_table(nested, *names)
        assert found.location == str(directory(nested) / location)
        assert found.properties == {"k": "v"}
        assert rows(found.location) == [7]
    assert list_all_tables(nested) == ["a$t", "t"]


def test_registering_fails_if_the_name_is_taken(nested):
    create_namespace(nested, "a")
    create_table(nested, "t", data=ipc({"x": [1]}))
    create_table(nested, "a", "t", data=ipc({"x": [1]}))
    write_table(directory(nested) / "free", [7])
    before = contents(nested)
    for names in (["t"], ["a", "t"], ["a"]):
        with fails(5, naming=names[-1]):
            register_table(nested, *names, location="free")
    with fails(5, naming="namespace"):
        register_table(nested, "a", location="free", mode="overwrite")
    assert contents(nested) == before
    assert rows(describe_table(nested, "t").location) == [1]


def test_overwrite_replaces_the_registration_and_leaves_the_data(nested):
    create_namespace(nested, "a")
    old = create_table(nested, "a", "t", data=ipc({"x": [1]}), properties={"k": "1"}).location
    write_table(directory(nested) / "free", [7])
    register_table(nested, "a", "t", location="free", mode="overwrite", properties={"k": "2"})
    found = describe_table(nested, "a", "t")
    assert rows(found.location) == [7]
    assert found.properties == {"k": "2"}
    assert rows(old) == [1]
    assert list_tables(nested, "a") == ["t"]


def test_overwrite_registers_what_is_missing(nested):
    write_table(directory(nested) / "free", [7])
    register_table(nested, "t", location="free", mode="overwrite")
    assert rows(describe_table(nested, "t").location) == [7]


def test_table_replaced_by_a_registration_does_not_reappear(nested):
    create_table(nested, "t", data=ipc({"x": [1]}))
    write_table(directory(nested) / "free", [7])
    register_table(nested, "t", location="free", mode="overwrite")
    remove_table(nested, "t")
    assert list_tables(nested) == []
    with fails(4):
        describe_table(nested, "t")


def test_a_deregistered_table_can_be_registered_again(place):
    ns, parent = place
    made = create_table(ns, *parent, "t", data=ipc({"x": [1]}))
    for _ in range(2):
        location = Path(deregister_table(ns, *parent, "t").location).name
        register_table(ns, *parent, "t", location=location)
        assert list_tables(ns, *parent) == ["t"]
        assert describe_table(ns, *parent, "t").location == made.location
        assert rows(made.location) == [1]
    assert not [path for path in contents(ns) if "deregistered" in path]


def test_a_deregistered_table_can_be_registered_under_another_name(nested):
    create_namespace(nested, "a")
    for names in (["t"], ["a", "t"]):
        create_table(nested, *names, data=ipc({"x": [1]}))
        location = Path(deregister_table(nested, *names).location).name
        new = [*names[:-1], "new"]
        register_table(nested, *new, location=location)
        assert rows(describe_table(nested, *new).location) == [1]
        assert list_tables(nested, *names[:-1]) == ["new"]
        with fails(4):
            table_exists(nested, *names)


@pytest.mark.parametrize("mode_of_root", ["v1", "compatibility"])
def test_a_deregistered_root_table_can_be_dropped(root, open_namespace, mode_of_root):
    ns = open_namespace(root, mode_of_root)
    location = Path(create_table(ns, "t").location)
    deregister_table(ns, "t")
    remove_table(ns, "t")
    assert not location.exists()
    assert not [path for path in contents(ns) if path.startswith("t.")]
    with fails(4):
        remove_table(ns, "t")


@pytest.mark.parametrize("mode_of_root", ["v1", "compatibility"])
def test_the_directory_of_a_deregistered_root_table_is_not_written_to(root, open_namespace, mode_of_root):
    ns = open_namespace(root, mode_of_root)
    location = create_table(ns, "t", data=ipc({"x": [1]})).location
    deregister_table(ns, "t")
    for mode in ("create", "exist_ok", "overwrite"):
        with fails(5, naming="deregistered"):
            create_table(ns, "t", data=ipc({"x": [2]}), mode=mode)
    assert rows(location) == [1]
    assert list_tables(ns) == []


def test_v1_registers_only_what_it_deregistered(root, open_namespace):
    ns = open_namespace(root, "v1")
    create_table(ns, "t")
    write_table(directory(ns) / "free")
    with fails(5, naming="t'"):
        register_table(ns, "t", location="t.lance")
    with fails(13):
        register_table(ns, "u", location="u.lance")
    with fails(13):
        register_table(ns, "u", location="free")
    with fails(13):
        register_table(ns, "u", location="t.lance")
    with fails(0, naming="properties"):
        register_table(ns, "t", location="t.lance", properties={"k": "v"}, mode="overwrite")
    assert list_tables(ns) == ["t"]


def test_v1_registers_an_existing_table_again_in_overwrite_mode(root, open_namespace):
    ns = open_namespace(root, "v1")
    location = create_table(ns, "t").location
    register_table(ns, "t", location="t.lance", mode="overwrite")
    assert describe_table(ns, "t").location == location


def test_a_location_without_a_table_is_refused_unless_allowed(nested):
    (directory(nested) / "empty").mkdir(parents=True)
    for location in ("absent", "empty"):
        with fails(13, naming=location):
            register_table(nested, "t", location=location)
    register_table(nested, "t", location="absent", context={"allow_missing": "true"})
    assert describe_table(nested, "t").location == str(directory(nested) / "absent")
    assert list_tables(nested) == ["t"]


def test_a_registered_table_can_be_renamed_and_dropped(nested):
    create_namespace(nested, "a")
    location = directory(nested) / "deep/er/place"
    write_table(location)
    write_table(directory(nested) / "deep/er/other")
    register_table(nested, "t", location="deep/er/place")
    rename_table(nested, "t", to="u", into=["a"])
    assert rows(describe_table(nested, "a", "u").location) == [1, 2, 3]
    remove_table(nested, "a", "u")
    assert not location.exists()
    assert rows(str(directory(nested) / "deep/er/other")) == [1, 2, 3]


def test_flags_in_the_context_accept_any_case_and_reject_other_values(nested):
    register_table(nested, "t", location="absent", context={"allow_missing": "True"})
    with fails(13):
        register_table(nested, "u", location="missing", context={"allow_missing": "yes"})


def test_a_deregistered_table_of_a_hashed_directory_leaves_its_name_free(nested):
    create_namespace(nested, "a")
    old = create_table(nested, "a", "t", data=ipc({"x": [1]})).location
    deregister_table(nested, "a", "t")
    new = create_table(nested, "a", "t", data=ipc({"x": [2]})).location
    assert new != old
    remove_table(nested, "a", "t")
    assert rows(old) == [1]
