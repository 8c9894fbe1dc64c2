"""Tables that stay open: every operation sees the current state."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from pennon import DirectoryNamespace
from pennon.directory.versions.callback import VersionClient
from pennon.table import naming
from pennon.table.handles import Handle, HandleCache
from tests.support import create_table, describe_table, drop_table, fails, ipc, remove_table, rename_table
from tests.table.calls import count, insert, query, update
from tests.table.kinds import opened

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def other(ours) -> Iterator[DirectoryNamespace]:
    """Open a second client of the same root."""
    with DirectoryNamespace(**ours._properties) as ns:
        yield ns


def rows(ns, name: str = "t", **options) -> list[int]:
    return query(ns, name, **options)["x"].to_pylist()


def test_commits_of_another_client_are_seen(ours, other):
    create_table(ours, "t", data=ipc({"x": [0]}))
    for number in range(1, 6):
        assert count(ours, "t") == number
        insert(other, "t", data={"x": [number]})
        assert rows(ours) == list(range(number + 1))
        assert rows(other) == list(range(number + 1))


def test_commits_of_another_process_are_seen(ours):
    location = Path(create_table(ours, "t", data=ipc({"x": [0]})).location)
    assert count(ours, "t") == 1
    program = (
        "import sys, pennon; import pyarrow as pa;"
        "from tests.support import ipc; from tests.table.calls import insert;"
        "ns = pennon.DirectoryNamespace(**eval(sys.argv[1])); insert(ns, 't', data={'x': [1]}); ns.close()"
    )
    subprocess.run(
        [sys.executable, "-c", program, repr(ours._properties)],
        check=True,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"},
    )
    assert count(ours, "t") == 2
    assert lance.dataset(str(location)).count_rows() == 2


def test_a_dropped_table_is_not_found_and_a_recreated_one_is_another(ours, other):
    for number in range(5):
        create_table(ours, "t", data=ipc({"x": [number]}))
        assert rows(ours) == [number]
        assert rows(other) == [number]
        remove_table(other, "t")
        with fails(4):
            count(ours, "t")
        with fails(4):
            insert(ours, "t", data={"x": [1]})
    create_table(other, "t", data=ipc({"x": [99]}))
    assert rows(ours) == [99]


def test_a_table_recreated_with_another_schema_is_another(ours, other):
    create_table(ours, "t", data=ipc({"x": [1]}))
    assert rows(ours) == [1]
    remove_table(other, "t")
    create_table(other, "t", data=ipc({"y": ["a"]}))
    assert query(ours, "t").to_pydict() == {"y": ["a"]}


def test_a_hidden_table_is_not_found_until_it_is_restored(ours, other):
    create_table(ours, "t", data=ipc({"x": [1]}))
    assert rows(ours) == [1]
    drop_table(other, "t")
    with fails(4):
        count(ours, "t")
    other.undrop_table(["t"])
    assert rows(ours) == [1]


@pytest.mark.parametrize("kind", ["v2", "managed"])
def test_a_renamed_table_is_found_only_under_its_new_name(tmp_path, kind):
    with opened(kind, tmp_path / "root") as ns, DirectoryNamespace(**ns._properties) as other:
        create_table(ns, "t", data=ipc({"x": [1]}))
        create_table(ns, "u", data=ipc({"x": [2]}))
        assert rows(ns, "t") + rows(ns, "u") == [1, 2]
        rename_table(other, "t", to="old")
        with fails(4):
            count(ns, "t")
        rename_table(other, "u", to="t")
        assert rows(ns, "t") == [2]
        assert rows(ns, "old") == [1]
        insert(ns, "old", data={"x": [10]})
        insert(ns, "t", data={"x": [20]})
        assert rows(other, "old") == [1, 10]
        assert rows(other, "t") == [2, 20]


def test_files_replaced_under_the_same_name_and_version_are_seen(tmp_path):
    """Another tool replaces the directory by one with other files but the same version numbers."""
    with opened("v1", tmp_path / "root") as ns:
        location = create_table(ns, "t", data=ipc({"x": [0]})).location
        for number in range(1, 30):
            shutil.rmtree(location)
            lance.write_dataset(pa.table({"x": [number]}), location)
            assert rows(ns) == [number]
            assert count(ns, "t", predicate=f"x = {number}") == 1
            assert rows(ns, version=1) == [number]


def test_versions_do_not_change_and_a_deleted_one_is_not_found(ours, other):
    create_table(ours, "t", data=ipc({"x": [0]}))
    for number in range(1, 5):
        insert(ours, "t", data={"x": [number]})
        assert rows(ours, version=number) == list(range(number))
    other.batch_delete_table_versions({"id": ["t"], "ranges": [{"start_version": 2, "end_version": 3}]})
    with fails(11):
        rows(ours, version=2)
    assert rows(ours, version=3) == [0, 1, 2]
    with fails(11):
        count(ours, "t", version=6)
    with fails(11):
        count(ours, "t", version=2**63)


def test_a_tag_that_moves_is_followed(ours):
    location = create_table(ours, "t", data=ipc({"x": [0]})).location
    insert(ours, "t", data={"x": [1]})
    with fails(8):
        ours._open_table(("t",), tag="here")
    lance.dataset(location).tags.create("here", 1)
    assert ours._open_table(("t",), tag="here").version == 1
    lance.dataset(location).tags.update("here", 2)
    assert ours._open_table(("t",), tag="here").version == 2
    lance.dataset(location).tags.delete("here")
    with fails(8):
        ours._open_table(("t",), tag="here")


def test_created_and_deleted_branches_are_seen(ours):
    location = create_table(ours, "t", data=ipc({"x": [0]})).location
    with fails(22):
        count(ours, "t", branch="side")
    lance.dataset(location).create_branch("side")
    insert(ours, "t", data={"x": [1]}, branch="side")
    assert rows(ours, branch="side") == [0, 1]
    assert rows(ours) == [0]
    assert rows(ours, branch="main") == [0]
    lance.dataset(location).branches.delete("side")
    with fails(22):
        count(ours, "t", branch="side")
    assert rows(ours) == [0]


def test_turning_version_management_on_and_off_changes_no_result(tmp_path):
    with opened("v2", tmp_path / "root") as ns, DirectoryNamespace(**ns._properties) as other:
        create_table(ns, "t", data=ipc({"x": [0]}))
        expected = [0]
        for number in range(1, 7):
            assert rows(ns) == expected
            (other.enable_table_version_management if number % 2 else other.disable_table_version_management)()
            assert rows(ns) == expected
            assert insert(ns, "t", data={"x": [number]}).version == number + 1
            expected.append(number)
            assert rows(other) == expected


def test_a_shared_handle_does_not_move_when_it_is_written_through(ours):
    create_table(ours, "t", data=ipc({"x": [0]}))
    shared = ours._open_table(("t",), shared=True)
    insert(ours, "t", data={"x": [1]})
    update(ours, "t", to={"x": "x + 1"})
    ours._open_table(("t",)).delete("x = 1")
    assert shared.version == 1
    assert shared.to_table()["x"].to_pylist() == [0]
    assert rows(ours) == [2]


def test_a_failed_mutation_leaves_handles_as_they_were(ours):
    create_table(ours, "t", data=ipc({"x": [0]}))
    for _ in range(3):
        with fails(13):
            update(ours, "t", to={"x": "'no number'"})
        assert rows(ours) == [0]
    assert describe_table(ours, "t", load_detailed_metadata=True).version == 1


def test_threads_share_handles_and_see_the_latest_version(ours):
    create_table(ours, "t", data=ipc({"x": [0]}))
    done = threading.Event()
    committed = 1

    def write() -> None:
        nonlocal committed
        for number in range(1, 25):
            insert(ours, "t", data={"x": [number]})
            committed = number + 1
        done.set()

    def look() -> int:
        looks = 0
        while not done.is_set():
            least = committed
            found = count(ours, "t")
            assert found >= least
            assert sorted(rows(ours)[:found]) == list(range(found))
            looks += 1
        return looks

    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(look) for _ in range(4)]
        pool.submit(write).result(60)
        assert sum(reader.result(60) for reader in readers) > 0
    assert rows(ours) == list(range(25))


def test_threads_that_write_lose_nothing(ours):
    create_table(ours, "t", data=ipc({"x": pa.array([], pa.int64())}))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: insert(ours, "t", data={"x": [number]}), range(20)))
    assert sorted(rows(ours)) == list(range(20))


def test_no_more_tables_stay_open_than_allowed(tmp_path):
    with opened("v2", tmp_path / "root") as ns:
        catalog = ns._catalog
        object.__setattr__(catalog, "handles", HandleCache(3))
        for number in range(8):
            create_table(ns, f"t{number}", data=ipc({"x": [number]}))
        for _ in range(2):
            for number in range(8):
                assert rows(ns, f"t{number}") == [number]
                assert len(catalog.handles) <= 3


def test_the_stamp_of_a_committed_version_is_known_unless_the_table_was_recreated(tmp_path):
    location = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"x": [0]}), location)
    base = naming.read_latest_stamp(location)
    lance.write_dataset(pa.table({"x": [1]}), location, mode="append")
    made = naming.read_stamp_after(location, base, 2)
    assert made == naming.read_latest_stamp(location)
    assert made.version == 2
    assert naming.read_stamp_after(location, None, 2) is None
    shutil.rmtree(location)
    assert naming.read_stamp_after(location, base, 2) is None
    for mode in ("create", "append"):
        lance.write_dataset(pa.table({"x": [7]}), location, mode=mode)
    assert naming.read_latest_stamp(location).version == 2
    assert naming.read_stamp_after(location, base, 2) is None


def test_old_names_of_manifests_are_understood(tmp_path):
    location = str(tmp_path / "t.lance")
    for number in range(12):
        mode = "append" if number else "create"
        lance.write_dataset(pa.table({"x": [number]}), location, mode=mode, enable_v2_manifest_paths=False)
    assert naming.read_latest_stamp(location).version == 12
    assert naming.read_latest_stamp(str(tmp_path / "none")) is None
    with opened("v1", tmp_path) as ns:
        assert rows(ns) == list(range(12))
        insert(ns, "t", data={"x": [12]})
        assert rows(ns) == list(range(13))


def test_a_version_client_reports_only_stamps_that_are_certain(tmp_path):
    with opened("managed", tmp_path / "root") as ns:
        versions = VersionClient(ns._catalog)
        for number, sure in ((1, True), (2, False)):
            create_table(ns, "t", data=ipc({"x": [number]}))
            dataset = lance.dataset(namespace_client=versions, table_id=["t"])
            dataset.insert(pa.table({"x": [10]}))
            assert dataset.version == 2
            assert (versions.find_created(2) is not None) == sure
            remove_table(ns, "t")


@pytest.mark.parametrize("kind", ["v1", "v2", "managed"])
def test_an_unused_catalog_is_collected_with_its_tables(tmp_path, kind):
    ns = opened(kind, tmp_path / "root")
    create_table(ns, "t", data=ipc({"x": [1]}))
    insert(ns, "t", data={"x": [2]})
    assert rows(ns) == [1, 2]
    catalog = weakref.ref(ns._catalog)
    del ns
    gc.collect()
    assert catalog() is None


def test_the_least_recently_used_handle_is_dropped_first():
    handles = HandleCache(2)
    kept = {name: Handle(None, name) for name in "abc"}
    handles.keep("a", kept["a"])
    handles.keep("b", kept["b"])
    assert handles.find("a") is kept["a"]
    handles.keep("c", kept["c"])
    assert (handles.find("a"), handles.find("b"), handles.find("c")) == (kept["a"], None, kept["c"])
    handles.forget("a")
    assert len(handles) == 1
    handles.clear()
    assert len(handles) == 0
