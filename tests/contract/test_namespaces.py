"""Namespaces: create, describe, exists, list, alter, drop."""

from __future__ import annotations

import pytest

from tests.contract.disk import contents, directory, rows
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    fails,
    list_namespaces,
    list_tables,
    namespace_exists,
    table_exists,
)


def test_created_namespace_is_there_with_its_properties(nested):
    assert create_namespace(nested, "a", properties={"owner": "ann"}).properties == {"owner": "ann"}
    namespace_exists(nested, "a")
    assert describe_namespace(nested, "a").properties == {"owner": "ann"}
    assert list_namespaces(nested) == ["a"]


def test_namespace_without_properties_has_none(nested):
    create_namespace(nested, "a")
    assert describe_namespace(nested, "a").properties == {}


def test_properties_hold_any_text(nested):
    odd = {
        "quote'\"": 'it\'s "so"',
        "empty": "",
        "naïve": "日本 🙂",
        "json": '{"a": [1]}',
        "line": "1\n2\t3",
        "nul": "a\0b",
    }
    create_namespace(nested, "a", properties=odd)
    assert describe_namespace(nested, "a").properties == odd


def test_namespaces_nest_at_any_depth(nested):
    names = ["a", "b", "c", "d", "e"]
    for depth in range(1, 6):
        create_namespace(nested, *names[:depth])
    for depth in range(5):
        assert list_namespaces(nested, *names[:depth]) == [names[depth]]
    assert list_namespaces(nested, *names) == []


def test_listing_shows_direct_children_only_and_sorted(nested):
    for names in (["b"], ["a"], ["b", "y"], ["b", "x"], ["ab"], ["b", "x", "deep"]):
        create_namespace(nested, *names)
    create_table(nested, "b", "table")
    assert list_namespaces(nested) == ["a", "ab", "b"]
    assert list_namespaces(nested, "b") == ["x", "y"]
    assert list_namespaces(nested, "a") == []


def test_create_fails_if_the_namespace_is_there(nested):
    create_namespace(nested, "a", properties={"k": "1"})
    with fails(2, naming="'a'"):
        create_namespace(nested, "a", properties={"k": "2"})
    assert describe_namespace(nested, "a").properties == {"k": "1"}


def test_create_fails_if_the_parent_is_missing(nested):
    with fails(1, naming="'a'"):
        create_namespace(nested, "a", "b")
    assert list_namespaces(nested) == []


def test_create_fails_if_the_parent_is_a_table(nested):
    create_table(nested, "t")
    with fails(1, naming="'t'"):
        create_namespace(nested, "t", "b")


def test_create_fails_if_a_table_has_the_name(nested):
    create_namespace(nested, "a")
    create_table(nested, "t")
    create_table(nested, "a", "t")
    for names in (["t"], ["a", "t"]):
        for mode in ("create", "exist_ok", "overwrite"):
            with fails(2, naming="table"):
                create_namespace(nested, *names, mode=mode)
    table_exists(nested, "t")
    table_exists(nested, "a", "t")


def test_exist_ok_keeps_the_namespace_that_is_there(nested):
    create_namespace(nested, "a", properties={"k": "1"})
    create_namespace(nested, "a", "b")
    assert create_namespace(nested, "a", mode="exist_ok", properties={"k": "2"}).properties == {"k": "1"}
    assert describe_namespace(nested, "a").properties == {"k": "1"}
    assert list_namespaces(nested, "a") == ["b"]


def test_exist_ok_creates_what_is_missing(nested):
    create_namespace(nested, "a", mode="exist_ok", properties={"k": "1"})
    assert describe_namespace(nested, "a").properties == {"k": "1"}
    with fails(1):
        create_namespace(nested, "x", "b", mode="exist_ok")


def test_overwrite_creates_a_new_empty_namespace(nested):
    create_namespace(nested, "a", properties={"k": "1", "gone": "x"})
    create_namespace(nested, "a", "b")
    create_table(nested, "a", "b", "t")
    create_table(nested, "other")
    before = contents(nested)
    assert create_namespace(nested, "a", mode="overwrite", properties={"k": "2"}).properties == {"k": "2"}
    assert describe_namespace(nested, "a").properties == {"k": "2"}
    assert list_namespaces(nested, "a") == []
    assert list_tables(nested, "a") == []
    assert any("a$b$t" in path for path in before)
    nested.purge_table(["a", "b", "t"], force=True)
    assert not [path for path in contents(nested) if "a$b$t" in path]
    assert rows(describe_table(nested, "other").location) == [1, 2, 3]


def test_drop_removes_an_empty_namespace_and_returns_its_properties(nested):
    create_namespace(nested, "a", properties={"k": "1"})
    create_namespace(nested, "b")
    assert drop_namespace(nested, "a").properties == {"k": "1"}
    with fails(1, naming="'a'"):
        namespace_exists(nested, "a")
    with fails(1):
        describe_namespace(nested, "a")
    assert list_namespaces(nested) == ["b"]


