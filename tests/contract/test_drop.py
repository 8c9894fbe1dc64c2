"""Dropping tables, with their data."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa

from pennon.testing import TableDrop
from tests.contract.disk import OnDisk, contents, rows
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    fails,
    list_tables,
    remove_table,
    table_exists,
)


class TestTableDrop(OnDisk, TableDrop):
    pass


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


def test_table_without_files_can_be_dropped(nested):
    create_namespace(nested, "a")
    location = Path(create_table(nested, "a", "t").location)
    location.rename(location.parent / "moved")
    remove_table(nested, "a", "t")
    assert list_tables(nested, "a") == []
    assert rows(str(location.parent / "moved")) == [1, 2, 3]
