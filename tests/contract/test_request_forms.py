"""Requests as models and as dicts, and modes in every spelling."""

from __future__ import annotations

import lance_namespace
import pytest

from tests.contract.disk import contents
from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    fails,
    ipc,
    list_namespaces,
    list_tables,
    register_table,
)

OPERATIONS = [
    "create_namespace",
    "list_namespaces",
    "describe_namespace",
    "drop_namespace",
    "namespace_exists",
    "list_tables",
    "list_all_tables",
    "declare_table",
    "register_table",
    "deregister_table",
    "describe_table",
    "table_exists",
    "drop_table",
    "rename_table",
]


def test_every_operation_takes_a_dict(nested):
    data = ipc({"x": [1]})
    nested.create_namespace({"id": ["a"], "properties": {"k": "v"}})
    nested.namespace_exists({"id": ["a"]})
    assert nested.describe_namespace({"id": ["a"]}).properties == {"k": "v"}
    assert nested.list_namespaces({}).namespaces == ["a"]
    location = nested.create_table({"id": ["a", "t"]}, data).location
    nested.declare_table({"id": ["a", "d"]})
    assert nested.list_tables({"id": ["a"]}).tables == ["d", "t"]
    assert nested.list_all_tables({}).tables == ["a$d", "a$t"]
    assert nested.describe_table({"id": ["a", "t"]}).location == location
    nested.table_exists({"id": ["a", "t"]})
    nested.rename_table({"id": ["a", "t"], "new_table_name": "u"})
    nested.deregister_table({"id": ["a", "u"]})
    nested.register_table({"id": ["a", "v"], "location": location.rpartition("/")[2]})
    nested.drop_table({"id": ["a", "v"]})
    nested.drop_namespace({"id": ["a"], "behavior": "Cascade"})
    assert nested.list_namespaces({}).namespaces == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_request_of_the_wrong_shape_is_refused(namespace, operation):
    for request in (None, 5, "a", ["a"], {"id": "a"}, {"id": [1]}, {"id": [None]}, {"id": {"a": 1}}):
        with fails(13):
            getattr(namespace, operation)(request)
    assert not contents(namespace)


def test_request_of_another_type_is_converted_by_its_fields(namespace):
    create_table(namespace, "t")
    request = lance_namespace.DropTableRequest(id=["t"])
    assert namespace.describe_table(request).location == describe_table(namespace, "t").location


def test_a_request_is_not_changed(nested):
    request = lance_namespace.CreateNamespaceRequest(id=["a"], properties={"k": "v"})
    before = request.model_dump()
    nested.create_namespace(request)
    assert request.model_dump() == before
    plain = {"id": ["b"], "properties": {"k": "v"}}
    nested.create_namespace(plain)
    assert plain == {"id": ["b"], "properties": {"k": "v"}}


@pytest.mark.parametrize("spelling", ["exist_ok", "ExistOk", "existok", "EXIST_OK", "Exist_Ok"])
def test_exist_ok_is_understood_in_every_spelling(namespace, mode, spelling):
    create_table(namespace, "t")
    create_table(namespace, "t", mode=spelling)
    assert list_tables(namespace) == ["t"]
    if mode != "v1":
        create_namespace(namespace, "a", properties={"k": "1"})
        assert create_namespace(namespace, "a", mode=spelling).properties == {"k": "1"}


@pytest.mark.parametrize("spelling", ["overwrite", "Overwrite", "OVERWRITE"])
def test_overwrite_is_understood_in_every_spelling(namespace, mode, spelling):
    create_table(namespace, "t")
    assert create_table(namespace, "t", mode=spelling).version == 2
    if mode != "v1":
        create_namespace(namespace, "a", properties={"k": "1"})
        assert create_namespace(namespace, "a", mode=spelling).properties == {}
        register_table(
            namespace, "t", location=describe_table(namespace, "t").location.rpartition("/")[2], mode=spelling
        )


@pytest.mark.parametrize("spelling", ["create", "Create", "CREATE"])
def test_create_is_understood_in_every_spelling(namespace, mode, spelling):
    create_table(namespace, "t", mode=spelling)
    with fails(5):
        create_table(namespace, "t", mode=spelling)
    if mode != "v1":
        create_namespace(namespace, "a", mode=spelling)
        with fails(2):
            create_namespace(namespace, "a", mode=spelling)


@pytest.mark.parametrize(("skip", "cascade"), [("skip", "cascade"), ("Skip", "Cascade"), ("SKIP", "CASCADE")])
def test_drop_modes_are_understood_in_every_spelling(nested, skip, cascade):
    create_namespace(nested, "a")
    create_namespace(nested, "a", "b")
    with fails(3):
        drop_namespace(nested, "a", mode="Fail", behavior="Restrict")
    drop_namespace(nested, "a", mode=skip, behavior=cascade)
    drop_namespace(nested, "a", mode=skip, behavior=cascade)
    assert list_namespaces(nested) == []


@pytest.mark.parametrize("spelling", ["", "createe", "replace", "skip", "exist-ok", "create overwrite"])
def test_an_unknown_mode_is_refused_by_name_and_changes_nothing(nested, spelling):
    create_namespace(nested, "a", properties={"k": "1"})
    create_table(nested, "t")
    before = contents(nested)
    for names in (["a"], ["new"]):
        with fails(13, naming=repr(spelling)):
            create_namespace(nested, *names, mode=spelling)
    for names in (["t"], ["new"]):
        with fails(13, naming=repr(spelling)):
            create_table(nested, *names, mode=spelling)
        with fails(13, naming=repr(spelling)):
            register_table(nested, *names, location="t.lance", mode=spelling)
    assert contents(nested) == before


def test_an_unknown_drop_mode_is_refused_and_changes_nothing(nested):
    create_namespace(nested, "a")
    for options in ({"mode": "exist_ok"}, {"behavior": "skip"}, {"mode": ""}, {"behavior": "cascading"}):
        with fails(13):
            drop_namespace(nested, "a", **options)
    assert describe_namespace(nested, "a").properties == {}


def test_registering_has_no_exist_ok(nested):
    with fails(13, naming="exist_ok"):
        register_table(nested, "t", location="x", mode="exist_ok")
