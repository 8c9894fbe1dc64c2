"""The catalog operations that are timed; each request is built before the clock starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

from lance_namespace import (
    CreateNamespaceRequest,
    CreateTableRequest,
    CreateTableResponse,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    DropTableRequest,
    LanceNamespace,
    ListNamespacesRequest,
    ListNamespacesResponse,
    ListTablesRequest,
    ListTablesResponse,
    NamespaceExistsRequest,
    RegisterTableRequest,
    RenameTableRequest,
    RenameTableResponse,
    TableExistsRequest,
)
from seeding import arrow_stream, namespace_name, table_name

PAGE = 100
STRIDE = 7919  # a prime, so that successive lookups land far apart in the manifest
DATA = arrow_stream()


@dataclass
class Subject:
    """One implementation with its own copy of the root."""

    name: str
    open: Callable[[], LanceNamespace]
    namespace: LanceNamespace
    parent: list[str]
    seeded_tables: int
    seeded_namespaces: int
    locations: dict[int, str] = field(default_factory=dict)
    listed: dict[str, list[str]] = field(default_factory=dict)

    def created(self, index: int) -> list[str]:
        """Return the identifier of the table that create_table creates at this index."""
        return [*self.parent, f"c{index:06}"]

    def declared(self, index: int) -> list[str]:
        """Return the identifier of the table that declare_table declares at this index."""
        return [*self.parent, f"d{index:06}"]

    def seeded_table(self, index: int) -> list[str]:
        """Return the identifier of a seeded table."""
        return [*self.parent, table_name(index * STRIDE % self.seeded_tables)]

    def seeded_namespace(self, index: int) -> list[str]:
        """Return the identifier of a seeded namespace."""
        return [namespace_name(index * STRIDE % self.seeded_namespaces)]


Call = Callable[[], Any]


@dataclass(frozen=True)
class Operation:
    """An operation to time: `prepare` builds the call; `after` receives its result and is not timed.

    A lookup is short, so it is repeated `LOOKUPS` times as often as the rest, on the same objects.
    """

    name: str
    prepare: Callable[[Subject, int], Call]
    after: Callable[[Subject, int, Any], None] | None = None
    lookup: bool = False


def close(namespace: LanceNamespace) -> None:
    """Close a namespace, if its implementation has `close`."""
    closer = getattr(namespace, "close", None)
    if closer is not None:
        closer()


def create_namespace(subject: Subject, index: int) -> Call:
    """Create a namespace at the root."""
    return partial(subject.namespace.create_namespace, CreateNamespaceRequest(id=[f"a{index:06}"]))


def drop_namespace(subject: Subject, index: int) -> Call:
    """Drop a namespace that create_namespace created."""
    return partial(subject.namespace.drop_namespace, DropNamespaceRequest(id=[f"a{index:06}"]))


def namespace_exists(subject: Subject, index: int) -> Call:
    """Ask whether a seeded namespace exists."""
    return partial(subject.namespace.namespace_exists, NamespaceExistsRequest(id=subject.seeded_namespace(index)))


def describe_namespace(subject: Subject, index: int) -> Call:
    """Describe a seeded namespace."""
    return partial(subject.namespace.describe_namespace, DescribeNamespaceRequest(id=subject.seeded_namespace(index)))


def list_namespaces(subject: Subject, _index: int) -> Call:
    """List the first page of the root's namespaces."""
    return partial(subject.namespace.list_namespaces, ListNamespacesRequest(id=[], limit=PAGE))


def declare_table(subject: Subject, index: int) -> Call:
    """Declare a table."""
    return partial(subject.namespace.declare_table, DeclareTableRequest(id=subject.declared(index)))


def create_table(subject: Subject, index: int) -> Call:
    """Create a table of three rows."""
    return partial(subject.namespace.create_table, CreateTableRequest(id=subject.created(index)), DATA)


def table_exists(subject: Subject, index: int) -> Call:
    """Ask whether a created table exists."""
    return partial(subject.namespace.table_exists, TableExistsRequest(id=subject.created(index)))


def seeded_table_exists(subject: Subject, index: int) -> Call:
    """Ask whether a seeded table exists."""
    return partial(subject.namespace.table_exists, TableExistsRequest(id=subject.seeded_table(index)))


def describe_table(subject: Subject, index: int) -> Call:
    """Describe a created table without opening it."""
    return partial(subject.namespace.describe_table, DescribeTableRequest(id=subject.created(index)))


