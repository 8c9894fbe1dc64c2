"""commit_tables: prepared transactions of several tables are published all at once or not at all."""

from __future__ import annotations

import threading
import uuid

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.fragment import write_fragments

from pennon import NewTable
from pennon.directory.multi_table.transactions import TableCommit, stage
from tests.support import create_namespace, declare_table, describe_table, drop_table, fails, list_tables


def appending(shelf, name: str, rows: list[int], read_version: int | None = None) -> TableCommit:
    """Write the data of an append and return it uncommitted."""
    fragments = write_fragments(
        pa.table({"x": rows}), shelf.location(name), mode="append", storage_options=shelf.where.options or None
    )
    version = shelf.describe_version(name).version if read_version is None else read_version
    return TableCommit(shelf.id(name), LanceOperation.Append(fragments), version)


def deleting(shelf, name: str, rows: str) -> TableCommit:
    table = shelf.open(name)
    updated = [fragment.delete(rows) for fragment in table.get_fragments()]
    removed = [fragment.fragment_id for fragment, left in zip(table.get_fragments(), updated, strict=True) if not left]
    operation = LanceOperation.Delete([one for one in updated if one is not None], removed, rows)
    return TableCommit(shelf.id(name), operation, table.version)


@pytest.fixture
def trio(managed_shelf):
    for name in ("t", "u", "w"):
        managed_shelf.create(name, [1])
    return managed_shelf


def test_two_and_three_tables_are_committed_at_once(trio):
    shelf = trio
    before = shelf.manifest().version
    made = shelf.ns.commit_tables([appending(shelf, "t", [2]), appending(shelf, "u", [3])])
    assert made == {tuple(shelf.id("t")): 2, tuple(shelf.id("u")): 2}
    # One commit publishes them, and one finishes them.
    assert shelf.manifest().version == before + 2
    made = shelf.ns.commit_tables([appending(shelf, name, [4]) for name in ("w", "t", "u")])
    assert [made[tuple(shelf.id(name))] for name in ("t", "u", "w")] == [3, 3, 2]
    assert [shelf.rows(name) for name in ("t", "u", "w")] == [[1, 2, 4], [1, 3, 4], [1, 4]]
    for name in ("t", "u", "w"):
        shelf.check_same(name)


def test_operations_and_transactions_are_committed_together(near_managed_shelf):
    shelf = near_managed_shelf
    for name in ("t", "u", "w"):
        shelf.create(name, [1, 2, 3])
    schema = pa.schema([pa.field("y", pa.string())])
    fragments = write_fragments(pa.table({"y": ["a"]}), shelf.location("w"), schema=schema, mode="overwrite")
    prepared = appending(shelf, "u", [4])
    transaction = lance.Transaction(read_version=1, operation=prepared.operation, uuid=str(uuid.uuid4()))
    made = shelf.ns.commit_tables(
        [
            deleting(shelf, "t", "x = 2"),
            TableCommit(shelf.id("u"), transaction),
            TableCommit(shelf.id("w"), LanceOperation.Overwrite(schema, fragments), 1),
        ]
    )
    assert set(made.values()) == {2}
    assert (shelf.rows("t"), shelf.rows("u")) == ([1, 3], [1, 2, 3, 4])
    assert shelf.open("w").to_table().to_pydict() == {"y": ["a"]}
    assert shelf.open("u").read_transaction(2).uuid == transaction.uuid
    for name in ("t", "u", "w"):
        shelf.check_same(name)


def test_commit_is_rebased_on_a_concurrent_append(trio):
    shelf = trio
    commits = [appending(shelf, "t", [2]), appending(shelf, "u", [3])]
    shelf.append("u", [9])
    shelf.append("u", [8])
    made = shelf.ns.commit_tables(commits)
    assert (made[tuple(shelf.id("t"))], made[tuple(shelf.id("u"))]) == (2, 4)
    assert (shelf.rows("t"), shelf.rows("u")) == ([1, 2], [1, 9, 8, 3])
    for name in ("t", "u"):
        shelf.check_same(name)


