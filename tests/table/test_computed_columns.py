"""Computed columns: declared by an expression, filled on request."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest
from lance_namespace import (
    AlterTableAddColumnsRequest,
    AlterTableAlterColumnsRequest,
    AlterTableBackfillColumnsRequest,
    AlterTableDropColumnsRequest,
    DescribeTransactionRequest,
    UpdateFieldMetadataRequest,
)

from tests.support import create_table, declare_table, fails, ipc
from tests.table.tables import append, opened, values, version


def declare(ns, name, expression, **options):
    entries = [{"name": name, "computed": expression}]
    return ns.alter_table_add_columns(AlterTableAddColumnsRequest(id=["t"], new_columns=entries, **options))


def backfill(ns, column="double", **options):
    return ns.alter_table_backfill_columns(AlterTableBackfillColumnsRequest(id=["t"], column=column, **options))


def alter(ns, **entry):
    return ns.alter_table_alter_columns(AlterTableAlterColumnsRequest(id=["t"], alterations=[entry]))


def drop(ns, *columns):
    return ns.alter_table_drop_columns(AlterTableDropColumnsRequest(id=["t"], columns=list(columns)))


@pytest.fixture
def filled(ours):
    """Return a namespace whose table `t` has an empty computed column."""
    create_table(ours, "t", data=ipc({"x": pa.array([1, 2, None], pa.int64()), "s": ["a", "b", "c"]}))
    declare(ours, "double", "x * 2")
    return ours


def test_a_declared_column_is_empty_and_knows_its_expression(filled):
    assert version(filled) == 2
    assert values(filled, column="double") == [None, None, None]
    field = opened(filled).schema.field("double")
    assert (field.type, field.nullable) == (pa.int64(), True)
    told = {key.decode(): value.decode() for key, value in field.metadata.items()}
    assert told["computed_column"] == "true"
    assert told["computed_column.kind"] == "sql"
    assert told["computed_column.expression"] == "x * 2"
    assert json.loads(told["computed_column.inputs"]) == ["x"]


def test_a_backfill_fills_what_is_empty(filled):
    answer = backfill(filled)
    assert values(filled, column="double") == [2, 4, None]
    found = filled.describe_transaction(DescribeTransactionRequest(id=["t", answer.job_id]))
    assert (found.status, found.properties["version"]) == ("Succeeded", "3")
    assert values(filled, column="s") == ["a", "b", "c"]


def test_later_rows_are_filled_by_the_next_backfill(filled):
    backfill(filled)
    append(filled, "t", {"x": [5], "s": ["e"]})
    assert values(filled, column="double") == [2, 4, None, None]
    backfill(filled)
    assert values(filled, column="double") == [2, 4, 10, None]


def test_a_backfill_with_nothing_to_fill_commits_no_version(filled):
    backfill(filled)
    first = backfill(filled)
    assert version(filled) == 3
    assert filled.describe_transaction({"id": ["t", first.job_id]}).status == "Succeeded"


def test_a_backfill_fills_only_rows_that_meet_its_filter(filled):
    backfill(filled, where="s = 'b'")
    assert values(filled, column="double") == [4, None, None]
    with fails(13):
        backfill(filled, where="nowhere = 1")
    for where in ("s = ", "s = ?", "s = $1"):
        with fails(13):
            backfill(filled, where=where)


def test_a_backfill_of_an_old_version_does_not_fill_newer_rows(filled):
    append(filled, "t", {"x": [5], "s": ["e"]})
    backfill(filled, read_version=2)
    assert values(filled, column="double") == [2, 4, None, None]
    with fails(11):
        backfill(filled, read_version=99)


def test_options_for_the_distribution_of_work_are_ignored(filled):
    backfill(filled, concurrency=4, task_size=10, checkpoint_size=5)
    assert values(filled, column="double") == [2, 4, None]


@pytest.mark.parametrize("option", [{"num_frags": 1}, {"cluster": "big"}, {"manifest": "m"}])
def test_options_for_a_cluster_are_refused(filled, option):
    with fails(0, next(iter(option))):
        backfill(filled, **option)
    assert version(filled) == 2


def test_a_plain_column_cannot_be_filled(filled):
    with fails(19, "not a computed column"):
        backfill(filled, "x")
    with fails(12, "nowhere"):
        backfill(filled, "nowhere")


def test_a_column_that_another_program_computes_is_refused(filled):
    field = pa.field("f", pa.int64(), metadata={"computed_column": "true", "computed_column.kind": "function"})
    opened(filled).add_columns(field)
    with fails(0, "function"):
        backfill(filled, "f")


@pytest.mark.parametrize("expression", ["", "x +", "nowhere", "sum(x)", "random()", "null", "now()", "x + ?", "x + $1"])
def test_an_unsuitable_expression_raises_invalid_input(filled, expression):
    with fails(13):
        declare(filled, "y", expression)
    assert version(filled) == 2


def test_adding_an_existing_column_raises_schema_error(filled):
    with fails(20):
        declare(filled, "double", "x")


def test_an_input_of_a_computed_column_cannot_be_changed(filled):
    with fails(19, "double"):
        alter(filled, path="x", rename="y")
    with fails(19, "double"):
        alter(filled, path="x", data_type={"type": "int32"})
    with fails(19, "double"):
        drop(filled, "x")
    with fails(19):
        alter(filled, path="double", data_type={"type": "int32"})
    assert version(filled) == 2
    alter(filled, path="s", rename="t")
    drop(filled, "x", "double")
    assert opened(filled).schema.names == ["t"]


def test_a_computed_column_may_be_renamed(filled):
    alter(filled, path="double", rename="twice")
    backfill(filled, "twice")
    assert values(filled, column="twice") == [2, 4, None]


def test_updating_metadata_keeps_the_declaration_of_a_computed_column(filled):
    def update(**entry):
        return filled.update_field_metadata(UpdateFieldMetadataRequest(id=["t"], updates=[entry]))

    for key in ("computed_column", "computed_column.expression"):
        with fails(13):
            update(path="double", metadata={key: None})
        with fails(13):
            update(path="s", metadata={key: "true"})
    update(path="double", metadata={"unit": "m"}, replace=True)
    backfill(filled)
    assert values(filled, column="double") == [2, 4, None]


def test_expressions_of_odd_columns(ours):
    create_table(ours, "t", data=ipc({"a, b": [1, 2], "st": [{"q": 1}, {"q": 2}], "q": [0, 0]}))
    declare(ours, "y", "`a, b` + st.q")
    told = opened(ours).schema.field("y").metadata
    assert json.loads(told[b"computed_column.inputs"]) == ["a, b", "st"]
    backfill(ours, "y")
    assert values(ours, column="y") == [2, 4]


def test_an_expression_without_columns(ours):
    create_table(ours, "t", data=ipc({"x": [1, 2]}))
    declare(ours, "y", "'fixed'")
    backfill(ours, "y")
    assert values(ours, column="y") == ["fixed", "fixed"]


def test_backfills_of_missing_and_declared_tables(ours):
    with fails(4):
        backfill(ours)
    declare_table(ours, "t")
    with fails(19):
        backfill(ours)


def test_a_backfill_is_a_version_of_the_catalog(managed):
    create_table(managed, "t", data=ipc({"x": [1, 2]}))
    declare(managed, "double", "x * 2")
    backfill(managed)
    assert [one.version for one in managed.list_table_versions({"id": ["t"]}).versions] == [3, 2, 1]


def streamed(table):
    """Return rows as a stream that is read while it is written."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    sink.seek(0)
    return sink


