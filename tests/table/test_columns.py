"""Adding, altering and dropping columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance_namespace import (
    AlterTableAddColumnsRequest,
    AlterTableAlterColumnsRequest,
    AlterTableDropColumnsRequest,
    CreateTableBranchRequest,
    CreateTableIndexRequest,
    ListTableIndicesRequest,
)
from lance_namespace.errors import InvalidInputError, TableColumnNotFoundError

from tests.support import create_table, declare_table, fails, ipc
from tests.table.tables import append, by_path, opened, values, version

ROWS = 6


@pytest.fixture
def filled(namespace):
    """Return a namespace with a table `t` of several fragments, one of them with deleted rows."""
    return fill(namespace)


def fill(ns):
    create_table(ns, "t", data=ipc(rows(0, 4)))
    append(ns, "t", rows(4, 4))
    opened(ns).delete("x = 1 OR x = 5")
    return ns


def rows(start, count):
    numbers = list(range(start, start + count))
    return pa.table(
        {
            "x": pa.array(numbers, pa.int64()),
            "s": [str(i) for i in numbers],
            "some": pa.array([None if i % 2 else i for i in numbers], pa.int32()),
            "big": pa.array([1 << 40] * count, pa.int64()),
            "nested": [{"a": i, "b": {"c": str(i)}} for i in numbers],
        }
    )


def add(ns, *entries, **options):
    return ns.alter_table_add_columns(AlterTableAddColumnsRequest(id=["t"], new_columns=list(entries), **options))


def alter(ns, *entries, **options):
    return ns.alter_table_alter_columns(AlterTableAlterColumnsRequest(id=["t"], alterations=list(entries), **options))


def drop(ns, *paths, **options):
    return ns.alter_table_drop_columns(AlterTableDropColumnsRequest(id=["t"], columns=list(paths), **options))


def names(ns):
    return opened(ns).schema.names


def test_columns_are_added_by_expressions(filled):
    answer = add(filled, {"name": "y", "expression": "x * 2"}, {"name": "up", "expression": "concat(s, '!')"})
    assert answer.version == version(filled) == 4
    assert names(filled) == ["x", "s", "some", "big", "nested", "y", "up"]
    assert values(filled, column="y") == [0, 4, 6, 8, 12, 14]
    assert values(filled, column="up") == ["0!", "2!", "3!", "4!", "6!", "7!"]


@pytest.mark.parametrize("expression", ["x * 2", "coalesce(some, 7)", "'constant'", "3"])
def test_later_rows_have_no_value_in_an_added_column(filled, expression):
    answer = add(filled, {"name": "y", "expression": expression})
    assert answer.version == version(filled)
    append(filled, "t", rows(8, 1))
    assert opened(filled).to_table(columns=["y"], filter="x = 8")["y"].to_pylist() == [None]


def test_a_column_without_nulls_is_added_in_one_version(ours):
    fill(ours)
    answer = add(ours, {"name": "k", "expression": "'constant'"}, {"name": "n", "expression": "coalesce(some, 7)"})
    assert answer.version == version(ours) == 4
    assert values(ours, column="k") == ["constant"] * 6
    assert values(ours, column="n") == [0, 2, 4, 6, 7, 7]


def test_a_column_of_a_table_that_has_only_vectors(ours):
    vectors = pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2))
    create_table(ours, "t", data=ipc(pa.table({"v": vectors})))
    assert add(ours, {"name": "k", "expression": "'constant'"}).version == version(ours) == 3
    append(ours, "t", pa.table({"v": vectors}))
    assert values(ours, column="k") == ["constant"] * 3 + [None] * 3


def test_expressions_read_nested_columns(filled):
    add(filled, {"name": "y", "expression": "nested.a + 1"})
    assert values(filled, column="y") == [1, 3, 4, 5, 7, 8]


def test_adding_an_existing_column_raises_schema_error(filled):
    with fails(20, "'x'"):
        add(filled, {"name": "fine", "expression": "1"}, {"name": "x", "expression": "x + 1"})
    assert version(filled) == 3


BAD = {
    "missing column": [{"name": "y", "expression": "nowhere + 1"}],
    "half an expression": [{"name": "y", "expression": "x +"}],
    "empty expression": [{"name": "y", "expression": ""}],
    "unknown function": [{"name": "y", "expression": "magic(x)"}],
    "sum of all": [{"name": "y", "expression": "sum(x)"}],
    "fails on a value": [{"name": "y", "expression": "10 / x"}],
    "fails on a cast": [{"name": "y", "expression": "cast(concat(s, 'a') as int)"}],
    "placeholder": [{"name": "y", "expression": "x + $1"}],
    "question mark": [{"name": "y", "expression": "x + ?"}],
    "no expression": [{"name": "y"}],
    "two kinds": [{"name": "y", "expression": "x", "computed": "x"}],
    "dot": [{"name": "a.b", "expression": "x"}],
    "empty name": [{"name": "", "expression": "x"}],
    "Lance's own": [{"name": "_rowid", "expression": "x"}],
    "twice": [{"name": "y", "expression": "x"}, {"name": "y", "expression": "x + 1"}],
    "computed and not": [{"name": "y", "expression": "x"}, {"name": "z", "computed": "x"}],
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_columns_raise_invalid_input(filled, case):
    with fails(13):
        add(filled, *BAD[case])
    assert version(filled) == 3


def test_a_request_without_columns_raises_invalid_input(ours):
    fill(ours)
    with fails(13):
        ours.alter_table_add_columns({"id": ["t"], "new_columns": []})
    with fails(13):
        ours.alter_table_alter_columns({"id": ["t"], "alterations": []})
    with fails(13):
        ours.alter_table_drop_columns({"id": ["t"], "columns": []})
    assert version(ours) == 3


FUNCTION = {
    "input_columns": ["x"],
    "outputs": [{"column": "y", "struct_field": "y", "data_type": {"type": "int64"}, "nullable": True}],
    "image": "image",
    "udf": "",
    "udf_name": "f",
    "udf_version": "1",
}


def test_functions_are_refused_with_the_reason(ours):
    fill(ours)
    with fails(0, "container"):
        add(ours, {"name": "y", "virtual_column": FUNCTION})
    with fails(0, "container"):
        alter(ours, {"path": "x", "virtual_column": {"udf_version": "2"}})
    assert version(ours) == 3


def test_columns_are_renamed(filled):
    answer = alter(filled, {"path": "s", "rename": "text"}, {"path": "nested.b.c", "rename": "d"})
    assert answer.version == version(filled) == 4
    assert names(filled) == ["x", "text", "some", "big", "nested"]
    assert opened(filled).to_table(columns={"d": "nested.b.d"})["d"].to_pylist() == ["0", "2", "3", "4", "6", "7"]


def test_columns_swap_their_names(filled):
    alter(filled, {"path": "x", "rename": "big"}, {"path": "big", "rename": "x"})
    assert values(filled, column="big") == [0, 2, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        ("x", {"type": "int32"}, pa.int32()),
        ("some", {"type": "int64"}, pa.int64()),
        ("s", {"type": "large_utf8"}, pa.large_string()),
        ("nested.a", {"type": "int16"}, pa.int16()),
    ],
)
def test_columns_are_cast(filled, path, kind, expected):
    before = opened(filled).to_table(columns={"value": path})["value"].to_pylist()
    answer = alter(filled, {"path": path, "data_type": kind})
    assert answer.version == version(filled)
    after = opened(filled).to_table(columns={"value": path})["value"]
    assert after.type == expected
    assert after.to_pylist() == before


def test_a_column_becomes_nullable_and_not_nullable(filled):
    alter(filled, {"path": "x", "nullable": False})
    assert not opened(filled).schema.field("x").nullable
    alter(filled, {"path": "x", "nullable": True})
    assert opened(filled).schema.field("x").nullable


def test_several_changes_of_a_column_at_once(ours):
    fill(ours)
    alter(ours, {"path": "x", "rename": "y", "data_type": {"type": "int32"}, "nullable": True})
    assert opened(ours).schema.field("y") == pa.field("y", pa.int32())
    assert version(ours) == 4


def test_a_column_becomes_not_nullable_before_or_after_a_cast(ours):
    fill(ours)
    with fails(13, "cast first"):
        alter(ours, {"path": "x", "data_type": {"type": "int32"}, "nullable": False})
    assert version(ours) == 3


AGAINST = {
    "name is taken": {"path": "x", "rename": "s"},
    "nested name is taken": {"path": "nested.a", "rename": "b"},
    "there are nulls": {"path": "some", "nullable": False},
    "value does not fit": {"path": "big", "data_type": {"type": "int32"}},
    "no such cast": {"path": "x", "data_type": {"type": "list", "fields": [{"name": "i", "type": {"type": "utf8"}}]}},
}


@pytest.mark.parametrize("case", list(AGAINST))
def test_an_impossible_alteration_raises_schema_error(filled, case):
    before = opened(filled).schema
    with fails(20):
        alter(filled, AGAINST[case])
    assert version(filled) == 3
    assert opened(filled).schema == before


WRONG = {
    "nothing": {"path": "x"},
    "empty name": {"path": "x", "rename": ""},
    "dot": {"path": "x", "rename": "a.b"},
    "Lance's own": {"path": "x", "rename": "_rowid"},
    "unknown type": {"path": "x", "data_type": {"type": "number"}},
    "no type": {"path": "x", "data_type": {"kind": "int64"}},
    "no unit": {"path": "x", "data_type": {"type": "timestamp"}},
    "list of nothing": {"path": "x", "data_type": {"type": "list"}},
}


@pytest.mark.parametrize("case", list(WRONG))
def test_bad_alterations_raise_invalid_input(filled, case):
    with fails(13):
        alter(filled, {"path": "s", "rename": "fine"}, WRONG[case])
    assert version(filled) == 3


def test_a_column_that_is_altered_twice_raises_invalid_input(filled):
    with fails(13):
        alter(filled, {"path": "x", "rename": "y"}, {"path": "`x`", "nullable": False})
    assert version(filled) == 3


@pytest.mark.parametrize("path", ["nowhere", "nested.nowhere", "a", "X"])
def test_changing_a_missing_column_raises_column_not_found(filled, path):
    with fails(12, path):
        alter(filled, {"path": "s", "rename": "fine"}, {"path": path, "rename": "y"})
    with fails(12, path):
        drop(filled, "s", path)
    assert version(filled) == 3


@pytest.mark.parametrize("path", [".", "x.", "`x", "nested..a"])
def test_changing_an_invalid_path_raises_column_not_found_or_invalid_input(filled, path):
    for ask in (lambda: alter(filled, {"path": path, "rename": "y"}), lambda: drop(filled, path)):
        with pytest.raises((InvalidInputError, TableColumnNotFoundError)):
            ask()
    assert version(filled) == 3


def test_columns_are_dropped(filled):
    answer = drop(filled, "s", "nested.b", "big")
    assert answer.version == version(filled) == 4
    assert names(filled) == ["x", "some", "nested"]
    assert opened(filled).schema.field("nested").type == pa.struct([("a", pa.int64())])
    assert values(filled) == [0, 2, 3, 4, 6, 7]


def test_a_column_that_is_named_twice_is_dropped_once(filled):
    drop(filled, "s", "s")
    assert names(filled) == ["x", "some", "big", "nested"]


def test_dropping_all_columns_raises_invalid_input(filled):
    with fails(13):
        drop(filled, *names(filled))
    assert version(filled) == 3


def test_indexes_follow_their_columns(filled):
    filled.create_table_index(CreateTableIndexRequest(id=["t"], column="x", index_type="BTREE", name="i"))
    filled.create_table_index(CreateTableIndexRequest(id=["t"], column="s", index_type="BTREE", name="j"))
    alter(filled, {"path": "x", "rename": "y"})
    drop(filled, "s")
    found = filled.list_table_indices(ListTableIndicesRequest(id=["t"])).indexes
    assert [(one.index_name, one.columns) for one in found] == [("i", ["y"])]


def test_casting_a_column_that_has_an_index_raises_invalid_table_state(filled):
    filled.create_table_index(CreateTableIndexRequest(id=["t"], column="x", index_type="BTREE", name="i"))
    with fails(19, "[i]"):
        alter(filled, {"path": "x", "data_type": {"type": "int32"}})
    assert version(filled) == 4


def test_columns_of_a_branch_are_its_own(filled):
    filled.create_table_branch(CreateTableBranchRequest(id=["t"], name="side"))
    assert add(filled, {"name": "y", "expression": "x"}, branch="side").version == 4
    assert alter(filled, {"path": "y", "rename": "z"}, branch="side").version == 5
    assert drop(filled, "s", branch="side").version == 6
    side = by_path(filled).checkout_version(("side", None))
    assert side.schema.names == ["x", "some", "big", "nested", "z"]
    assert version(filled) == 3


def asks(ns, **options):
    return (
        lambda: add(ns, {"name": "y", "expression": "x"}, **options),
        lambda: alter(ns, {"path": "x", "rename": "y"}, **options),
        lambda: drop(ns, "x", **options),
    )


def test_columns_of_a_missing_branch_raise_branch_not_found(filled):
    for ask in asks(filled, branch="nowhere"):
        with fails(22, "nowhere"):
            ask()


def test_columns_of_a_missing_table_raise_table_not_found(namespace):
    for ask in asks(namespace):
        with fails(4):
            ask()


def test_columns_of_a_declared_table_raise_invalid_table_state(ours):
    declare_table(ours, "t")
    for ask in asks(ours):
        with fails(19):
            ask()


def test_the_versions_of_columns_are_those_of_the_catalog(managed):
    fill(managed)
    add(managed, {"name": "y", "expression": "x"})
    add(managed, {"name": "k", "expression": "'constant'"})
    alter(managed, {"path": "y", "data_type": {"type": "int32"}})
    drop(managed, "s")
    listed = [one.version for one in managed.list_table_versions({"id": ["t"]}).versions]
    assert listed == list(range(version(managed), 0, -1))
    assert by_path(managed).version == version(managed)
