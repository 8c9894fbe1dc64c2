"""Appends to managed tables in an object store: made locally, uploaded together, finished in the background."""

from __future__ import annotations

import time

import lance
import pyarrow as pa
import pytest

from pennon.directory import managed_append
from pennon.directory.versions import version_commit
from pennon.directory.versions.base_cache import BaseCache
from pennon.directory.versions.row_finishing import RowFinisher
from tests.support import Root, create_table, drop_table, fails, ipc
from tests.versions.shelf import Shelf, unfinished

pytestmark = pytest.mark.s3


@pytest.fixture
def shelf(s3, open_namespace, request) -> Shelf:
    """Return a managed catalog in a bucket, with a table `t` that was appended to."""
    where = Root(s3.endpoint.uri(request.node.name.replace("[", "-").strip("]")), s3.endpoint.storage_options())
    ns = open_namespace(where, "v2")
    ns.enable_table_version_management()
    shelf = Shelf(ns, where, (), is_managed=True)
    shelf.create("t", [1])
    insert(shelf, 2)
    return shelf


def insert(shelf: Shelf, *rows: int) -> int:
    return shelf.ns.insert_into_table({"id": ["t"]}, ipc({"x": list(rows)})).version


def another_client(shelf: Shelf, open_namespace) -> Shelf:
    return Shelf(open_namespace(shelf.where, "v2"), shelf.where, (), is_managed=True)


def wait_until_finished(shelf: Shelf) -> None:
    deadline = time.monotonic() + 30
    while shelf.ns._catalog.finisher._copied:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def list_files(shelf: Shelf) -> set[str]:
    location = shelf._store.relative(shelf.location("t"))
    return {
        f"{folder}/{name}"
        for folder in ("data", "_transactions", "_versions")
        for name in shelf._store.list_names(f"{location}/{folder}")
    }


@pytest.fixture
def appended(monkeypatch) -> list[object]:
    """Return what each append returned: None if it was left to Lance."""
    results: list[object] = []
    real = managed_append.append

    def record(*arguments):
        result = real(*arguments)
        results.append(result)
        return result

    monkeypatch.setattr(managed_append, "append", record)
    return results


def test_append_is_complete_for_every_reader(shelf, appended, open_namespace):
    assert insert(shelf, 3, 4) == 3
    assert appended[-1] is not None
    assert shelf.plain_rows("t") == [1, 2, 3, 4]
    assert shelf.rows("t") == [1, 2, 3, 4]
    assert another_client(shelf, open_namespace).rows("t") == [1, 2, 3, 4]
    assert shelf.ns.count_table_rows({"id": ["t"]}).count == 4
    wait_until_finished(shelf)
    shelf.check_same("t")


def test_rows_are_finished_and_staged_files_deleted_in_the_background(shelf):
    insert(shelf, 3)
    wait_until_finished(shelf)

    row = shelf.row("t", 3)
    assert row["manifest_path"] != row["staged_path"]
    assert shelf.staged_files(shelf.location("t")) == []


def test_closing_finishes_the_rows(shelf, open_namespace):
    insert(shelf, 3)
    insert(shelf, 4)
    shelf.ns.close()

    other = another_client(shelf, open_namespace)
    assert all(other.row("t", version)["manifest_path"].endswith(".manifest") for version in (2, 3, 4))
    assert other.staged_files(other.location("t")) == []


def test_own_reads_do_not_finish_what_waits_for_the_background(shelf, monkeypatch, s3):
    monkeypatch.setattr(RowFinisher, "_run", lambda self: None)
    wait_until_finished(shelf)
    insert(shelf, 3)

    with s3.count() as count:
        assert shelf.describe_version("t").version == 3
        assert shelf.ns.count_table_rows({"id": ["t"]}).count == 3
    assert {request.method for request in count.requests} <= {"GET", "HEAD"}


def test_append_on_an_outdated_version_is_left_to_lance(shelf, appended, open_namespace):
    other = another_client(shelf, open_namespace)
    insert(shelf, 3)
    insert(other, 4)
    assert insert(shelf, 5) == 5
    assert appended[-1] is None
    assert sorted(shelf.rows("t")) == [1, 2, 3, 4, 5]
    wait_until_finished(shelf)
    shelf.check_same("t")


