"""The text that Spark evaluates: the original query with other names for tables."""

from __future__ import annotations

import pytest

from tests.spark.sql.schemas import plan_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM t", "SELECT a FROM {t0} AS `t`"),
        ("select  a -- the t\nfrom /* t */ t ;", "select  a -- the t\nfrom /* t */ {t0} AS `t` ;"),
        ("SELECT x.a FROM t AS x", "SELECT x.a FROM {t0} AS x"),
        ("SELECT x.a FROM t x", "SELECT x.a FROM {t0} x"),
        ("SELECT t.a FROM t", "SELECT t.a FROM {t0} AS `t`"),
        ("SELECT events.id FROM lake.prod.events", "SELECT events.id FROM {t0} AS `events`"),
        ("SELECT prod.events.id FROM prod.events", "SELECT `events`.id FROM {t0} AS `events`"),
        ("SELECT lake.prod.events.id FROM prod.events", "SELECT `events`.id FROM {t0} AS `events`"),
        ("SELECT PROD.Events.info.a FROM prod.events", "SELECT `events`.info.a FROM {t0} AS `events`"),
        ("SELECT prod.events.* FROM prod.events", "SELECT `events`.* FROM {t0} AS `events`"),
        (
            "SELECT prod.events.id, other.events.id FROM prod.events JOIN other.events USING (id)",
            "SELECT `__pennon_0`.id, `__pennon_1`.id FROM {t0} AS `__pennon_0` JOIN {t1} AS `__pennon_1` USING (id)",
        ),
        ("SELECT `a b` FROM `odd.ns`.`t`", "SELECT `a b` FROM {t0} AS `t`"),
        ("SELECT '{t}', map('{', 1) FROM t", "SELECT '{{t}}', map('{{', 1) FROM {t0} AS `t`"),
        ("SELECT a FROM t TABLESAMPLE (5 ROWS)", "SELECT a FROM {t0} TABLESAMPLE (5 ROWS) AS `t`"),
        ("SELECT a FROM t TABLESAMPLE (5 ROWS) x", "SELECT a FROM {t0} TABLESAMPLE (5 ROWS) x"),
        (
            "SELECT t.a FROM t TABLESAMPLE (5 PERCENT) REPEATABLE (3), u",
            "SELECT t.a FROM {t0} TABLESAMPLE (5 PERCENT) REPEATABLE (3) AS `t`, {t1} AS `u`",
        ),
        ("SELECT a FROM t VERSION AS OF 3", "SELECT a FROM {t0} AS `t`"),
        ("SELECT a FROM t FOR VERSION AS OF 3 AS x", "SELECT a FROM {t0} AS x"),
        ("SELECT a FROM t TIMESTAMP AS OF now() - INTERVAL 1 HOUR x", "SELECT a FROM {t0} x"),
        ("SELECT a FROM t TIMESTAMP AS OF '2024-01-01' ORDER BY a", "SELECT a FROM {t0} AS `t` ORDER BY a"),
        ("SELECT a FROM t FOR SYSTEM_TIME AS OF date'2024-01-01', u", "SELECT a FROM {t0} AS `t`, {t1} AS `u`"),
        ("SELECT /*+ BROADCAST(t) */ a FROM t", "SELECT /*+ BROADCAST(t) */ a FROM {t0} AS `t`"),
        ("SELECT * FROM u PIVOT (max(a) FOR e IN ('x'))", "SELECT * FROM {t0} AS `u` PIVOT (max(a) FOR e IN ('x'))"),
        ("EXPLAIN SELECT a FROM t", "EXPLAIN SELECT a FROM {t0} AS `t`"),
        ("EXPLAIN EXTENDED SELECT count(*) FROM t", "EXPLAIN EXTENDED SELECT count(*) FROM {t0} AS `t`"),
        ("INSERT INTO spark_table SELECT a FROM t", "INSERT INTO spark_table SELECT a FROM {t0} AS `t`"),
        (
            "CREATE TABLE x USING parquet AS SELECT a FROM t",
            "CREATE TABLE x USING parquet AS SELECT a FROM {t0} AS `t`",
        ),
    ],
)
def test_only_table_names_are_replaced(text, expected) -> None:
    assert plan_text(text).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT * FROM nowhere.to_be_found",
        "SELECT * FROM parquet.`/some/t`",
        "SELECT * FROM range(10) t",
        "WITH t AS (SELECT 1 AS a) SELECT * FROM t",
        "WITH T AS (SELECT 1 AS a) SELECT * FROM t",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t",
        "WITH t AS (FROM VALUES (1) |> SELECT *) FROM t |> SELECT 1",
        "SELECT a FROM (VALUES (1)) AS t(a)",
        "SET spark.sql.ansi.enabled = true",
        "SELECT 't' FROM VALUES ('FROM t')",
        "SELECT extract(year FROM ts) |> SELECT 1",
        "this is no SQL at all",
        "SELECT 'unfinished",
        "",
    ],
)
def test_query_without_tables_of_the_catalog_is_unchanged(text) -> None:
    plan = plan_text(text)
    assert (plan.text, plan.reads, plan.count) == (text, (), None)


