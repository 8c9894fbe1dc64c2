"""Namespaces: create, describe, exists, list, alter, drop."""

from __future__ import annotations

from typing import Any

import pytest

from pennon.testing.calls import (
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
from pennon.testing.contract import Contract


class Namespaces(Contract):
    """Namespaces: create, describe, exists, list, drop."""

    def test_created_namespace_is_there_with_its_properties(self, nested: Any) -> None:
        assert create_namespace(nested, "a", properties={"owner": "ann"}).properties == {"owner": "ann"}
        namespace_exists(nested, "a")
        assert describe_namespace(nested, "a").properties == {"owner": "ann"}
        assert list_namespaces(nested) == ["a"]

    def test_namespace_without_properties_has_none(self, nested: Any) -> None:
        create_namespace(nested, "a")
        assert describe_namespace(nested, "a").properties == {}

    def test_properties_hold_any_text(self, nested: Any) -> None:
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

    def test_namespaces_nest_at_any_depth(self, nested: Any) -> None:
        names = ["a", "b", "c", "d", "e"]
        for depth in range(1, 6):
            create_namespace(nested, *names[:depth])
        for depth in range(5):
            assert list_namespaces(nested, *names[:depth]) == [names[depth]]
        assert list_namespaces(nested, *names) == []

    def test_listing_shows_direct_children_only_and_sorted(self, nested: Any) -> None:
        for names in (["b"], ["a"], ["b", "y"], ["b", "x"], ["ab"], ["b", "x", "deep"]):
            create_namespace(nested, *names)
        create_table(nested, "b", "table")
        assert list_namespaces(nested) == ["a", "ab", "b"]
        assert list_namespaces(nested, "b") == ["x", "y"]
        assert list_namespaces(nested, "a") == []

    def test_create_fails_if_the_namespace_is_there(self, nested: Any) -> None:
        create_namespace(nested, "a", properties={"k": "1"})
        with fails(2, word="a"):
            create_namespace(nested, "a", properties={"k": "2"})
        assert describe_namespace(nested, "a").properties == {"k": "1"}

    def test_create_fails_if_the_parent_is_missing(self, nested: Any) -> None:
        with fails(1, word="a"):
            create_namespace(nested, "a", "b")
        assert list_namespaces(nested) == []

    def test_create_fails_if_the_parent_is_a_table(self, nested: Any) -> None:
        create_table(nested, "t")
        with fails(1, word="t"):
            create_namespace(nested, "t", "b")

    def test_create_fails_if_a_table_has_the_name(self, nested: Any) -> None:
        create_namespace(nested, "a")
        create_table(nested, "t")
        create_table(nested, "a", "t")
        for names in (["t"], ["a", "t"]):
            for mode in ("create", "exist_ok", "overwrite"):
                with fails(2, naming="table"):
                    create_namespace(nested, *names, mode=mode)
        table_exists(nested, "t")
        table_exists(nested, "a", "t")

    def test_exist_ok_keeps_the_namespace_that_is_there(self, nested: Any) -> None:
        create_namespace(nested, "a", properties={"k": "1"})
        create_namespace(nested, "a", "b")
        assert create_namespace(nested, "a", mode="exist_ok", properties={"k": "2"}).properties == {"k": "1"}
        assert describe_namespace(nested, "a").properties == {"k": "1"}
        assert list_namespaces(nested, "a") == ["b"]

    def test_exist_ok_creates_what_is_missing(self, nested: Any) -> None:
        create_namespace(nested, "a", mode="exist_ok", properties={"k": "1"})
        assert describe_namespace(nested, "a").properties == {"k": "1"}
        with fails(1):
            create_namespace(nested, "x", "b", mode="exist_ok")

    def test_drop_removes_an_empty_namespace_and_returns_its_properties(self, nested: Any) -> None:
        create_namespace(nested, "a", properties={"k": "1"})
        create_namespace(nested, "b")
        assert drop_namespace(nested, "a").properties == {"k": "1"}
        with fails(1, word="a"):
            namespace_exists(nested, "a")
        with fails(1):
            describe_namespace(nested, "a")
        assert list_namespaces(nested) == ["b"]

    @pytest.mark.parametrize("fill", [create_namespace, create_table, declare_table])
    def test_drop_refuses_a_namespace_that_is_not_empty(self, nested: Any, fill: Any) -> None:
        create_namespace(nested, "a")
        fill(nested, "a", "x")
        for options in ({}, {"behavior": "restrict"}, {"behavior": "Restrict", "mode": "skip"}):
            with fails(3, word="a"):
                drop_namespace(nested, "a", **options)
        assert list_namespaces(nested, "a") + list_tables(nested, "a") == ["x"]

    def test_drop_of_a_missing_namespace_fails_or_is_skipped(self, nested: Any) -> None:
        create_namespace(nested, "a")
        for names in (["x"], ["a", "x"], ["x", "y"]):
            with fails(1, naming=names[-1]):
                drop_namespace(nested, *names)
            with fails(1):
                drop_namespace(nested, *names, mode="fail", behavior="cascade")
            assert drop_namespace(nested, *names, mode="skip").properties in (None, {})
        assert list_namespaces(nested) == ["a"]

    def test_drop_of_a_table_as_a_namespace_does_not_touch_it(self, nested: Any) -> None:
        create_table(nested, "t")
        with fails(1, word="t"):
            drop_namespace(nested, "t", behavior="cascade")
        assert self.rows(describe_table(nested, "t").location) == [1, 2, 3]

    def test_dropped_namespace_can_be_created_again_and_is_empty(self, nested: Any) -> None:
        create_namespace(nested, "a", properties={"k": "1"})
        drop_namespace(nested, "a")
        create_namespace(nested, "a")
        assert describe_namespace(nested, "a").properties == {}

    def test_the_root_is_always_there(self, namespace: Any) -> None:
        namespace_exists(namespace)
        describe_namespace(namespace)
        assert list_namespaces(namespace) == []

    def test_the_root_cannot_be_created_or_dropped(self, namespace: Any) -> None:
        with fails(2):
            create_namespace(namespace)
        with fails(13):
            drop_namespace(namespace)
        with fails(13):
            drop_namespace(namespace, behavior="cascade", mode="skip")
        namespace_exists(namespace)
