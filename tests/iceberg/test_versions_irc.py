"""Versions of tables with managed_by=impl: the server is Lance's manifest store."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.fragment import write_fragments
from lance_namespace import (
    BatchDeleteTableVersionsRequest,
    CountTableRowsRequest,
    CreateTableVersionRequest,
    DescribeTableVersionRequest,
    ListTableVersionsRequest,
)
from lance_namespace_urllib3_client.models.version_range import VersionRange

from pennon import IcebergNamespace, TableCommit
from tests.iceberg.irc_servers import ALL, not_on_ours
from tests.support import create_table, deregister_table, fails, ipc

if TYPE_CHECKING:
    from pennon.store import Store

SERVERS = ALL


@pytest.fixture
def managed_by() -> str:
    return "impl"


def append(catalog, space: str, name: str, *values: int) -> int:
    data = pa.table({"x": list(values)})
    return lance.write_dataset(data, namespace_client=catalog, table_id=[space, name], mode="append").version


def versions(catalog, space: str, name: str) -> list[int]:
    return [one.version for one in catalog.list_table_versions(ListTableVersionsRequest(id=[space, name])).versions]


def values(catalog, space: str, name: str) -> list[int]:
    dataset = lance.dataset(namespace_client=catalog, table_id=[space, name])
    return sorted(dataset.to_table()["x"].to_pylist())


def directory(catalog, space: str, name: str) -> Store:
    return catalog._catalog.store(catalog._catalog.table((space, name)))


def has_file(catalog, space: str, path: str) -> bool:
    store = directory(catalog, space, "t")
    return store.size(store.from_absolute(path)) is not None


def staged_by(catalog, space: str, name: str, *numbers: int):
    """Let Lance stage an append, and give the request that would commit it."""
    entry = catalog._catalog.table((space, name))
    from pennon.iceberg import batch

    location = catalog._location(entry)
    fragments = write_fragments(pa.table({"x": list(numbers)}), location)
    change = TableCommit([space, name], LanceOperation.Append(fragments), entry.version)
    _, staged = batch._stage(catalog._catalog, catalog, change)
    return CreateTableVersionRequest(
        id=[space, name], version=staged.version, manifest_path=staged.path, naming_scheme=staged.scheme
    )


def test_versions_are_snapshots(catalog, space, irc):
    create_table(catalog, space, "t")
    append(catalog, space, "t", 4)
    append(catalog, space, "t", 5)
    assert versions(catalog, space, "t") == [3, 2, 1]
    seen = irc.table(space, "t")
    assert seen["current-snapshot-id"] == 3
    assert [one["snapshot-id"] for one in seen["snapshots"]] == [1, 2, 3]
    assert [one["snapshot-id"] for one in seen["snapshot-log"]] == [1, 2, 3]
    assert all(one["manifest-list"].endswith(".manifest") for one in seen["snapshots"])
    described = catalog.describe_table_version(DescribeTableVersionRequest(id=[space, "t"], version=2)).version
    assert has_file(catalog, space, described.manifest_path)
    latest = catalog.describe_table_version(DescribeTableVersionRequest(id=[space, "t"])).version
    assert latest.version == 3
    with fails(11):
        catalog.describe_table_version(DescribeTableVersionRequest(id=[space, "t"], version=4))


def test_the_schema_follows_each_commit(catalog, space, irc):
    create_table(catalog, space, "t")
    dataset = lance.dataset(namespace_client=catalog, table_id=[space, "t"])
    dataset.add_columns({"y": "x * 2"})
    seen = irc.table(space, "t")
    current = next(one for one in seen["schemas"] if one["schema-id"] == seen["current-schema-id"])
    assert [(one["id"], one["name"], one["type"]) for one in current["fields"]] == [(1, "x", "long"), (2, "y", "long")]
    dataset = lance.dataset(namespace_client=catalog, table_id=[space, "t"])
    dataset.drop_columns(["x"])
    seen = irc.table(space, "t")
    current = next(one for one in seen["schemas"] if one["schema-id"] == seen["current-schema-id"])
    assert [(one["id"], one["name"]) for one in current["fields"]] == [(2, "y")]
    create_table(catalog, space, "t", mode="overwrite")
    seen = irc.table(space, "t")
    current = next(one for one in seen["schemas"] if one["schema-id"] == seen["current-schema-id"])
    assert [one["name"] for one in current["fields"]] == ["x"]


def test_only_the_next_version_is_created_and_only_once(catalog, space):
    create_table(catalog, space, "t")
    mine, other = staged_by(catalog, space, "t", 10), staged_by(catalog, space, "t", 20)
    assert mine.version == other.version == 2
    assert catalog.create_table_version(mine).version.version == 2
    assert catalog.create_table_version(mine).version.version == 2, "the same request again"
    with fails(14):
        catalog.create_table_version(other)
    assert values(catalog, space, "t") == [1, 2, 3, 10]


def test_bad_requests_change_nothing(catalog, space):
    create_table(catalog, space, "t")
    good = staged_by(catalog, space, "t", 10)
    for change in ({"version": 0}, {"version": 5}, {"manifest_path": "etc/passwd"}, {"naming_scheme": "V9"}):
        with fails(13):
            catalog.create_table_version(good.model_copy(update=change))
    store = directory(catalog, space, "t")
    store.put(store.from_absolute(good.manifest_path), b"garbage")
    with fails(13):
        catalog.create_table_version(good)
    assert versions(catalog, space, "t") == [1]


@not_on_ours("our server finishes versions itself")
def test_a_version_that_was_not_finished_is_finished_by_the_next_reader(catalog, space, monkeypatch):
    from pennon.iceberg import files

    create_table(catalog, space, "t")
    request = staged_by(catalog, space, "t", 10)

    def broken(*_: object) -> None:
        raise OSError("the store is gone")

    with monkeypatch.context() as patched:
        patched.setattr(files, "put_in_place", broken)
        assert catalog.create_table_version(request).version.version == 2
    assert has_file(catalog, space, request.manifest_path)
    assert values(catalog, space, "t") == [1, 2, 3, 10]
    assert not has_file(catalog, space, request.manifest_path)
    assert append(catalog, space, "t", 11) == 3
    assert versions(catalog, space, "t") == [3, 2, 1]


def test_old_versions_are_deleted_but_never_the_latest(catalog, space, irc):
    create_table(catalog, space, "t")
    for number in (4, 5, 6):
        append(catalog, space, "t", number)

    def delete(start: int, end: int, **options: object) -> int:
        ranges = [VersionRange(start_version=start, end_version=end)]
        request = BatchDeleteTableVersionsRequest(id=[space, "t"], ranges=ranges, **options)
        return catalog.batch_delete_table_versions(request).deleted_count

    with fails(19):
        delete(0, -1)
    assert delete(1, 3) == 2
    assert versions(catalog, space, "t") == [4, 3]
    assert [one["snapshot-id"] for one in irc.table(space, "t")["snapshots"]] == [3, 4]
    with fails(11):
        delete(1, 3, context={"ignore_missing": "false"})
    with fails(13):
        delete(3, 1)
    assert values(catalog, space, "t") == [1, 2, 3, 4, 5, 6]


@not_on_ours("the snapshots of our server are the versions")
def test_snapshots_do_not_pile_up(connect, irc, catalog, space):
    create_table(catalog, space, "t")
    short = connect(irc.uri, managed_by="impl", max_snapshots="3")
    for number in range(6):
        append(short, space, "t", number)
    assert [one["snapshot-id"] for one in irc.table(space, "t")["snapshots"]] == [5, 6, 7]
    assert versions(short, space, "t") == [7, 6, 5, 4, 3, 2, 1]
    assert lance.dataset(namespace_client=short, table_id=[space, "t"], version=2).count_rows() == 4


def test_versions_come_in_pages(catalog, space):
    create_table(catalog, space, "t")
    for number in range(4):
        append(catalog, space, "t", number)
    seen, token = [], None
    while True:
        request = ListTableVersionsRequest(id=[space, "t"], limit=2, page_token=token)
        answer = catalog.list_table_versions(request)
        seen += [one.version for one in answer.versions]
        token = answer.page_token
        if token is None:
            break
    assert seen == [5, 4, 3, 2, 1]


def test_a_deregistered_table_is_whole_without_the_catalog(catalog, space):
    location = create_table(catalog, space, "t").location
    append(catalog, space, "t", 4)
    deregister_table(catalog, space, "t")
    assert lance.dataset(location).version == 2


def test_several_tables_are_committed_together(catalog, space):
    for name in ("a", "b"):
        create_table(catalog, space, name)

    def change(name: str, number: int, read_version: int) -> TableCommit:
        location = catalog._location(catalog._catalog.table((space, name)))
        fragments = write_fragments(pa.table({"x": [number]}), location)
        return TableCommit([space, name], LanceOperation.Append(fragments), read_version)

    changes = [change("a", 10, 1), change("b", 20, 1)]
    append(catalog, space, "b", 4)
    assert catalog.commit_tables(changes) == {(space, "a"): 2, (space, "b"): 3}
    assert values(catalog, space, "a") == [1, 2, 3, 10]
    assert values(catalog, space, "b") == [1, 2, 3, 4, 20]


def test_a_batch_is_all_or_nothing(catalog, space):
    for name in ("a", "b"):
        create_table(catalog, space, name)
    good, late = staged_by(catalog, space, "a", 10), staged_by(catalog, space, "b", 20)
    append(catalog, space, "b", 4)
    wrong = [{"create_table_version": one.model_dump()} for one in (good, late)]
    with fails(14):
        catalog.batch_commit_tables({"operations": wrong})
    assert versions(catalog, space, "a") == [1]
    right = [good, staged_by(catalog, space, "b", 21)]
    answer = catalog.batch_commit_tables({"operations": [{"create_table_version": one.model_dump()} for one in right]})
    assert [one.create_table_version.version.version for one in answer.results] == [2, 3]
    with fails(0):
        catalog.batch_commit_tables({"operations": [{"declare_table": {"id": [space, "c"]}}]})


@not_on_ours("our server has tables of one kind only")
def test_a_table_that_the_files_decide_about_is_not_part_of_a_transaction(catalog, space):
    create_table(catalog, space, "plain", properties={"managed_by": "storage"})
    dataset = lance.dataset(namespace_client=catalog, table_id=[space, "plain"])
    fragments = write_fragments(pa.table({"x": [1]}), dataset.uri)
    with fails(0):
        catalog.commit_tables([TableCommit([space, "plain"], LanceOperation.Append(fragments), 1)])


# Lost answers


@pytest.mark.parametrize("loss", [("before", 1), ("before", 3), ("after", 1), ("after", 3)])
def test_a_lost_commit_is_neither_lost_nor_made_twice(connect, catalog, space, lossy, loss):
    create_table(catalog, space, "t")
    through = connect(lossy.uri, managed_by="impl")
    lossy.lose("POST", f"/namespaces/{space}/tables/t", *loss)
    append(through, space, "t", 4)
    assert len(lossy.lost) >= 1
    assert values(catalog, space, "t") == [1, 2, 3, 4]
    assert versions(catalog, space, "t") == [2, 1]


def test_a_lost_commit_beside_a_faster_writer(connect, catalog, space, lossy):
    create_table(catalog, space, "t")
    through = connect(lossy.uri, managed_by="impl")
    lossy.lose("POST", f"/namespaces/{space}/tables/t", "after")
    lossy.between = lambda: append(catalog, space, "t", 5)
    append(through, space, "t", 4)
    assert values(catalog, space, "t") == [1, 2, 3, 4, 5]
    assert versions(catalog, space, "t") == [3, 2, 1]


@not_on_ours("our server keeps dropped tables itself")
@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_answers_to_everything_else(connect, catalog, space, lossy, when):
    through = connect(lossy.uri, managed_by="impl")
    lossy.lose("POST", f"/namespaces/{space}/tables", when)
    lossy.lose("GET", "/tables/t", when, 2)
    create_table(through, space, "t")
    lossy.lose("POST", "/tables/rename", when)
    from tests.support import drop_table, list_tables, rename_table

    rename_table(through, space, "t", to="u")
    assert list_tables(catalog, space) == ["u"]
    lossy.lose("POST", "/tables/rename", when)
    drop_table(through, space, "u")
    assert list_tables(catalog, space) == []
    catalog.undrop_table([space, "u"])
    lossy.lose("DELETE", "/tables/u", when)
    deregister_table(through, space, "u")
    assert list_tables(catalog, space) == []
    assert len(lossy.lost) >= 4


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_transaction_of_several_tables(connect, catalog, space, lossy, when):
    for name in ("a", "b"):
        create_table(catalog, space, name)
    requests = [staged_by(catalog, space, name, 10) for name in ("a", "b")]
    through = connect(lossy.uri, managed_by="impl")
    lossy.lose("POST", "/transactions/commit", when)
    through.batch_commit_tables({"operations": [{"create_table_version": one.model_dump()} for one in requests]})
    assert len(lossy.lost) == 1
    assert values(catalog, space, "a") == values(catalog, space, "b") == [1, 2, 3, 10]
    assert versions(catalog, space, "a") == versions(catalog, space, "b") == [2, 1]


@pytest.mark.parametrize("what", ["swallow", "part"])
def test_a_transaction_that_the_server_did_not_make_is_made_again(connect, catalog, space, lossy, what):
    for name in ("a", "b"):
        create_table(catalog, space, name)
    requests = [staged_by(catalog, space, name, 10) for name in ("a", "b")]
    through = connect(lossy.uri, managed_by="impl")
    lossy.lose("POST", "/transactions/commit", what)
    through.batch_commit_tables({"operations": [{"create_table_version": one.model_dump()} for one in requests]})
    assert len(lossy.lost) == 1
    assert values(catalog, space, "a") == values(catalog, space, "b") == [1, 2, 3, 10]
    assert versions(catalog, space, "a") == versions(catalog, space, "b") == [2, 1]


def test_incomplete_transaction_raises(connect, catalog, space, lossy):
    for name in ("a", "b"):
        create_table(catalog, space, name)
    requests = [staged_by(catalog, space, name, 10) for name in ("a", "b")]
    through = connect(lossy.uri, managed_by="impl")
    lossy.lose("POST", "/transactions/commit", "part")
    lossy.between = lambda: append(catalog, space, "b", 4)
    with fails(18, f"committed '{space}.a', but not '{space}.b'"):
        through.batch_commit_tables({"operations": [{"create_table_version": one.model_dump()} for one in requests]})
    assert values(catalog, space, "a") == [1, 2, 3, 10]
    assert values(catalog, space, "b") == [1, 2, 3, 4]


# Six writers


def _writes(properties: dict[str, str], space: str, worker: int, commits: int) -> None:
    with IcebergNamespace(**properties) as mine:
        for number in range(commits):
            append(mine, space, "t", worker * 1000 + number)


@pytest.mark.concurrency
def test_six_processes_append_to_one_table(irc, catalog, space):
    create_table(catalog, space, "t", data=ipc({"x": [-1]}))
    context = multiprocessing.get_context("spawn")
    crew = [context.Process(target=_writes, args=(catalog._properties, space, worker, 5)) for worker in range(6)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    assert [one.exitcode for one in crew] == [0] * 6
    wanted = sorted([-1, *(worker * 1000 + number for worker in range(6) for number in range(5))])
    assert values(catalog, space, "t") == wanted
    assert versions(catalog, space, "t") == list(range(31, 0, -1))
    assert irc.table(space, "t")["current-snapshot-id"] == 31
    count = catalog.count_table_rows(CountTableRowsRequest(id=[space, "t"])).count
    assert count == 31


def test_table_without_its_directory_raises(catalog, space):
    create_table(catalog, space, "t")
    store = directory(catalog, space, "t")
    for name in store.list_level().directories:
        store.delete_tree(name)
    with fails(19):
        catalog.count_table_rows(CountTableRowsRequest(id=[space, "t"]))
