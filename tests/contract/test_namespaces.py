"""Namespaces: create, describe, exists, list, alter, drop."""

from __future__ import annotations

import pytest

from pennon.testing import Namespaces
from tests.contract.disk import OnDisk, contents, directory, rows
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
)


class TestNamespaces(OnDisk, Namespaces):
    pass


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


def test_a_new_namespace_with_a_property_that_is_no_text_is_refused(nested):
    for properties in ({"k": 5}, {"k": None}, {"k": "\ud800"}, {"\ud800": "v"}, ["k"], "k"):
        with fails(13):
            nested.create_namespace({"id": ["a"], "properties": properties})
    assert list_namespaces(nested) == []
