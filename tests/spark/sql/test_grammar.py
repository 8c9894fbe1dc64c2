"""Parsing of the catalog's statements: their contents, whether they belong to Spark, and syntax errors."""

from __future__ import annotations

import pytest

from pennon.errors import InvalidInputError
from pennon.spark.query.names import ForeignNameError
from pennon.spark.query.references import TimeTravel
from pennon.spark.sql import statements
from pennon.spark.sql.grammar import parse_statement
from pennon.spark.sql.statements import Assignment, ColumnDefinition, MergeClause
from pennon.spark.tokens import tokenize


class FakeResolver:
    """Resolves every name to the catalog, unless it begins with `spark`."""

    def catalog_table(self, parts):
        return parts[1:] if parts[0] == "lake" else parts

    catalog_namespace = catalog_table

    def resolve_table(self, parts):
        if parts[0] == "spark":
            raise ForeignNameError
        return self.catalog_table(parts)

    resolve_new_table = resolve_namespace = resolve_new_namespace = resolve_table


def parse(text):
    return parse_statement(text, tokenize(text), FakeResolver())


T = ("a", "t")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SHOW NAMESPACES", statements.ShowNamespaces()),
        ("show schemas in a.b like 'x*'", statements.ShowNamespaces(("a", "b"), "x*")),
        ("SHOW DATABASES FROM lake;", statements.ShowNamespaces(())),
        ("SHOW TABLES", statements.ShowTables()),
        ("SHOW TABLES IN a 'x*|y'", statements.ShowTables(("a",), "x*|y")),
        ("SHOW TABLES DROPPED IN a", statements.ShowTables(("a",), dropped=True)),
        ("SHOW TABLES DROPPED", statements.ShowTables((), dropped=True)),
        ("SHOW COLUMNS IN a.t", statements.ShowTableDetail("COLUMNS", T)),
        ("SHOW COLUMNS FROM t IN a", statements.ShowTableDetail("COLUMNS", T)),
        ("SHOW CREATE TABLE lake.a.`odd.t`", statements.ShowTableDetail("CREATE TABLE", ("a", "odd.t"))),
        ("SHOW TBLPROPERTIES a.t ('x.y')", statements.ShowTableDetail("TBLPROPERTIES", T, "x.y")),
        ("SHOW TBLPROPERTIES a.t (x.y)", statements.ShowTableDetail("TBLPROPERTIES", T, "x.y")),
        ("SHOW INDEXES ON a.t", statements.ShowTableDetail("INDEXES", T)),
        ("SHOW TAGS IN a.t", statements.ShowTableDetail("TAGS", T)),
        ("DESCRIBE a.t", statements.DescribeTable(T)),
        ("DESC TABLE EXTENDED a.t", statements.DescribeTable(T, extended=True)),
        ("DESCRIBE a.t x", statements.DescribeTable(T, column=("x",))),
        ("DESCRIBE a.t VERSION AS OF 3", statements.DescribeTable(T, travel=TimeTravel("version", "3"))),
        ("DESCRIBE HISTORY a.t LIMIT 5", statements.DescribeHistory(T, 5)),
        ("DESCRIBE NAMESPACE EXTENDED a", statements.DescribeNamespace(("a",))),
        (
            "CREATE NAMESPACE IF NOT EXISTS a COMMENT 'c' WITH PROPERTIES ('x' = 'y', n = 5)",
            statements.CreateNamespace(("a",), if_not_exists=True, properties={"comment": "c", "x": "y", "n": "5"}),
        ),
        ("ALTER NAMESPACE a SET PROPERTIES ('x' = 'y')", statements.AlterNamespace(("a",), {"x": "y"})),
        ("ALTER SCHEMA a UNSET PROPERTIES IF EXISTS ('x')", statements.AlterNamespace(("a",), {"x": None})),
        ("DROP SCHEMA IF EXISTS a CASCADE", statements.DropNamespace(("a",), if_exists=True, cascade=True)),
        ("DROP NAMESPACE a RESTRICT", statements.DropNamespace(("a",))),
        ("DROP TABLE IF EXISTS a.t PURGE", statements.DropTable(T, if_exists=True, purge=True)),
        ("UNDROP TABLE a.t", statements.UndropTable(T)),
        ("UNDROP a.t WITH ID 'x1' AS a.u", statements.UndropTable(T, "x1", ("a", "u"))),
        ("UNDROP NAMESPACE a", statements.UndropNamespace(("a",))),
        ("PURGE TABLE a.t WITH ID 'x1' FORCE", statements.PurgeTable(T, "x1", force=True)),
        ("PURGE TABLES", statements.PurgeTables()),
        (
            "PURGE TABLES DROPPED BEFORE current_timestamp() - INTERVAL 1 DAY FORCE DRY RUN",
            statements.PurgeTables("current_timestamp() - INTERVAL 1 DAY", force=True, dry_run=True),
        ),
        ("RESTORE TABLE a.t TO VERSION AS OF 3", statements.RestoreTable(T, TimeTravel("version", "3"))),
        ("RESTORE a.t TO TIMESTAMP AS OF now()", statements.RestoreTable(T, TimeTravel("timestamp", "now()"))),
        ("OPTIMIZE a.t", statements.Optimize(T)),
        ("VACUUM TABLE a.t RETAIN 0.5 HOURS DRY RUN", statements.Vacuum(T, 0.5, dry_run=True)),
        ("ALTER TABLE a.t RENAME TO u", statements.RenameTable(T, ("a", "u"))),
        ("ALTER TABLE a.t RENAME TO b.u", statements.RenameTable(T, ("b", "u"))),
        ("ALTER TABLE a.t RENAME COLUMN x.y TO z", statements.AlterColumn(T, ("x", "y"), new_name="z")),
        (
            "ALTER TABLE a.t ADD COLUMNS (x INT COMMENT 'c', v VECTOR(8), w VECTOR(DOUBLE, 2))",
            statements.AddColumns(
                T,
                (
                    ColumnDefinition("x", "INT", comment="c"),
                    ColumnDefinition("v", "ARRAY<FLOAT>", width=8),
                    ColumnDefinition("w", "ARRAY<DOUBLE>", width=2),
                ),
            ),
        ),
        (
            "ALTER TABLE a.t ADD COLUMN x map<string, array<int>>",
            statements.AddColumns(T, (ColumnDefinition("x", "map<string, array<int>>"),)),
        ),
        ("ALTER TABLE a.t DROP COLUMN IF EXISTS x", statements.DropColumns(T, (("x",),), if_exists=True)),
        ("ALTER TABLE a.t DROP COLUMNS (x, y.z)", statements.DropColumns(T, (("x",), ("y", "z")))),
        (
            "ALTER TABLE a.t ALTER COLUMN x TYPE DECIMAL(10, 2)",
            statements.AlterColumn(T, ("x",), type=ColumnDefinition("x", "DECIMAL(10, 2)")),
        ),
        ("ALTER TABLE a.t CHANGE COLUMN x DROP NOT NULL", statements.AlterColumn(T, ("x",), nullable=True)),
        ("ALTER TABLE a.t SET TBLPROPERTIES (x.y = 'z')", statements.SetProperties(T, {"x.y": "z"})),
        (
            "ALTER TABLE a.t UNSET TBLPROPERTIES ('x', 'y')",
            statements.SetProperties(T, {"x": None, "y": None}, if_exists=False),
        ),
        ("ALTER TABLE a.t SET PROTECTION", statements.SetProtection(T, protected=True)),
        ("ALTER NAMESPACE a UNSET PROTECTION", statements.SetProtection(("a",), protected=False, is_table=False)),
        ("CREATE INDEX i ON a.t (x)", statements.CreateIndex(T, ("x",), "i")),
        (
            "CREATE OR REPLACE INDEX ON TABLE a.t USING ivf_pq (v) OPTIONS (metric = 'cosine', num_partitions = 4)",
            statements.CreateIndex(
                T, ("v",), None, "ivf_pq", replace=True, options={"metric": "cosine", "num_partitions": "4"}
            ),
        ),
        (
            "CREATE INDEX IF NOT EXISTS i ON a.t (x) USING FTS",
            statements.CreateIndex(T, ("x",), "i", "FTS", if_not_exists=True),
        ),
        ("DROP INDEX IF EXISTS i ON a.t", statements.DropIndex(T, "i", if_exists=True)),
        (
            (
                "CREATE TABLE a.t (x BIGINT NOT NULL COMMENT 'it''s', s STRUCT<a: INT, b: ARRAY<STRING>>) USING lance "
                "COMMENT 'c' TBLPROPERTIES ('k' = 'v')"
            ),
            statements.CreateTable(
                T,
                (
                    ColumnDefinition("x", "BIGINT", nullable=False, comment="it's"),
                    ColumnDefinition("s", "STRUCT<a: INT, b: ARRAY<STRING>>"),
                ),
                properties={"comment": "c", "k": "v"},
            ),
        ),
        ("CREATE TABLE IF NOT EXISTS a.t AS SELECT 1", statements.CreateTable(T, query="SELECT 1", if_not_exists=True)),
        ("CREATE OR REPLACE TABLE a.t AS (SELECT 1)", statements.CreateTable(T, query="(SELECT 1)", replace=True)),
        (
            "REPLACE TABLE a.t USING pennon SELECT 1",
            statements.CreateTable(T, query="SELECT 1", replace=True, must_exist=True),
        ),
        ("INSERT INTO a.t VALUES (1, 2)", statements.InsertInto(T, "VALUES (1, 2)")),
        ("INSERT INTO TABLE a.t (x, `y z`) SELECT 1, 2", statements.InsertInto(T, "SELECT 1, 2", columns=("x", "y z"))),
        ("INSERT INTO a.t (SELECT 1)", statements.InsertInto(T, "(SELECT 1)")),
        ("INSERT OVERWRITE a.t BY NAME TABLE u", statements.InsertInto(T, "TABLE u", overwrite=True, by_name=True)),
        ("INSERT WITH SCHEMA EVOLUTION INTO a.t SELECT 1", statements.InsertInto(T, "SELECT 1", evolve=True)),
        (
            "WITH q AS (SELECT 1 AS insert) INSERT INTO a.t SELECT * FROM q",
            statements.InsertInto(T, "WITH q AS (SELECT 1 AS insert) SELECT * FROM q"),
        ),
        ("TRUNCATE TABLE a.t", statements.DeleteFrom(T, T)),
        ("DELETE FROM a.t", statements.DeleteFrom(T, T)),
        ("DELETE FROM a.t AS x WHERE x.y = 'WHERE'", statements.DeleteFrom(T, T, "x", "x.y = 'WHERE'")),
        (
            "UPDATE lake.a.t x SET x.y = CASE WHEN z THEN 1 ELSE f(2, 3) END, w.v = 5 WHERE z IN (1, 2)",
            statements.UpdateTable(
                T,
                ("lake", "a", "t"),
                "x",
                (Assignment(("x", "y"), "CASE WHEN z THEN 1 ELSE f(2, 3) END"), Assignment(("w", "v"), "5")),
                "z IN (1, 2)",
            ),
        ),
        (
            (
                "MERGE WITH SCHEMA EVOLUTION INTO a.t AS x USING (SELECT * FROM u WHERE v) s ON x.id = s.id "
                "WHEN MATCHED AND CASE WHEN s.gone THEN true END THEN DELETE WHEN MATCHED THEN UPDATE SET * "
                "WHEN NOT MATCHED BY TARGET THEN INSERT (id, n) VALUES (s.id, f(1, 2)) "
                "WHEN NOT MATCHED BY SOURCE AND x.old THEN UPDATE SET n = 0, m = 1;"
            ),
            statements.MergeInto(
                T,
                T,
                "x",
                "SELECT * FROM (SELECT * FROM u WHERE v)",
                "s",
                "x.id = s.id",
                (
                    MergeClause("matched", "delete", "CASE WHEN s.gone THEN true END"),
                    MergeClause("matched", "update", None, None),
                    MergeClause(
                        "missing", "insert", None, (Assignment(("id",), "s.id"), Assignment(("n",), "f(1, 2)"))
                    ),
                    MergeClause("extra", "update", "x.old", (Assignment(("n",), "0"), Assignment(("m",), "1"))),
                ),
                evolve=True,
            ),
        ),
        (
            "MERGE INTO a.t USING b.u ON t.id = u.id WHEN NOT MATCHED THEN INSERT *",
            statements.MergeInto(
                T, T, None, "SELECT * FROM b.u", "u", "t.id = u.id", (MergeClause("missing", "insert", None, None),)
            ),
        ),
        ("CREATE TEMP VIEW v AS SELECT 1", statements.CreateTempView("v", "SELECT 1")),
        (
            "CREATE OR REPLACE GLOBAL TEMPORARY VIEW v (a, b) AS SELECT 1, 2",
            statements.CreateTempView("v", "SELECT 1, 2", replace=True, is_global=True, columns=("a", "b")),
        ),
        ("CACHE TABLE v AS SELECT 1", statements.CreateTempView("v", "SELECT 1", cache=True)),
    ],
)
def test_statement_is_parsed(text, expected) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "WITH q AS (SELECT 1) SELECT * FROM q",
        "EXPLAIN SELECT 1",
        "SHOW FUNCTIONS",
        "SHOW TABLE EXTENDED LIKE 'x'",
        "SHOW PARTITIONS a.t",
        "DESCRIBE FUNCTION abs",
        "DESCRIBE QUERY SELECT 1",
        "DESCRIBE SELECT 1",
        "CREATE VIEW v AS SELECT 1",
        "CREATE FUNCTION f AS 'x'",
        "CACHE TABLE v",
        "SET x = 5",
        "USE a",
        "ANALYZE TABLE a.t COMPUTE STATISTICS",
        "REFRESH TABLE a.t",
        "BEGIN SELECT 1; END",
        "MSCK REPAIR TABLE a.t",
    ],
)
def test_other_statements_are_left_to_spark(text) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE spark.t",
        "ALTER TABLE spark.t ADD PARTITION (x = 1) LOCATION 'y'",
        "CREATE TABLE spark.t (x INT) PARTITIONED BY (x)",
        "CREATE TABLE a.t (x INT) USING parquet PARTITIONED BY (x)",
        "CREATE TABLE a.t USING delta LOCATION 'x'",
        "INSERT INTO spark.t PARTITION (x = 1) SELECT 1",
        "INSERT OVERWRITE DIRECTORY '/x' SELECT 1",
        "MERGE INTO spark.t USING u ON true WHEN MATCHED THEN DELETE",
        "SHOW TABLES IN spark",
        "DESCRIBE spark.t PARTITION (x = 1)",
        "CREATE DATABASE spark LOCATION 'x'",
        "OPTIMIZE spark.t ZORDER BY (x)",
    ],
)
def test_statement_about_object_of_spark_raises_foreign_name(text) -> None:
    with pytest.raises(ForeignNameError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("SHOW TABLES IN", "at the end"),
        ("SHOW TABLES IN a LIKE x", "line 1, column 23, near 'x'"),
        ("DROP TABLE a.t a.u", "line 1, column 16, near 'a'"),
        ("ALTER TABLE a.t\n  FROBNICATE x", "line 2, column 3, near 'FROBNICATE'"),
        ("ALTER TABLE a.t ADD COLUMN x INT DEFAULT 5", "near 'DEFAULT'"),
        ("ALTER TABLE a.t ADD COLUMN x", "at the end"),
        ("CREATE TABLE a.t", "at the end"),
        ("CREATE TABLE a.t (x INT) AS SELECT 1", "at the end"),
        ("CREATE TABLE a.t (x INT) PARTITIONED BY (x)", "near 'PARTITIONED'"),
        ("CREATE TABLE a.t (v VECTOR(x)) ", "near ')'"),
        ("INSERT INTO a.t", "at the end"),
        ("INSERT INTO a.t (x, y)", "at the end"),
        ("INSERT INTO a.t (x y) VALUES (1)", "near 'y'"),
        ("UPDATE a.t SET", "at the end"),
        ("UPDATE a.t SET x WHERE y", "near 'WHERE'"),
        ("DELETE a.t", "near 'a'"),
        ("MERGE INTO a.t USING u ON true", "at the end"),
        ("MERGE INTO a.t USING u ON true WHEN MATCHED THEN INSERT *", "near 'INSERT'"),
        ("MERGE INTO a.t USING u ON true WHEN NOT MATCHED THEN INSERT (x) VALUES (1, 2)", "at the end"),
        ("MERGE INTO a.t USING u ON true WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "at the end"),
        ("RESTORE a.t TO 3", "near '3'"),
        ("VACUUM a.t RETAIN x HOURS", "near 'x'"),
        ("CREATE INDEX i ON a.t x", "near 'x'"),
        ("UNDROP TABLE", "at the end"),
        ("PURGE a.t NOW", "near 'NOW'"),
        ("OPTIMIZE a.t WHERE x > 1", "near 'WHERE'"),
    ],
)
def test_syntax_error_names_position(text, position) -> None:
    with pytest.raises(InvalidInputError, match="Syntax error") as raised:
        parse(text)
    assert position in str(raised.value)
    assert raised.value.code == 13
