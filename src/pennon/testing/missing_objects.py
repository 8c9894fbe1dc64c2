"""What is missing, and how every operation says so: 1 for a namespace, 4 for a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lance_namespace import (
    CreateTableRequest,
    DeclareTableRequest,
    DescribeTableRequest,
    DropTableRequest,
    ListTablesRequest,
    TableExistsRequest,
)

from pennon.testing.calls import (
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
from pennon.testing.contract import Contract, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FREE = "free"
"""A location that no table has."""


def _create(mode: str) -> Callable[..., Any]:
    return lambda ns, *names: create_table(ns, *names, mode=mode)


def _register(mode: str) -> Callable[..., Any]:
    return lambda ns, *names: register_table(ns, *names, location=FREE, mode=mode)


def rename_missing(ns: Any, *names: str) -> Any:
    """Rename a table."""
    return rename_table(ns, *names, to="new")


def _describe_version(ns: Any, *names: str) -> Any:
    return describe_table(ns, *names, version=1, load_detailed_metadata=True)


TABLE_READS = {
    "describe": describe_table,
    "describe version": _describe_version,
    "exists": table_exists,
    "drop": remove_table,
    "deregister": deregister_table,
    "rename": rename_missing,
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
    "list all tables": lambda ns, *names: ns.list_all_tables(ListTablesRequest(id=list(names))),
    "create below": lambda ns, *names: create_namespace(ns, *names, "child"),
}


def by_name(operations: Mapping[str, Callable[..., Any]]) -> pytest.MarkDecorator:
    """Return a mark that runs a test with each operation."""
    return pytest.mark.parametrize("call", list(operations.values()), ids=list(operations))


class MissingObjects(Contract):
    """Errors for tables and namespaces that do not exist."""

    def _expected_code(self, catalog: Any, call: Any) -> int:
        """Return 4 (TableNotFoundError), or 0 for an operation that the catalog does not have."""
        return 0 if call is rename_missing and not self.supports(catalog, "rename_table") else 4

    @by_name(TABLE_READS)
    def test_missing_table_raises_table_not_found(self, place: Place, call: Any) -> None:
        ns, parent = place
        create_table(ns, *parent, "there")
        before = self.contents(ns)
        with fails(self._expected_code(ns, call)):
            call(ns, *parent, "missing")
        assert self.contents(ns) == before

    @by_name(TABLE_READS)
    def test_missing_table_in_an_empty_catalog_raises_table_not_found(self, namespace: Any, call: Any) -> None:
        with fails(self._expected_code(namespace, call)):
            call(namespace, "missing")
        assert not self.contents(namespace)

    @by_name(TABLE_READS)
    def test_namespace_is_not_a_table(self, nested: Any, call: Any) -> None:
        create_namespace(nested, "a")
        create_namespace(nested, "a", "b")
        for names in (["a"], ["a", "b"]):
            with fails(4, naming=names[-1]):
                call(nested, *names)
        namespace_exists(nested, "a", "b")

    @by_name(NAMESPACE_OPERATIONS)
    def test_missing_namespace_raises_namespace_not_found(self, nested: Any, call: Any) -> None:
        create_namespace(nested, "a")
        create_table(nested, "t")
        for names in (["x"], ["a", "x"], ["x", "y"], ["t"]):
            with fails(1, naming=names[-1]):
                call(nested, *names)

    @by_name({**TABLE_READS, **TABLE_WRITES})
    def test_a_table_needs_a_name(self, namespace: Any, call: Any) -> None:
        with fails(13):
            call(namespace)
        assert not self.contents(namespace)

    def test_a_request_without_an_id_has_no_table(self, namespace: Any) -> None:
        for call, request in (
            (namespace.describe_table, DescribeTableRequest()),
            (namespace.drop_table, DropTableRequest()),
            (namespace.declare_table, DeclareTableRequest()),
            (namespace.table_exists, TableExistsRequest()),
        ):
            with fails(13):
                call(request)
        with fails(13):
            namespace.create_table(CreateTableRequest(), ipc({"x": [1]}))
