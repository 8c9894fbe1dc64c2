"""Expressions that would crash Lance, or keep it busy for minutes, raise InvalidInputError."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from pennon.cli.app import run
from pennon.table.expression_limits import DEEPEST, LONGEST, find_excess
from tests.hostile import hostile_expressions
from tests.support import create_table, fails, ipc

DEEP = {
    "a thousand terms": "a = " + "+".join(["1"] * 1000),
    "500 casts": "CAST(" * 500 + "a" + " AS BIGINT)" * 500 + " = 1",
    "24 casts around a mistake": "CAST(" * 24 + "a b" + " AS BIGINT)" * 24 + " = 1",
    "24 times coalesce": "coalesce(" * 24 + "a" + ", 1)" * 24 + " = 1",
    "hidden behind a comment": "a = 1 -- '\n + " + "+".join(["1"] * 1000) + " -- '",
    "hidden behind a backslash": "s = E'\\' OR a = " + "+".join(["1"] * 1000) + " OR s = '",
    "hidden behind dollars": "s = $$'$$ OR a = " + "+".join(["1"] * 1000) + " OR s = '",
    "too long": "a = 1 OR s = '" + "x" * LONGEST + "'",
}


@pytest.fixture
def table(tmp_path, open_namespace):
    namespace = open_namespace(str(tmp_path / "root"))
    create_table(namespace, "t", data=ipc({"a": [1, 2, 3], "s": ["x", "y", "z"]}))
    return namespace


@pytest.mark.parametrize("expression", DEEP.values(), ids=DEEP.keys())
def test_too_large_expressions_are_rejected_everywhere(table, expression):
    rows = ipc({"a": [1], "s": ["new"]})
    value = f"CASE WHEN {expression} THEN 1 ELSE 2 END"
    calls = [
        lambda: table.count_table_rows({"id": ["t"], "predicate": expression}),
        lambda: table.query_table({"id": ["t"], "k": 3, "vector": {}, "filter": expression}),
        lambda: table.query_table(
            {"id": ["t"], "k": 3, "vector": {}, "columns": {"column_aliases": {"x": expression}}}
        ),
        lambda: table.explain_table_query_plan({"id": ["t"], "query": {"k": 3, "vector": {}, "filter": expression}}),
        lambda: table.analyze_table_query_plan({"id": ["t"], "k": 3, "vector": {}, "filter": expression}),
        lambda: table.delete_from_table({"id": ["t"], "predicate": expression}),
        lambda: table.update_table({"id": ["t"], "predicate": expression, "updates": [["a", "1"]]}),
        lambda: table.update_table({"id": ["t"], "updates": [["a", value]]}),
        lambda: table.merge_insert_into_table(
            {"id": ["t"], "on": "a", "when_matched_update_all": True, "when_matched_update_all_filt": expression}, rows
        ),
        lambda: table.merge_insert_into_table(
            {
                "id": ["t"],
                "on": "a",
                "when_not_matched_by_source_delete": True,
                "when_not_matched_by_source_delete_filt": expression,
            },
            rows,
        ),
        lambda: table.alter_table_add_columns({"id": ["t"], "new_columns": [{"name": "b", "expression": value}]}),
    ]
    for call in calls:
        with fails(13):
            call()
    assert table.count_table_rows({"id": ["t"], "predicate": "a = 1 OR s = 'x'"}).count == 1


def test_too_large_stored_expression_is_rejected(table):
    """A computed column that another client declared is no more trusted than a request."""
    dataset = table._open_table(("t",))
    metadata = {
        "computed_column": "true",
        "computed_column.kind": "sql",
        "computed_column.expression": "+".join(["a"] * 1000),
        "computed_column.inputs": '["a"]',
    }
    dataset.add_columns(pa.schema([pa.field("b", pa.int64(), metadata=metadata)]))
    with fails(13):
        table.alter_table_backfill_columns({"id": ["t"], "column": "b"})


@pytest.mark.usefixtures("table")
def test_command_line_rejects_too_large_expressions(tmp_path, capsys):
    for command in ("count", "head"):
        assert run([command, "t", "--root", str(tmp_path / "root"), "--where", DEEP["a thousand terms"]]) == 2
        assert "operators in a row" in capsys.readouterr().err


def test_largest_allowed_expressions_do_not_crash_the_process(tmp_path):
    """Lance takes the largest expressions that are allowed, by a thread with an ordinary stack."""
    lance.write_dataset(pa.table({"a": list(range(10)), "s": ["x"] * 10}), tmp_path / "t.lance")
    program = Path(hostile_expressions.__file__)
    ended = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "t.lance")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-300:] + ended.stderr[-300:]
    assert ended.stdout.splitlines()[-1] == "done"


@pytest.mark.parametrize(
    "expression",
    [
        "a IN (" + ",".join(map(str, range(100_000))) + ")",
        "s IN (" + ",".join(f"'key{number:06}'" for number in range(50_000)) + ")",
        " OR ".join(f"a = {number}" for number in range(5000)),
        " AND ".join(f"(a <> {number} OR s <> 'k{number}')" for number in range(3000)),
        " AND ".join(f"CAST(s AS DATE) BETWEEN '2020-01-01' AND '2020-{number % 12}'" for number in range(500)),
        "lower(s) IN (" + ",".join(f"'{number}'" for number in range(50_000)) + ")",
        "a = " + "+".join(["a"] * 150),
        "s = '" + "word (with, brackets) + " * 20_000 + "'",
        "upper(trim(replace(coalesce(nullif(s, ''), lower(s), 'x'), ' ', ''))) = 'X'",
        "(" * DEEPEST + "a = 1" + ")" * DEEPEST,
        "",
        ")))",
        "'unfinished",
    ],
    ids=lambda text: text[:30] or "nothing",
)
def test_long_lists_and_chains_are_allowed(expression):
    assert find_excess(expression) is None
