"""Listings of a root while directories and markers appear and vanish."""

from __future__ import annotations

import shutil
from threading import Event, Thread

import pytest

from tests.directory.on_disk import directory, write_table
from tests.support import create_table, describe_table, list_all_tables, list_tables


@pytest.fixture(params=["v1", "compatibility"])
def ns(request, root, open_namespace):
    """Open a root with two permanent tables, in a mode that lists directories."""
    ns = open_namespace(root, request.param)
    create_table(ns, "stays")
    write_table(directory(ns) / "v1.lance")
    return ns


def test_listing_is_complete_while_other_directories_vanish(ns):
    done = Event()

    def create_and_delete():
        while not done.is_set():
            for number in range(20):
                (directory(ns) / f"t{number}.lance" / "data").mkdir(parents=True)
                (directory(ns) / f"t{number}.lance" / "data" / "file").touch()
            for number in range(20):
                shutil.rmtree(directory(ns) / f"t{number}.lance")

    others = Thread(target=create_and_delete)
    others.start()
    try:
        for _ in range(150):
            assert {"stays", "v1"} <= set(list_tables(ns))
            assert {"stays", "v1"} <= set(list_all_tables(ns))
            describe_table(ns, "stays")
    finally:
        done.set()
        others.join()
    assert list_tables(ns) == ["stays", "v1"]


def test_listing_is_complete_while_markers_vanish(ns):
    done = Event()

    def create_and_delete():
        while not done.is_set():
            for number in range(20):
                (directory(ns) / f"t{number}.deleted").touch()
            for number in range(20):
                (directory(ns) / f"t{number}.deleted").unlink()

    others = Thread(target=create_and_delete)
    others.start()
    try:
        for _ in range(150):
            assert list_tables(ns) == ["stays", "v1"]
    finally:
        done.set()
        others.join()