def test_commit_is_rebased_on_an_append_after_staging(near_managed_shelf, monkeypatch):
    """Another writer creates the version after all changes are staged: they are staged again."""
    from pennon.directory.multi_table import transactions

    shelf = near_managed_shelf
    for name in ("t", "u"):
        shelf.create(name, [1])
    commits = [appending(shelf, "t", [2]), appending(shelf, "u", [3])]
    rounds = []

    def stage_and_be_late(catalog, wanted):
        staged = stage(catalog, wanted)
        rounds.append(len(staged))
        if len(rounds) <= 2:
            shelf.append("u", [10 + len(rounds)])
        return staged

    monkeypatch.setattr(transactions, "stage", stage_and_be_late)
    made = shelf.ns.commit_tables(commits)
    assert rounds == [2, 2, 2]
    assert (made[tuple(shelf.id("t"))], made[tuple(shelf.id("u"))]) == (2, 4)
    assert (shelf.rows("t"), shelf.rows("u")) == ([1, 2], [1, 11, 12, 3])
    for name in ("t", "u"):
        shelf.check_same(name)


@pytest.mark.parametrize("order", [1, -1])
def test_conflict_publishes_nothing_and_leaves_no_files(trio, order):
    shelf = trio
    commits = [appending(shelf, "t", [2]), deleting(shelf, "u", "x = 1")]
    shelf.open("u").delete("x = 1")
    before = shelf.manifest_rows()
    with fails(14, "u"):
        shelf.ns.commit_tables(commits[::order])
    assert shelf.manifest_rows() == before
    assert (shelf.rows("t"), shelf.rows("u")) == ([1], [])
    for name in ("t", "u"):
        shelf.check_same(name)
    assert shelf.ns.commit_tables(commits[:1]) == {tuple(shelf.id("t")): 2}


def test_missing_table_publishes_nothing(near_managed_shelf):
    shelf = near_managed_shelf
    for name in ("t", "u"):
        shelf.create(name, [1])
    commits = [appending(shelf, "t", [2]), appending(shelf, "u", [3])]
    drop_table(shelf.ns, *shelf.id("u"))
    with fails(4, "u"):
        shelf.ns.commit_tables(commits)
    with fails(1):
        shelf.ns.commit_tables([commits[0], TableCommit(["nowhere", "u"], commits[1].operation, 1)])
    assert shelf.list_versions("t") == [1]
    shelf.check_same("t")


