"""Helpers for tests: requests in one line, Arrow IPC data, expected error codes."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    CreateTableRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    DropTableRequest,
    ListNamespacesRequest,
    ListTablesRequest,
    NamespaceExistsRequest,
    RegisterTableRequest,
    RenameTableRequest,
    TableExistsRequest,
)
from lance_namespace.errors import LanceNamespaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

MODES: dict[str, dict[str, str]] = {
    "v1": {"manifest_enabled": "false", "dir_listing_enabled": "true"},
    "v2": {"manifest_enabled": "true", "dir_listing_enabled": "false"},
    "compatibility": {"manifest_enabled": "true", "dir_listing_enabled": "true"},
}


@dataclass(frozen=True)
class Root:
    """The location of a catalog, and the options that open it."""

    uri: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, str]:
        """The properties that open a namespace at this root."""
        return {"root": self.uri, **{f"storage.{key}": value for key, value in self.options.items()}}


def ipc(data: pa.Table | dict[str, Any]) -> bytes:
    """Return an Arrow IPC stream."""
    table = data if isinstance(data, pa.Table) else pa.table(data)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@contextmanager
def fails(code: int, naming: str | None = None) -> Iterator[None]:
    """Expect an error of the SDK with this code and, if given, this text in its message."""
    with pytest.raises(LanceNamespaceError) as caught:
        yield
    assert int(caught.value.code) == code, f"code {int(caught.value.code)} instead of {code}: {caught.value}"
    if naming is not None:
        assert naming in str(caught.value)


def create_namespace(ns: Any, *names: str, **options: Any) -> Any:
    return ns.create_namespace(CreateNamespaceRequest(id=list(names), **options))


def drop_namespace(ns: Any, *names: str, **options: Any) -> Any:
    return ns.drop_namespace(DropNamespaceRequest(id=list(names), **options))


def describe_namespace(ns: Any, *names: str) -> Any:
    return ns.describe_namespace(DescribeNamespaceRequest(id=list(names)))


def namespace_exists(ns: Any, *names: str) -> Any:
    return ns.namespace_exists(NamespaceExistsRequest(id=list(names)))


def list_namespaces(ns: Any, *names: str, **options: Any) -> list[str]:
    return ns.list_namespaces(ListNamespacesRequest(id=list(names), **options)).namespaces


def list_tables(ns: Any, *names: str, **options: Any) -> list[str]:
    return ns.list_tables(ListTablesRequest(id=list(names), **options)).tables


def list_all_tables(ns: Any, **options: Any) -> list[str]:
    return ns.list_all_tables(ListTablesRequest(**options)).tables


def create_table(ns: Any, *names: str, data: bytes | None = None, **options: Any) -> Any:
    body = ipc({"x": [1, 2, 3]}) if data is None else data
    return ns.create_table(CreateTableRequest(id=list(names), **options), body)


def declare_table(ns: Any, *names: str, **options: Any) -> Any:
    return ns.declare_table(DeclareTableRequest(id=list(names), **options))


def register_table(ns: Any, *names: str, location: str, **options: Any) -> Any:
    return ns.register_table(RegisterTableRequest(id=list(names), location=location, **options))


def deregister_table(ns: Any, *names: str) -> Any:
    return ns.deregister_table(DeregisterTableRequest(id=list(names)))


def describe_table(ns: Any, *names: str, **options: Any) -> Any:
    return ns.describe_table(DescribeTableRequest(id=list(names), **options))


def table_exists(ns: Any, *names: str) -> Any:
    return ns.table_exists(TableExistsRequest(id=list(names)))


def drop_table(ns: Any, *names: str, **context: str) -> Any:
    return ns.drop_table(DropTableRequest(id=list(names), context=context or None))


def remove_table(ns: Any, *names: str) -> Any:
    """Drop a table permanently. Clients that cannot restore tables ignore the context."""
    return drop_table(ns, *names, purge="true")


def rename_table(ns: Any, *names: str, to: str, into: list[str] | None = None) -> Any:
    return ns.rename_table(RenameTableRequest(id=list(names), new_table_name=to, new_namespace_id=into))


def wait_for_background_work() -> None:
    """Wait for background work of this process, so that its requests count for the operation that started it."""
    for thread in threading.enumerate():
        if thread.name in {"pennon-upkeep", "pennon-finish"}:
            thread.join()
