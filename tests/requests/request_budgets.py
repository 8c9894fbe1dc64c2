"""How many store requests each operation may make, warm, beside what pylance's own client makes.

Warm means that the client has worked on the root before and nobody else has since. The budgets are what Pennon needs;
lower one when it needs less. `reference` is the figure recorded for pylance 14.0.2 on S3, where there is one: every
budget stays below it. In V1 pylance's client makes fewer requests than Pennon (create 6, drop 2, exists 1), because it
excludes nobody: several creators of one name are all told that they won.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    drop_table,
    list_all_tables,
    list_namespaces,
    list_tables,
    namespace_exists,
    register_table,
    rename_table,
    table_exists,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Step = Callable[[Any, list[str]], object]

ROOT = "root"
CHILD = "child"


@dataclass(frozen=True)
class Budget:
    """The most requests that an operation on an object in the root or in a child namespace may make, by mode."""

    operation: str
    place: str
    v1: int | None
    v2: int | None
    compatibility: int | None
    reference: int | None = None


BUDGETS = [
    #      operation                    place  V1    V2    compat. reference
    Budget("create_namespace", ROOT, None, 5, 6, 8),
    Budget("create_namespace", CHILD, None, 5, 5, 8),
    Budget("create_namespace exist_ok", ROOT, None, 1, 2),
    Budget("namespace_exists", ROOT, None, 1, 1),
    Budget("namespace_exists", CHILD, None, 1, 1),
    Budget("describe_namespace", ROOT, None, 1, 1),
    Budget("list_namespaces", ROOT, 0, 1, 1),
    Budget("list_namespaces", CHILD, None, 1, 1),
    Budget("alter_namespace_properties", CHILD, None, 5, 5),
    Budget("drop_namespace", ROOT, None, 4, 4),
    Budget("drop_namespace", CHILD, None, 4, 4),
    Budget("drop_namespace cascade", ROOT, None, 5, 5),
    Budget("declare_table", ROOT, 5, 7, 10, 13),
    Budget("declare_table", CHILD, None, 7, 7, 13),
    Budget("create_table", ROOT, 8, 8, 12, 14),
    Budget("create_table", CHILD, None, 8, 8, 14),
    Budget("create_table of a declared one", ROOT, 9, 8, 12),
    Budget("create_table of a declared one", CHILD, None, 8, 8, 14),
    Budget("create_table exist_ok", ROOT, 2, 2, 3, 14),
    Budget("create_table exist_ok", CHILD, None, 2, 2, 14),
    Budget("create_table overwrite", ROOT, 11, 9, 13, 14),
    Budget("create_table overwrite", CHILD, None, 9, 9, 14),
    Budget("table_exists", ROOT, 2, 1, 3),
    Budget("table_exists", CHILD, None, 1, 1),
    Budget("describe_table", ROOT, 2, 1, 3),
    Budget("describe_table", CHILD, None, 1, 1),
    Budget("describe_table check_declared", ROOT, 2, 2, 3),
    Budget("describe_table check_declared", CHILD, None, 2, 2),
    Budget("describe_table detailed", ROOT, 4, 3, 5),
    Budget("describe_table detailed", CHILD, None, 3, 3),
    Budget("list_tables", ROOT, 1, 1, 2),
    Budget("list_tables", CHILD, None, 1, 1),
    Budget("list_tables without declared", ROOT, 1, 2, 2),
    Budget("list_tables without declared", CHILD, None, 2, 2),
    Budget("list_all_tables", ROOT, 1, 1, 2),
    Budget("rename_table", ROOT, None, 6, 13),
    Budget("rename_table", CHILD, None, 6, 6),
    Budget("deregister_table", ROOT, 4, 5, 10),
    Budget("deregister_table", CHILD, None, 5, 5),
    Budget("register_table", ROOT, 6, 6, 10),
    Budget("register_table", CHILD, None, 6, 6),
    Budget("drop_table", ROOT, 5, 5, 10, 11),
    Budget("drop_table", CHILD, None, 5, 5, 11),
    Budget("drop_table declared", ROOT, 5, 5, 10, 11),
    Budget("drop_table declared", CHILD, None, 5, 5, 11),
]


@dataclass(frozen=True)
class Depth:
    """The longest chain of requests of an operation: so often does a warm client wait for the store. Same rows."""

    operation: str
    place: str
    v1: int | None
    v2: int | None
    compatibility: int | None


DEPTHS = [
    #     operation                    place  V1    V2    compat.
    Depth("create_namespace", ROOT, None, 2, 3),
    Depth("create_namespace", CHILD, None, 2, 2),
    Depth("create_namespace exist_ok", ROOT, None, 1, 1),
    Depth("namespace_exists", ROOT, None, 1, 1),
    Depth("namespace_exists", CHILD, None, 1, 1),
    Depth("describe_namespace", ROOT, None, 1, 1),
    Depth("list_namespaces", ROOT, 0, 1, 1),
    Depth("list_namespaces", CHILD, None, 1, 1),
    Depth("alter_namespace_properties", CHILD, None, 2, 2),
    Depth("drop_namespace", ROOT, None, 2, 2),
    Depth("drop_namespace", CHILD, None, 2, 2),
    Depth("drop_namespace cascade", ROOT, None, 2, 2),
    Depth("declare_table", ROOT, 3, 3, 5),
    Depth("declare_table", CHILD, None, 3, 3),
    Depth("create_table", ROOT, 5, 4, 7),
    Depth("create_table", CHILD, None, 4, 4),
    Depth("create_table of a declared one", ROOT, 6, 5, 8),
    Depth("create_table of a declared one", CHILD, None, 5, 5),
    Depth("create_table exist_ok", ROOT, 1, 1, 1),
    Depth("create_table exist_ok", CHILD, None, 1, 1),
    Depth("create_table overwrite", ROOT, 10, 7, 11),
    Depth("create_table overwrite", CHILD, None, 7, 7),
    Depth("table_exists", ROOT, 1, 1, 1),
    Depth("table_exists", CHILD, None, 1, 1),
    Depth("describe_table", ROOT, 1, 1, 1),
    Depth("describe_table", CHILD, None, 1, 1),
    Depth("describe_table check_declared", ROOT, 1, 1, 1),
    Depth("describe_table check_declared", CHILD, None, 1, 1),
    Depth("describe_table detailed", ROOT, 3, 3, 3),
    Depth("describe_table detailed", CHILD, None, 3, 3),
    Depth("list_tables", ROOT, 1, 1, 1),
    Depth("list_tables", CHILD, None, 1, 1),
    Depth("list_tables without declared", ROOT, 1, 2, 1),
    Depth("list_tables without declared", CHILD, None, 2, 2),
    Depth("list_all_tables", ROOT, 1, 1, 1),
    Depth("rename_table", ROOT, None, 3, 6),
    Depth("rename_table", CHILD, None, 3, 3),
    Depth("deregister_table", ROOT, 3, 3, 6),
    Depth("deregister_table", CHILD, None, 3, 3),
    Depth("register_table", ROOT, 5, 3, 6),
    Depth("register_table", CHILD, None, 3, 3),
    Depth("drop_table", ROOT, 4, 2, 4),
    Depth("drop_table", CHILD, None, 2, 2),
    Depth("drop_table declared", ROOT, 4, 2, 4),
    Depth("drop_table declared", CHILD, None, 2, 2),
]


@dataclass(frozen=True)
class Operation:
    """The preparation and the counted call. Both get the client and the parent namespace."""

    call: Step
    prepare: Step = lambda ns, parent: None
    reads: bool = False


class _RegisterAgain:
    """Registers a deregistered table, whose location is only known then."""

    def __init__(self) -> None:
        self.location = ""

    def prepare(self, ns: Any, parent: list[str]) -> None:
        create_table(ns, *parent, "x")
        location = deregister_table(ns, *parent, "x").location
        self.location = unquote(location.rstrip("/").rpartition("/")[2])

    def call(self, ns: Any, parent: list[str]) -> None:
        register_table(ns, *parent, "x", location=self.location)


_register_again = _RegisterAgain()


def _x_table(ns: Any, parent: list[str]) -> None:
    create_table(ns, *parent, "x")


def _x_declared(ns: Any, parent: list[str]) -> None:
    declare_table(ns, *parent, "x")


def _x_namespace(ns: Any, parent: list[str]) -> None:
    create_namespace(ns, *parent, "x")


def _x_namespace_with_table(ns: Any, parent: list[str]) -> None:
    create_namespace(ns, *parent, "x")
    create_table(ns, *parent, "x", "t")


OPERATIONS: dict[str, Operation] = {
    "create_namespace": Operation(lambda ns, parent: create_namespace(ns, *parent, "x")),
    "create_namespace exist_ok": Operation(
        lambda ns, parent: create_namespace(ns, *parent, "x", mode="exist_ok"), _x_namespace
    ),
    "namespace_exists": Operation(lambda ns, parent: namespace_exists(ns, *parent, "x"), _x_namespace, reads=True),
    "describe_namespace": Operation(lambda ns, parent: describe_namespace(ns, *parent, "x"), _x_namespace, reads=True),
    "list_namespaces": Operation(lambda ns, parent: list_namespaces(ns, *parent), reads=True),
    "alter_namespace_properties": Operation(lambda ns, parent: ns.alter_namespace_properties(parent, {"k": "v"})),
    "drop_namespace": Operation(lambda ns, parent: drop_namespace(ns, *parent, "x"), _x_namespace),
    "drop_namespace cascade": Operation(
        lambda ns, parent: drop_namespace(ns, *parent, "x", behavior="Cascade"), _x_namespace_with_table
    ),
    "declare_table": Operation(lambda ns, parent: declare_table(ns, *parent, "x")),
    "create_table": Operation(_x_table),
    "create_table of a declared one": Operation(_x_table, _x_declared),
    "create_table exist_ok": Operation(lambda ns, parent: create_table(ns, *parent, "x", mode="exist_ok"), _x_table),
    "create_table overwrite": Operation(lambda ns, parent: create_table(ns, *parent, "x", mode="overwrite"), _x_table),
    "table_exists": Operation(lambda ns, parent: table_exists(ns, *parent, "x"), _x_table, reads=True),
    "describe_table": Operation(lambda ns, parent: describe_table(ns, *parent, "x"), _x_table, reads=True),
    "describe_table check_declared": Operation(
        lambda ns, parent: describe_table(ns, *parent, "x", check_declared=True), _x_table, reads=True
    ),
    "describe_table detailed": Operation(
        lambda ns, parent: describe_table(ns, *parent, "x", load_detailed_metadata=True), _x_table, reads=True
    ),
    "list_tables": Operation(lambda ns, parent: list_tables(ns, *parent), _x_table, reads=True),
    "list_tables without declared": Operation(
        lambda ns, parent: list_tables(ns, *parent, include_declared=False), _x_table, reads=True
    ),
    "list_all_tables": Operation(lambda ns, parent: list_all_tables(ns, id=parent), _x_table, reads=True),
    "rename_table": Operation(lambda ns, parent: rename_table(ns, *parent, "x", to="y"), _x_table),
    "deregister_table": Operation(lambda ns, parent: deregister_table(ns, *parent, "x"), _x_table),
    "register_table": Operation(_register_again.call, _register_again.prepare),
    "drop_table": Operation(lambda ns, parent: drop_table(ns, *parent, "x"), _x_table),
    "drop_table declared": Operation(lambda ns, parent: drop_table(ns, *parent, "x"), _x_declared),
}

COMPARED = ["create_namespace", "declare_table", "create_table", "drop_table"]
"""Operations that must need fewer requests than pylance's client does in the same run."""


