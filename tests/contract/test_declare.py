"""Declared tables: a name and a location without data."""

from __future__ import annotations

from pathlib import Path

from pennon.testing import TableDeclaration
from tests.contract.disk import OnDisk, contents, directory, rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    fails,
    list_tables,
    register_table,
    remove_table,
    table_exists,
)


class TestTableDeclaration(OnDisk, TableDeclaration):
    pass


def test_declared_table_has_a_name_and_a_reserved_location(place):
    ns, parent = place
    made = declare_table(ns, *parent, "t")
    assert (Path(made.location) / ".lance-reserved").is_file()
    assert describe_table(ns, *parent, "t").location == made.location
    assert list_tables(ns, *parent) == ["t"]
    table_exists(ns, *parent, "t")


def test_a_declared_table_that_lance_filled_is_not_only_declared(place):
    ns, parent = place
    write_table(declare_table(ns, *parent, "t").location)
    assert describe_table(ns, *parent, "t", check_declared=True).is_only_declared is False
    assert list_tables(ns, *parent, include_declared=False) == ["t"]


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
