"""What reads what, and which steps are kept."""

from __future__ import annotations

import pytest

from pennon.spark.pipeline.graph import Graph
from pennon.spark.pipeline.statements import references
from pennon.spark.pipeline.validation import defined


def graph(steps, targets=("last",), sources=(), checks=()):
    return Graph(
        defined(
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
def test_references(sql, names):
    assert sorted(".".join(one.name) for one in references(sql)) == names


def test_a_step_that_is_read_once_is_part_of_its_reader():
    made = graph({"first": "SELECT * FROM src", "last": "SELECT * FROM FIRST"}, sources=["src"])
    assert made.staged() == ()
    assert made.readers("first") == ("step last",)
    assert made.needed("SELECT * FROM last") == ("src", "first", "last")


def test_a_step_that_is_read_twice_is_kept():
    steps = {"first": "SELECT 1 AS x", "second": "SELECT * FROM first", "last": "SELECT * FROM first"}
    assert graph(steps, ["second", "last"]).staged() == ("first",)
    assert graph(steps, ["last", "last"]).staged() == ("last",)
    assert graph(steps, ["last"], checks=[{"sql": "SELECT * FROM first"}]).staged() == ("first",)


def test_a_reader_that_nobody_needs_does_not_count():
    steps = {"first": "SELECT 1 AS x", "idle": "SELECT * FROM first", "last": "SELECT * FROM first"}
    made = graph(steps, ["last"])
    assert made.staged() == ()
    assert made.used() == {"first", "last"}


def test_checks_and_the_author_decide_too():
    checked = {"first": {"sql": "SELECT 1 AS x", "checks": [{"not_null": "x"}]}, "last": "SELECT * FROM first"}
    assert graph(checked).staged() == ("first",)
    assert graph({**checked, "first": {**checked["first"], "stage": "never"}}).staged() == ()
    assert graph({"last": {"sql": "SELECT 1 AS x", "stage": "always"}}).staged() == ("last",)
    # Checked, so it is needed although nothing else reads it.
    assert graph({**checked, "last": "SELECT 2 AS x"}).used() == {"first", "last"}
