"""Queries that cannot be analysed, and queries that Spark rejects: whole tables under their own names."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from pennon.errors import InvalidInputError
from tests.spark.sql.schemas import plan_text
from tests.support import create_namespace, create_table, fails, ipc

ASOF = "spark.sql.join.asofJoin.enabled"
TABLES = {
    "a": {"a": [1, 2, 3], "av": [4, 5, 6], "ts": [1, 2, 3]},
    "b": {"a": [1, 2], "bv": [7, 8], "ts": [0, 5]},
    "c": {"a": [2, 3], "cv": [9, 10], "ts": [1, 1]},
    "st": {"x": [1, 2], "col": [{"i1": 1, "i2": 2}, {"i1": 3, "i2": 4}]},
}
QUERIES = [
    "TABLE a |> inner join (b x inner join c y using (a)) using (a)",
    "TABLE a |> join lateral (select a.* from b)",
    "TABLE st |> select st.col.i1",
    "TABLE a ORDER BY a.av DESC",
    "WITH q AS (TABLE a), r AS (SELECT * FROM b) FROM q |> JOIN r USING (a) |> WHERE q.av > 4",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) FROM n |> JOIN a ON a.a = n.i",
    "SELECT a FROM a WHERE",
    "FROM a SELECT a.av |> AGGREGATE sum(av) AS s",
    "SELECT (WITH a AS (SELECT 5 AS five) FROM a |> AGGREGATE max(five) AS m), b.bv FROM b",
    "SELECT ALL sum(av) FROM a",
    "SELECT ALL a, count(*) FROM a GROUP BY a",
    "SELECT * FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.a = b.a",
    "SELECT x.a, y.bv FROM a x ASOF JOIN b y MATCH_CONDITION (x.ts >= y.ts) ON x.a = y.a",
    "SELECT a.a FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.a = b.a UNION SELECT a FROM c",
    "SELECT a.a FROM a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.a = b.a INTERSECT SELECT a FROM c",
    "SELECT a, FROM FROM (SELECT 1 AS `FROM`, a FROM a)",
    "SELECT x.a FROM IDENTIFIER('a') x JOIN IDENTIFIER('n.b') USING (a) WHERE b.bv > 7",
    "TABLE n.a |> WHERE a.av > 4 AND ts IN (SELECT a.ts FROM a)",
    "FROM n.a TABLESAMPLE (100 PERCENT) |> JOIN a x ON a.av = x.av |> SELECT n.a.av, x.ts",
    "FROM n.a |> JOIN c USING (a) |> WHERE n.a.av > 4 |> WHERE a.ts IN (SELECT y.ts FROM a AS y)",
    "WITH x AS (TABLE a), a AS (SELECT 9 AS z) FROM x |> JOIN a ON true",
    "WITH x AS (FROM a |> WHERE a.av > 4), a(z) AS (SELECT 9) SELECT x.*, a.z FROM x, a",
    "SELECT * FROM (WITH a AS (SELECT 9 AS z) TABLE a) JOIN a ON a.av > z - 5",
    "WITH x AS (SELECT * FROM (WITH a AS (SELECT 1 AS z) TABLE a)), a AS (SELECT 9 AS y) FROM x |> JOIN a ON true",
    "SELECT * FROM (WITH a AS (SELECT 9 AS z) SELECT b.bv, a.z FROM n.a AS b2 JOIN n.b USING (a), a |> SELECT *)",
    "FROM b |> SELECT IDENTIFIER('b.bv') |> UNION ALL (SELECT sum(t.a) FROM IDENTIFIER('n.a') AS t)",
    "FROM VALUES (1), (2) AS v(a), b |> WHERE v.a = b.a",
    "SELECT n.a.ts FROM a x, n.a WHERE x.a = n.a.a AND a.a > 1",
    "SELECT a.ts FROM a WHERE EXISTS (SELECT 1 FROM n.a WHERE a.av > 4)",
    "SELECT av DIV a, 7 DIV av AS d FROM a",
    "SELECT n.a.ts FROM a JOIN b ON a.a = b.a JOIN n.a ON n.a.a = b.a",
    "SELECT n.a.ts FROM a JOIN b ON a.a = b.a JOIN n.a ON n.a.a = b.a WHERE n.a.av IN (SELECT a.av FROM a)",
]
# Spark does not say that a name is ambiguous if it is found first in another place.
REJECTED = [
    "FROM a |> JOIN n.a |> SELECT a.av",
    "SELECT a.av FROM a JOIN n.a ON true",
    "SELECT a.av FROM a JOIN n.a ON a.a = n.a.a",
    "SELECT n.a.ts FROM a, n.a WHERE a.av > 4",
    "SELECT (SELECT max(a.av) FROM a JOIN n.a ON n.a.a > 1) AS m FROM b",
    "WITH q AS (SELECT a.av FROM a, n.a WHERE n.a.a > extract(DAY FROM current_date())) SELECT * FROM q, b",
    "SELECT bv FROM b UNION SELECT a.av FROM a, n.a WHERE n.a.a > 1",
    "SELECT av DIV FROM a",
]


@pytest.fixture(scope="module")
def both(spark, tmp_path_factory):
    """Return a lake, and the same tables in two databases of Spark."""
    from pennon.spark import attach

    place = tmp_path_factory.mktemp("unanalysed")
    lake = attach(spark, root=str(place / "lake"))
    create_namespace(lake.catalog, "n")
    for database in ("own", "n"):
        spark.sql(f"CREATE DATABASE {database} LOCATION '{place / database}'")
    for name, content in TABLES.items():
        create_table(lake.catalog, name, data=ipc(content))
        create_table(lake.catalog, "n", name, data=ipc(content))
        for database in ("own", "n"):
            lake.sql(f"SELECT * FROM {name}").write.saveAsTable(f"{database}.{name}")
    spark.conf.set(ASOF, "true")
    yield lake
    spark.conf.unset(ASOF)
    for database in ("own", "n"):
        spark.sql(f"DROP DATABASE {database} CASCADE")


def describe_result(frame):
    fields = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    return fields, sorted(map(repr, frame.collect()))


@pytest.mark.parametrize("text", QUERIES)
def test_query_matches_spark(spark, both, text):
    given = describe_result(both.sql(text))
    spark.sql("USE own")
    try:
        assert given == describe_result(spark.sql(text))
    finally:
        spark.sql("USE default")


@pytest.mark.parametrize("text", REJECTED)
def test_query_that_spark_rejects_is_rejected(spark, both, text):
    with pytest.raises(AnalysisException) as raised:
        both.sql(text)
    spark.sql("USE own")
    try:
        with pytest.raises(AnalysisException) as expected:
            spark.sql(text)
    finally:
        spark.sql("USE default")
    assert raised.value.getCondition() == expected.value.getCondition()


@pytest.mark.parametrize(
    "text",
    [
        "FROM n.a |> SELECT n.a.av",
        "FROM lake.n.a |> SELECT n.a.*",
        "TABLE n.a |> SELECT a.av",
        "FROM a VERSION AS OF 1 |> SELECT a.av",
        "FROM n.a VERSION AS OF 1 x |> JOIN a ON x.a = a.a |> SELECT x.av",
    ],
)
def test_table_in_namespace_or_at_version_has_its_own_name(both, text):
    assert {"av"} <= set(both.sql(text).columns)
    assert both.sql(text).count() == 3


def test_unknown_column_error_suggests_all_columns(both):
    with pytest.raises(AnalysisException) as raised:
        both.sql("SELECT\n  a.av, nope\nFROM n.a")
    message = str(raised.value)
    assert raised.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert all(f"`{name}`" in message for name in TABLES["a"])
    assert "line 2 pos 8" in message
    assert "pyspark" not in message


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("SELECT a FROM n.a WHERE nope > 1", "line 1 pos 24"),
        ("SELECT a FROM n.a x\nJOIN n.b y USING (a) WHERE y.nope > 1", "line 2 pos 27"),
        ("FROM n.a |> WHERE n.a.a > 1 AND nope > 1", "line 1 pos 32"),
    ],
)
def test_position_in_error_is_that_of_the_original_text(both, text, position):
    with pytest.raises(AnalysisException, match=position):
        both.sql(text)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("SELECT a FROM n.a WHERE (a = 1", "line 1, pos 30"),
        ("SELECT a FROM n.a x y z", "line 1, pos 20"),
        ("FROM n.a |> SELEC a", "line 1, pos 12"),
        ("SELECT a,, av FROM n.a", "line 1, pos 9"),
        ("SELECT a FROM n.a 5", "line 1, pos 18"),
        ("SELECT a FROM n.a WHERE a NOT NULL", "line 1, pos 26"),
        ("SELECT count(*) FROM n.a 'x'", "line 1, pos 25"),
        ("SELECT count(*) FROM n.a WHERE a BETWEEN 1 2", "line 1, pos 43"),
        ("SELECT k, max(a) FROM n.a WHERE a IN (1,, 2) GROUP BY k", "line 1, pos 40"),
    ],
)
def test_syntax_error_cites_the_original_text(both, text, position):
    with pytest.raises(InvalidInputError, match=position) as raised:
        both.sql(text)
    assert text in str(raised.value)


def test_missing_table_is_named_with_its_position(both):
    with fails(4, "table n.missing; line 2 pos 5"):
        both.sql("SELECT * FROM n.a\nJOIN n.missing USING (a)")


@pytest.mark.parametrize("text", ["SELECT A.a FROM A", "SELECT a FROM N.A", "TABLE A"])
def test_table_names_ignore_case_unless_the_session_is_case_sensitive(spark, both, text):
    assert both.sql(text).count() == 3
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with fails(4, "Neither the lake nor Spark"):
            both.sql(text)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_name_that_two_tables_match_raises_invalid_input(lake):
    for name in ("ev", "Ev"):
        create_table(lake.catalog, name, data=ipc({"a": [len(name)]}))
    assert lake.sql("SELECT a FROM Ev").count() == 1
    with fails(13, "EV can mean any of Ev, ev"):
        lake.sql("SELECT a FROM EV")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TABLE t", "WITH `t` AS (SELECT * FROM {t0})\nTABLE t"),
        (
            "FROM t, u |> SELECT 1",
            "WITH `t` AS (SELECT * FROM {t0}), `u` AS (SELECT * FROM {t1})\nFROM t, u |> SELECT 1",
        ),
        ("FROM spark_table |> JOIN u", "WITH `u` AS (SELECT * FROM {t0})\nFROM spark_table |> JOIN u"),
        ("SELECT * FROM f(TABLE(t))", "WITH `t` AS (SELECT * FROM {t0})\nSELECT * FROM f(TABLE(t))"),
        ("EXPLAIN COST TABLE t", "EXPLAIN COST WITH `t` AS (SELECT * FROM {t0})\nTABLE t"),
        ("CREATE TABLE x AS TABLE t", "CREATE TABLE x AS WITH `t` AS (SELECT * FROM {t0})\nTABLE t"),
        ("INSERT INTO x TABLE t", "WITH `t` AS (SELECT * FROM {t0})\nINSERT INTO x TABLE t"),
        ("SELECT t.a FROM t@v2", "WITH `t` AS (SELECT * FROM {t0})\nSELECT t.a FROM `t`"),
        (
            "TABLE t |> UNION FROM t@V2 x",
            (
                "WITH `t` AS (SELECT * FROM {t0}), `__pennon_1` AS (SELECT * FROM {t1})\n"
                "TABLE t |> UNION FROM `__pennon_1` x"
            ),
        ),
        ("MERGE INTO x USING t ON 1", "WITH `t` AS (SELECT * FROM {t0})\nMERGE INTO x USING t ON 1"),
        ("WITH q AS (TABLE t) TABLE q", "WITH `t` AS (SELECT * FROM {t0}),\n q AS (TABLE t) TABLE q"),
        ("TABLE t VERSION AS OF 3", "WITH `t` AS (SELECT * FROM {t0})\nTABLE `t`"),
        (
            "TABLE prod.events |> JOIN other.events e |> SELECT '{', prod.events.id",
            (
                "WITH `events` AS (SELECT * FROM {t0}), `__pennon_1` AS (SELECT * FROM {t1})\n"
                "TABLE `events` |> JOIN `__pennon_1` e |> SELECT '{{', `events`.id"
            ),
        ),
    ],
)
def test_with_clause_defines_whole_tables(text, expected):
    plan = plan_text(text)
    assert plan.text == expected
    assert all((read.columns, read.where, read.limit) == (None, None, None) for read in plan.reads)


def test_short_form_of_time_travel_reads_old_version(lake):
    create_table(lake.catalog, "t", data=ipc({"a": [1, 2, 3]}))
    lake.sql("DELETE FROM t WHERE a = 1")
    assert lake.sql("SELECT * FROM t@v1").count() == 3
    assert lake.sql("SELECT count(*), sum(a) FROM t@V1 x JOIN t@v2 USING (a)").first() == (2, 5)
    assert lake.sql("FROM t@v1 |> WHERE t.a < 3 |> AGGREGATE sum(a) AS s").first().s == 3
    with fails(11, "no version 99"):
        lake.sql("SELECT count(*) FROM t@v99")
    with fails(11, "no version as old as 2001-02-03T04:05:06.007"):
        lake.sql("SELECT * FROM t@20010203040506007")
    with fails(13, "expected a version such as v3"):
        lake.sql("SELECT * FROM t@latest")


def test_subqueries_of_statements_read_whole_tables(lake):
    for name in ("a", "b"):
        create_table(lake.catalog, name, data=ipc(TABLES[name]))
    assert lake.sql("DELETE FROM a WHERE a IN (FROM b |> WHERE b.a > 1 |> SELECT a)").first().deleted == 1
    updated = lake.sql(
        "UPDATE a SET av = (TABLE b |> AGGREGATE max(bv) AS m) WHERE a.a = (WITH q AS (TABLE b) SELECT min(a) FROM q)"
    )
    assert updated.first().updated == 1
    assert sorted(tuple(row) for row in lake.sql("SELECT a, av FROM a").collect()) == [(1, 8), (3, 6)]
