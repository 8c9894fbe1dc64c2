"""The cases of each operation: what is asked, in which order, on a catalog that has one table `t` of 300 rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from operation_calls import Case, ipc, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from operation_calls import Subject

MISSING = "missing table"
T = ["t"]


def case(label: str, operation: str, *data: bytes, **fields: Any) -> Case:
    """Ask once, and tell nothing but whether it worked."""

    def do(subject: Subject) -> None:
        subject.ask(operation, *data, **fields)

    return Case(label, do)


def told(label: str, do: Callable[[Subject], object]) -> Case:
    """Ask, and tell what came of it."""
    return Case(label, lambda subject: str(do(subject)))


def steps(label: str, *asked: Callable[[Subject], object]) -> Case:
    """Ask several times; the last one counts."""

    def do(subject: Subject) -> None:
        for one in asked:
            one(subject)

    return Case(label, do)


def ask(operation: str, *data: bytes, **fields: Any) -> Callable[[Subject], Any]:
    """Give a step."""
    return lambda subject: subject.ask(operation, *data, **fields)


def _pages(operation: str, of: str) -> Callable[[Subject], str]:
    def do(subject: Subject) -> str:
        answer = subject.ask(operation, id=T, limit=1)
        return f"{len(getattr(answer, of))} of a page of 1"

    return do


def _table(operation: str, **fields: Any) -> list[Case]:
    """Give the usual cases: it works, and the table is not there."""
    return [case("", operation, id=T, **fields), case(MISSING, operation, id=["nowhere"], **fields)]


def _version(operation: str) -> list[Case]:
    return [steps("", lambda subject: subject.ask(operation, **subject.stage()))]


def _registered(subject: Subject) -> object:
    location = subject.create("u", rows(0, 1)).location
    subject.ask("deregister_table", id=["u"])
    return subject.ask("register_table", id=["u"], location=Path(location).name)


def _rows(answer: Any) -> str:
    return f"{getattr(answer, 'count', answer)} rows"


def _batch_create(subject: Subject) -> object:
    return subject.ask("batch_create_table_versions", entries=[subject.stage()])


def _batch_commit(subject: Subject) -> object:
    return subject.ask("batch_commit_tables", operations=[{"declare_table": {"id": ["new"]}}])


def _index(name: str, column: str = "x", kind: str = "BTREE", **more: Any) -> dict[str, Any]:
    return {"id": T, "column": column, "index_type": kind, "name": name, **more}


_DATA = ipc(rows(2000, 2))
_VECTOR = {"k": 3, "vector_column": "v", "vector": {"single_vector": [1.0] * 8}}
_COMPUTED = [{"name": "c", "computed": "x * 2"}]
_ADDED = [{"name": "y", "expression": "x * 2"}]
_FUNCTION = {
    "input_columns": ["x"],
    "outputs": [{"column": "f", "struct_field": "f", "data_type": {"type": "int64"}, "nullable": True}],
    "image": "i",
    "udf": "",
    "udf_name": "f",
    "udf_version": "1",
}
_PROPERTY = {"setPropertyAction": {"key": "a", "value": "b"}}
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
    "describe_table": [*_table("describe_table"), case("missing version", "describe_table", id=T, version=99)],
    "table_exists": _table("table_exists"),
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
    "count_table_rows": [
        told("", lambda subject: _rows(subject.ask("count_table_rows", id=T))),
        case("bad predicate", "count_table_rows", id=T, predicate="nowhere = 1"),
    ],
    "insert_into_table": [
        case("", "insert_into_table", _DATA, id=T),
        case("no Arrow data", "insert_into_table", b"nonsense", id=T),
        case(MISSING, "insert_into_table", _DATA, id=["nowhere"]),
    ],
    "merge_insert_into_table": [
        case("", "merge_insert_into_table", _DATA, id=T, on=["x"], when_not_matched_insert_all=True),
        case(
            "missing column", "merge_insert_into_table", _DATA, id=T, on=["nowhere"], when_not_matched_insert_all=True
        ),
    ],
    "update_table": [
        case("", "update_table", id=T, updates=[["s", "'new'"]], predicate="x = 1"),
        case("missing column", "update_table", id=T, updates=[["nowhere", "1"]]),
    ],
    "delete_from_table": [
        case("", "delete_from_table", id=T, predicate="x = 1"),
        case("bad predicate", "delete_from_table", id=T, predicate="nowhere = 1"),
    ],
    "query_table": [
        case("vector", "query_table", id=T, **_VECTOR),
        case("bad filter", "query_table", id=T, filter="nowhere = 1", **_VECTOR),
    ],
    "explain_table_query_plan": [case("", "explain_table_query_plan", id=T, query=_VECTOR)],
    "analyze_table_query_plan": [case("", "analyze_table_query_plan", id=T, **_VECTOR)],
    "create_table_index": [
        case("BTREE", "create_table_index", **_index("a")),
        case("exists", "create_table_index", **_index("a")),
        case("FTS", "create_table_index", **_index("f", "s", "FTS", with_position=True)),
        case("IVF_PQ", "create_table_index", **_index("v", "v", "IVF_PQ", num_sub_vectors=4, num_bits=4)),
        case("missing column", "create_table_index", **_index("m", "nowhere")),
        case("wrong column", "create_table_index", **_index("w", "x", "IVF_FLAT")),
        case("missing branch", "create_table_index", **_index("b", branch="nowhere")),
    ],
    "create_table_scalar_index": [
        case("BITMAP", "create_table_scalar_index", **_index("a", kind="BITMAP")),
        case("a vector index", "create_table_scalar_index", **_index("v", "v", "IVF_FLAT")),
    ],
    "list_table_indices": [
        steps("", ask("create_table_index", **_index("a")), ask("list_table_indices", id=T)),
        steps("second", ask("create_table_index", **_index("b"))),
        told("pages", _pages("list_table_indices", "indexes")),
        case("missing version", "list_table_indices", id=T, version=99),
    ],
    "describe_table_index_stats": [
        steps("", ask("create_table_index", **_index("a")), ask("describe_table_index_stats", id=T, index_name="a")),
        case("missing index", "describe_table_index_stats", id=T, index_name="nowhere"),
    ],
    "drop_table_index": [
        steps("", ask("create_table_index", **_index("a")), ask("drop_table_index", id=T, index_name="a")),
        case("missing index", "drop_table_index", id=T, index_name="nowhere"),
    ],
    "restore_table": [
        steps("", lambda subject: subject.append(), ask("restore_table", id=T, version=1)),
        case("missing version", "restore_table", id=T, version=99),
    ],
    "list_table_versions": [
        case("", "list_table_versions", id=T),
        steps("second", lambda subject: subject.append()),
        told("pages", _pages("list_table_versions", "versions")),
    ],
    "create_table_version": _version("create_table_version"),
    "describe_table_version": [
        case("", "describe_table_version", id=T, version=1),
        case("missing version", "describe_table_version", id=T, version=99),
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
    "update_table_schema_metadata": [
        steps("", ask("update_table_schema_metadata", id=T, metadata={"a": "1"})),
        told("replaces", lambda s: sorted(s.ask("update_table_schema_metadata", id=T, metadata={"b": "1"}).metadata)),
    ],
    "update_field_metadata": [
        case("", "update_field_metadata", id=T, updates=[{"path": "x", "metadata": {"a": "1"}}]),
        case("missing column", "update_field_metadata", id=T, updates=[{"path": "nowhere", "metadata": {"a": "1"}}]),
    ],
    "get_table_stats": [
        told("", lambda subject: f"{subject.ask('get_table_stats', id=T).num_rows} rows"),
        steps("second", lambda subject: subject.opened().delete("x < 100")),
        told("100 rows deleted", lambda subject: f"{subject.ask('get_table_stats', id=T).num_rows} rows"),
    ],
    "alter_table_add_columns": [
        case("expression", "alter_table_add_columns", id=T, new_columns=_ADDED),
        case("exists", "alter_table_add_columns", id=T, new_columns=_ADDED),
        case("bad expression", "alter_table_add_columns", id=T, new_columns=[{"name": "z", "expression": "nowhere"}]),
        case("computed", "alter_table_add_columns", id=T, new_columns=_COMPUTED),
        case("function", "alter_table_add_columns", id=T, new_columns=[{"name": "f", "virtual_column": _FUNCTION}]),
    ],
    "alter_table_alter_columns": [
        case("rename", "alter_table_alter_columns", id=T, alterations=[{"path": "s", "rename": "text"}]),
        case("type", "alter_table_alter_columns", id=T, alterations=[{"path": "x", "data_type": {"type": "int32"}}]),
        case("nullability", "alter_table_alter_columns", id=T, alterations=[{"path": "x", "nullable": False}]),
        case("name is taken", "alter_table_alter_columns", id=T, alterations=[{"path": "x", "rename": "v"}]),
        case("missing column", "alter_table_alter_columns", id=T, alterations=[{"path": "no", "rename": "where"}]),
    ],
    "alter_table_drop_columns": [
        case("", "alter_table_drop_columns", id=T, columns=["s"]),
        case("missing column", "alter_table_drop_columns", id=T, columns=["nowhere"]),
    ],
    "alter_table_backfill_columns": [
        steps(
            "",
            ask("alter_table_add_columns", id=T, new_columns=_COMPUTED),
            ask("alter_table_backfill_columns", id=T, column="c"),
        ),
        case("no computed column", "alter_table_backfill_columns", id=T, column="x"),
    ],
    "create_materialized_view": [case("", "create_materialized_view", **_VIEW)],
    "refresh_materialized_view": [case("", "refresh_materialized_view", id=T)],
    "create_table_tag": [
        case("", "create_table_tag", id=T, tag="a", version=1),
        case("exists", "create_table_tag", id=T, tag="a", version=1),
        case("missing version", "create_table_tag", id=T, tag="b", version=99),
        case("missing branch", "create_table_tag", id=T, tag="c", version=1, branch="nowhere"),
        case("bad name", "create_table_tag", id=T, tag="a/b", version=1),
    ],
    "list_table_tags": [
        steps("", ask("create_table_tag", id=T, tag="a", version=1), ask("list_table_tags", id=T)),
        steps("second", ask("create_table_tag", id=T, tag="b", version=1)),
        told("pages", _pages("list_table_tags", "tags")),
    ],
    "get_table_tag_version": [
        steps("", ask("create_table_tag", id=T, tag="a", version=1), ask("get_table_tag_version", id=T, tag="a")),
        case("missing tag", "get_table_tag_version", id=T, tag="nowhere"),
    ],
    "update_table_tag": [
        steps("", ask("create_table_tag", id=T, tag="a", version=1), ask("update_table_tag", id=T, tag="a", version=1)),
        case("missing tag", "update_table_tag", id=T, tag="nowhere", version=1),
        case("missing version", "update_table_tag", id=T, tag="a", version=99),
    ],
    "delete_table_tag": [
        steps("", ask("create_table_tag", id=T, tag="a", version=1), ask("delete_table_tag", id=T, tag="a")),
        case("missing tag", "delete_table_tag", id=T, tag="nowhere"),
    ],
    "create_table_branch": [
        case("", "create_table_branch", id=T, name="b"),
        case("exists", "create_table_branch", id=T, name="b"),
        case("missing version", "create_table_branch", id=T, name="c", from_version=99),
        case("missing branch", "create_table_branch", id=T, name="c", from_branch="nowhere"),
    ],
    "list_table_branches": [
        steps("", ask("create_table_branch", id=T, name="a"), ask("list_table_branches", id=T)),
        steps("second", ask("create_table_branch", id=T, name="b")),
        told("pages", _pages("list_table_branches", "branches")),
    ],
    "delete_table_branch": [
        steps("", ask("create_table_branch", id=T, name="b"), ask("delete_table_branch", id=T, name="b")),
        case("missing branch", "delete_table_branch", id=T, name="nowhere"),
    ],
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
