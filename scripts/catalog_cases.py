"""The cases of operations on namespaces, on tables as a whole, and on their versions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from operation_calls import Case, rows
from operation_steps import MISSING, T, ask, case, pages, steps, told, usual

if TYPE_CHECKING:
    from operation_calls import Subject


def _version(operation: str) -> list[Case]:
    return [steps("", lambda subject: subject.ask(operation, **subject.stage()))]


def _registered(subject: Subject) -> object:
    location = subject.create("u", rows(0, 1)).location
    subject.ask("deregister_table", id=["u"])
    return subject.ask("register_table", id=["u"], location=Path(location).name)


def _batch_create(subject: Subject) -> object:
    return subject.ask("batch_create_table_versions", entries=[subject.stage()])


def _batch_commit(subject: Subject) -> object:
    return subject.ask("batch_commit_tables", operations=[{"declare_table": {"id": ["new"]}}])


_VIEW = {"id": ["view"], "kind": "query", "source_query": "?", "output_schema": ""}


CASES: dict[str, list[Case]] = {
    "namespace_id": [Case("", lambda subject: subject.namespace.namespace_id() and None)],
    "create_namespace": [
        case("", "create_namespace", id=["n"]),
        case("exists", "create_namespace", id=["n"]),
        case("missing parent", "create_namespace", id=["no", "where"]),
    ],
    "list_namespaces": [
        case("", "list_namespaces", id=[]),
        case("missing parent", "list_namespaces", id=["nowhere"]),
    ],
    "describe_namespace": [
        case("root", "describe_namespace", id=[]),
        case("missing", "describe_namespace", id=["nowhere"]),
    ],
    "namespace_exists": [case("root", "namespace_exists", id=[]), case("missing", "namespace_exists", id=["nowhere"])],
    "drop_namespace": [
        steps("", ask("create_namespace", id=["n"]), ask("drop_namespace", id=["n"])),
        case("missing", "drop_namespace", id=["nowhere"]),
    ],
    "list_tables": [
        told("", lambda subject: f"{len(subject.ask('list_tables', id=[]).tables)} table"),
        case("missing namespace", "list_tables", id=["nowhere"]),
    ],
    "list_all_tables": [told("", lambda subject: f"{len(subject.ask('list_all_tables', id=[]).tables)} table")],
    "describe_table": [*usual("describe_table"), case("missing version", "describe_table", id=T, version=99)],
    "table_exists": usual("table_exists"),
    "register_table": [
        steps("", _registered),
        case("nothing there", "register_table", id=["w"], location="w.lance"),
    ],
    "deregister_table": [case(MISSING, "deregister_table", id=["nowhere"]), case("", "deregister_table", id=T)],
    "drop_table": [case(MISSING, "drop_table", id=["nowhere"]), case("", "drop_table", id=T)],
    "rename_table": [case("", "rename_table", id=T, new_table_name="u")],
    "create_table": [
        steps("", lambda subject: subject.create("new", rows(0, 1))),
        steps("exists", lambda subject: subject.create("t", rows(0, 1))),
        steps("overwrite", lambda subject: subject.create("t", rows(0, 1), mode="overwrite")),
        case("no Arrow data", "create_table", b"nonsense", id=["other"]),
    ],
    "declare_table": [case("", "declare_table", id=["d"]), case("exists", "declare_table", id=T)],
    "create_empty_table": [case("deprecated", "create_empty_table", id=["e"])],
    "restore_table": [
        steps("", lambda subject: subject.append(), ask("restore_table", id=T, version=1)),
        case("missing version", "restore_table", id=T, version=99),
    ],
    "list_table_versions": [
        case("", "list_table_versions", id=T),
        steps("second", lambda subject: subject.append()),
        told("pages", pages("list_table_versions", "versions")),
        case("missing branch", "list_table_versions", id=T, branch="nowhere"),
    ],
    "create_table_version": _version("create_table_version"),
    "describe_table_version": [
        case("", "describe_table_version", id=T, version=1),
        case("missing version", "describe_table_version", id=T, version=99),
        case("missing branch", "describe_table_version", id=T, branch="nowhere"),
    ],
    "batch_delete_table_versions": [
        steps(
            "",
            lambda subject: subject.append(),
            ask("batch_delete_table_versions", id=T, ranges=[{"start_version": 1, "end_version": 2}]),
        ),
        case("the latest", "batch_delete_table_versions", id=T, ranges=[{"start_version": 2, "end_version": 3}]),
    ],
    "batch_create_table_versions": [steps("", _batch_create)],
    "batch_commit_tables": [steps("declare a table", _batch_commit)],
    "create_materialized_view": [case("", "create_materialized_view", **_VIEW)],
    "refresh_materialized_view": [case("", "refresh_materialized_view", id=T)],
    "describe_transaction": [
        case("", "describe_transaction", id=["t", "1"]),
        case("missing", "describe_transaction", id=["t", "99"]),
    ],
    "alter_transaction": [
        case("nothing new", "alter_transaction", id=["t", "1"], actions=[{"setStatusAction": {"status": "Succeeded"}}]),
        case("cancel", "alter_transaction", id=["t", "1"], actions=[{"setStatusAction": {"status": "Canceled"}}]),
        case(
            "set a property",
            "alter_transaction",
            id=["t", "1"],
            actions=[{"setPropertyAction": {"key": "a", "value": "b"}}],
        ),
    ],
}
"""By operation. A case labelled `second` only prepares the next one, and is not shown."""
