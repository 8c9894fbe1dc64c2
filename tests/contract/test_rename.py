"""Renaming tables, within a namespace and into others."""

from __future__ import annotations

import pytest

from pennon.testing import TableRename
from pennon.testing.table_rename import MOVES
from tests.contract.disk import OnDisk, contents, rows
from tests.support import (
    create_table,
    describe_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    remove_table,
    rename_table,
)


class TestTableRename(OnDisk, TableRename):
    @pytest.mark.parametrize("move", list(MOVES.values()), ids=list(MOVES))
    def test_a_renamed_table_can_be_renamed_back(self, tree, move):
        source, into, target = move
        location = create_table(tree, *source, "old", data=ipc({"x": [1]})).location
        before = contents(tree)
        rename_table(tree, *source, "old", to="new", into=into)
        rename_table(tree, *target, "new", to="old", into=source)
        assert list_all_tables(tree) == ["$".join([*source, "old"])]
        assert describe_table(tree, *source, "old").location == location
        assert rows(location) == [1]
        data = [path for path in before if not path.startswith("__manifest/")]
        assert [path for path in contents(tree) if not path.startswith("__manifest/")] == data
        remove_table(tree, *source, "old")
        assert list_all_tables(tree) == []


def test_v1_cannot_rename(root, open_namespace):
    ns = open_namespace(root, "v1")
    create_table(ns, "t")
    with fails(0, naming="manifest_enabled"):
        rename_table(ns, "t", to="u")
    assert list_tables(ns) == ["t"]