def describe_seeded_table(subject: Subject, index: int) -> Call:
    """Describe a seeded table without opening it."""
    return partial(subject.namespace.describe_table, DescribeTableRequest(id=subject.seeded_table(index)))


def describe_table_detailed(subject: Subject, index: int) -> Call:
    """Describe a created table with the schema and version of its dataset."""
    request = DescribeTableRequest(id=subject.created(index), load_detailed_metadata=True)
    return partial(subject.namespace.describe_table, request)


def list_tables(subject: Subject, _index: int) -> Call:
    """List the first page of the parent's tables."""
    return partial(subject.namespace.list_tables, ListTablesRequest(id=subject.parent, limit=PAGE))


def list_all_root_tables(subject: Subject, _index: int) -> Call:
    """List every table of the parent."""
    return partial(subject.namespace.list_tables, ListTablesRequest(id=subject.parent))


def deregister_table(subject: Subject, index: int) -> Call:
    """Deregister a created table, which keeps its data."""
    return partial(subject.namespace.deregister_table, DeregisterTableRequest(id=subject.created(index)))


def register_table(subject: Subject, index: int) -> Call:
    """Register a deregistered table under its old name."""
    location = subject.locations.get(index, "")
    request = RegisterTableRequest(id=subject.created(index), location=location)
    return partial(subject.namespace.register_table, request)


def rename_table(subject: Subject, index: int) -> Call:
    """Rename a created table in the same namespace."""
    request = RenameTableRequest(id=subject.created(index), new_table_name=f"r{index:06}")
    return partial(subject.namespace.rename_table, request)


def drop_table(subject: Subject, index: int) -> Call:
    """Drop a created table."""
    return partial(subject.namespace.drop_table, DropTableRequest(id=subject.created(index)))


def cold_start(subject: Subject, index: int) -> Call:
    """Open a new instance and ask it whether a created table exists."""
    return partial(_open_and_ask, subject, TableExistsRequest(id=subject.created(index)))


def seeded_cold_start(subject: Subject, index: int) -> Call:
    """Open a new instance and ask it whether a seeded table exists."""
    return partial(_open_and_ask, subject, TableExistsRequest(id=subject.seeded_table(index)))


def _open_and_ask(subject: Subject, request: TableExistsRequest) -> LanceNamespace:
    namespace = subject.open()
    namespace.table_exists(request)
    return namespace


def _close_answer(_subject: Subject, _index: int, answer: LanceNamespace) -> None:
    close(answer)


def _keep_location(subject: Subject, index: int, answer: CreateTableResponse) -> None:
    subject.locations[index] = unquote((answer.location or "").rstrip("/").rsplit("/", 1)[-1])


def _keep_namespaces(subject: Subject, _index: int, answer: ListNamespacesResponse) -> None:
    subject.listed["list_namespaces"] = sorted(answer.namespaces)


def _keep_tables(subject: Subject, _index: int, answer: ListTablesResponse) -> None:
    subject.listed["list_tables"] = sorted(answer.tables)


def _rename_back(subject: Subject, index: int, _answer: RenameTableResponse) -> None:
    old = subject.created(index)
    request = RenameTableRequest(id=[*subject.parent, f"r{index:06}"], new_table_name=old[-1])
    subject.namespace.rename_table(request)


COLD_START = "cold start"

MANIFEST_OPERATIONS = (
    Operation("create_namespace", create_namespace),
    Operation("drop_namespace", drop_namespace),
    Operation("namespace_exists", namespace_exists, lookup=True),
    Operation("describe_namespace", describe_namespace, lookup=True),
    Operation("list_namespaces", list_namespaces, _keep_namespaces),
    Operation("declare_table", declare_table),
    Operation("create_table", create_table, _keep_location),
    Operation("table_exists", table_exists, lookup=True),
    Operation("describe_table", describe_table, lookup=True),
    Operation("describe_table detailed", describe_table_detailed, lookup=True),
    Operation("list_tables", list_tables, _keep_tables),
    Operation(COLD_START, cold_start, _close_answer),
    Operation("deregister_table", deregister_table),
    Operation("register_table", register_table),
    Operation("rename_table", rename_table, _rename_back),
    Operation("drop_table", drop_table),
)

V1_OPERATIONS = (
    Operation("list_tables", list_all_root_tables, _keep_tables),
    Operation("table_exists", seeded_table_exists, lookup=True),
    Operation("describe_table", describe_seeded_table, lookup=True),
    Operation("create_table", create_table),
    Operation("drop_table", drop_table),
    Operation(COLD_START, seeded_cold_start, _close_answer),
)
