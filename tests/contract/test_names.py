"""Invalid names: every operation rejects them before anything is written."""

from __future__ import annotations

import pytest

from tests.contract.disk import contents, directory, everything
from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    fails,
    ipc,
    list_all_tables,
    list_namespaces,
)

HOSTILE = {
    "empty": "",
    "here": ".",
    "up": "..",
    "slash": "a/b",
    "way up": "../x",
    "absolute": "/x",
    "backslash": "a\\b",
    "nul": "a\0b",
    "newline": "a\nb",
    "tab": "\t",
    "delete": "a\x7fb",
    "next line": "a\x85b",
    "delimiter": "a$b",
    "only the delimiter": "$",
    "lone surrogate": "a\ud800b",
    "too long": "x" * 300,
    "too long in bytes": "é" * 127,
}
AT_ROOT = {"manifest": "__manifest", "reserved": "__x", "only the prefix": "__"}

DATA = ipc({"x": [1]})


def every_table_operation(ns, id_):
    """Return a call of every operation that takes the identifier of a table."""
    return {
        "create": lambda: ns.create_table({"id": id_}, DATA),
        "create exist_ok": lambda: ns.create_table({"id": id_, "mode": "exist_ok"}, DATA),
        "create overwrite": lambda: ns.create_table({"id": id_, "mode": "overwrite"}, DATA),
        "declare": lambda: ns.declare_table({"id": id_}),
        "register": lambda: ns.register_table({"id": id_, "location": "t.lance"}),
        "register missing": lambda: ns.register_table(
            {"id": id_, "location": "absent", "mode": "overwrite", "context": {"allow_missing": "true"}}
        ),
        "deregister": lambda: ns.deregister_table({"id": id_}),
        "describe": lambda: ns.describe_table({"id": id_}),
        "describe in full": lambda: ns.describe_table({"id": id_, "load_detailed_metadata": True, "version": 1}),
        "exists": lambda: ns.table_exists({"id": id_}),
        "drop": lambda: ns.drop_table({"id": id_}),
        "rename": lambda: ns.rename_table({"id": id_, "new_table_name": "new"}),
    }


def every_namespace_operation(ns, id_):
    """Return a call of every operation that takes the identifier of a namespace."""
    return {
        "create": lambda: ns.create_namespace({"id": id_}),
        "create overwrite": lambda: ns.create_namespace({"id": id_, "mode": "overwrite"}),
        "describe": lambda: ns.describe_namespace({"id": id_}),
        "exists": lambda: ns.namespace_exists({"id": id_}),
        "drop": lambda: ns.drop_namespace({"id": id_}),
        "drop skip": lambda: ns.drop_namespace({"id": id_, "mode": "skip", "behavior": "cascade"}),
        "list namespaces": lambda: ns.list_namespaces({"id": id_}),
        "list tables": lambda: ns.list_tables({"id": id_}),
        "list all tables": lambda: ns.list_all_tables({"id": id_}),
        "alter": lambda: ns.alter_namespace_properties(id_, {"k": "v"}),
        "rename into": lambda: ns.rename_table({"id": ["t"], "new_table_name": "u", "new_namespace_id": id_}),
    }


def outcomes(calls):
    """Run the calls and tell the error code of each."""
    found = {}
    for label, call in calls.items():
        try:
            call()
            found[label] = None
        except Exception as error:  # noqa: BLE001 - the test reports errors of any other class
            found[label] = int(error.code) if hasattr(error, "code") else repr(error)
    return found


def assert_all_refused(calls):
    assert {label: code for label, code in outcomes(calls).items() if code != 13} == {}


@pytest.mark.parametrize("name", list(HOSTILE.values()), ids=list(HOSTILE))
def test_every_operation_refuses_a_hostile_name_and_writes_nothing(namespace, mode, name, tmp_path):
    create_table(namespace, "t")
    if mode != "v1":
        create_namespace(namespace, "n", properties={"k": "1"})
    before = everything(namespace), sorted(tmp_path.rglob("*"))
    for id_ in ([name], ["n", name], [name, "t"]):
        assert_all_refused(every_table_operation(namespace, id_))
        assert_all_refused(every_namespace_operation(namespace, id_))
    assert_all_refused({"rename to": lambda: namespace.rename_table({"id": ["t"], "new_table_name": name})})
    assert (everything(namespace), sorted(tmp_path.rglob("*"))) == before


@pytest.mark.parametrize("name", list(AT_ROOT.values()), ids=list(AT_ROOT))
def test_every_operation_refuses_a_reserved_name_at_the_root_and_writes_nothing(namespace, mode, name):
    create_table(namespace, "t")
    if mode != "v1":
        create_namespace(namespace, "n")
    before = everything(namespace)
    for id_ in ([name], [name, "t"]):
        assert_all_refused(every_table_operation(namespace, id_))
        assert_all_refused(every_namespace_operation(namespace, id_))
    assert_all_refused(
        {
            "rename to": lambda: namespace.rename_table({"id": ["t"], "new_table_name": name}),
            "rename to the root": lambda: namespace.rename_table(
                {"id": ["n", "t"], "new_table_name": name, "new_namespace_id": []}
            ),
        }
    )
    assert everything(namespace) == before


def test_reserved_names_are_free_below_the_root(nested):
    create_namespace(nested, "n")
    create_namespace(nested, "n", "__manifest")
    create_table(nested, "n", "__x")
    create_table(nested, "n", "__manifest", "__manifest")
    assert list_all_tables(nested) == ["n$__manifest$__manifest", "n$__x"]
    assert list_namespaces(nested, "n") == ["__manifest"]


def test_names_that_are_too_long_together_are_refused(nested):
    names = ["a" * 100, "b" * 100, "c" * 100]
    create_namespace(nested, names[0])
    create_namespace(nested, *names[:2])
    before = everything(nested)
    assert_all_refused(every_table_operation(nested, names))
    assert_all_refused(every_namespace_operation(nested, names))
    assert everything(nested) == before


def test_the_longest_names_work_in_every_operation(place):
    ns, parent = place
    length = 236 - sum(len(name) + 1 for name in parent)
    longest = "x" * length
    calls = every_table_operation(ns, [*parent, longest])
    for label in ("declare", "describe", "create", "describe in full", "exists", "create overwrite", "deregister"):
        calls[label]()
    ns.register_table({"id": [*parent, longest], "location": _only_directory(ns)})
    calls["drop"]()
    ns.undrop_table([*parent, longest])
    calls["drop"]()
    ns.purge_table([*parent, longest], force=True)
    assert not [path for path in contents(ns) if not path.startswith("__manifest/")]
    assert_all_refused(every_table_operation(ns, [*parent, longest + "x"]))


def _only_directory(ns):
    (found,) = [
        path.name for path in directory(ns).iterdir() if path.is_dir() and not path.name.startswith((".", "__"))
    ]
    return found


def test_the_longest_namespace_works_in_every_operation(nested):
    longest = "x" * 236
    create_namespace(nested, longest, properties={"k": "v"})
    assert describe_namespace(nested, longest).properties == {"k": "v"}
    assert list_namespaces(nested) == [longest]
    with fails(13):
        create_table(nested, longest, "t")
    nested.drop_namespace({"id": [longest]})
    assert list_namespaces(nested) == []
