"""Declared tables: a name and a location without data."""

from __future__ import annotations

from typing import Any

import pytest
from lance_namespace import ListTablesRequest

from pennon.testing.calls import (
    create_namespace,
    create_table,
    declare_table,
    describe_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    rename_table,
)
from pennon.testing.contract import Contract, Place


class TableDeclaration(Contract):
    """Declared tables: a name and a location without data."""

    def test_declaring_fails_if_the_table_is_there(self, place: Place) -> None:
        ns, parent = place
        declare_table(ns, *parent, "declared")
        create_table(ns, *parent, "created")
        before = self.contents(ns)
        for name in ("declared", "created"):
            with fails(5, naming=name):
                declare_table(ns, *parent, name)
        assert self.contents(ns) == before

    def test_declaring_fails_if_a_namespace_has_the_name(self, nested: Any) -> None:
        create_namespace(nested, "a")
        create_namespace(nested, "a", "b")
        before = self.contents(nested)
        for names in (["a"], ["a", "b"]):
            with fails(5, naming=names[-1]):
                declare_table(nested, *names)
        assert self.contents(nested) == before

    def test_is_only_declared_is_returned_on_request(self, place: Place) -> None:
        ns, parent = place
        declare_table(ns, *parent, "declared")
        create_table(ns, *parent, "created")
        assert describe_table(ns, *parent, "declared").is_only_declared is None
        assert describe_table(ns, *parent, "created").is_only_declared is None
        assert describe_table(ns, *parent, "declared", check_declared=True).is_only_declared is True
        assert describe_table(ns, *parent, "created", check_declared=True).is_only_declared is False

    def test_detailed_description_of_a_declared_table_says_only_declared(self, place: Place) -> None:
        ns, parent = place
        declare_table(ns, *parent, "t")
        found = describe_table(ns, *parent, "t", load_detailed_metadata=True)
        assert found.is_only_declared is True
        assert (found.version, found.var_schema, found.stats) == (None, None, None)

    def test_a_declared_table_has_no_versions_and_no_tags(self, place: Place) -> None:
        ns, parent = place
        declare_table(ns, *parent, "t")
        with fails(11):
            describe_table(ns, *parent, "t", version=1)
        with fails(8):
            describe_table(ns, *parent, "t", tag="x")

    def test_listing_leaves_declared_tables_out_if_asked_to(self, place: Place) -> None:
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

    def test_pages_without_declared_tables_are_full(self, place: Place) -> None:
        ns, parent = place
        for number in range(6):
            (declare_table if number % 2 else create_table)(ns, *parent, f"t{number}")
        first = ns.list_tables(ListTablesRequest(id=list(parent), limit=2, include_declared=False))
        assert first.tables == ["t0", "t2"]
        second = ns.list_tables(
            ListTablesRequest(id=list(parent), limit=2, include_declared=False, page_token=first.page_token)
        )
        assert second.tables == ["t4"]
        assert not second.page_token

    @pytest.mark.parametrize("mode_of_create", ["create", "exist_ok", "overwrite"])
    def test_create_fills_a_declared_table(self, place: Place, mode_of_create: Any) -> None:
        ns, parent = place
        declared = declare_table(ns, *parent, "t")
        made = create_table(ns, *parent, "t", data=ipc({"x": [1]}), mode=mode_of_create)
        assert (made.location, made.version) == (declared.location, 1)
        assert self.rows(made.location) == [1]
        assert describe_table(ns, *parent, "t", check_declared=True).is_only_declared is False
        assert list_tables(ns, *parent, include_declared=False) == ["t"]
        with fails(5):
            create_table(ns, *parent, "t")

    def test_properties_of_a_declared_table_stay_when_it_is_filled(self, nested: Any) -> None:
        create_namespace(nested, "a")
        for names in (["t"], ["a", "t"]):
            assert declare_table(nested, *names, properties={"k": "1"}).properties == {"k": "1"}
            assert describe_table(nested, *names).properties == {"k": "1"}
            assert create_table(nested, *names).properties == {"k": "1"}
            assert describe_table(nested, *names).properties == {"k": "1"}

    def test_a_declared_table_can_be_renamed_and_filled(self, nested: Any) -> None:
        create_namespace(nested, "a")
        location = declare_table(nested, "t").location
        rename_table(nested, "t", to="u", into=["a"])
        assert describe_table(nested, "a", "u", check_declared=True).is_only_declared is True
        assert list_tables(nested, "a", include_declared=False) == []
        assert create_table(nested, "a", "u").location == location
        assert self.rows(location) == [1, 2, 3]
        assert list_tables(nested, "a", include_declared=False) == ["u"]
