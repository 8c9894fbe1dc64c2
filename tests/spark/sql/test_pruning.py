"""The columns that a query reads from each table: never too few, and as few as the query shows."""

from __future__ import annotations

import pytest

from tests.spark.sql.schemas import find_columns, plan_text

ALL = None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t", [("a",)]),
        ("SELECT A, `B` FROM t", [("a", "b")]),
        ("SELECT * FROM t", [ALL]),
        ("SELECT t.* FROM t JOIN u ON t.a = u.a", [ALL, ("a",)]),
        ("SELECT a FROM t WHERE c > 5 ORDER BY b", [("a", "b", "c")]),
        ("SELECT count(*) FROM t GROUP BY b", [("b",)]),
        ("SELECT 1 FROM t", [("a",)]),
        ("SELECT count(*), sum(1) FROM t", [("a",)]),
        ("SELECT x.a, y.e FROM t x JOIN u y ON x.a = y.a", [("a",), ALL]),
        ("SELECT b FROM t WHERE a IN (SELECT a FROM u)", [("a", "b"), ("a",)]),
        # a star that the outer query narrows
        ("WITH q AS (SELECT * FROM t) SELECT a FROM q", [("a",)]),
        ("WITH q AS (SELECT * FROM t), r AS (SELECT * FROM q) SELECT a FROM r WHERE b = 'x'", [("a", "b")]),
        ("SELECT a FROM (SELECT * FROM t) q", [("a",)]),
        ("SELECT q.a FROM (SELECT t.* FROM t) q", [("a",)]),
        ("SELECT b FROM t WHERE EXISTS (SELECT * FROM u WHERE u.a = t.a)", [("a", "b"), ("a",)]),
        ("WITH q AS (SELECT * EXCEPT (b) FROM t) SELECT a FROM q", [("a", "b")]),
        # stars that must not be narrowed
        ("SELECT a FROM (SELECT DISTINCT * FROM t) q", [ALL]),
        ("SELECT a FROM (SELECT * FROM t UNION SELECT * FROM t) q", [ALL]),
        ("SELECT a FROM (SELECT * FROM t UNION ALL SELECT a, b, c, d FROM t) q", [ALL]),
        ("SELECT x FROM (SELECT * FROM t) AS q(x, y, z, w)", [ALL]),
        ("WITH q(x, y, z, w) AS (SELECT * FROM t) SELECT x FROM q", [ALL]),
        ("SELECT x FROM t AS q(x, y, z, w)", [ALL]),
        ("SELECT a FROM (SELECT * FROM t ORDER BY 2 LIMIT 3) q", [ALL]),
        ("SELECT 1 FROM u WHERE (a, e) IN (SELECT * FROM u)", [ALL]),
        ("SELECT t.a FROM t NATURAL JOIN u", [ALL, ALL]),
        ("SELECT * FROM u PIVOT (max(a) FOR e IN ('x', 'y'))", [ALL]),
        ("SELECT a FROM (SELECT * FROM t) PIVOT (max(a) FOR b IN ('x', 'y'))", [ALL]),
        ("SELECT to_json(struct(*)) FROM t", [ALL]),
        ("SELECT count(DISTINCT *) FROM t", [ALL]),
        ("SELECT count(t.*) FROM t", [ALL]),
        ("SELECT IDENTIFIER('c') FROM t", [ALL]),
        # names that define an alias
        ("SELECT a AS b FROM t", [("a",)]),
        ("SELECT a AS b FROM t ORDER BY b", [("a", "b")]),
        ("SELECT q.a FROM t AS q JOIN u AS b ON q.a = b.a", [("a",), ("a",)]),
        ("SELECT count(a) AS c, max(b) FROM t", [("a", "b")]),
        # functions and literals with the name of a column
        ("SELECT day FROM prod.events WHERE ts > DATE '2024-01-01'", [("ts", "day")]),
        ("SELECT b FROM t LATERAL VIEW explode(d) x AS a", [("b", "d")]),
        ("SELECT transform(d, a -> a + c) FROM t", [("a", "c", "d")]),
        ("SELECT max(b) FILTER (WHERE c > 1) FROM t", [("b", "c")]),
        ("SELECT sum(a) OVER (PARTITION BY b ORDER BY c) FROM t", [("a", "b", "c")]),
        ("SELECT info.a FROM prod.events", [("info",)]),
        ("SELECT e.info.b FROM prod.events e", [("info",)]),
        ("SELECT tags[0], raw FROM prod.events", [("raw", "tags")]),
        # a column with the name of a keyword in the query is read too: Spark may resolve the keyword to it
        ("SELECT `a b`, `A.B` FROM `odd.ns`.t", [("a b", "a.b", "from")]),
        ('SELECT "b" FROM t', [("b",)]),
        # a qualifier may also be a struct, unless the table has the column
        ("SELECT b.e FROM t JOIN u AS b ON t.a = b.a", [("a",), ALL]),
        ("SELECT b.x FROM t JOIN u AS b ON t.a = b.a", [("a", "b"), ("a",)]),
        # columns that a name in a subquery cannot refer to are not read
        ("SELECT name FROM (SELECT c.name FROM prod.customers c) q", [("name",)]),
        (
            (
                "WITH e AS (SELECT id, amount FROM prod.events), c AS (SELECT id, city FROM prod.customers) "
                "SELECT c.city, e.amount FROM e JOIN c ON e.id = c.id"
            ),
            [("id", "amount"), ("id", "city")],
        ),
        # columns of an outer query that it may refer to are read
        ("SELECT b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE e = c)", [("b", "c"), ("e",)]),
        ("SELECT (SELECT max(e) FROM u WHERE u.a = t.a) FROM t", [("a",), ALL]),
        ("SELECT q.m FROM t, LATERAL (SELECT max(u.e) AS m FROM u WHERE u.a = c) q", [("c",), ALL]),
    ],
)
def test_only_needed_columns_are_read(text, expected) -> None:
    assert find_columns(text) == expected


def test_column_of_inner_and_outer_table_is_read_from_both() -> None:
    # If `a` were not read from u, the inner a would refer to the outer table.
    assert find_columns("SELECT (SELECT max(a) FROM u) FROM t") == [("a",), ("a",)]


def test_each_reference_of_a_table_has_its_own_columns() -> None:
    plan = plan_text("SELECT x.a, y.b FROM t x JOIN t y ON x.c = y.c")
    assert [read.columns for read in plan.reads] == [("a", "c"), ("b", "c")]
    assert plan.text == "SELECT x.a, y.b FROM {t0} x JOIN {t1} y ON x.c = y.c"


def test_equal_reads_are_merged() -> None:
    plan = plan_text("SELECT x.a FROM t x JOIN t y ON x.a = y.a")
    assert [read.name for read in plan.reads] == ["t0"]
    assert plan.text == "SELECT x.a FROM {t0} x JOIN {t0} y ON x.a = y.a"


@pytest.mark.parametrize(
    "text",
    [
        "FROM t |> WHERE a > 5 |> SELECT b",
        "TABLE t",
        "SELECT * FROM my_function(TABLE(t))",
        "SELECT a FROM t WHERE some odd ! thing",
        "TABLE t UNION ALL SELECT * FROM t",
    ],
)
def test_query_that_cannot_be_parsed_reads_whole_table(text) -> None:
    plan = plan_text(text)
    assert {(read.identifier, read.columns, read.where, read.limit) for read in plan.reads} == {
        (("t",), None, None, None)
    }