def warm_up(ns: Any, mode: str, place: str) -> list[str]:
    """Run some operations on an empty root, and return the parent namespace for the measured ones."""
    parent = ["parent"] if place == CHILD else []
    if mode != "v1":
        create_namespace(ns, "parent")
    create_table(ns, *parent, "w")
    table_exists(ns, *parent, "w")
    return parent


def cases() -> Iterator[tuple[Budget, str, int]]:
    """Yield the cases of the table, mode by mode."""
    for budget in BUDGETS:
        for mode in ("v1", "v2", "compatibility"):
            requests = getattr(budget, mode)
            if requests is not None:
                yield budget, mode, requests


def depth_cases() -> Iterator[tuple[str, str, str, int]]:
    """Yield operation, place, mode and depth of each case."""
    for row in DEPTHS:
        for mode in ("v1", "v2", "compatibility"):
            depth = getattr(row, mode)
            if depth is not None:
                yield row.operation, row.place, mode, depth


UPKEEP_CALLS = 64
UPKEEP_TOTAL = {"v2": 16, "compatibility": 18}
"""Requests per create_namespace over so many calls, upkeep and close included; pylance's client, which keeps nothing
in shape, makes 10."""
UPKEEP_VERSIONS = 48
"""Versions that may be left then: those that are kept, and those since the last round."""
