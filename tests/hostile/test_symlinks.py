"""Symbolic links and other odd files in a root: they are no tables, and nothing behind them is touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments
from lance_namespace import (
    CountTableRowsRequest,
    CreateTableBranchRequest,
    CreateTableTagRequest,
    DeleteFromTableRequest,
    InsertIntoTableRequest,
    ListTableVersionsRequest,
)
from lance_namespace.errors import LanceNamespaceError

from pennon.spark.address import Address
from pennon.spark.jobs import catalog_access
from pennon.spark.tables import job_commits
from tests.hostile.hostile_support import add_rows, fingerprint, table_row
from tests.support import (
    MODES,
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    register_table,
    remove_table,
    table_exists,
)


@pytest.fixture
def outside(tmp_path) -> Path:
    """Create a directory outside the root, with a table whose files are all old."""
    home = tmp_path / "home"
    lance.write_dataset(pa.table({"x": [13]}), str(home / "t"))
    (home / "documents").mkdir()
    for name in ("letter.txt", "documents/novel.txt", "documents/old.lance", "documents/old.idx"):
        (home / name).write_text("precious")
    for entry in home.rglob("*"):
        os.utime(entry, (0, 0))
    return home


@pytest.fixture
def ns(mode, tmp_path, open_namespace):
    """Open a root in each mode with a table in it."""
    ns = open_namespace(tmp_path / "root", mode)
    create_table(ns, "mine", data=ipc({"x": [1, 2]}))
    return ns


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "root"


def directory(ns, *name: str) -> Path:
    return Path(describe_table(ns, *name).location)


def count(ns, *name: str) -> int:
    return ns.count_table_rows(CountTableRowsRequest(id=list(name))).count


def test_linked_table_directory_is_not_a_table(ns, mode, root, outside):
    (root / "link.lance").symlink_to(outside / "t")
    before = fingerprint(outside)
    assert list_tables(ns) == ["mine"]
    assert list_all_tables(ns) == ["mine"]
    if mode == "v2":
        return
    for call in (table_exists, describe_table, drop_table, remove_table, create_table, declare_table):
        with fails(19, "symbolic link"):
            call(ns, "link")
    with fails(19, "symbolic link"):
        create_table(ns, "link", mode="overwrite")
    with fails(19, "symbolic link"):
        ns.insert_into_table(InsertIntoTableRequest(id=["link"]), ipc({"x": [5]}))
    with fails(19, "symbolic link"):
        ns.list_table_versions(ListTableVersionsRequest(id=["link"]))
    assert fingerprint(outside) == before
    assert sorted(path.name for path in root.iterdir() if path.name.startswith("link")) == ["link.lance"]


def test_a_row_that_leads_through_a_link_is_refused_and_can_be_removed(mode, ns, root, outside):
    if mode == "v1":
        with fails(13):
            register_table(ns, "evil", location="link/t")
        return
    (root / "link").symlink_to(outside)
    (root / "other").symlink_to(outside)
    create_namespace(ns, "a")
    add_rows(ns, table_row("a$evil", "link/t"), table_row("a$worse", "link/t"), table_row("a$direct", "other"))
    before = fingerprint(outside)
    for name in ("evil", "direct"):
        for call in (describe_table, create_table):
            with fails(19, "symbolic link"):
                call(ns, "a", name, **({"mode": "overwrite"} if call is create_table else {}))
        with fails(19, "symbolic link"):
            ns.insert_into_table(InsertIntoTableRequest(id=["a", name]), ipc({"x": [5]}))
        with fails(19, "symbolic link"):
            count(ns, "a", name)
    with fails(19, "symbolic link"):
        register_table(ns, "a", "new", location="link/t")
    with fails(19, "symbolic link"):
        declare_table(ns, "a", "new", location="link/new")
    deregister_table(ns, "a", "evil")
    drop_table(ns, "a", "worse", ttl="0s")
    (failed,) = ns.purge_tables().failed
    assert "symbolic link" in failed.error
    assert list_tables(ns, "a") == ["direct"]
    assert fingerprint(outside) == before


@pytest.mark.parametrize(
    "folder",
    ["data", "_versions", "_transactions", "_indices", "_refs", "_refs/tags", "_refs/branches", "tree"],
)
def test_a_table_with_a_linked_directory_is_not_opened(ns, mode, outside, folder):
    table = directory(ns, "mine")
    create_table(ns, "other", data=ipc({"x": [3]}))
    shutil.rmtree(table / folder, ignore_errors=True)
    (outside / folder).mkdir(parents=True)
    (table / folder).parent.mkdir(exist_ok=True)
    (table / folder).symlink_to(outside / folder)
    before = fingerprint(outside)
    for call in (
        lambda: describe_table(ns, "mine", load_detailed_metadata=True),
        lambda: count(ns, "mine"),
        lambda: ns.insert_into_table(InsertIntoTableRequest(id=["mine"]), ipc({"x": [5]})),
        lambda: create_table(ns, "mine", mode="overwrite"),
        lambda: ns.delete_from_table(DeleteFromTableRequest(id=["mine"], predicate="x > 0")),
        lambda: ns.create_table_tag(CreateTableTagRequest(id=["mine"], tag="v", version=1)),
        lambda: ns.create_table_branch(CreateTableBranchRequest(id=["mine"], name="b")),
    ):
        with fails(19, "symbolic link"):
            call()
    assert "other" in list_tables(ns)
    assert count(ns, "other") == 1
    assert "other" in list_tables(ns, include_declared=False)
    if mode != "v1":
        ns.migrate_to_manifest()
    assert fingerprint(outside) == before


def test_a_linked_branch_is_not_opened(ns, outside):
    ns.create_table_branch(CreateTableBranchRequest(id=["mine"], name="b"))
    ns.create_table_tag(CreateTableTagRequest(id=["mine"], tag="on-b", version=1, branch="b"))
    branch = directory(ns, "mine") / "tree" / "b"
    shutil.move(branch, outside / "b")
    branch.symlink_to(outside / "b")
    before = fingerprint(outside)
    with fails(19, "symbolic link"):
        ns.count_table_rows(CountTableRowsRequest(id=["mine"], branch="b"))
    with fails(19, "symbolic link"):
        ns.insert_into_table(InsertIntoTableRequest(id=["mine"], branch="b"), ipc({"x": [5]}))
    with fails(19, "symbolic link"):
        ns.list_table_versions(ListTableVersionsRequest(id=["mine"], branch="b"))
    with fails(19, "symbolic link"):
        describe_table(ns, "mine", tag="on-b")
    assert count(ns, "mine") == 2
    assert fingerprint(outside) == before


@pytest.mark.parametrize("internal", [".lance-trash", ".lance-locks"])
def test_linked_internal_directories_are_refused(ns, root, outside, internal):
    drop_table(ns, "mine", ttl="0s")
    shutil.rmtree(root / internal, ignore_errors=True)
    (root / internal).symlink_to(outside)
    before = fingerprint(outside)
    errors = []
    try:
        errors += [table.error for table in ns.purge_tables().failed]
    except LanceNamespaceError as error:
        errors.append(str(error))
    assert "symbolic link" in errors[0]
    assert fingerprint(outside) == before
    (root / internal).unlink()
    ns.purge_tables()
    assert ns.list_dropped_tables([])[0] == []
    assert fingerprint(outside) == before


@pytest.mark.parametrize("part", ["", "_versions", "data", "_transactions", "_indices"])
@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_a_linked_manifest_is_refused(mode, root, outside, open_namespace, part):
    with open_namespace(root, mode) as first:
        create_namespace(first, "a")
    inside = root / "__manifest" / part if part else root / "__manifest"
    if inside.exists():
        shutil.move(inside, outside / "taken")
    else:
        (outside / "taken").mkdir()
    inside.symlink_to(outside / "taken")
    before = fingerprint(outside)
    with fails(19, "symbolic link"):
        create_namespace(open_namespace(root, mode), "b")
    assert fingerprint(outside) == before


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_a_manifest_that_becomes_a_link_is_refused_by_an_open_catalog(mode, root, outside, open_namespace):
    ns = open_namespace(root, mode)
    create_namespace(ns, "a")
    shutil.move(root / "__manifest", outside / "taken")
    (root / "__manifest").symlink_to(outside / "taken")
    before = fingerprint(outside)
    with fails(19, "symbolic link"):
        list_tables(ns, "a")
    with fails(19, "symbolic link"):
        create_namespace(ns, "b")
    assert fingerprint(outside) == before


@pytest.mark.parametrize("place", ["_indices", "data", "_transactions"])
def test_a_table_that_cleans_itself_deletes_nothing_behind_a_link(ns, outside, place):
    table = directory(ns, "mine")
    dataset = lance.dataset(str(table))
    dataset.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    (table / place).mkdir(exist_ok=True)
    (table / place / "link").symlink_to(outside / "documents")
    before = fingerprint(outside)
    for _ in range(3):
        with fails(19, "symbolic link"):
            ns.insert_into_table(InsertIntoTableRequest(id=["mine"]), ipc({"x": [5]}))
    with fails(19, "symbolic link"):
        ns.insert_into_table(InsertIntoTableRequest(id=["mine"], mode="overwrite"), ipc({"x": [5]}))
    with fails(19, "symbolic link"):
        create_table(ns, "mine", mode="overwrite")
    assert fingerprint(outside) == before
    (table / place / "link").unlink()
    ns.insert_into_table(InsertIntoTableRequest(id=["mine"]), ipc({"x": [5]}))
    assert count(ns, "mine") == 3


@pytest.fixture
def address(mode, root) -> Address:
    """Return the address of the catalog for Spark's jobs and writes."""
    return Address.of("dir", {"root": str(root), **MODES[mode]})


