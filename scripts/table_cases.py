"""The cases of operations inside a table: rows, columns, indexes, tags, branches."""

from __future__ import annotations

from typing import Any

from operation_calls import Case, ipc, rows
from operation_steps import MISSING, T, ask, case, pages, steps, told


def _rows(answer: Any) -> str:
    return f"{getattr(answer, 'count', answer)} rows"


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

CASES: dict[str, list[Case]] = {
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
        told("pages", pages("list_table_indices", "indexes")),
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
        told("pages", pages("list_table_tags", "tags")),
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
        told("pages", pages("list_table_branches", "branches")),
    ],
    "delete_table_branch": [
        steps("", ask("create_table_branch", id=T, name="b"), ask("delete_table_branch", id=T, name="b")),
        case("missing branch", "delete_table_branch", id=T, name="nowhere"),
    ],
}
"""By operation, as in `catalog_cases`."""