def test_cte_hides_table_only_in_its_scope() -> None:
    plan = plan_text("SELECT a FROM (WITH t AS (SELECT 1 AS a) SELECT a FROM t) q JOIN t ON true")
    assert plan.text == "SELECT a FROM (WITH t AS (SELECT 1 AS a) SELECT a FROM t) q JOIN {t0} AS `t` ON true"


def test_cte_that_is_not_recursive_reads_table_of_same_name() -> None:
    plan = plan_text("WITH t AS (SELECT a FROM t) SELECT a FROM t")
    assert plan.text == "WITH t AS (SELECT a FROM {t0} AS `t`) SELECT a FROM t"


def test_time_travel_clause_becomes_part_of_the_read() -> None:
    plan = plan_text("SELECT x.a, y.a FROM t VERSION AS OF 3 x, t TIMESTAMP AS OF now() - INTERVAL 1 DAY y, t z")
    travels = [read.travel for read in plan.reads]
    assert [(one.kind, one.text) if one else None for one in travels] == [
        ("version", "3"),
        ("timestamp", "now() - INTERVAL 1 DAY"),
        None,
    ]


def test_count_of_rows_needs_no_query() -> None:
    plan = plan_text("SELECT count(*), count(1) AS n FROM prod.events VERSION AS OF 2 e WHERE e.cid > 3 AND name = 'x'")
    assert plan.reads == ()
    assert plan.count.identifier == ("prod", "events")
    assert plan.count.travel.text == "2"
    assert plan.count_names == ("count(1)", "n")
    assert "`cid` > 3" in plan.count.where