def commit_append(address: Address, table: Path, branch: str | None = None) -> None:
    """Commit as writes of Spark do."""
    dataset = lance.dataset(str(table))
    fragments = write_fragments(pa.table({"x": [5]}), dataset, mode="append")
    version = int(dataset.version)
    job_commits.commit(address, ("mine",), lance.LanceOperation.Append(fragments), read_version=version, branch=branch)


def test_a_commit_of_spark_to_a_table_that_cleans_itself_deletes_nothing_behind_a_link(ns, address, outside):
    table = directory(ns, "mine")
    config = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
    lance.dataset(str(table)).update_config(config)
    (table / "_indices").mkdir(exist_ok=True)
    (table / "_indices" / "link").symlink_to(outside / "documents")
    before = fingerprint(outside)
    for _ in range(3):
        with fails(19, "symbolic link"):
            commit_append(address, table)
    with fails(19, "symbolic link"):
        catalog_access.open_for_commit(address, ("mine",))
    assert fingerprint(outside) == before
    (table / "_indices" / "link").unlink()
    commit_append(address, table)
    assert count(ns, "mine") == 3


@pytest.mark.parametrize("place", ["tree/b", "tree/b/_versions", "tree/b/data"])
def test_spark_does_not_commit_to_a_linked_branch(ns, address, outside, place):
    ns.create_table_branch(CreateTableBranchRequest(id=["mine"], name="b"))
    ns.insert_into_table(InsertIntoTableRequest(id=["mine"], branch="b"), ipc({"x": [5]}))
    table = directory(ns, "mine")
    shutil.move(table / place, outside / "b")
    (table / place).symlink_to(outside / "b")
    before = fingerprint(outside)
    with fails(19, "symbolic link"):
        commit_append(address, table, "b")
    assert fingerprint(outside) == before


