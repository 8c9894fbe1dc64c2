"""Requests in one line, Arrow IPC data, and expected error codes."""

from __future__ import annotations

import re
from contextlib import contextmanager
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


def ipc(data: pa.Table | dict[str, Any]) -> bytes:
    """Return an Arrow IPC stream."""
    table = data if isinstance(data, pa.Table) else pa.table(data)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@contextmanager
def fails(code: int, naming: str | None = None, *, word: str | None = None) -> Iterator[None]:
    """Expect an error of the SDK with this code and, if given, this text or this whole word in its message."""
    with pytest.raises(LanceNamespaceError) as caught:
        yield
    assert int(caught.value.code) == code, f"code {int(caught.value.code)} instead of {code}: {caught.value}"
    if naming is not None:
        assert naming in str(caught.value)
    if word is not None:
        assert re.search(rf"(?<!\w){re.escape(word)}(?!\w)", str(caught.value)), f"{word!r} is not in: {caught.value}"


def create_namespace(ns: Any, *names: str, **options: Any) -> Any:
    """Create a namespace."""
    return ns.create_namespace(CreateNamespaceRequest(id=list(names), **options))


def drop_namespace(ns: Any, *names: str, **options: Any) -> Any:
    """Drop a namespace."""
    return ns.drop_namespace(DropNamespaceRequest(id=list(names), **options))


def describe_namespace(ns: Any, *names: str) -> Any:
    """Describe a namespace."""
    return ns.describe_namespace(DescribeNamespaceRequest(id=list(names)))


def namespace_exists(ns: Any, *names: str) -> Any:
    """Return normally if a namespace exists."""
    return ns.namespace_exists(NamespaceExistsRequest(id=list(names)))


def list_namespaces(ns: Any, *names: str, **options: Any) -> list[str]:
    """Return the names of one page of child namespaces."""
    return list(ns.list_namespaces(ListNamespacesRequest(id=list(names), **options)).namespaces)


def list_tables(ns: Any, *names: str, **options: Any) -> list[str]:
    """Return the names of one page of tables."""
    return list(ns.list_tables(ListTablesRequest(id=list(names), **options)).tables)


def list_all_tables(ns: Any, **options: Any) -> list[str]:
    """Return the object ids of one page of tables at any depth."""
    return list(ns.list_all_tables(ListTablesRequest(**options)).tables)


def create_table(ns: Any, *names: str, data: bytes | None = None, **options: Any) -> Any:
    """Create a table, by default with three rows in the column `x`."""
    body = ipc({"x": [1, 2, 3]}) if data is None else data
    return ns.create_table(CreateTableRequest(id=list(names), **options), body)


def declare_table(ns: Any, *names: str, **options: Any) -> Any:
    """Declare a table."""
    return ns.declare_table(DeclareTableRequest(id=list(names), **options))


def register_table(ns: Any, *names: str, location: str, **options: Any) -> Any:
    """Register a table."""
    return ns.register_table(RegisterTableRequest(id=list(names), location=location, **options))


def deregister_table(ns: Any, *names: str) -> Any:
    """Deregister a table."""
    return ns.deregister_table(DeregisterTableRequest(id=list(names)))


def describe_table(ns: Any, *names: str, **options: Any) -> Any:
    """Describe a table."""
    return ns.describe_table(DescribeTableRequest(id=list(names), **options))


def table_exists(ns: Any, *names: str) -> Any:
    """Return normally if a table exists."""
    return ns.table_exists(TableExistsRequest(id=list(names)))


def drop_table(ns: Any, *names: str, **context: str) -> Any:
    """Drop a table, with entries for the context of the request."""
    return ns.drop_table(DropTableRequest(id=list(names), context=context or None))


def remove_table(ns: Any, *names: str) -> Any:
    """Drop a table permanently. Clients that cannot restore tables ignore the context."""
    return drop_table(ns, *names, purge="true")


def rename_table(ns: Any, *names: str, to: str, into: list[str] | None = None) -> Any:
    """Rename a table, and move it if a namespace is given."""
    return ns.rename_table(RenameTableRequest(id=list(names), new_table_name=to, new_namespace_id=into))
