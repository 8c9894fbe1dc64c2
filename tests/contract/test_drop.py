"""Dropping tables, with their data."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from tests.contract.disk import contents, rows
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    remove_table,
    table_exists,
)


def test_a_dropped_table_is_gone_with_its_data(place):
    ns, parent = place
    location = Path(create_table(ns, *parent, "t").location)
    create_table(ns, *parent, "other")
    dropped = remove_table(ns, *parent, "t")
    assert (dropped.id, dropped.location) == ([*parent, "t"], str(location))
    assert not location.exists()
    assert list_tables(ns, *parent) == ["other"]
    for call in (describe_table, table_exists, remove_table):
        with fails(4, naming="t'"):
            call(ns, *parent, "t")
    assert rows(describe_table(ns, *parent, "other").location) == [1, 2, 3]


def test_dropping_leaves_nothing_of_the_table(place):
    ns, parent = place
    create_table(ns, *parent, "t")
    lance.write_dataset(pa.table({"x": [4]}), describe_table(ns, *parent, "t").location, mode="append")
    remove_table(ns, *parent, "t")
    assert not [path for path in contents(ns) if not path.startswith("__manifest/")]


def test_drop_returns_the_properties(nested):
    create_namespace(nested, "a")
    for names in (["t"], ["a", "t"]):
        create_table(nested, *names, properties={"k": "v"})
        assert remove_table(nested, *names).properties == {"k": "v"}


def test_tables_with_one_name_in_several_namespaces_are_independent(nested):
    for names in (["a"], ["b"], ["a", "b"]):
        create_namespace(nested, *names)
    homes = ([], ["a"], ["b"], ["a", "b"])
    for number, home in enumerate(homes):
        create_table(nested, *home, "t", data=ipc({"x": [number]}))
    remove_table(nested, "a", "t")
    assert list_all_tables(nested) == ["a$b$t", "b$t", "t"]
    for number, home in enumerate(homes):
        if home != ["a"]:
            assert rows(describe_table(nested, *home, "t").location) == [number]


def test_table_without_files_can_be_dropped(nested):
    create_namespace(nested, "a")
    location = Path(create_table(nested, "a", "t").location)
    location.rename(location.parent / "moved")
    remove_table(nested, "a", "t")
    assert list_tables(nested, "a") == []
    assert rows(str(location.parent / "moved")) == [1, 2, 3]
