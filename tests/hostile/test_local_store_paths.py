"""Stores reject paths that leave their root, follow no links, and tolerate any entries in a directory."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import uuid
from pathlib import Path

import pytest
from lance_namespace.errors import InvalidInputError, InvalidTableStateError

from pennon.store import Amount, open_store
from pennon.store.local import LOCK_DIRECTORY, TRASH_DIRECTORY
from tests.hostile.hostile_support import fingerprint

OUTSIDE = [
    "..",
    "../victim",
    "../victim/file",
    "a/../../victim/file",
    "a/..",
    "/etc/passwd",
    "//etc",
    "a//b",
    "a/",
    "./a",
    "a/./b",
    "a\0b",
]
CALLS = {
    "location": lambda store, path: store.location(path),
    "resolve": lambda store, path: store.resolve(path),
    "uri": lambda store, path: store.uri(path),
    "absolute": lambda store, path: store.absolute(path),
    "list_level": lambda store, path: store.list_level(path),
    "list_names": lambda store, path: store.list_names(path),
    "measure": lambda store, path: store.measure(path),
    "has_files": lambda store, path: store.has_files(path),
    "get": lambda store, path: store.get(path),
    "size": lambda store, path: store.size(path),
    "stamp": lambda store, path: store.stamp(path),
    "put": lambda store, path: store.put(path, b"x"),
    "create": lambda store, path: store.create(path, b"x"),
    "swap": lambda store, path: store.swap(path, b"x", "tag"),
    "delete": lambda store, path: store.delete(path),
    "delete_if": lambda store, path: store.delete_if(path, "tag"),
    "delete_tree": lambda store, path: store.delete_tree(path),
    "delete_tree also": lambda store, path: store.delete_tree("none", also=[path]),
    "copy_tree from": lambda store, path: store.copy_tree(path, "copy"),
    "copy_tree to": lambda store, path: store.copy_tree("there", path),
    "purge_tree": lambda store, path: store.purge_tree(path, also=[], seconds=9, still_mine=lambda: True),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_paths_that_leave_the_root_are_refused(somewhere, call):
    store = open_store(somewhere.uri, somewhere.options)
    store.put("there/file", b"mine")
    beside = open_store(somewhere.uri.removesuffix("root").rstrip("/"), somewhere.options)
    beside.put("victim/file", b"precious")
    for path in OUTSIDE:
        with pytest.raises(InvalidInputError):
            call(store, path)
    assert beside.get("victim/file").body == b"precious"
    assert beside.measure("victim") == Amount(1, 8)
    assert store.get("there/file").body == b"mine"


@pytest.fixture
def outside(tmp_path) -> Path:
    """Create a directory outside the root, with files."""
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    (folder / "file").write_bytes(b"precious")
    (folder / "deep" / "file").write_bytes(b"precious too")
    os.utime(folder / "file", (0, 0))
    return folder


@pytest.fixture
def store(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return open_store(str(root), {})


@pytest.fixture
def root(tmp_path, store) -> Path:
    del store
    return tmp_path / "root"


THROUGH = {name: call for name, call in CALLS.items() if name not in {"location", "uri", "absolute", "copy_tree to"}}


@pytest.mark.parametrize("name", THROUGH)
@pytest.mark.parametrize("path", ["link/deep", "a/link/deep", "link/file", "loop/x"])
def test_nothing_behind_a_link_is_reached(store, root, outside, name, path):
    (root / "a").mkdir()
    (root / "link").symlink_to(outside)
    (root / "a" / "link").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    before = fingerprint(outside)
    with pytest.raises(InvalidTableStateError, match="symbolic link"):
        THROUGH[name](store, path)
    assert fingerprint(outside) == before


@pytest.mark.parametrize("name", ["list_level", "list_names", "measure", "has_files", "resolve", "delete_tree"])
def test_a_link_to_a_directory_is_refused_as_a_directory(store, root, outside, name):
    (root / "link").symlink_to(outside)
    before = fingerprint(outside)
    with pytest.raises(InvalidTableStateError, match="symbolic link"):
        CALLS[name](store, "link")
    assert (root / "link").is_symlink()
    assert fingerprint(outside) == before


def test_a_link_to_a_file_counts_as_absent_to_reads_and_refuses_writes(store, root, outside):
    (root / "marker").symlink_to(outside / "file")
    before = fingerprint(outside)
    assert store.get("marker") is None
    assert store.size("marker") is None
    assert store.stamp("marker") is None
    with pytest.raises(InvalidTableStateError, match="symbolic link"):
        store.create("marker", b"new")
    assert store.swap("marker", b"new", "tag") is None
    assert not store.delete_if("marker", "tag")
    assert fingerprint(outside) == before


def test_writing_over_a_link_and_deleting_it_leaves_its_target(store, root, outside):
    (root / "marker").symlink_to(outside / "file")
    (root / "other").symlink_to(outside / "file")
    before = fingerprint(outside)
    store.put("marker", b"new")
    store.delete("other")
    assert not (root / "marker").is_symlink()
    assert store.get("marker").body == b"new"
    assert not (root / "other").is_symlink()
    assert fingerprint(outside) == before


def test_root_may_be_a_link(tmp_path, root):
    (tmp_path / "alias").symlink_to(root)
    aliased = open_store(str(tmp_path / "alias"), {})
    aliased.put("a/b", b"body")
    assert aliased.get("a/b").body == b"body"
    assert "a" in aliased.list_level().directories
    assert aliased.delete_tree("a") == Amount(1, 4)


@pytest.mark.parametrize("internal", [TRASH_DIRECTORY, LOCK_DIRECTORY])
def test_linked_internal_directories_are_refused(store, root, outside, internal):
    (root / "tree").mkdir()
    (root / "tree" / "file").write_bytes(b"mine")
    (root / internal).symlink_to(outside)
    before = fingerprint(outside)
    with pytest.raises(InvalidTableStateError, match="symbolic link"):
        store.delete_tree("tree")
    if internal == LOCK_DIRECTORY:
        with pytest.raises(InvalidTableStateError, match="symbolic link"):
            store.put("file", b"x")
        with pytest.raises(InvalidTableStateError, match="symbolic link"), store.exclusive("t"):
            pass
    assert fingerprint(outside) == before
    assert (root / "tree" / "file").read_bytes() == b"mine"


def test_a_linked_lock_file_is_refused(store, root, outside):
    store.put("file", b"body")
    for slot in range(64):
        (root / LOCK_DIRECTORY / f"name-{slot:02}").symlink_to(outside / "new")
    before = fingerprint(outside)
    with pytest.raises(InvalidTableStateError, match="symbolic link"), store.exclusive("t"):
        pass
    assert fingerprint(outside) == before


def test_deleting_a_tree_removes_links_in_it_and_nothing_behind_them(store, root, outside):
    (root / "tree" / "data").mkdir(parents=True)
    (root / "tree" / "data" / "file").write_bytes(b"mine")
    (root / "tree" / "link").symlink_to(outside)
    (root / "tree" / "data" / "link").symlink_to(outside / "file")
    (root / "tree" / "dangling").symlink_to(root / "nowhere")
    (root / "tree" / "loop").symlink_to("loop")
    os.mkfifo(root / "tree" / "pipe")
    before = fingerprint(outside)
    assert store.measure("tree").files == 6
    assert store.delete_tree("tree").files == 6
    assert not (root / "tree").exists()
    assert fingerprint(outside) == before


def test_a_directory_that_becomes_a_link_while_trees_are_deleted_costs_nothing_outside(store, root, outside):
    before = fingerprint(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            # The other thread makes and removes directories of the same names.
            with contextlib.suppress(OSError):
                (root / "above" / "deep").mkdir(parents=True, exist_ok=True)
                (root / "above").rename(root / f"aside-{uuid.uuid4().hex}")
            with contextlib.suppress(OSError):
                (root / "above").symlink_to(outside)
                (root / "above").unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(300):
            for call in (CALLS["delete_tree"], CALLS["delete"], CALLS["put"], CALLS["copy_tree to"]):
                with contextlib.suppress(InvalidTableStateError, OSError):
                    call(store, "above/deep")
    finally:
        stop.set()
        swapper.join()
    assert fingerprint(outside) == before


def test_copies_leave_links_out(store, root, outside):
    (root / "tree" / "data").mkdir(parents=True)
    (root / "tree" / "data" / "file").write_bytes(b"mine")
    (root / "tree" / "data" / "link").symlink_to(outside / "file")
    (root / "tree" / "link").symlink_to(outside)
    assert store.copy_tree("tree", "copy") == ["copy/data/file"]
    assert fingerprint(root / "copy").keys() == {".", "data", "data/file"}


@pytest.fixture
def odd(root) -> set[str]:
    """Create entries that are neither files nor directories. Returns their names."""
    os.mkfifo(root / "pipe")
    (root / "dangling").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    here = Path.cwd()
    os.chdir(root)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    finally:
        os.chdir(here)
    (root / "device").symlink_to("/dev/zero")
    return {"pipe", "dangling", "loop", "socket", "device"}


def test_special_files_are_listed_as_odd_and_never_read(store, root, odd):
    (root / "file").write_bytes(b"body")
    level = store.list_level()
    assert [file.name for file in level.files] == ["file"]
    assert level.directories == ()
    assert {entry.name for entry in level.unusable} == odd
    for name in odd:
        assert store.get(name) is None
        assert store.size(name) is None
        assert store.stamp(name) is None
        with pytest.raises(InvalidTableStateError, match="remove"):
            store.create(name, b"new")


def test_directory_instead_of_file_and_reverse_count_as_absent(store, root):
    (root / "folder").mkdir()
    (root / "file").write_bytes(b"body")
    assert store.get("folder") is None
    assert store.size("folder") is None
    assert store.stamp("folder") is None
    assert store.list_names("file") == set()
    assert store.list_level("file").files == ()
    assert store.get("file/inside") is None
    assert store.size("file/inside") is None
    assert not store.has_files("file")
    assert store.measure("file") == Amount()
    assert store.delete_tree("file") == Amount()
    store.delete("file/inside")
    with pytest.raises(InvalidTableStateError, match="a directory, not a file"):
        store.create("folder", b"new")
    assert (root / "file").read_bytes() == b"body"


def test_names_that_are_not_utf8_are_left_out(store, root):
    odd = root / os.fsdecode(b"\xff\xfe.lance")
    odd.mkdir()
    (odd / os.fsdecode(b"f\xff")).write_bytes(b"body")
    (root / "t\u00e9.lance").mkdir()
    level = store.list_level()
    assert level.directories == ("t\u00e9.lance",)
    assert [entry.reason for entry in level.unusable] == ["its name is not valid UTF-8"]
    assert store.list_names("") == {"t\u00e9.lance"}
    (root / "tree").mkdir()
    odd.rename(root / "tree" / os.fsdecode(b"\xff"))
    assert store.measure("tree") == Amount(1, 4)
    assert store.has_files("tree")
    assert store.delete_tree("tree") == Amount(1, 4)


def test_a_file_of_many_gigabytes_is_not_read(store, root):
    with (root / "marker").open("wb") as file:
        file.truncate(8 << 30)
    assert store.size("marker") == 8 << 30
    with pytest.raises(InvalidTableStateError, match="8589934592 bytes"):
        store.get("marker")
    with pytest.raises(InvalidTableStateError, match="8589934592 bytes"):
        store.swap("marker", b"new", "tag")


def test_an_object_that_is_too_large_is_not_read(somewhere):
    store = open_store(somewhere.uri, somewhere.options)
    store.put("marker", b"x" * 100)
    assert store.get("marker", max_bytes=100).body == b"x" * 100
    with pytest.raises(InvalidTableStateError, match="100 bytes"):
        store.get("marker", max_bytes=99)


@pytest.mark.parametrize(
    "below", ["data", "_versions", "_transactions", "_deletions", "_indices", "_refs", "tree", "data/x", "_indices/u/x"]
)
def test_links_are_found_before_lance_follows_them(store, root, outside, below):
    for name in ("data", "_versions", "_transactions", "_indices/u"):
        (root / "t.lance" / name).mkdir(parents=True, exist_ok=True)
    place = root / "t.lance" / below
    if place.is_dir():
        for inner in place.iterdir():
            inner.rmdir()
        place.rmdir()
    place.symlink_to(outside)
    with pytest.raises(InvalidTableStateError, match="symbolic link"):
        store.resolve("t.lance", deeply=True)
    if "/" not in below:
        with pytest.raises(InvalidTableStateError, match="symbolic link"):
            store.resolve("t.lance")


def test_uris_with_relative_parts_are_outside_the_root(store, root):
    assert store.relative(f"{root}/a/../../outside") is None
    assert store.relative(f"file://{root}/%2e%2e/outside") is None
    assert store.from_absolute(f"{root}/../outside") is None
    assert store.relative(f"{root}/a/b") == "a/b"
