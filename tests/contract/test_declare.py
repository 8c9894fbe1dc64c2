"""Declared tables: a name and a location without data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.disk import contents, directory, rows, write_table
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


def test_declared_table_has_a_name_and_a_reserved_location(place):
    ns, parent = place
    made = declare_table(ns, *parent, "t")
    assert (Path(made.location) / ".lance-reserved").is_file()
    assert describe_table(ns, *parent, "t").location == made.location
    assert list_tables(ns, *parent) == ["t"]
    table_exists(ns, *parent, "t")


def test_declaring_fails_if_the_table_is_there(place):
    ns, parent = place
    declare_table(ns, *parent, "declared")
    create_table(ns, *parent, "created")
    before = contents(ns)
    for name in ("declared", "created"):
        with fails(5, naming=name):
            declare_table(ns, *parent, name)
    assert contents(ns) == before


def test_declaring_fails_if_a_namespace_has_the_name(nested):
    create_namespace(nested, "a")
    create_namespace(nested, "a", "b")
    before = contents(nested)
    for names in (["a"], ["a", "b"]):
        with fails(5, naming=names[-1]):
            declare_table(nested, *names)
    assert contents(nested) == before


def test_is_only_declared_is_returned_on_request(place):
    ns, parent = place
    declare_table(ns, *parent, "declared")
    create_table(ns, *parent, "created")
    assert describe_table(ns, *parent, "declared").is_only_declared is None
    assert describe_table(ns, *parent, "created").is_only_declared is None
    assert describe_table(ns, *parent, "declared", check_declared=True).is_only_declared is True
    assert describe_table(ns, *parent, "created", check_declared=True).is_only_declared is False


def test_detailed_description_of_a_declared_table_says_only_declared(place):
    ns, parent = place
    declare_table(ns, *parent, "t")
    found = describe_table(ns, *parent, "t", load_detailed_metadata=True)
    assert found.is_only_declared is True
    assert (found.version, found.var_schema, found.stats) == (None, None, None)


def test_a_declared_table_has_no_versions_and_no_tags(place):
    ns, parent = place
    declare_table(ns, *parent, "t")
    with fails(11):
        describe_table(ns, *parent, "t", version=1)
    with fails(8):
        describe_table(ns, *parent, "t", tag="x")


def test_listing_leaves_declared_tables_out_if_asked_to(place):
    ns, parent = place
    for name in ("a", "c"):
        declare_table(ns, *parent, name)
    for name in ("b", "d"):
        create_table(ns, *parent, name)
    assert list_tables(ns, *parent) == ["a", "b", "c", "d"]
    assert list_tables(ns, *parent, include_declared=False) == ["b", "d"]
    prefix = "".join(f"{name}$" for name in parent)
    assert list_all_tables(ns) == [prefix + name for name in "abcd"]
    assert list_all_tables(ns, include_declared=False) == [prefix + name for name in "bd"]


def test_pages_without_declared_tables_are_full(place):
    ns, parent = place
    for number in range(6):
        (declare_table if number % 2 else create_table)(ns, *parent, f"t{number}")
    first = ns.list_tables({"id": list(parent), "limit": 2, "include_declared": False})
    assert first.tables == ["t0", "t2"]
    second = ns.list_tables({"id": list(parent), "limit": 2, "include_declared": False, "page_token": first.page_token})
    assert second.tables == ["t4"]
    assert not second.page_token


@pytest.mark.parametrize("mode_of_create", ["create", "exist_ok", "overwrite"])
def test_create_fills_a_declared_table(place, mode_of_create):
    ns, parent = place
    declared = declare_table(ns, *parent, "t")
    made = create_table(ns, *parent, "t", data=ipc({"x": [1]}), mode=mode_of_create)
    assert (made.location, made.version) == (declared.location, 1)
    assert rows(made.location) == [1]
    assert describe_table(ns, *parent, "t", check_declared=True).is_only_declared is False
    assert list_tables(ns, *parent, include_declared=False) == ["t"]
    with fails(5):
        create_table(ns, *parent, "t")


def test_a_declared_table_that_lance_filled_is_not_only_declared(place):
    ns, parent = place
    write_table(declare_table(ns, *parent, "t").location)
    assert describe_table(ns, *parent, "t", check_declared=True).is_only_declared is False
    assert list_tables(ns, *parent, include_declared=False) == ["t"]


def test_properties_of_a_declared_table_stay_when_it_is_filled(nested):
    create_namespace(nested, "a")
    for names in (["t"], ["a", "t"]):
        assert declare_table(nested, *names, properties={"k": "1"}).properties == {"k": "1"}
        assert describe_table(nested, *names).properties == {"k": "1"}
        assert create_table(nested, *names).properties == {"k": "1"}
        assert describe_table(nested, *names).properties == {"k": "1"}


def test_v1_refuses_properties_of_a_declared_table(root, open_namespace):
    ns = open_namespace(root, "v1")
    with fails(0, naming="properties"):
        declare_table(ns, "t", properties={"k": "v"})
    assert list_tables(ns) == []


def test_a_declared_table_can_be_dropped_and_declared_again(place):
    ns, parent = place
    for _ in range(2):
        location = Path(declare_table(ns, *parent, "t").location)
        remove_table(ns, *parent, "t")
        assert not location.exists()
        assert list_tables(ns, *parent) == []
    assert not [path for path in contents(ns) if path.endswith(".declared")]


def test_a_declared_table_can_be_renamed_and_filled(nested):
    create_namespace(nested, "a")
    location = declare_table(nested, "t").location
    rename_table(nested, "t", to="u", into=["a"])
    assert describe_table(nested, "a", "u", check_declared=True).is_only_declared is True
    assert list_tables(nested, "a", include_declared=False) == []
    assert create_table(nested, "a", "u").location == location
    assert rows(location) == [1, 2, 3]
    assert list_tables(nested, "a", include_declared=False) == ["u"]


def test_a_declared_table_can_be_deregistered_and_registered(place):
    ns, parent = place
    location = Path(declare_table(ns, *parent, "t").location).name
    deregister_table(ns, *parent, "t")
    with fails(4):
        table_exists(ns, *parent, "t")
    register_table(ns, *parent, "t", location=location)
    assert describe_table(ns, *parent, "t", check_declared=True).is_only_declared is True


def test_location_can_be_requested(nested):
    create_namespace(nested, "a")
    made = declare_table(nested, "a", "t", location="my/place")
    assert made.location == str(directory(nested) / "my/place")
    assert rows(create_table(nested, "a", "t").location) == [1, 2, 3]
    assert describe_table(nested, "a", "t").location == made.location


def test_location_can_be_requested_as_full_uri(nested):
    create_namespace(nested, "a")
    top = directory(nested)
    assert declare_table(nested, "a", "t", location=str(top / "p1")).location == str(top / "p1")
    assert declare_table(nested, "a", "u", location=(top / "p 2").as_uri()).location == str(top / "p 2")


def test_v1_declares_in_the_directory_of_the_name_only(root, open_namespace):
    ns = open_namespace(root, "v1")
    with fails(13, naming="elsewhere"):
        declare_table(ns, "t", location="elsewhere")
    assert declare_table(ns, "t", location="t.lance").location == str(directory(ns) / "t.lance")


def test_location_in_use_cannot_be_declared(nested):
    create_namespace(nested, "a")
    taken = Path(create_table(nested, "a", "t").location).name
    write_table(directory(nested) / "stray")
    before = contents(nested)
    for location in (taken, "stray"):
        with fails(5, naming=location):
            declare_table(nested, "a", "u", location=location)
    assert contents(nested) == before
