"""Feature flags of the manifest: a client refuses operations under flags that it does not know."""

from __future__ import annotations

import pytest
from lance_namespace.errors import LanceNamespaceError

from tests.directory.on_disk import directory, files, manifest, rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    fails,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
    namespace_exists,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)

READER = "lance.namespace.manifest.reader_feature_flags"
WRITER = "lance.namespace.manifest.writer_feature_flags"
UNKNOWN = ["4096", str(1 << 62), "nonsense", "-1", ""]

READS = {
    "list tables": list_tables,
    "list nested tables": lambda ns: list_tables(ns, "a"),
    "list all tables": list_all_tables,
    "list namespaces": list_namespaces,
    "describe the root": describe_namespace,
    "describe a namespace": lambda ns: describe_namespace(ns, "a"),
    "namespace exists": lambda ns: namespace_exists(ns, "a"),
    "describe a table": lambda ns: describe_table(ns, "t"),
    "describe a nested table": lambda ns: describe_table(ns, "a", "t", load_detailed_metadata=True),
    "table exists": lambda ns: table_exists(ns, "t"),
}
WRITES = {
    "create namespace": lambda ns: create_namespace(ns, "new"),
    "create namespace overwrite": lambda ns: create_namespace(ns, "a", mode="overwrite"),
    "drop namespace": lambda ns: drop_namespace(ns, "empty"),
    "drop namespace cascade": lambda ns: drop_namespace(ns, "a", behavior="cascade"),
    "alter namespace": lambda ns: ns.alter_namespace_properties(["a"], {"k": "v"}),
    "alter the root": lambda ns: ns.alter_namespace_properties([], {"k": "v"}),
    "create table": lambda ns: create_table(ns, "new"),
    "create nested table": lambda ns: create_table(ns, "a", "new"),
    "declare table": lambda ns: declare_table(ns, "new"),
    "declare nested table": lambda ns: declare_table(ns, "a", "new"),
    "register table": lambda ns: register_table(ns, "new", location="free"),
    "deregister table": lambda ns: deregister_table(ns, "t"),
    "deregister nested table": lambda ns: deregister_table(ns, "a", "t"),
    "drop table": lambda ns: remove_table(ns, "t"),
    "drop nested table": lambda ns: remove_table(ns, "a", "t"),
    "rename table": lambda ns: rename_table(ns, "t", to="new"),
    "rename nested table": lambda ns: rename_table(ns, "a", "t", to="new"),
    "migrate": lambda ns: ns.migrate_to_manifest(),
}


@pytest.fixture(params=["v2", "compatibility"])
def filled(request, tmp_path, open_namespace):
    """Return a catalog with namespaces and tables, and a function that opens another client of it."""
    ns = open_namespace(tmp_path, request.param)
    for name in ("a", "empty"):
        create_namespace(ns, name)
    create_table(ns, "t", data=ipc({"x": [1]}))
    create_table(ns, "a", "t", data=ipc({"x": [2]}))
    write_table(directory(ns) / "free")
    write_table(directory(ns) / "v1.lance")
    return ns, lambda: open_namespace(tmp_path, request.param)


def flag(ns, key, value="4096"):
    manifest(ns).update_metadata({key: value})


def find_violations(ns, calls):
    """Return the calls that did not raise UnsupportedOperationError with "upgrade", or that changed files."""
    faults = {}
    for label, call in calls.items():
        before = files(ns)
        try:
            call(ns)
            faults[label] = "not refused"
        except LanceNamespaceError as error:
            if error.code != 0 or "upgrade" not in str(error):
                faults[label] = f"refused with {int(error.code)}: {error}"
        changed = sorted({path for path, _ in before.items() ^ files(ns).items()})
        if changed:
            faults[label] = f"{faults.get(label, 'refused')}, but changed {changed}"
    return faults


def test_unknown_reader_bit_refuses_every_operation(filled):
    ns, reopened = filled
    flag(ns, READER)
    for label, call in {**READS, **WRITES}.items():
        # A new client for each call, so that the call is the first one that reads the manifest.
        assert find_violations(reopened(), {label: call}) == {}


def test_open_client_refuses_reads_under_an_unknown_reader_bit(filled):
    ns, _ = filled
    flag(ns, READER)
    assert find_violations(ns, READS) == {}


@pytest.mark.parametrize("label", list(WRITES))
def test_open_client_writes_nothing_under_an_unknown_reader_bit(filled, label):
    ns, _ = filled
    flag(ns, READER)
    assert find_violations(ns, {label: WRITES[label]}) == {}


def test_unknown_writer_bit_allows_reads(filled):
    ns, reopened = filled
    before = {label: call(ns) for label, call in READS.items()}
    flag(ns, WRITER)
    for client in (ns, reopened()):
        assert {label: call(client) for label, call in READS.items()} == before


@pytest.mark.parametrize("label", list(WRITES))
def test_unknown_writer_bit_refuses_writes_and_changes_nothing(filled, label):
    ns, reopened = filled
    shown = list_all_tables(ns), list_namespaces(ns)
    flag(ns, WRITER)
    client = reopened()
    assert find_violations(client, {label: WRITES[label]}) == {}
    assert (list_all_tables(client), list_namespaces(client)) == shown
    assert rows(describe_table(client, "t").location) == [1]
    assert rows(describe_table(client, "a", "t").location) == [2]


@pytest.mark.parametrize("label", list(WRITES))
def test_open_client_writes_nothing_under_an_unknown_writer_bit(filled, label):
    ns, _ = filled
    flag(ns, WRITER)
    assert find_violations(ns, {label: WRITES[label]}) == {}
    assert rows(describe_table(ns, "t").location) == [1]


@pytest.mark.parametrize("value", UNKNOWN)
def test_unparsable_flags_count_as_unknown(filled, value):
    ns, reopened = filled
    flag(ns, WRITER, value)
    with fails(0, naming="upgrade"):
        create_namespace(reopened(), "new")
    flag(ns, READER, value)
    with fails(0, naming="upgrade"):
        list_tables(reopened())


def test_zero_flags_allow_reads_and_writes(filled):
    ns, reopened = filled
    flag(ns, READER, "0")
    flag(ns, WRITER, "0")
    for client in (ns, reopened()):
        assert list_all_tables(client)[:1] == ["a$t"]
        create_namespace(client, f"new{id(client)}")


def test_writes_work_after_the_writer_bit_is_removed(filled):
    ns, _ = filled
    flag(ns, WRITER)
    with fails(0):
        create_namespace(ns, "new")
    manifest(ns).update_metadata({WRITER: None})
    create_namespace(ns, "new")
    remove_table(ns, "t")
    assert "new" in list_namespaces(ns)


def test_v1_ignores_feature_flags(filled, tmp_path, open_namespace):
    ns, _ = filled
    flag(ns, READER)
    v1 = open_namespace(tmp_path, "v1")
    assert "v1" in list_tables(v1)
    remove_table(v1, "v1")
    assert "v1" not in list_tables(v1)
