"""Listing tables of a namespace and of the whole catalog."""

from __future__ import annotations

import pytest

from pennon.testing import TableListing
from tests.contract.disk import OnDisk, directory, write_table
from tests.support import (
    create_table,
    list_all_tables,
    list_tables,
    remove_table,
)


class TestTableListing(OnDisk, TableListing):
    pass


def test_a_listing_shows_what_another_client_did(root, mode, open_namespace):
    first, second = open_namespace(root, mode), open_namespace(root, mode)
    assert list_tables(second) == []
    create_table(first, "t")
    assert list_tables(second) == ["t"]
    remove_table(second, "t")
    assert list_tables(first) == []


def test_all_tables_of_v1_are_those_of_the_root(root, open_namespace):
    ns = open_namespace(root, "v1")
    for name in ("b", "a"):
        create_table(ns, name)
    assert list_all_tables(ns) == ["a", "b"]


@pytest.mark.parametrize("mode_of_root", ["v1", "compatibility"])
def test_entries_that_are_not_tables_are_not_listed(root, open_namespace, mode_of_root):
    ns = open_namespace(root, mode_of_root)
    create_table(ns, "t")
    top = directory(ns)
    (top / "file.lance").write_text("a plain file")
    (top / "empty.lance").mkdir()
    (top / "hollow.lance" / "_versions").mkdir(parents=True)
    (top / "hollow.lance" / "data").mkdir()
    (top / "plain").mkdir()
    (top / "plain" / "file").write_text("x")
    (top / ".lance").mkdir()
    (top / ".lance" / "file").write_text("x")
    for name in ("__x.lance", "a$b.lance", "a\\b.lance", "a\nb.lance"):
        write_table(top / "written")
        (top / "written").rename(top / name)
    assert list_tables(ns) == ["t"]
    assert list_all_tables(ns) == ["t"]


def test_v2_does_not_see_directories(root, open_namespace):
    ns = open_namespace(root, "v2")
    write_table(directory(ns) / "t.lance")
    assert list_tables(ns) == []
    assert list_all_tables(ns) == []
