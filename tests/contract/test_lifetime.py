"""Construction, pickling and closing."""

from __future__ import annotations

import pickle
import threading

import pytest

from pennon import DirectoryNamespace
from tests.contract.disk import directory
from tests.support import (
    MODES,
    create_namespace,
    create_table,
    describe_table,
    fails,
    list_all_tables,
    list_namespaces,
    list_tables,
    namespace_exists,
    table_exists,
)


def test_construction_touches_nothing(tmp_path, mode):
    DirectoryNamespace(root=str(tmp_path / "root"), **MODES[mode]).close()
    assert not list(tmp_path.iterdir())


def test_construction_makes_no_request():
    # The address is unreachable: a request would fail.
    unreachable = {"storage.aws_endpoint": "http://192.0.2.1:1", "storage.aws_region": "nowhere-1"}
    with DirectoryNamespace(root="s3://bucket/prefix", **unreachable) as ns:
        assert "bucket" in ns.namespace_id()


def test_reads_create_nothing(tmp_path, mode, open_namespace):
    ns = open_namespace(tmp_path / "root", mode)
    assert list_tables(ns) == []
    assert list_all_tables(ns) == []
    assert list_namespaces(ns) == []
    namespace_exists(ns)
    for read in (describe_table, table_exists):
        with fails(4):
            read(ns, "t")
        with fails(1):
            read(ns, "a", "t")
    for read in (list_tables, list_namespaces, namespace_exists):
        with fails(1):
            read(ns, "a")
    assert not list(tmp_path.iterdir())


def test_reads_of_an_existing_root_create_no_manifest(namespace):
    directory(namespace).mkdir(parents=True, exist_ok=True)
    list_tables(namespace)
    list_all_tables(namespace)
    assert not list(directory(namespace).iterdir())


def test_a_pickled_namespace_opens_the_same_catalog(namespace):
    create_table(namespace, "t")
    with pickle.loads(pickle.dumps(namespace)) as copy:
        assert list_tables(copy) == ["t"]
        assert repr(copy) == repr(namespace)
        create_table(copy, "u")
    assert list_tables(namespace) == ["t", "u"]


def test_a_pickled_namespace_keeps_a_relative_root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickled = pickle.dumps(DirectoryNamespace(root="root"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pickle.loads(pickled) as copy:
        assert directory(copy) == tmp_path / "root"


def test_close_ends_every_thread_that_was_started(tmp_path):
    before = set(threading.enumerate())
    with DirectoryNamespace(root=str(tmp_path)) as ns:
        for number in range(40):
            create_namespace(ns, f"n{number}")
        assert {thread.name for thread in set(threading.enumerate()) - before} <= {"pennon-upkeep"}
    assert set(threading.enumerate()) <= before


def test_a_closed_namespace_refuses_every_call(namespace):
    create_table(namespace, "t")
    namespace.close()
    for call in (list_tables, list_all_tables, list_namespaces):
        with fails(13, naming="closed"):
            call(namespace)
    for call in (describe_table, table_exists, create_table):
        with fails(13, naming="closed"):
            call(namespace, "t")


def test_closing_twice_is_fine(namespace):
    create_table(namespace, "t")
    namespace.close()
    namespace.close()
    with fails(13, naming="closed"):
        list_tables(namespace)


def test_closing_one_namespace_leaves_others_on_the_root_alone(root, mode, open_namespace):
    first, second = open_namespace(root, mode), open_namespace(root, mode)
    create_table(first, "t")
    first.close()
    create_table(second, "u")
    assert list_tables(second) == ["t", "u"]


@pytest.mark.parametrize("how", ["path", "uri"])
def test_equal_roots_have_equal_ids(tmp_path, how):
    other = str(tmp_path) if how == "path" else tmp_path.as_uri()
    with DirectoryNamespace(root=str(tmp_path)) as first, DirectoryNamespace(root=other) as second:
        assert first.namespace_id() == second.namespace_id()
    with DirectoryNamespace(root=str(tmp_path / "x")) as third:
        assert third.namespace_id() != first.namespace_id()