def test_purging_removes_links_in_a_table_and_nothing_behind_them(ns, outside):
    table = directory(ns, "mine")
    (table / "link").symlink_to(outside)
    (table / "dangling").symlink_to("nowhere")
    (table / "loop").symlink_to("loop")
    (table / "data" / "link").symlink_to(outside / "letter.txt")
    (table / os.fsdecode(b"odd-\xff")).write_bytes(b"x")
    before = fingerprint(outside)
    assert count(ns, "mine") == 2
    assert list_tables(ns, include_declared=False) == ["mine"]
    remove_table(ns, "mine")
    assert not table.exists()
    assert fingerprint(outside) == before


def make_odd(path: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "directory":
        path.mkdir()
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(64 << 30)


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "directory", "huge"])
@pytest.mark.parametrize("marker", ["mine.deleted", "mine.deregistered", "mine.declared"])
@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_odd_marker_does_not_block_other_tables(mode, root, open_namespace, marker, kind):
    ns = open_namespace(root, mode)
    create_table(ns, "mine")
    create_table(ns, "other", data=ipc({"x": [3]}))
    make_odd(root / marker, kind)
    assert "other" in list_tables(ns)
    assert "other" in list_tables(ns, include_declared=False)
    assert count(ns, "other") == 1
    drop_table(ns, "other", ttl="0s")
    ns.list_dropped_tables([])
    assert [table.id for table in ns.purge_tables().tables if table.error is None] == [["other"]]
    assert (root / "mine.lance" / "data").exists()


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "directory", "huge"])
@pytest.mark.parametrize("inner", [".lance-deregistered", ".lance-reserved", ".lance-protected"])
@pytest.mark.parametrize("legacy", ["true", "false"])
def test_odd_marker_in_a_table_does_not_block_other_tables(tmp_path, open_namespace, inner, kind, legacy):
    ns = open_namespace(tmp_path / "root", "v1", legacy_markers=legacy)
    create_table(ns, "mine")
    create_table(ns, "other", data=ipc({"x": [3]}))
    make_odd(tmp_path / "root" / "mine.lance" / inner, kind)
    assert "other" in list_tables(ns)
    ns.migrate_markers()
    remove_table(ns, "other")
    assert (tmp_path / "root" / "mine.lance" / "data").exists()


