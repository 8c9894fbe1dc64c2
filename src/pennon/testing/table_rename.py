"""Renaming tables, within a namespace and into others."""

from __future__ import annotations

from typing import Any

import pytest

from pennon.testing.calls import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    namespace_exists,
    remove_table,
    rename_table,
    table_exists,
)
from pennon.testing.contract import Contract

MOVES = {
    "within the root": ([], None, []),
    "within a namespace": (["a"], None, ["a"]),
    "from the root": ([], ["a", "b"], ["a", "b"]),
    "to the root": (["a"], [], []),
    "across": (["a"], ["a", "b"], ["a", "b"]),
    "to where it is": (["a"], ["a"], ["a"]),
}


class TableRename(Contract):
    """Renaming tables, within a namespace and into others."""

    @pytest.fixture
    def tree(self, nested: Any) -> Any:
        for names in (["a"], ["a", "b"]):
            create_namespace(nested, *names)
        return nested

    @pytest.mark.parametrize("move", list(MOVES.values()), ids=list(MOVES))
    def test_a_renamed_table_has_the_new_name_only(self, tree: Any, move: Any) -> None:
        source, into, target = move
        location = create_table(tree, *source, "old", data=ipc({"x": [1]}), properties={"k": "v"}).location
        create_table(tree, *source, "other")
        rename_table(tree, *source, "old", to="new", into=into)
        found = describe_table(tree, *target, "new")
        assert (found.table, found.namespace, found.properties) == ("new", target, {"k": "v"})
        assert found.location == location
        assert self.rows(location) == [1]
        assert sorted(list_all_tables(tree)) == sorted(["$".join([*source, "other"]), "$".join([*target, "new"])])
        assert "old" not in list_tables(tree, *source)
        for call in (describe_table, table_exists, remove_table, deregister_table):
            with fails(4, naming="old"):
                call(tree, *source, "old")

    @pytest.mark.parametrize("move", list(MOVES.values()), ids=list(MOVES))
    def test_the_old_name_is_free_for_another_table(self, tree: Any, move: Any) -> None:
        source, into, target = move
        create_table(tree, *source, "old", data=ipc({"x": [1]}))
        rename_table(tree, *source, "old", to="new", into=into)
        create_table(tree, *source, "old", data=ipc({"x": [2]}))
        assert self.rows(describe_table(tree, *target, "new").location) == [1]
        assert self.rows(describe_table(tree, *source, "old").location) == [2]
        assert sorted(list_all_tables(tree)) == sorted(["$".join([*target, "new"]), "$".join([*source, "old"])])
        remove_table(tree, *source, "old")
        assert self.rows(describe_table(tree, *target, "new").location) == [1]
        assert list_all_tables(tree) == ["$".join([*target, "new"])]

    @pytest.mark.parametrize("move", list(MOVES.values()), ids=list(MOVES))
    def test_dropping_a_renamed_table_leaves_the_new_holder_of_its_name_alone(self, tree: Any, move: Any) -> None:
        source, into, target = move
        create_table(tree, *source, "old", data=ipc({"x": [1]}))
        rename_table(tree, *source, "old", to="new", into=into)
        create_table(tree, *source, "old", data=ipc({"x": [2]}))
        remove_table(tree, *target, "new")
        assert self.rows(describe_table(tree, *source, "old").location) == [2]
        assert list_all_tables(tree) == ["$".join([*source, "old"])]

    def test_two_tables_can_change_names(self, tree: Any) -> None:
        for number, name in enumerate(("p", "q")):
            create_table(tree, name, data=ipc({"x": [number]}))
        rename_table(tree, "p", to="between")
        rename_table(tree, "q", to="p")
        rename_table(tree, "between", to="q")
        assert list_tables(tree) == ["p", "q"]
        assert self.rows(describe_table(tree, "p").location) == [1]
        assert self.rows(describe_table(tree, "q").location) == [0]
        remove_table(tree, "p")
        assert self.rows(describe_table(tree, "q").location) == [0]
        assert list_tables(tree) == ["q"]

    def test_rename_to_an_existing_name_raises_already_exists(self, tree: Any) -> None:
        create_table(tree, "t", data=ipc({"x": [1]}))
        create_table(tree, "a", "t", data=ipc({"x": [2]}))
        create_table(tree, "created")
        declare_table(tree, "declared")
        before = self.contents(tree)
        for name in ("created", "declared", "a"):
            with fails(5, naming=name):
                rename_table(tree, "t", to=name)
        with fails(5, naming="a.t"):
            rename_table(tree, "t", to="t", into=["a"])
        with fails(5, naming="a.b"):
            rename_table(tree, "t", to="b", into=["a"])
        assert self.contents(tree) == before
        namespace_exists(tree, "a", "b")
        assert self.rows(describe_table(tree, "t").location) == [1]

    def test_missing_namespace_raises_namespace_not_found(self, tree: Any) -> None:
        create_table(tree, "t")
        with fails(1, naming="missing"):
            rename_table(tree, "t", to="t", into=["missing"])
        with fails(1, naming="missing"):
            rename_table(tree, "missing", "t", to="t", into=[])
        with fails(1, word="t"):
            rename_table(tree, "t", to="x", into=["t"])
        table_exists(tree, "t")

    def test_rename_of_a_missing_table_raises_not_found_for_any_target(self, tree: Any) -> None:
        create_table(tree, "there")
        with fails(4, naming="missing"):
            rename_table(tree, "missing", to="new")
        with fails(4, naming="missing"):
            rename_table(tree, "missing", to="there")
        deregister_table(tree, "there")
        with fails(4, naming="there"):
            rename_table(tree, "there", to="new")

    def test_a_table_may_keep_its_name(self, tree: Any) -> None:
        location = create_table(tree, "t", properties={"k": "v"}).location
        before = self.contents(tree)
        rename_table(tree, "t", to="t")
        found = describe_table(tree, "t")
        assert (found.location, found.properties) == (location, {"k": "v"})
        assert self.contents(tree) == before

    def test_renamed_table_can_be_deregistered_and_the_old_name_stays_free(self, tree: Any) -> None:
        location = create_table(tree, "old", data=ipc({"x": [1]})).location
        rename_table(tree, "old", to="new")
        deregister_table(tree, "new")
        assert list_all_tables(tree) == []
        for name in ("old", "new"):
            with fails(4):
                describe_table(tree, name)
        assert self.rows(location) == [1]
