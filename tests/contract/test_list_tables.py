"""Listing tables of a namespace and of the whole catalog."""

from __future__ import annotations

import pytest

from tests.contract.disk import directory, write_table
from tests.support import (
    create_namespace,
    create_table,
    list_all_tables,
    list_namespaces,
    list_tables,
    remove_table,
)


def test_an_empty_catalog_lists_nothing(namespace):
    assert list_tables(namespace) == []
    assert list_all_tables(namespace) == []
    assert list_namespaces(namespace) == []


def test_tables_are_listed_sorted(place):
    ns, parent = place
    for name in ("b", "a", "ü", "B", "a2", "a10"):
        create_table(ns, *parent, name)
    assert list_tables(ns, *parent) == ["B", "a", "a10", "a2", "b", "ü"]


def test_a_listing_follows_creation_and_drop(place):
    ns, parent = place
    for number in range(3):
        create_table(ns, *parent, f"t{number}")
        assert list_tables(ns, *parent) == [f"t{n}" for n in range(number + 1)]
    remove_table(ns, *parent, "t1")
    assert list_tables(ns, *parent) == ["t0", "t2"]


def test_a_listing_shows_what_another_client_did(root, mode, open_namespace):
    first, second = open_namespace(root, mode), open_namespace(root, mode)
    assert list_tables(second) == []
    create_table(first, "t")
    assert list_tables(second) == ["t"]
    remove_table(second, "t")
    assert list_tables(first) == []


def test_tables_are_listed_in_their_own_namespace_only(nested):
    for names in (["a"], ["a", "b"], ["ab"]):
        create_namespace(nested, *names)
    for names in (["r"], ["a", "t"], ["a", "b", "u"], ["ab", "v"]):
        create_table(nested, *names)
    assert list_tables(nested) == ["r"]
    assert list_tables(nested, "a") == ["t"]
    assert list_tables(nested, "a", "b") == ["u"]
    assert list_tables(nested, "ab") == ["v"]


def test_all_tables_are_listed_by_full_identifier_at_any_depth(nested):
    for names in (["a"], ["a", "b"], ["a", "b", "c"], ["z"]):
        create_namespace(nested, *names)
    for names in (["r"], ["a", "t"], ["a", "b", "t"], ["a", "b", "c", "t"], ["z", "t"], ["z", "s"]):
        create_table(nested, *names)
    assert list_all_tables(nested) == ["a$b$c$t", "a$b$t", "a$t", "r", "z$s", "z$t"]


def test_all_tables_below_a_namespace_can_be_listed(nested):
    for names in (["a"], ["a", "b"], ["ab"]):
        create_namespace(nested, *names)
    for names in (["r"], ["a", "t"], ["a", "b", "t"], ["ab", "t"]):
        create_table(nested, *names)
    assert nested.list_all_tables({"id": ["a"]}).tables == ["a$b$t", "a$t"]


def test_all_tables_of_v1_are_those_of_the_root(root, open_namespace):
    ns = open_namespace(root, "v1")
    for name in ("b", "a"):
        create_table(ns, name)
    assert list_all_tables(ns) == ["a", "b"]


@pytest.mark.parametrize("mode_of_root", ["v1", "compatibility"])
def test_entries_that_are_not_tables_are_not_listed(root, open_namespace, mode_of_root):
    ns = open_namespace(root, mode_of_root)
    create_table(ns, "t")
    top = directory(ns)
    (top / "file.lance").write_text("a plain file")
    (top / "empty.lance").mkdir()
    (top / "hollow.lance" / "_versions").mkdir(parents=True)
    (top / "hollow.lance" / "data").mkdir()
    (top / "plain").mkdir()
    (top / "plain" / "file").write_text("x")
    (top / ".lance").mkdir()
    (top / ".lance" / "file").write_text("x")
    for name in ("__x.lance", "a$b.lance", "a\\b.lance", "a\nb.lance"):
        write_table(top / "written")
        (top / "written").rename(top / name)
    assert list_tables(ns) == ["t"]
    assert list_all_tables(ns) == ["t"]


def test_v2_does_not_see_directories(root, open_namespace):
    ns = open_namespace(root, "v2")
    write_table(directory(ns) / "t.lance")
    assert list_tables(ns) == []
    assert list_all_tables(ns) == []


@pytest.mark.parametrize("name", ["a' OR '1'='1", "a%", "_", "a*", 'a"', "a')--"])
def test_names_do_not_act_as_patterns_or_filters(nested, name):
    for namespace in (name, "ab", "b"):
        create_namespace(nested, namespace)
        create_table(nested, namespace, f"in {namespace}")
    assert list_tables(nested, name) == [f"in {name}"]
    assert list_namespaces(nested, name) == []
    assert list_tables(nested, "ab") == ["in ab"]
