"""What is missing, and how every operation says so: 1 for a namespace, 4 for a table."""

from __future__ import annotations

import pytest

from tests.contract.disk import contents, directory, write_table
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
    list_namespaces,
    list_tables,
    namespace_exists,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)

FREE = "free"


def _create(mode):
    return lambda ns, *names: create_table(ns, *names, mode=mode)


def _register(mode):
    return lambda ns, *names: register_table(ns, *names, location=FREE, mode=mode)


def _rename(ns, *names):
    return rename_table(ns, *names, to="new")


def _describe_version(ns, *names):
    return describe_table(ns, *names, version=1, load_detailed_metadata=True)


TABLE_READS = {
    "describe": describe_table,
    "describe version": _describe_version,
    "exists": table_exists,
    "drop": remove_table,
    "deregister": deregister_table,
    "rename": _rename,
}
TABLE_WRITES = {
    "declare": declare_table,
    "create": _create("create"),
    "create exist_ok": _create("exist_ok"),
    "create overwrite": _create("overwrite"),
    "register": _register("create"),
    "register overwrite": _register("overwrite"),
}
NAMESPACE_OPERATIONS = {
    "describe namespace": describe_namespace,
    "namespace exists": namespace_exists,
    "drop namespace": drop_namespace,
    "list namespaces": list_namespaces,
    "list tables": list_tables,
    "list all tables": lambda ns, *names: ns.list_all_tables({"id": list(names)}),
    "create below": lambda ns, *names: create_namespace(ns, *names, "child"),
    "alter properties": lambda ns, *names: ns.alter_namespace_properties(names, {"k": "v"}),
}


def _missing(ns, call):
    """Expect 4; V1 cannot rename at all."""
    return 0 if call is _rename and "manifest_enabled=False" in repr(ns) else 4


def by_name(operations):
    return pytest.mark.parametrize("call", list(operations.values()), ids=list(operations))


@by_name(TABLE_READS)
def test_missing_table_raises_table_not_found(place, call):
    ns, parent = place
    create_table(ns, *parent, "there")
    before = contents(ns)
    with fails(_missing(ns, call)):
        call(ns, *parent, "missing")
    assert contents(ns) == before


@by_name(TABLE_READS)
def test_missing_table_in_an_empty_catalog_raises_table_not_found(namespace, call):
    with fails(_missing(namespace, call)):
        call(namespace, "missing")
    assert not contents(namespace)


@by_name(TABLE_READS)
def test_namespace_is_not_a_table(nested, call):
    create_namespace(nested, "a")
    create_namespace(nested, "a", "b")
    for names in (["a"], ["a", "b"]):
        with fails(4, naming=names[-1]):
            call(nested, *names)
    namespace_exists(nested, "a", "b")


@by_name({**TABLE_READS, **TABLE_WRITES})
def test_missing_parent_raises_namespace_not_found(nested, call):
    create_namespace(nested, "a")
    create_table(nested, "t")
    write_table(directory(nested) / FREE)
    before = contents(nested)
    for names in (["x", "t"], ["a", "x", "t"], ["x", "y", "z", "t"], ["t", "t"]):
        with fails(1):
            call(nested, *names)
    assert contents(nested) == before


@by_name({**TABLE_READS, **TABLE_WRITES})
def test_v1_raises_namespace_not_found_for_a_nested_table(root, open_namespace, call):
    ns = open_namespace(root, "v1")
    create_table(ns, "t")
    write_table(directory(ns) / FREE)
    before = contents(ns)
    with fails(0 if call is _rename else 1):
        call(ns, "a", "t")
    assert contents(ns) == before


@by_name(NAMESPACE_OPERATIONS)
def test_missing_namespace_raises_namespace_not_found(nested, call):
    create_namespace(nested, "a")
    create_table(nested, "t")
    for names in (["x"], ["a", "x"], ["x", "y"], ["t"]):
        with fails(1, naming=names[-1]):
            call(nested, *names)


@by_name({**TABLE_READS, **TABLE_WRITES})
def test_a_table_needs_a_name(namespace, call):
    with fails(13):
        call(namespace)
    assert not contents(namespace)


def test_a_request_without_an_id_has_no_table(namespace):
    for call in (namespace.describe_table, namespace.drop_table, namespace.declare_table, namespace.table_exists):
        with fails(13):
            call({})
    with fails(13):
        namespace.create_table({}, ipc({"x": [1]}))
