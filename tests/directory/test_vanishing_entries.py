"""Listings of a root while directories and markers appear and vanish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from threading import Event, Thread
from uuid import uuid4

import pytest

from tests.directory.on_disk import directory, write_table
from tests.support import create_table, describe_table, drop_table, list_all_tables, list_tables


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


REMOVE_ONCE = """
import os, sys
print("ready", flush=True)
while True:
    try:
        os.rmdir(sys.argv[1])
        break
    except OSError:
        pass
"""


def test_creation_survives_that_its_empty_directory_is_removed(ns):
    # A client whose write failed removes empty directories. Lance creates its directory, and a file in it later.
    data = directory(ns) / "new.lance" / "data"
    command = [sys.executable, "-c", REMOVE_ONCE, str(data)]
    for _ in range(20):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            other.stdout.readline()
            create_table(ns, "new")
            assert list_tables(ns) == ["new", "stays", "v1"]
            other.kill()
            if other.wait() == 0:
                break
        drop_table(ns, "new", purge="true")
    else:
        pytest.skip("the directory was never removed at the right time")


def test_purge_deletes_a_file_that_arrives_during_the_deletion(ns, monkeypatch):
    # The call of a writer that found the directory before it was renamed creates its file afterwards.
    create_table(ns, "gone")
    remove, arrived = os.rmdir, []

    def add_file_once(path, *, dir_fd=None):
        if not arrived and len(str(path)) == len(uuid4().hex):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=dir_fd)
            os.close(os.open("late", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
            os.close(folder)
            arrived.append(path)
        remove(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", add_file_once)
    drop_table(ns, "gone", purge="true")
    assert arrived
    assert list_tables(ns) == ["stays", "v1"]
    assert not [path for path in directory(ns).rglob("*") if arrived[0] in path.name]