def test_bad_commits_are_refused(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    one = appending(shelf, "t", [2])
    with fails(13, "same"):
        shelf.ns.commit_tables([one, appending(shelf, "t", [3])])
    with fails(13):
        shelf.ns.commit_tables([TableCommit([], one.operation, 1)])
    assert shelf.ns.commit_tables([]) == {}
    assert shelf.list_versions("t") == [1]
    shelf.check_same("t")


def test_commit_without_version_management_raises_unsupported(new_shelf):
    for place in ("v1", "v2", "compatibility"):
        shelf = new_shelf("local", place)
        location = shelf.create("t", [1])
        with fails(0, "enable_table_version_management"):
            shelf.ns.commit_tables([appending(shelf, "t", [2])])
        assert shelf.list_versions("t") == [1]
        assert shelf.staged_files(location) == []


def test_staged_tables_can_be_read_but_are_not_visible(near_managed_shelf):
    shelf = near_managed_shelf
    for name in ("t", "u"):
        shelf.create(name, [1])
    staged = stage(shelf.ns._catalog, [appending(shelf, "t", [2]), appending(shelf, "u", [3])])
    assert [one.dataset.to_table()["x"].to_pylist() for one in staged] == [[1, 2], [1, 3]]
    assert (shelf.rows("t"), shelf.rows("u")) == ([1], [1])
    assert shelf.version_rows() == {shelf.key("t"): [1], shelf.key("u"): [1]}


def test_declared_tables_get_their_first_versions_together(near_managed_shelf):
    shelf = near_managed_shelf
    schema = pa.schema([pa.field("x", pa.int64())])
    commits = []
    for name in ("t", "u"):
        location = declare_table(shelf.ns, *shelf.id(name)).location
        fragments = write_fragments(pa.table({"x": [5]}), location, schema=schema, mode="create")
        commits.append(TableCommit(shelf.id(name), LanceOperation.Overwrite(schema, fragments), 0))
    assert set(shelf.ns.commit_tables(commits).values()) == {1}
    assert (shelf.rows("t"), shelf.rows("u")) == ([5], [5])
    for name in ("t", "u"):
        shelf.check_same(name)


@pytest.mark.concurrency
def test_reader_never_sees_one_table_without_the_other(new_shelf, open_namespace):
    """The reader opens `t` first, then `u`: `u` is never older than `t`."""
    shelf = new_shelf("local", "v2-managed")
    for name in ("t", "u"):
        shelf.create(name, [0])
    reader = open_namespace(shelf.where, "v2")
    seen: list[tuple[int, int]] = []
    over = threading.Event()

    def newest(name: str) -> int:
        return reader.list_table_versions({"id": [name], "limit": 1}).versions[0].version

    def read() -> None:
        while not over.is_set():
            seen.append((newest("t"), newest("u")))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for number in range(1, 13):
            shelf.ns.commit_tables([appending(shelf, "u", [number]), appending(shelf, "t", [number])])
    finally:
        over.set()
        thread.join()
    assert len(set(seen)) > 1
    assert all(first <= second for first, second in seen), seen
    assert (shelf.rows("t"), shelf.rows("u")) == (list(range(13)), list(range(13)))


@pytest.mark.concurrency
def test_latest_table_versions_show_every_commit_as_a_whole(new_shelf, open_namespace):
    shelf = new_shelf("local", "v2-managed")
    for name in ("t", "u"):
        shelf.create(name, [0])
    reader = open_namespace(shelf.where, "v2")
    over = threading.Event()
    seen: list[list[int]] = []

    def read():
        while not over.is_set():
            seen.append(reader.latest_table_versions([["u"], ["t"]]))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for number in range(1, 12):
            shelf.ns.commit_tables([appending(shelf, name, [number]) for name in ("t", "u")])
    finally:
        over.set()
        thread.join()
    seen.append(reader.latest_table_versions([["u"], ["t"]]))
    assert seen[-1] == [12, 12]
    assert len({tuple(versions) for versions in seen}) > 2
    assert [versions for versions in seen if versions[0] != versions[1]] == []


def test_latest_table_versions_require_versions_and_version_management(new_shelf):
    shelf = new_shelf("local", "v2-managed")
    shelf.create("t", [0])
    declare_table(shelf.ns, "empty")
    with fails(4, naming="none'"):
        shelf.ns.latest_table_versions([["t"], ["none"]])
    with fails(11, naming="empty'"):
        shelf.ns.latest_table_versions([["t"], ["empty"]])
    shelf.ns.disable_table_version_management()
    with fails(0):
        shelf.ns.latest_table_versions([["t"]])


@pytest.mark.concurrency
def test_commits_of_several_threads_are_all_or_nothing(new_shelf):
    shelf = new_shelf("local", "compatibility-managed")
    names = ("t", "u", "w")
    for name in names:
        shelf.create(name, [0])
    failed: list[BaseException] = []

    def work(start: int, pair: tuple[str, str]) -> None:
        try:
            for number in range(start, start + 4):
                shelf.ns.commit_tables([appending(shelf, name, [number]) for name in pair])
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failed.append(error)

    pairs = [("t", "u"), ("u", "w"), ("w", "t")]
    threads = [threading.Thread(target=work, args=(100 * n, pair)) for n, pair in enumerate(pairs, start=1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for name in names:
        expected = [0] + [100 * n + k for n, pair in enumerate(pairs, start=1) if name in pair for k in range(4)]
        assert sorted(shelf.rows(name)) == expected
        assert shelf.list_versions(name) == list(range(1, 10))
        shelf.check_same(name)


# New tables


def arriving(shelf, name: str, rows: list[int], **options) -> NewTable:
    """Write a table at a location from `new_table_location`, without adding it to the catalog."""
    location = shelf.ns.new_table_location(shelf.id(name))
    lance.write_dataset(pa.table({"x": rows}), location, storage_options=shelf.where.options or None)
    return NewTable(shelf.id(name), location, **options)


def test_new_tables_and_changes_are_published_together(managed_shelf):
    shelf = managed_shelf
    shelf.create("t", [1])
    before = shelf.manifest().version
    commits = [
        arriving(shelf, "u", [5], properties={"owner": "me"}),
        appending(shelf, "t", [2]),
        arriving(shelf, "w", [6]),
    ]
    assert list_tables(shelf.ns, *shelf.parent) == ["t"]
    made = shelf.ns.commit_tables(commits)
    assert made == {tuple(shelf.id("t")): 2, tuple(shelf.id("u")): 1, tuple(shelf.id("w")): 1}
    assert shelf.manifest().version == before + 2
    assert [shelf.rows(name) for name in ("t", "u", "w")] == [[1, 2], [5], [6]]
    assert describe_table(shelf.ns, *shelf.id("u")).properties == {"owner": "me"}
    for name in ("t", "u", "w"):
        shelf.append(name, [9])
        shelf.check_same(name)


def test_new_tables_are_committed_without_changes(near_managed_shelf):
    shelf = near_managed_shelf
    assert shelf.ns.commit_tables([arriving(shelf, "u", [5])]) == {tuple(shelf.id("u")): 1}
    assert shelf.rows("u") == [5]


def test_new_table_that_already_exists_publishes_nothing(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    commits = [appending(shelf, "t", [2]), arriving(shelf, "u", [5])]
    shelf.create("u", [7])
    with fails(5, naming="u"):
        shelf.ns.commit_tables(commits)
    assert (shelf.rows("t"), shelf.rows("u")) == ([1], [7])
    assert shelf.staged_files(shelf.location("t")) == []


def test_new_table_created_by_others_after_staging_raises_already_exists(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    commits = [appending(shelf, "t", [2]), arriving(shelf, "u", [5])]
    with fails(5, naming="u"):
        shelf.ns.commit_tables(commits, lambda _: shelf.create("u", [7]))
    assert (shelf.rows("t"), shelf.rows("u")) == ([1], [7])
    assert shelf.staged_files(shelf.location("t")) == []


def test_new_table_in_a_missing_namespace_raises_not_found(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    create_namespace(shelf.ns, "gone")
    location = shelf.ns.new_table_location(["gone", "u"])
    lance.write_dataset(pa.table({"x": [1]}), location, storage_options=shelf.where.options or None)
    shelf.ns.drop_namespace({"id": ["gone"]})
    with fails(1, naming="gone"):
        shelf.ns.commit_tables([appending(shelf, "t", [2]), NewTable(["gone", "u"], location)])
    assert shelf.rows("t") == [1]


def test_new_table_fills_a_declared_table_at_its_location(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    declared = declare_table(shelf.ns, *shelf.id("u"))
    new = arriving(shelf, "u", [5])
    made = shelf.ns.commit_tables([appending(shelf, "t", [2]), new])
    assert made == {tuple(shelf.id("t")): 2, tuple(shelf.id("u")): 1}
    assert shelf.location("u") == declared.location
    assert shelf.rows("u") == [5]
    assert shelf._store.list_names(shelf._store.relative(new.location)) == set()


def test_check_gets_the_versions_and_can_stop_the_commit(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    seen = []

    def refuse(versions):
        seen.append(dict(versions))
        raise KeyError("enough")

    commits = [appending(shelf, "t", [2]), arriving(shelf, "u", [5])]
    with pytest.raises(KeyError):
        shelf.ns.commit_tables(commits, refuse)
    assert seen == [{tuple(shelf.id("t")): 2}]
    assert shelf.rows("t") == [1]
    assert shelf.staged_files(shelf.location("t")) == []
    with fails(4):
        shelf.location("u")


def test_new_table_requires_a_location_in_the_root_and_a_unique_name(near_managed_shelf, new_shelf):
    shelf = near_managed_shelf
    new = arriving(shelf, "u", [5])
    with fails(13):
        shelf.ns.commit_tables([new, new])
    with fails(13):
        shelf.ns.commit_tables([NewTable(shelf.id("u"), "/elsewhere/u")])
    unmanaged = new_shelf("local", "compatibility")
    with fails(0):
        unmanaged.ns.commit_tables([arriving(unmanaged, "u", [5])])
