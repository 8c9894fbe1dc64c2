"""Registering existing data, and deregistering without losing it."""

from __future__ import annotations

from typing import Any

from pennon.testing.calls import (
    create_namespace,
    create_table,
    deregister_table,
    describe_table,
    fails,
    ipc,
    list_tables,
    table_exists,
)
from pennon.testing.contract import Contract, Place


class TableRegistration(Contract):
    """Registering and deregistering tables."""

    def test_deregistering_hides_the_table_and_keeps_its_data(self, place: Place) -> None:
        ns, parent = place
        made = create_table(ns, *parent, "t", data=ipc({"x": [1]}))
        create_table(ns, *parent, "other")
        assert deregister_table(ns, *parent, "t").location == made.location
        assert list_tables(ns, *parent) == ["other"]
        for call in (describe_table, table_exists, deregister_table):
            with fails(4, word="t"):
                call(ns, *parent, "t")
        assert self.rows(made.location) == [1]

    def test_deregister_returns_the_properties(self, nested: Any) -> None:
        create_namespace(nested, "a")
        for names in (["t"], ["a", "t"]):
            create_table(nested, *names, properties={"k": "v"})
            assert deregister_table(nested, *names).properties == {"k": "v"}
