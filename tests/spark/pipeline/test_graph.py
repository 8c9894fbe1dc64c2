"""The dependencies of a pipeline, and which steps are staged."""

from __future__ import annotations

import pytest

from pennon.spark.pipeline.graph import Graph
from pennon.spark.pipeline.statements import list_references
from pennon.spark.pipeline.validation import validate_definition


def graph(steps, targets=("last",), sources=(), checks=()):
    return Graph(
        validate_definition(
            {
                "name": "p",
                "sources": {name: {"format": "csv", "path": "x"} for name in sources},
                "steps": steps,
                "targets": [{"table": f"t{number}", "from": name} for number, name in enumerate(targets)],
                "checks": list(checks),
            }
        )
    )


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM a JOIN b.c USING (x)", ["a", "b.c"]),
        ("WITH a AS (SELECT * FROM b) SELECT * FROM a", ["b"]),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("SELECT * FROM a LEFT ANTI JOIN b USING (x)", ["a", "b"]),
        ("SELECT (SELECT max(x) FROM a) FROM b WHERE x IN (SELECT x FROM c)", ["a", "b", "c"]),
        ("SELECT * FROM a UNION ALL SELECT * FROM b EXCEPT SELECT * FROM c", ["a", "b", "c"]),
        ("SELECT /*+ BROADCAST(z) */ * FROM a, range(5) LATERAL VIEW explode(xs) e AS z", ["a"]),
        ("FROM a SELECT x", ["a"]),
        ("SELECT extract(YEAR FROM d) FROM `odd.name`.t VERSION AS OF 3", ["odd.name.t"]),
    ],
)
def test_list_references_finds_tables_of_queries(sql, names):
    assert sorted(".".join(one.name) for one in list_references(sql)) == names


def test_step_with_one_reader_is_not_staged():
    made = graph({"first": "SELECT * FROM src", "last": "SELECT * FROM FIRST"}, sources=["src"])
    assert made.staged_steps() == ()
    assert made.readers("first") == ("step last",)
    assert made.dependencies("SELECT * FROM last") == ("src", "first", "last")


def test_step_with_two_readers_is_staged():
    steps = {"first": "SELECT 1 AS x", "second": "SELECT * FROM first", "last": "SELECT * FROM first"}
    assert graph(steps, ["second", "last"]).staged_steps() == ("first",)
    assert graph(steps, ["last", "last"]).staged_steps() == ("last",)
    assert graph(steps, ["last"], checks=[{"sql": "SELECT * FROM first"}]).staged_steps() == ("first",)


def test_unused_reader_does_not_count():
    steps = {"first": "SELECT 1 AS x", "idle": "SELECT * FROM first", "last": "SELECT * FROM first"}
    made = graph(steps, ["last"])
    assert made.staged_steps() == ()
    assert made.used_names() == {"first", "last"}


def test_checks_count_as_readers_and_stage_overrides():
    checked = {"first": {"sql": "SELECT 1 AS x", "checks": [{"not_null": "x"}]}, "last": "SELECT * FROM first"}
    assert graph(checked).staged_steps() == ("first",)
    assert graph({**checked, "first": {**checked["first"], "stage": "never"}}).staged_steps() == ()
    assert graph({"last": {"sql": "SELECT 1 AS x", "stage": "always"}}).staged_steps() == ("last",)
    # It is used because it has checks, although nothing reads it.
    assert graph({**checked, "last": "SELECT 2 AS x"}).used_names() == {"first", "last"}