@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_odd_entries_of_the_root_are_not_tables(ns, mode, root, kind):
    make_odd(root / "odd.lance", kind)
    (root / os.fsdecode(b"\xff.lance")).mkdir()
    (root / os.fsdecode(b"\xff.lance") / "file").write_bytes(b"x")
    (root / os.fsdecode(b"\xfe.deleted")).write_bytes(b"x" * 600)
    assert list_tables(ns) == ["mine"]
    assert list_all_tables(ns) == ["mine"]
    ns.list_dropped_tables([])
    ns.purge_tables()
    if mode != "v1":
        report = ns.migrate_to_manifest()
        reasons = " ".join(f"{entry.name}: {entry.reason}" for entry in report.skipped)
        assert "odd: it cannot be a table" in reasons.replace("'", "")
        assert "not valid UTF-8" in reasons
        reasons.encode()
    problems = {problem.entry: problem.reason for problem in ns.list_problems()}
    assert problems.keys() == {"'odd.lance'", r"'\udcff.lance'", r"'\udcfe.deleted'"}


def test_a_root_behind_a_link_is_used_like_any_other(mode, tmp_path, open_namespace):
    (tmp_path / "disk").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "disk")
    ns = open_namespace(tmp_path / "alias", mode)
    create_table(ns, "t")
    assert count(ns, "t") == 3
    remove_table(ns, "t")
    assert list_tables(ns) == []


def test_clones_of_tables_elsewhere_are_read_and_purged_without_touching_them(ns, outside):
    lance.dataset(str(outside / "t")).shallow_clone(str(directory(ns, "mine").parent / "clone.lance"), 1)
    before = fingerprint(outside)
    if "clone" in list_tables(ns):
        assert count(ns, "clone") == 1
        create_table(ns, "clone", mode="overwrite")
        remove_table(ns, "clone")
        assert "clone" not in list_tables(ns)
    assert fingerprint(outside) == before