def test_append_that_came_too_late_leaves_no_files(shelf, open_namespace, monkeypatch):
    other = another_client(shelf, open_namespace)
    insert(shelf, 3)
    wait_until_finished(shelf)
    insert(other, 4)
    wait_until_finished(other)
    before = list_files(other)
    monkeypatch.setattr(BaseCache, "is_recent", lambda _: True)
    identifier, rows = ("t",), pa.table({"x": [5]})

    assert managed_append.append(shelf.ns._catalog, identifier, rows) is None
    assert list_files(other) == before


def test_append_sees_versions_of_writers_that_bypass_the_catalog(shelf):
    insert(shelf, 3)
    lance.write_dataset(pa.table({"x": [4]}), shelf.open_plain("t"), mode="append")
    assert insert(shelf, 5) == 5
    assert sorted(shelf.rows("t")) == [1, 2, 3, 4, 5]
    wait_until_finished(shelf)
    shelf.check_same("t")


def test_append_to_a_table_that_another_client_dropped_fails(shelf, open_namespace):
    other = another_client(shelf, open_namespace)
    insert(shelf, 3)
    wait_until_finished(shelf)
    drop_table(other.ns, "t")
    with fails(4):
        insert(shelf, 4)


def test_append_to_a_table_that_was_created_again_goes_to_the_new_one(shelf, open_namespace):
    other = another_client(shelf, open_namespace)
    insert(shelf, 3)
    drop_table(other.ns, "t")
    create_table(other.ns, "t", data=ipc({"x": [7]}))
    assert insert(shelf, 8) == 2
    assert shelf.rows("t") == [7, 8]


def test_rows_that_do_not_fit_raise_the_error_of_the_table(shelf):
    with fails(20):
        shelf.ns.insert_into_table({"id": ["t"]}, ipc({"y": ["a"]}))
    assert shelf.rows("t") == [1, 2]


def test_writer_that_dies_before_the_commit_changes_nothing(shelf, open_namespace, monkeypatch):
    class DiedError(BaseException):
        pass

    def die(*_, **_how):
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(version_commit, "commit_prepared", die)
        with pytest.raises(DiedError):
            insert(shelf, 3)
    other = another_client(shelf, open_namespace)
    assert other.rows("t") == other.plain_rows("t") == [1, 2]
    assert insert(other, 4) == 3
    assert other.rows("t") == other.plain_rows("t") == [1, 2, 4]


def test_writer_that_dies_after_the_commit_leaves_a_version_that_readers_finish(shelf, open_namespace, monkeypatch):
    with unfinished(monkeypatch):
        assert insert(shelf, 3) == 3
    assert shelf.plain_rows("t") == [1, 2]
    other = another_client(shelf, open_namespace)
    assert other.rows("t") == other.plain_rows("t") == [1, 2, 3]
    other.check_same("t")


def test_writer_that_dies_after_the_copy_leaves_a_version_that_readers_finish(shelf, open_namespace, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(RowFinisher, "add", lambda self, versions: None)
        assert insert(shelf, 3) == 3
    assert shelf.plain_rows("t") == [1, 2, 3]
    other = another_client(shelf, open_namespace)
    assert other.rows("t") == [1, 2, 3]
    assert other.row("t", 3)["manifest_path"].endswith(".manifest")
    other.check_same("t")


def test_next_append_of_a_client_whose_version_was_not_finished_succeeds(shelf, monkeypatch):
    with unfinished(monkeypatch):
        insert(shelf, 3)
    assert insert(shelf, 4) == 4
    assert shelf.rows("t") == shelf.plain_rows("t") == [1, 2, 3, 4]


def test_writer_that_was_stopped_after_the_commit_writes_nothing_into_a_purged_table(
    shelf, open_namespace, monkeypatch
):
    wait_until_finished(shelf)
    other = another_client(shelf, open_namespace)
    location = shelf._store.relative(shelf.location("t"))
    manifest = shelf.ns._catalog.manifest
    commit = manifest.mutate

    def stop_after_commit(plan):
        result = commit(plan)
        monkeypatch.setattr(manifest, "mutate", commit)
        drop_table(other.ns, "t", purge="true")
        time.sleep(1.1)
        return result

    monkeypatch.setattr(manifest, "mutate", stop_after_commit)
    assert insert(shelf, 3) == 3
    wait_until_finished(shelf)
    assert not shelf._store.has_files(location)