def merged(ns, table, **clauses):
    return ns.merge_insert_into_table({"id": ["t"], "on": ["s"], **clauses}, table)


ROWS = pa.table({"x": [7, 8], "s": ["g", "a"], "double": pa.array([None, 5], pa.int64())})
EMPTY = ROWS.set_column(2, "double", pa.nulls(2, pa.int64()))
WRITES = {
    "insert": lambda ns, data: ns.insert_into_table({"id": ["t"]}, data),
    "merge": lambda ns, data: merged(ns, data, when_matched_update_all=True, when_not_matched_insert_all=True),
}


@pytest.mark.parametrize("sent", [ipc, streamed])
@pytest.mark.parametrize("write", list(WRITES))
def test_only_a_backfill_fills_a_computed_column(filled, write, sent):
    backfill(filled)
    with fails(13, "'double'"):
        WRITES[write](filled, sent(ROWS))
    assert version(filled) == 3
    WRITES[write](filled, sent(EMPTY))
    backfill(filled)
    assert values(filled, column="double") == ([2, 4, 14, 16, None] if write == "insert" else [4, 14, 16, None])


def test_an_update_cannot_set_a_computed_column(filled):
    for updates in ([["double", "1"]], [["x", "1"], ["double", "x"]], [["`double`", "1"]]):
        with fails(13, "'double'"):
            filled.update_table({"id": ["t"], "updates": updates})
    assert version(filled) == 2


@pytest.mark.parametrize("updates", [[["x", "x + 10"]], [["x", "length(s)"], ["s", "cast(x as string)"]]])
def test_rows_whose_inputs_are_updated_are_filled_again(filled, updates):
    declare(filled, "fourfold", "double * 2")
    declare(filled, "other", "upper(s)")
    for column in ("double", "fourfold", "other"):
        backfill(filled, column)
    assert filled.update_table({"id": ["t"], "updates": updates, "predicate": "x = 1"}).updated_rows == 1
    assert values(filled, column="double") == [4, None, None]
    assert values(filled, column="fourfold") == [8, None, None]
    kept = len(updates) == 1
    assert values(filled, column="other") == (["A", "B", "C"] if kept else ["B", "C", None])
    backfill(filled)
    backfill(filled, "fourfold")
    assert values(filled, column="double") == ([4, 22, None] if kept else [2, 4, None])
    assert values(filled, column="fourfold") == ([8, 44, None] if kept else [4, 8, None])


@pytest.mark.parametrize("sent", [ipc, streamed])
def test_rows_whose_inputs_are_merged_are_filled_again(filled, sent):
    backfill(filled)
    merged(filled, sent(pa.table({"x": [10], "s": ["a"]})), when_matched_update_all=True)
    assert values(filled, column="double") == [4, None, None]
    backfill(filled)
    assert values(filled, column="double") == [4, 20, None]


def test_a_merge_that_only_inserts_keeps_computed_values(filled):
    declare(filled, "other", "length(s)")
    backfill(filled)
    rows = pa.table({"x": [1], "s": ["long"]})
    filled.merge_insert_into_table({"id": ["t"], "on": ["x"], "when_not_matched_insert_all": True}, ipc(rows))
    assert values(filled, column="double") == [2, 4, None]