@pytest.mark.parametrize("fill", [create_namespace, create_table, declare_table])
def test_drop_refuses_a_namespace_that_is_not_empty(nested, fill):
    create_namespace(nested, "a")
    fill(nested, "a", "x")
    for options in ({}, {"behavior": "restrict"}, {"behavior": "Restrict", "mode": "skip"}):
        with fails(3, naming="'a'"):
            drop_namespace(nested, "a", **options)
    assert list_namespaces(nested, "a") + list_tables(nested, "a") == ["x"]


def test_drop_of_a_missing_namespace_fails_or_is_skipped(nested):
    create_namespace(nested, "a")
    for names in (["x"], ["a", "x"], ["x", "y"]):
        with fails(1, naming=names[-1]):
            drop_namespace(nested, *names)
        with fails(1):
            drop_namespace(nested, *names, mode="fail", behavior="cascade")
        assert drop_namespace(nested, *names, mode="skip").properties in (None, {})
    assert list_namespaces(nested) == ["a"]


def test_drop_of_a_table_as_a_namespace_does_not_touch_it(nested):
    create_table(nested, "t")
    with fails(1, naming="'t'"):
        drop_namespace(nested, "t", behavior="cascade")
    assert rows(describe_table(nested, "t").location) == [1, 2, 3]


def test_cascade_drops_everything_below_and_nothing_else(nested):
    for names in (["a"], ["a", "b"], ["a", "b", "c"], ["ab"]):
        create_namespace(nested, *names)
    for names in (["a", "t"], ["a", "b", "t"], ["a", "b", "c", "t"], ["ab", "t"], ["t"]):
        create_table(nested, *names)
    declare_table(nested, "a", "declared")
    drop_namespace(nested, "a", behavior="cascade", context={"ttl": "0"})
    assert list_namespaces(nested) == ["ab"]
    nested.purge_tables()
    assert rows(describe_table(nested, "ab", "t").location) == [1, 2, 3]
    assert rows(describe_table(nested, "t").location) == [1, 2, 3]
    assert not [path for path in directory(nested).iterdir() if "_a$" in path.name]
    create_namespace(nested, "a")
    assert list_tables(nested, "a") == []
    assert list_namespaces(nested, "a") == []


def test_dropped_namespace_can_be_created_again_and_is_empty(nested):
    create_namespace(nested, "a", properties={"k": "1"})
    drop_namespace(nested, "a")
    create_namespace(nested, "a")
    assert describe_namespace(nested, "a").properties == {}


def test_the_root_is_always_there(namespace):
    namespace_exists(namespace)
    describe_namespace(namespace)
    assert list_namespaces(namespace) == []


def test_the_root_cannot_be_created_or_dropped(namespace):
    with fails(2):
        create_namespace(namespace)
    with fails(13):
        drop_namespace(namespace)
    with fails(13):
        drop_namespace(namespace, behavior="cascade", mode="skip")
    namespace_exists(namespace)


def test_properties_can_be_set_replaced_and_removed(nested):
    create_namespace(nested, "a", properties={"keep": "1", "change": "1", "remove": "1"})
    create_table(nested, "a", "t")
    now = nested.alter_namespace_properties(["a"], {"change": "2", "remove": None, "add": "é", "absent": None})
    assert now == {"keep": "1", "change": "2", "add": "é"}
    assert describe_namespace(nested, "a").properties == now
    assert list_tables(nested, "a") == ["t"]


def test_properties_of_a_missing_namespace_or_a_table_cannot_be_altered(nested):
    create_table(nested, "t")
    for names in (["x"], ["t"]):
        with fails(1, naming=names[0]):
            nested.alter_namespace_properties(names, {"k": "v"})


@pytest.mark.parametrize("changes", [{"": "v"}, {"k": 5}, {5: "v"}, {"k": ["v"]}, {"k": "\ud800"}, {"\ud800": "v"}])
def test_a_property_that_is_no_text_is_refused(nested, changes):
    create_namespace(nested, "a", properties={"k": "1"})
    for names in (["a"], []):
        with fails(13):
            nested.alter_namespace_properties(names, changes)
    assert describe_namespace(nested, "a").properties == {"k": "1"}


def test_a_new_namespace_with_a_property_that_is_no_text_is_refused(nested):
    for properties in ({"k": 5}, {"k": None}, {"k": "\ud800"}, {"\ud800": "v"}, ["k"], "k"):
        with fails(13):
            nested.create_namespace({"id": ["a"], "properties": properties})
    assert list_namespaces(nested) == []


def test_v1_has_no_child_namespaces(root, open_namespace):
    ns = open_namespace(root, "v1")
    create_table(ns, "t")
    for call in (create_namespace, drop_namespace):
        with fails(0, naming="manifest_enabled"):
            call(ns, "a")
    with fails(0, naming="manifest_enabled"):
        ns.alter_namespace_properties([], {"k": "v"})
    for call in (describe_namespace, namespace_exists, list_namespaces, list_tables):
        with fails(1, naming="'a'"):
            call(ns, "a")
    assert list_namespaces(ns) == []
    assert describe_namespace(ns).properties is None
