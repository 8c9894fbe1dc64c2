"""Dropping tables, with their data."""

from __future__ import annotations

from typing import Any

from pennon.testing.calls import (
    create_namespace,
    create_table,
    describe_table,
    ipc,
    list_all_tables,
    remove_table,
)
from pennon.testing.contract import Contract


class TableDrop(Contract):
    """Dropping tables, with their data."""

    def test_drop_returns_the_properties(self, nested: Any) -> None:
        create_namespace(nested, "a")
        for names in (["t"], ["a", "t"]):
            create_table(nested, *names, properties={"k": "v"})
            assert remove_table(nested, *names).properties == {"k": "v"}

    def test_tables_with_one_name_in_several_namespaces_are_independent(self, nested: Any) -> None:
        for names in (["a"], ["b"], ["a", "b"]):
            create_namespace(nested, *names)
        homes: tuple[list[str], ...] = ([], ["a"], ["b"], ["a", "b"])
        for number, home in enumerate(homes):
            create_table(nested, *home, "t", data=ipc({"x": [number]}))
        remove_table(nested, "a", "t")
        assert list_all_tables(nested) == ["a$b$t", "b$t", "t"]
        for number, home in enumerate(homes):
            if home != ["a"]:
                assert self.rows(describe_table(nested, *home, "t").location) == [number]
