"""SQL expressions in requests: any expression returns a result or raises an error of the request."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from lance_namespace.errors import LanceNamespaceError

from tests.support import create_table, describe_table, fails, ipc
from tests.table.calls import count, delete, merge, query, update
from tests.table.kinds import opened

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "text": ["a", "b", None],
        "vector": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
        "inner": [{"a": 1, "b": {"c": "x"}}] * 3,
    }
)
ALLOWED = {12, 13, 20}


@pytest.mark.parametrize("expression", ["id = ?", "id = $1", "id = :a", "? = 'x'", "$name IS NULL"])
def test_placeholders_are_refused(ours, expression):
    """Lance panics on placeholders."""
    create_table(ours, "t", data=ipc(ROWS))
    for call in (
        lambda: count(ours, "t", predicate=expression),
        lambda: query(ours, "t", filter=expression),
        lambda: query(ours, "t", columns={"column_aliases": {"x": expression}}),
        lambda: update(ours, "t", to={"id": "1"}, predicate=expression),
        lambda: update(ours, "t", to={"id": expression}),
        lambda: delete(ours, "t", where=expression),
        lambda: merge(ours, "t", data=ROWS, when_matched_update_all_filt=expression),
        lambda: merge(ours, "t", data=ROWS, when_not_matched_by_source_delete_filt=expression),
    ):
        with fails(13, "placeholder"):
            call()
    assert describe_table(ours, "t", load_detailed_metadata=True).version == 1


@pytest.mark.parametrize(
    "expression", ["text = '?'", "text != ':a'", "text = '$1'", "id::bigint = 1", "text = 'it''s :a'"]
)
def test_a_placeholder_inside_a_text_is_accepted(namespace, expression):
    create_table(namespace, "t", data=ipc(ROWS))
    assert count(namespace, "t", predicate=expression) <= 3


SQL = """
id text vector inner inner.a inner.b.c nope _rowid _distance "id" ` `` vector[0] inner['a'] 1 -1 0 1e400
9223372036854775808 'x' '' '(' x'ff' NULL true * ( ) [ ] { } , ; -- /* + - / % = < > || ~ ^ # @ ? $1 :a :: ä AND OR NOT
IN LIKE BETWEEN IS CASE WHEN THEN END select from cast( as bigint decimal(99,9) timestamp date'2020-01-01'
interval'1day' array[1]
substr( lower( abs( concat( coalesce( regexp_match( exists( sum(id)
"""
WORDS = st.sampled_from([*SQL.split(), "\0"])


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    with opened("v2", tmp_path_factory.mktemp("expressions") / "root") as ns:
        create_table(ns, "t", data=ipc(ROWS))
        yield ns


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(WORDS, min_size=1, max_size=7), text=st.none() | st.text(max_size=8))
@example(words=["decimal(99,9)", "NULL"], text=None)
@example(words=["id", "/", "0", "=", "1"], text=None)
def test_any_expression_is_answered_or_refused(filled, words, text):
    expression = " ".join(words) + (text or "")
    for call in (
        lambda: count(filled, "t", predicate=expression),
        lambda: query(filled, "t", filter=expression, columns={"column_names": ["id"]}),
        lambda: query(filled, "t", columns={"column_aliases": {"x": expression}}),
        lambda: update(filled, "t", to={"id": expression}, predicate="id > 1000"),
    ):
        code = None
        try:
            call()
        except LanceNamespaceError as error:
            code = int(error.code)
        assert code in {None, *ALLOWED}, expression
