"""A sequence of operations on tables and namespaces, checked at each step, for many threads and processes."""

from __future__ import annotations

from typing import Any

from tests.concurrency.places import column
from tests.concurrency.workers import Outcome, attempt
from tests.support import (
    Root,
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
    register_table,
    remove_table,
    rename_table,
    table_exists,
)


def live(ns: Any, root: Root, mode: str, who: str, rounds: int) -> list[Outcome]:
    """Create and drop own objects, keep one table per round, and return the outcomes of the shared attempts."""
    shared = []
    for number in range(rounds):
        name = f"{who}_{number}"
        _tables(ns, root, name)
        if mode != "v1":
            _namespaces(ns, root, name)
            shared.append(attempt(create_namespace, ns, f"shared_{number}", properties={"who": who}))
    return shared


def _tables(ns: Any, root: Root, name: str) -> None:
    create_table(ns, name, data=ipc({"who": [name]}))
    table_exists(ns, name)
    with fails(5):
        create_table(ns, name)
    assert column(root, ns, name) == [name]
    assert name in list_tables(ns)
    passing = f"{name}_passing"
    declare_table(ns, passing)
    assert describe_table(ns, passing, check_declared=True).is_only_declared
    create_table(ns, passing, data=ipc({"who": [passing]}))
    assert column(root, ns, passing) == [passing]
    remove_table(ns, passing)
    with fails(4):
        describe_table(ns, passing)
    assert passing not in list_tables(ns)


def _namespaces(ns: Any, root: Root, name: str) -> None:
    space = f"{name}_space"
    create_namespace(ns, space, properties={"step": "1"})
    ns.alter_namespace_properties([space], {"step": "2"})
    assert describe_namespace(ns, space).properties == {"step": "2"}
    create_table(ns, space, "first", data=ipc({"who": [name]}))
    with fails(3):
        drop_namespace(ns, space)
    rename_table(ns, space, "first", to="second")
    with fails(4):
        table_exists(ns, space, "first")
    where = describe_table(ns, space, "second").location.removeprefix(f"{root.uri}/")
    deregister_table(ns, space, "second")
    assert list_tables(ns, space) == []
    register_table(ns, space, "third", location=where)
    assert column(root, ns, space, "third") == [name]
    rename_table(ns, space, "third", to=f"{name}_moved", into=[])
    drop_namespace(ns, space)
    assert space not in list_namespaces(ns)
    remove_table(ns, f"{name}_moved")
    with fails(1):
        list_tables(ns, space)
