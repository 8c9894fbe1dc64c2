"""batch_commit_tables: declare, create versions, delete versions and deregister in one commit of the manifest."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from lance_namespace import BatchCommitTablesRequest

from pennon.directory.manifest import Manifest
from tests.support import create_namespace, describe_table, fails, list_tables, table_exists


@pytest.fixture
def stocked(managed_shelf):
    """Return a shelf with tables `t` (three versions), `u` and `w`."""
    managed_shelf.create("t", [1], [2], [3])
    for name in ("u", "w"):
        managed_shelf.create(name, [1])
    return managed_shelf


def operations(shelf) -> list[dict]:
    return [
        {"deregister_table": {"id": shelf.id("w")}},
        {"create_table_version": shelf.stage("u", [2])},
        {"declare_table": {"id": shelf.id("new"), "properties": {"who": "me"}}},
        {
            "delete_table_versions": {
                "id": shelf.id("t"),
                "ranges": [{"start_version": 1, "end_version": 3}],
            }
        },
        {"create_table_version": shelf.stage("t", [4])},
    ]


@pytest.mark.parametrize("as_model", [False, True])
def test_batch_is_one_commit_and_returns_results_in_order(stocked, as_model):
    shelf = stocked
    location = shelf.location("w")
    request = {"operations": operations(shelf)}
    before = shelf.manifest().version
    answer = shelf.ns.batch_commit_tables(BatchCommitTablesRequest(**request) if as_model else request)
    assert [
        next(name for name, value in result.model_dump().items() if value is not None) for result in answer.results
    ] == ["deregister_table", "create_table_version", "declare_table", "delete_table_versions", "create_table_version"]
    gone, created, declared, deleted, on_top = answer.results
    assert (gone.deregister_table.id, gone.deregister_table.location) == (shelf.id("w"), location)
    assert (created.create_table_version.version.version, on_top.create_table_version.version.version) == (2, 4)
    assert ".manifest-" not in created.create_table_version.version.manifest_path
    assert declared.declare_table.managed_versioning is True
    assert declared.declare_table.properties == {"who": "me"}
    assert declared.declare_table.location == shelf.location("new")
    assert deleted.delete_table_versions.deleted_count == 2
    # One commit for the batch, and one that finishes the versions.
    assert shelf.manifest().version == before + 2
    assert shelf.version_rows() == {shelf.key("t"): [3, 4], shelf.key("u"): [1, 2]}
    assert list_tables(shelf.ns, *shelf.parent) == ["new", "t", "u"]
    assert (shelf.rows("t"), shelf.rows("u")) == ([1, 2, 3, 4], [1, 2])
    shelf.check_same("t")
    shelf.check_same("u")
    assert describe_table(shelf.ns, *shelf.id("new"), check_declared=True).is_only_declared is True
    assert lance.dataset(location, storage_options=shelf.where.options or None).count_rows() == 1
    lance.write_dataset(pa.table({"x": [5]}), **shelf.through("new"), mode="append")
    assert shelf.list_versions("new") == [1]


BAD = {
    "a version that is taken": (14, lambda shelf: {"create_table_version": shelf.stage("t", [7])}),
    "a table that is missing": (4, lambda shelf: {"deregister_table": {"id": shelf.id("none")}}),
    "a name that is taken": (5, lambda shelf: {"declare_table": {"id": shelf.id("t")}}),
    "a namespace that is missing": (1, lambda _: {"declare_table": {"id": ["nowhere", "x"]}}),
    "the latest version": (
        19,
        lambda shelf: {
            "delete_table_versions": {"id": shelf.id("u"), "ranges": [{"start_version": 1, "end_version": -1}]}
        },
    ),
    "a range that is none": (
        13,
        lambda shelf: {
            "delete_table_versions": {"id": shelf.id("t"), "ranges": [{"start_version": 3, "end_version": 1}]}
        },
    ),
    "versions that are missing": (
        11,
        lambda shelf: {
            "delete_table_versions": {
                "id": shelf.id("t"),
                "ranges": [{"start_version": 1, "end_version": 9}],
                "context": {"ignore_missing": "false"},
            }
        },
    ),
    "a branch": (
        0,
        lambda shelf: {
            "delete_table_versions": {
                "id": shelf.id("t"),
                "ranges": [{"start_version": 1, "end_version": 2}],
                "branch": "b",
            }
        },
    ),
    "a version of a branch": (0, lambda shelf: {"create_table_version": {**shelf.stage("t", [7]), "branch": "b"}}),
    "a version of a declared table's branch": (
        0,
        lambda shelf: {
            "create_table_version": {
                "id": shelf.id("new"),
                "version": 1,
                "manifest_path": f"new/tree/b/_versions/{2**64 - 2}.manifest-1",
                "branch": "b",
            }
        },
    ),
    "nothing at all": (13, lambda _: {}),
    "two things in one": (
        13,
        lambda shelf: {"declare_table": {"id": shelf.id("x")}, "deregister_table": {"id": shelf.id("t")}},
    ),
    "a name declared twice": (5, lambda shelf: {"declare_table": {"id": shelf.id("new")}}),
    "a table deregistered twice": (4, lambda shelf: {"deregister_table": {"id": shelf.id("w")}}),
}


@pytest.mark.parametrize("fault", list(BAD))
def test_failing_operation_changes_nothing(near_managed_shelf, fault):
    shelf = near_managed_shelf
    shelf.create("t", [1], [2], [3])
    for name in ("u", "w"):
        shelf.create(name, [1])
    good = operations(shelf)
    code, make = BAD[fault]
    bad = make(shelf)
    if fault == "a version that is taken":
        shelf.append("t", [9])
        good.pop()
    before = shelf.manifest_rows(), shelf.top(), {name: shelf.files(shelf.location(name)) for name in "tuw"}
    with fails(code):
        shelf.ns.batch_commit_tables({"operations": [*good, bad]})
    after = shelf.manifest_rows(), shelf.top(), {name: shelf.files(shelf.location(name)) for name in "tuw"}
    assert after == before
    with fails(4):
        table_exists(shelf.ns, *shelf.id("new"))
    if fault != "a version that is taken":
        assert len(shelf.ns.batch_commit_tables({"operations": good}).results) == len(good)


def test_batch_declares_a_table_and_creates_its_first_version(near_managed_shelf, monkeypatch):
    """The version is staged at the future location of the table, which the caller has to know."""
    shelf = near_managed_shelf
    shelf.create("source", [1, 2])
    from pennon.directory import layout

    location = layout.new_hashed_directory(shelf.key("t"))
    monkeypatch.setattr(layout, "new_hashed_directory", lambda _: location)
    written = lance.write_dataset(
        pa.table({"x": [4]}), shelf._store.location(location), storage_options=shelf.where.options or None
    )
    final = f"{location}/_versions/{2**64 - 2}.manifest"
    shelf._store.put(final + "-1", shelf._store.get(final).body)
    shelf._store.delete(final)
    assert written.version == 1
    path = shelf._store.absolute(final + "-1")
    answer = shelf.ns.batch_commit_tables(
        {
            "operations": [
                {"declare_table": {"id": shelf.id("t")}},
                {"create_table_version": {"id": shelf.id("t"), "version": 1, "manifest_path": path}},
            ]
        }
    )
    assert answer.results[1].create_table_version.version.version == 1
    assert shelf.rows("t") == [4]
    shelf.check_same("t")


def test_batch_without_version_management_refuses_version_operations(new_shelf):
    shelf = new_shelf("local", "compatibility")
    shelf.create("t", [1], [2])
    deletion = {"id": ["t"], "ranges": [{"start_version": 1, "end_version": 2}]}
    for operation in ({"create_table_version": shelf.stage("t", [3])}, {"delete_table_versions": deletion}):
        with fails(0, "enable_table_version_management"):
            shelf.ns.batch_commit_tables({"operations": [{"declare_table": {"id": ["x"]}}, operation]})
    assert shelf.list_versions("t") == [1, 2]
    shelf.ns.migrate_to_manifest()
    answer = shelf.ns.batch_commit_tables(
        {"operations": [{"declare_table": {"id": ["x"]}}, {"deregister_table": {"id": ["t"]}}]}
    )
    assert answer.results[0].declare_table.managed_versioning is None
    assert list_tables(shelf.ns) == ["x"]


def test_batch_in_v1_raises_unsupported(new_shelf):
    shelf = new_shelf("local", "v1")
    with fails(0):
        shelf.ns.batch_commit_tables({"operations": [{"declare_table": {"id": ["x"]}}]})
    assert shelf.top() == set()


def test_batch_declares_tables_in_several_namespaces(near_managed_shelf):
    shelf = near_managed_shelf
    for name in ("n", "m"):
        create_namespace(shelf.ns, name)
    ids = [["n", "t"], ["m", "t"], ["m", "ü b"]]
    answer = shelf.ns.batch_commit_tables({"operations": [{"declare_table": {"id": one}} for one in ids]})
    assert len({result.declare_table.location for result in answer.results}) == 3
    assert (list_tables(shelf.ns, "n"), list_tables(shelf.ns, "m")) == (["t"], ["t", "ü b"])


def test_declared_table_is_kept_if_the_response_of_its_commit_is_lost(near_managed_shelf, monkeypatch):
    shelf = near_managed_shelf
    real = Manifest.mutate

    def commit_and_lose_response(self, plan):
        real(self, plan)
        raise OSError("connection reset")

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "mutate", commit_and_lose_response)
        with fails(18, "connection reset"):
            shelf.ns.batch_commit_tables({"operations": [{"declare_table": {"id": shelf.id("t")}}]})
    assert describe_table(shelf.ns, *shelf.id("t"), check_declared=True).is_only_declared is True
    assert shelf.append("t", [1]) == 1
    shelf.check_same("t")


def test_files_of_a_declared_table_are_deleted_if_the_commit_fails(near_managed_shelf, monkeypatch):
    shelf = near_managed_shelf
    before = shelf.top()

    def fail(_self, _plan):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "mutate", fail)
        with fails(18, "no space left"):
            shelf.ns.batch_commit_tables({"operations": [{"declare_table": {"id": shelf.id("t")}}]})
    assert shelf.top() - {".lance-locks"} == before
