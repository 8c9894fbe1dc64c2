"""Every change of a managed table is first committed as a row of the catalog."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support import create_table, ipc
from tests.table.tables import append, by_path

T = ["t"]
_COMPUTED = [{"name": "c", "computed": "x * 2"}]

CHANGES = {
    "scalar index": [("create_table_scalar_index", {"column": "x", "index_type": "BTREE", "name": "i"})],
    "full-text index": [("create_table_index", {"column": "s", "index_type": "FTS", "name": "i"})],
    "vector index": [("create_table_index", {"column": "v", "index_type": "IVF_FLAT", "name": "i"})],
    "dropped index": [
        ("create_table_index", {"column": "x", "index_type": "BTREE", "name": "i"}),
        ("drop_table_index", {"index_name": "i"}),
    ],
    "column": [("alter_table_add_columns", {"new_columns": [{"name": "y", "expression": "x + 1"}]})],
    "constant column": [("alter_table_add_columns", {"new_columns": [{"name": "y", "expression": "'a'"}]})],
    "computed column": [
        ("alter_table_add_columns", {"new_columns": _COMPUTED}),
        ("alter_table_backfill_columns", {"column": "c"}),
    ],
    "renamed column": [("alter_table_alter_columns", {"alterations": [{"path": "x", "rename": "y"}]})],
    "cast column": [("alter_table_alter_columns", {"alterations": [{"path": "x", "data_type": {"type": "int32"}}]})],
    "nullability": [("alter_table_alter_columns", {"alterations": [{"path": "x", "nullable": False}]})],
    "dropped column": [("alter_table_drop_columns", {"columns": ["s"]})],
    "schema metadata": [("update_table_schema_metadata", {"metadata": {"a": "b"}})],
    "field metadata": [("update_field_metadata", {"updates": [{"path": "x", "metadata": {"a": "b"}}]})],
    "restore": [("restore_table", {"version": 1})],
}
NO_CHANGES = {
    "tag": [
        ("create_table_tag", {"tag": "a", "version": 1}),
        ("update_table_tag", {"tag": "a", "version": 2}),
        ("delete_table_tag", {"tag": "a"}),
    ],
    "branch": [
        ("create_table_branch", {"name": "b"}),
        ("create_table_scalar_index", {"column": "x", "index_type": "BTREE", "branch": "b"}),
        ("alter_table_drop_columns", {"columns": ["s"], "branch": "b"}),
        ("restore_table", {"version": 2, "branch": "b"}),
        ("delete_table_branch", {"name": "b"}),
    ],
}


@pytest.fixture
def filled(managed):
    """Return a managed table with two versions."""
    rows = {"x": list(range(20)), "s": ["a"] * 20}
    create_table(managed, "t", data=ipc({**rows, "v": vectors(20)}))
    append(managed, "t", {"x": [20], "s": ["b"], "v": vectors(1)})
    return managed


def vectors(count):
    return pa.array([[float(i), 1.0] for i in range(count)], pa.list_(pa.float32(), 2))


def by_rows(ns):
    """Return the latest version in the rows of the catalog, without reading the files."""
    return ns.latest_table_versions([T])[0]


@pytest.mark.parametrize("case", list(CHANGES))
def test_a_change_is_a_version_of_the_catalog(filled, case):
    before = by_rows(filled)
    for operation, request in CHANGES[case]:
        getattr(filled, operation)({"id": T, **request})
    made = by_rows(filled)
    assert made == before + len(CHANGES[case])
    assert by_path(filled).version == made


@pytest.mark.parametrize("case", list(NO_CHANGES))
def test_tags_and_branches_are_no_versions_of_the_catalog(filled, case):
    before = by_rows(filled)
    for operation, request in NO_CHANGES[case]:
        getattr(filled, operation)({"id": T, **request})
    assert by_rows(filled) == before
    assert by_path(filled).version == before
