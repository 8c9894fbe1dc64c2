"""Listing tables of a namespace and of the whole catalog."""

from __future__ import annotations

from typing import Any

import pytest

from pennon.testing.calls import (
    create_namespace,
    create_table,
    list_all_tables,
    list_namespaces,
    list_tables,
    remove_table,
)
from pennon.testing.contract import Contract, Place


class TableListing(Contract):
    """Listing tables of a namespace and of the whole catalog."""

    def test_an_empty_catalog_lists_nothing(self, namespace: Any) -> None:
        assert list_tables(namespace) == []
        assert list_all_tables(namespace) == []
        assert list_namespaces(namespace) == []

    def test_tables_are_listed_sorted(self, place: Place) -> None:
        ns, parent = place
        for name in ("b", "a", "ü", "B", "a2", "a10"):
            create_table(ns, *parent, name)
        assert list_tables(ns, *parent) == ["B", "a", "a10", "a2", "b", "ü"]

    def test_a_listing_follows_creation_and_drop(self, place: Place) -> None:
        ns, parent = place
        for number in range(3):
            create_table(ns, *parent, f"t{number}")
            assert list_tables(ns, *parent) == [f"t{n}" for n in range(number + 1)]
        remove_table(ns, *parent, "t1")
        assert list_tables(ns, *parent) == ["t0", "t2"]

    def test_tables_are_listed_in_their_own_namespace_only(self, nested: Any) -> None:
        for names in (["a"], ["a", "b"], ["ab"]):
            create_namespace(nested, *names)
        for names in (["r"], ["a", "t"], ["a", "b", "u"], ["ab", "v"]):
            create_table(nested, *names)
        assert list_tables(nested) == ["r"]
        assert list_tables(nested, "a") == ["t"]
        assert list_tables(nested, "a", "b") == ["u"]
        assert list_tables(nested, "ab") == ["v"]

    def test_all_tables_are_listed_by_full_identifier_at_any_depth(self, nested: Any) -> None:
        for names in (["a"], ["a", "b"], ["a", "b", "c"], ["z"]):
            create_namespace(nested, *names)
        for names in (["r"], ["a", "t"], ["a", "b", "t"], ["a", "b", "c", "t"], ["z", "t"], ["z", "s"]):
            create_table(nested, *names)
        assert list_all_tables(nested) == ["a$b$c$t", "a$b$t", "a$t", "r", "z$s", "z$t"]

    def test_all_tables_below_a_namespace_can_be_listed(self, nested: Any) -> None:
        for names in (["a"], ["a", "b"], ["ab"]):
            create_namespace(nested, *names)
        for names in (["r"], ["a", "t"], ["a", "b", "t"], ["ab", "t"]):
            create_table(nested, *names)
        assert list_all_tables(nested, id=["a"]) == ["a$b$t", "a$t"]

    @pytest.mark.parametrize("name", ["a' OR '1'='1", "a%", "_", "a*", 'a"', "a')--"])
    def test_names_do_not_act_as_patterns_or_filters(self, nested: Any, name: Any) -> None:
        for namespace in (name, "ab", "b"):
            create_namespace(nested, namespace)
            create_table(nested, namespace, f"in {namespace}")
        assert list_tables(nested, name) == [f"in {name}"]
        assert list_namespaces(nested, name) == []
        assert list_tables(nested, "ab") == ["in ab"]
