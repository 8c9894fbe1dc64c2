"""Creating tables: modes, properties, where they are put."""

from __future__ import annotations

from typing import Any

from pennon.testing.calls import (
    create_namespace,
    create_table,
    describe_table,
    fails,
    ipc,
    list_tables,
    remove_table,
    table_exists,
)
from pennon.testing.contract import Contract, Place


class TableCreation(Contract):
    """Creating tables: modes, properties, names that are taken."""

    def test_created_table_can_be_read_where_it_says(self, place: Place) -> None:
        ns, parent = place
        made = create_table(ns, *parent, "t", data=ipc({"x": [1, 2]}))
        assert made.version == 1
        assert self.rows(made.location) == [1, 2]
        assert describe_table(ns, *parent, "t").location == made.location
        assert list_tables(ns, *parent) == ["t"]
        table_exists(ns, *parent, "t")

    def test_create_fails_if_the_table_is_there(self, place: Place) -> None:
        ns, parent = place
        made = create_table(ns, *parent, "t", data=ipc({"x": [1]}))
        before = self.contents(ns)
        for mode in (None, "create"):
            with fails(5, word="t"):
                create_table(ns, *parent, "t", data=ipc({"x": [2]}), mode=mode)
        assert self.contents(ns) == before
        assert self.rows(made.location) == [1]

    def test_exist_ok_keeps_the_table_that_is_there(self, place: Place) -> None:
        ns, parent = place
        made = create_table(ns, *parent, "t", data=ipc({"x": [1]}))
        before = self.contents(ns)
        again = create_table(ns, *parent, "t", data=ipc({"y": ["other"]}), mode="exist_ok")
        assert again.location == made.location
        assert self.contents(ns) == before
        assert self.rows(made.location) == [1]

    def test_exist_ok_and_overwrite_create_what_is_missing(self, place: Place) -> None:
        ns, parent = place
        for name in ("exist_ok", "overwrite"):
            made = create_table(ns, *parent, name, data=ipc({"x": [1]}), mode=name)
            assert made.version == 1
            assert self.rows(made.location) == [1]

    def test_overwrite_replaces_the_contents(self, place: Place) -> None:
        ns, parent = place
        create_table(ns, *parent, "t", data=ipc({"x": [1]}))
        create_table(ns, *parent, "other", data=ipc({"x": [7]}))
        made = create_table(ns, *parent, "t", data=ipc({"y": ["a"]}), mode="overwrite")
        found = describe_table(ns, *parent, "t", load_detailed_metadata=True)
        assert found.location == made.location
        assert found.version == made.version
        assert self.open_dataset(found.location).to_table().to_pydict() == {"y": ["a"]}
        assert self.rows(describe_table(ns, *parent, "other").location) == [7]

    def test_overwrite_leaves_readers_of_the_old_table_alone(self, place: Place) -> None:
        ns, parent = place
        reader = self.open_dataset(create_table(ns, *parent, "t", data=ipc({"x": [1]})).location)
        create_table(ns, *parent, "t", data=ipc({"x": [2]}), mode="overwrite")
        assert reader.to_table()["x"].to_pylist() == [1]

    def test_create_fails_if_a_namespace_has_the_name(self, nested: Any) -> None:
        create_namespace(nested, "a")
        create_namespace(nested, "a", "b")
        before = self.contents(nested)
        for names in (["a"], ["a", "b"]):
            for mode in ("create", "exist_ok", "overwrite"):
                with fails(5, naming="namespace"):
                    create_table(nested, *names, mode=mode)
        assert self.contents(nested) == before

    def test_dropped_table_can_be_created_again(self, place: Place) -> None:
        ns, parent = place
        create_table(ns, *parent, "t", data=ipc({"x": [1]}))
        remove_table(ns, *parent, "t")
        made = create_table(ns, *parent, "t", data=ipc({"y": [2]}))
        assert made.version == 1
        assert self.open_dataset(made.location).to_table().to_pydict() == {"y": [2]}

    def test_properties_are_kept(self, nested: Any) -> None:
        create_namespace(nested, "a")
        for names in (["t"], ["a", "t"]):
            made = create_table(nested, *names, properties={"owner": 'ann\'s "own"', "ü": ""})
            assert made.properties == {"owner": 'ann\'s "own"', "ü": ""}
            assert describe_table(nested, *names).properties == made.properties

    def test_a_table_without_properties_has_none(self, nested: Any) -> None:
        assert create_table(nested, "t").properties == {}
        assert describe_table(nested, "t").properties == {}

    def test_exist_ok_returns_the_existing_properties(self, nested: Any) -> None:
        create_table(nested, "t", properties={"k": "1"})
        assert create_table(nested, "t", mode="exist_ok", properties={"k": "2"}).properties == {"k": "1"}
        assert describe_table(nested, "t").properties == {"k": "1"}

    def test_overwrite_replaces_the_properties(self, nested: Any) -> None:
        """As the SDK has it: the existing table is dropped and a new one with this name is created."""
        create_namespace(nested, "a")
        for names in (["t"], ["a", "t"]):
            create_table(nested, *names, properties={"k": "1", "old": "1"})
            assert create_table(nested, *names, mode="overwrite", properties={"k": "2"}).properties == {"k": "2"}
            assert describe_table(nested, *names).properties == {"k": "2"}

    def test_a_failed_creation_leaves_nothing_behind(self, place: Place) -> None:
        ns, parent = place
        create_table(ns, *parent, "first")
        before = self.contents(ns)
        with fails(13):
            create_table(ns, *parent, "t", data=ipc({"a.b": [1]}))
        assert self.contents(ns) == before
        with fails(4):
            describe_table(ns, *parent, "t")
        create_table(ns, *parent, "t")
        assert list_tables(ns, *parent) == ["first", "t"]
