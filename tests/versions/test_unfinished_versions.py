"""Unfinished versions: the writer died after its commit to the catalog's manifest."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from tests.support import (
    create_namespace,
    create_table,
    deregister_table,
    describe_table,
    drop_namespace,
    drop_table,
    ipc,
    register_table,
    rename_table,
)
from tests.versions.shelf import unfinished


@pytest.fixture
def dying(near_managed_shelf, monkeypatch):
    """Return a table `t` with the rows 1, 2 and 3. The version that added 3 is unfinished."""
    shelf = near_managed_shelf
    location = shelf.create("t", [1], [2])
    shelf.append_unfinished(monkeypatch, "t", [3])
    assert shelf.plain_rows("t") == [1, 2]
    assert len(shelf.staged_files(location)) == 1
    return shelf


def is_whole(shelf, name: str = "t", rows: tuple[int, ...] = (1, 2, 3)) -> None:
    shelf.check_same(name)
    assert shelf.plain_rows(name) == list(rows)
    if shelf.version_rows():
        row = shelf.row(name, len(rows))
        assert row["manifest_path"] != row.get("staged_path")


READERS = {
    "the latest": lambda shelf: shelf.ns.list_table_versions({"id": shelf.id("t"), "limit": 1}).versions[0].version,
    "the list": lambda shelf: shelf.list_versions("t")[-1],
    "a page": lambda shelf: shelf.list_versions("t", limit=2, descending=True)[0],
    "describe": lambda shelf: shelf.describe_version("t", 3).version,
    "describe the latest": lambda shelf: shelf.describe_version("t").version,
    "describe_table": lambda shelf: describe_table(shelf.ns, *shelf.id("t"), load_detailed_metadata=True).version,
    "describe_table at it": lambda shelf: (
        describe_table(shelf.ns, *shelf.id("t"), version=3, load_detailed_metadata=True).version
    ),
    "pylance": lambda shelf: shelf.open("t").version,
    "pylance at it": lambda shelf: shelf.open("t", version=3).version,
}


@pytest.mark.parametrize("reader", list(READERS))
def test_reader_sees_and_finishes_an_unfinished_version(near_managed_shelf, monkeypatch, reader):
    shelf = near_managed_shelf
    shelf.create("t", [1], [2])
    shelf.append_unfinished(monkeypatch, "t", [3])
    assert READERS[reader](shelf) == 3
    assert shelf.plain_rows("t") == [1, 2, 3]
    is_whole(shelf)


def test_readers_leave_staged_files_and_the_next_writer_deletes_them(dying):
    location = dying.location("t")
    (staged,) = dying.staged_files(location)
    assert dying.describe_version("t").version == 3
    is_whole(dying)
    assert dying.staged_files(location) == [staged]
    assert dying.append("t", [4]) == 4
    assert dying.staged_files(location) == []
    is_whole(dying, rows=(1, 2, 3, 4))


def test_unfinished_version_is_finished_on_every_store(managed_shelf, monkeypatch):
    shelf = managed_shelf
    location = shelf.create("t", [1], [2])
    shelf.append_unfinished(monkeypatch, "t", [3])
    assert shelf.plain_rows("t") == [1, 2]
    assert len(shelf.staged_files(location)) == 1
    assert shelf.rows("t") == [1, 2, 3]
    is_whole(shelf)
    shelf.append_unfinished(monkeypatch, "t", [4])
    assert shelf.append("t", [5]) == 5
    is_whole(shelf, rows=(1, 2, 3, 4, 5))
    shelf.append_unfinished(monkeypatch, "t", [6])
    drop_table(shelf.ns, *shelf.id("t"))
    shelf.ns.undrop_table(shelf.id("t"))
    assert shelf.rows("t") == [1, 2, 3, 4, 5, 6]
    is_whole(shelf, rows=(1, 2, 3, 4, 5, 6))


def test_another_client_finishes_an_unfinished_version(dying, open_namespace):
    other = open_namespace(dying.where, "v2")
    latest = other.list_table_versions({"id": dying.id("t"), "limit": 1}).versions[0]
    assert latest.version == 3
    assert ".manifest-" not in latest.manifest_path
    is_whole(dying)


def test_next_writer_is_not_blocked(dying):
    assert dying.append("t", [4]) == 4
    is_whole(dying, rows=(1, 2, 3, 4))


def test_next_create_table_version_is_not_blocked(dying, monkeypatch):
    """The previous version is still unfinished when the next one is committed."""
    dying.append_unfinished(monkeypatch, "t", [4])
    dying.append_unfinished(monkeypatch, "t", [5])
    is_whole(dying, rows=(1, 2, 3, 4, 5))


def test_list_finishes_several_unfinished_versions(near_managed_shelf, monkeypatch):
    shelf = near_managed_shelf
    location = shelf.create("t", [1])
    requests = [shelf.stage("t", [2])]
    second = requests[0]["manifest_path"]
    body = shelf._store.get(shelf._store.from_absolute(second)).body
    third = second.replace(f"{2**64 - 3:020}", f"{2**64 - 4:020}")
    shelf._store.put(shelf._store.from_absolute(third), body)
    requests.append({**requests[0], "version": 3, "manifest_path": third})
    with unfinished(monkeypatch):
        shelf.ns.batch_create_table_versions({"entries": requests})
    assert len(shelf.staged_files(location)) == 2
    assert shelf.list_versions("t") == [1, 2, 3]
    assert len(shelf.finished_paths("t")) == 2


def test_repeated_request_finishes_the_version(near_managed_shelf, monkeypatch):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    request = shelf.stage("t", [2])
    with unfinished(monkeypatch):
        shelf.ns.create_table_version(request)
    assert ".manifest-" not in shelf.ns.create_table_version(request).version.manifest_path
    is_whole(shelf, rows=(1, 2))


def test_version_is_finished_if_only_its_row_is_missing(dying):
    """The writer died after it had copied the file to its final name."""
    row = dying.row("t", 3)
    body = dying._store.get(row["manifest_path"]).body
    final = f"{row['manifest_path'].rpartition('/')[0]}/{2**64 - 4:020}.manifest"
    assert dying._store.create(final, body)
    assert dying.rows("t") == [1, 2, 3]
    is_whole(dying)


def test_version_is_finished_if_its_staged_file_was_deleted(dying):
    """Another client copied and deleted the staged file, but did not change the row."""
    row = dying.row("t", 3)
    body = dying._store.get(row["manifest_path"]).body
    final = f"{row['manifest_path'].rpartition('/')[0]}/{2**64 - 4:020}.manifest"
    assert dying._store.create(final, body)
    dying._store.delete(row["manifest_path"])
    assert dying.describe_version("t").manifest_path.endswith(final)
    is_whole(dying)


def test_deleting_unfinished_versions_leaves_no_file(near_managed_shelf, monkeypatch):
    """Neither the staged file nor its copy remains."""
    shelf = near_managed_shelf
    location = shelf.create("t", [1], [2])
    with unfinished(monkeypatch):
        for rows in ([3], [4]):
            shelf.ns.create_table_version(shelf.stage("t", rows))
    staged = shelf.row("t", 3)["manifest_path"]
    copy = f"{staged.rpartition('/')[0]}/{2**64 - 4:020}.manifest"
    # pylance made the copy when it opened version 3 to append to it.
    assert shelf._store.get(copy).body == shelf._store.get(staged).body
    assert shelf.delete("t", (1, 4)) == 3
    assert shelf.list_versions("t") == [4]
    (left,) = shelf.finished_paths("t")
    assert [name for name in shelf.files(location) if name != left.rpartition("/")[2]] == [f"{2**64 - 5:020}.manifest"]
    assert shelf.rows("t") == [1, 2, 3, 4]


# Changes of the table


def test_drop_and_undrop_keep_the_unfinished_version(dying):
    drop_table(dying.ns, *dying.id("t"))
    dying.version_rows()
    dying.ns.undrop_table(dying.id("t"))
    assert dying.rows("t") == [1, 2, 3]
    is_whole(dying)


def test_undrop_under_another_name_keeps_the_unfinished_version(dying):
    drop_table(dying.ns, *dying.id("t"))
    dying.ns.undrop_table(dying.id("t"), as_id=dying.id("u"))
    assert dying.rows("u") == [1, 2, 3]
    is_whole(dying, "u")
    assert set(dying.version_rows()) == {dying.key("u")}


def test_deregister_and_register_keep_the_unfinished_version(dying):
    location = dying._store.relative(dying.location("t"))
    deregister_table(dying.ns, *dying.id("t"))
    assert dying.version_rows() == {}
    register_table(dying.ns, *dying.id("t"), location=location)
    assert dying.rows("t") == [1, 2, 3]
    is_whole(dying)


def test_deregister_in_a_batch_keeps_the_unfinished_version(dying):
    location = dying._store.relative(dying.location("t"))
    dying.ns.batch_commit_tables({"operations": [{"deregister_table": {"id": dying.id("t")}}]})
    assert dying.version_rows() == {}
    register_table(dying.ns, *dying.id("t"), location=location)
    assert dying.rows("t") == [1, 2, 3]
    is_whole(dying)


def test_register_over_the_table_keeps_the_unfinished_version(dying):
    location = dying._store.relative(dying.location("t"))
    dying.create("u", [7])
    other = dying._store.relative(dying.location("u"))
    deregister_table(dying.ns, *dying.id("u"))
    register_table(dying.ns, *dying.id("t"), location=other, mode="overwrite")
    assert dying.rows("t") == [7]
    register_table(dying.ns, *dying.id("old"), location=location)
    assert dying.rows("old") == [1, 2, 3]
    is_whole(dying, "old")


def test_register_again_at_the_same_location_keeps_the_unfinished_version(dying):
    location = dying._store.relative(dying.location("t"))
    register_table(dying.ns, *dying.id("t"), location=location, mode="overwrite")
    assert dying.rows("t") == [1, 2, 3]
    is_whole(dying)


def test_rename_keeps_the_unfinished_version(dying):
    create_namespace(dying.ns, *dying.id("n"))
    rename_table(dying.ns, *dying.id("t"), to="u", into=dying.id("n"))
    assert dying.version_rows() == {f"{dying.key('n')}$u": [1, 2, 3]}
    rename_table(dying.ns, *dying.id("n"), "u", to="w", into=dying.id("x")[:-1])
    assert dying.rows("w") == [1, 2, 3]
    is_whole(dying, "w")


def test_drop_namespace_keeps_the_unfinished_version(near_managed_shelf, monkeypatch):
    shelf = near_managed_shelf
    create_namespace(shelf.ns, "n")
    shelf.parent = ("n",)
    shelf.create("t", [1], [2])
    shelf.append_unfinished(monkeypatch, "t", [3])
    drop_namespace(shelf.ns, "n", behavior="cascade")
    assert list(shelf.version_rows().values()) == [[1, 2, 3]]
    shelf.ns.undrop_namespace(["n"])
    assert shelf.rows("t") == [1, 2, 3]
    is_whole(shelf)


def test_disabling_version_management_keeps_the_unfinished_version(dying):
    dying.create("u", [1])
    drop_table(dying.ns, *dying.id("u"))
    dying.ns.disable_table_version_management()
    assert dying.version_rows() == {}
    assert dying.plain_rows("t") == [1, 2, 3]
    is_whole(dying)


def test_disabling_version_management_finishes_dropped_tables(dying):
    drop_table(dying.ns, *dying.id("t"))
    dying.ns.disable_table_version_management()
    dying.ns.undrop_table(dying.id("t"))
    assert dying.plain_rows("t") == [1, 2, 3]


def test_overwrite_follows_the_unfinished_version(dying):
    create_table(dying.ns, *dying.id("t"), data=ipc({"x": [7]}), mode="overwrite")
    assert dying.list_versions("t") == [1, 2, 3, 4]
    assert dying.rows("t", version=3) == [1, 2, 3]
    assert dying.rows("t") == dying.plain_rows("t") == [7]


def test_unfinished_first_version_is_finished(near_managed_shelf, monkeypatch):
    """The writer of a new table died: the table is no longer declared only."""
    shelf = near_managed_shelf
    with unfinished(monkeypatch):
        lance.write_dataset(pa.table({"x": [1]}), **shelf.through("t"), mode="create")
    location = shelf.location("t")
    assert len(shelf.staged_files(location)) == 1
    assert shelf.rows("t") == [1]
    is_whole(shelf, rows=(1,))