@pytest.mark.parametrize(
    ("text", "name", "columns", "where"),
    [
        ("SELECT * FROM t", "t", None, None),
        ("SELECT c, a FROM t x", "x", ("c", "a"), None),
        ("FROM prod.events SELECT id", "events", ("id",), None),
        ("SELECT `a b` FROM `odd.ns`.`t` WHERE `a.b` = 1", "t", ("a b",), "`a.b` = 1"),
        ("SELECT id FROM prod.events VERSION AS OF 3 e WHERE e.cid = 5", "e", ("id",), "`cid` = 5"),
    ],
)
def test_plain_select_is_a_direct_read(text, name, columns, where) -> None:
    read = plan_text(text).direct_read
    assert (read.name, read.columns, read.where) == (name, columns, where)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT A FROM t",
        "SELECT a, a FROM t",
        "SELECT a AS b FROM t",
        "SELECT +a FROM t",
        "SELECT AS a FROM t",
        "SELECT t.a FROM t",
        "SELECT a + 1 FROM t",
        "SELECT missing FROM t",
        "SELECT info.a FROM prod.events",
        "SELECT * EXCEPT (a) FROM t",
        "SELECT *, a FROM t",
        "SELECT a FROM t AS x(b, a, c, d)",
        "SELECT * FROM t AS x(b, a, c, d)",
        "SELECT DISTINCT a FROM t",
        "SELECT a FROM t WHERE length(b) > 3",
        "SELECT a FROM t WHERE a = 3 AND length(b) > 3",
        "SELECT a FROM t ORDER BY a",
        "SELECT a FROM t LIMIT 3",
        "SELECT a FROM t, u",
        "SELECT a FROM (SELECT a FROM t)",
        "SELECT a FROM t TABLESAMPLE (5 ROWS)",
        "SELECT /*+ COALESCE(1) */ a FROM t",
        "SELECT a FROM t WHERE a IN (SELECT a FROM u)",
        "SELECT a FROM t UNION ALL SELECT a FROM u",
        "SELECT same FROM twins",
        "EXPLAIN SELECT a FROM t",
    ],
)
def test_other_selects_are_evaluated_by_spark(text) -> None:
    plan = plan_text(text)
    assert plan.direct_read is None
    assert plan.reads


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(a) FROM t",
        "SELECT count(DISTINCT a) FROM t",
        "SELECT count(*) FROM t GROUP BY a",
        "SELECT count(*) FROM t, u",
        "SELECT count(*) FROM t HAVING count(*) > 5",
        "SELECT count(*) FROM t WHERE length(b) > 3",
        "SELECT count(*) FROM t WHERE a > 3 AND a + 1 > 3",
        "SELECT count(*) FROM t TABLESAMPLE (10 PERCENT)",
        "SELECT count(*) + 1 FROM t",
        "SELECT count(*) FROM t LIMIT 0",
        "SELECT count(*) FROM t WHERE rand() > 0.5",
        "SELECT count(*) FROM (SELECT * FROM t LIMIT 3)",
        "SELECT DISTINCT count(*) FROM t",
        "SELECT +count(*) FROM t",
        "SELECT count(*) AS, count(1) FROM t",
        "SELECT count(*) DIV FROM t",
    ],
)
def test_other_counts_are_left_to_spark(text) -> None:
    plan = plan_text(text)
    assert plan.count is None
    assert plan.reads


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("SELECT * FROM t LIMIT 5", 5),
        ("SELECT a + 1, upper(b) FROM t LIMIT 5 OFFSET 3", 8),
        ("SELECT a FROM t LIMIT 0", 0),
        ("SELECT a FROM t WHERE a > 3 LIMIT 5", None),
        ("SELECT a FROM t ORDER BY a LIMIT 5", None),
        ("SELECT DISTINCT a FROM t LIMIT 5", None),
        ("SELECT max(a) FROM t LIMIT 5", None),
        ("SELECT explode(d) FROM t LIMIT 5", None),
        ("SELECT my_function(a) FROM t LIMIT 5", None),
        ("SELECT row_number() OVER (ORDER BY a) FROM t LIMIT 5", None),
        ("SELECT a FROM t, u LIMIT 5", None),
        ("SELECT a FROM t GROUP BY a LIMIT 5", None),
        ("SELECT a FROM t TABLESAMPLE (50 PERCENT) LIMIT 5", None),
        ("SELECT a FROM t LATERAL VIEW explode(d) x LIMIT 5", None),
        ("SELECT a FROM t LIMIT 2 + 3", None),
        ("SELECT a FROM t UNION ALL SELECT a FROM u LIMIT 5", None),
        ("SELECT a FROM (SELECT * FROM t LIMIT 5)", None),
    ],
)
def test_limit_is_pushed_down_if_any_rows_satisfy_it(text, limit) -> None:
    assert {read.limit for read in plan_text(text).reads} == {limit}
