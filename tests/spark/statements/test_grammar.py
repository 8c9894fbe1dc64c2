"""Parsing of the catalog's statements: what they call, whether they belong to Spark, and syntax errors."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest

from pennon.errors import InvalidInputError
from pennon.spark.query.names import ForeignNameError
from pennon.spark.query.references import TimeTravel
from pennon.spark.statements import data, indexes, namespaces, show, tables
from pennon.spark.statements.assignments import Assignment, Target
from pennon.spark.statements.data import MergeClause
from pennon.spark.statements.ddl import ColumnDefinition
from pennon.spark.statements.grammar import parse_statement
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


LAKE = SimpleNamespace(address=object())
RUNNER = SimpleNamespace(names=FakeResolver())
CONTEXT = {"lake": LAKE, "address": LAKE.address, "runner": RUNNER}


def parse(text):
    return parse_statement(text, tokenize(text), LAKE, RUNNER)


T = ("a", "t")
AN = ("a",)


@pytest.mark.parametrize(
    ("text", "execute", "arguments"),
    [
        ("SHOW NAMESPACES", show.show_namespaces, {}),
        ("show schemas in a.b like 'x*'", show.show_namespaces, {"parent": ("a", "b"), "pattern": "x*"}),
        ("SHOW DATABASES FROM lake;", show.show_namespaces, {}),
        ("SHOW TABLES", show.show_tables, {}),
        ("SHOW TABLES IN a 'x*|y'", show.show_tables, {"namespace": AN, "pattern": "x*|y"}),
        ("SHOW TABLES DROPPED IN a", show.show_dropped_tables, {"namespace": AN}),
        ("SHOW TABLES DROPPED", show.show_dropped_tables, {}),
        ("SHOW COLUMNS IN a.t", show.show_columns, {"table": T}),
        ("SHOW COLUMNS FROM t IN a", show.show_columns, {"table": T}),
        ("SHOW CREATE TABLE lake.a.`odd.t`", show.show_create_table, {"table": ("a", "odd.t")}),
        ("SHOW CREATE TABLE table", show.show_create_table, {"table": ("table",)}),
        ("SHOW TBLPROPERTIES a.t", show.show_properties, {"table": T}),
        ("SHOW TBLPROPERTIES a.t ('x.y')", show.show_properties, {"table": T, "key": "x.y"}),
        ("SHOW TBLPROPERTIES a.t (x.y)", show.show_properties, {"table": T, "key": "x.y"}),
        ("SHOW INDEXES ON a.t", show.show_table_listing, {"table": T, "subject": "INDEXES"}),
        ("SHOW TAGS IN TABLE a.t", show.show_table_listing, {"table": T, "subject": "TAGS"}),
        ("DESCRIBE a.t", show.describe_table, {"table": T}),
        ("DESC TABLE EXTENDED a.t", show.describe_table, {"table": T, "extended": True}),
        ("DESCRIBE a.t x", show.describe_table, {"table": T, "column": ("x",)}),
        ("DESCRIBE a.t VERSION AS OF 3", show.describe_table, {"table": T, "travel": TimeTravel("version", "3")}),
        ("DESCRIBE HISTORY a.t LIMIT 5", show.describe_history, {"table": T, "limit": 5}),
        ("DESCRIBE NAMESPACE EXTENDED a", namespaces.describe_namespace, {"namespace": AN}),
        (
            "CREATE NAMESPACE IF NOT EXISTS a COMMENT 'c' WITH PROPERTIES ('x' = 'y', n = 5)",
            namespaces.create_namespace,
            {"namespace": AN, "if_not_exists": True, "properties": {"comment": "c", "x": "y", "n": "5"}},
        ),
        (
            "ALTER NAMESPACE a SET PROPERTIES ('x' = 'y', z = -1, b = TRUE)",
            namespaces.alter_namespace,
            {"namespace": AN, "changes": {"x": "y", "z": "-1", "b": "true"}},
        ),
        (
            "ALTER SCHEMA a UNSET PROPERTIES IF EXISTS ('x')",
            namespaces.alter_namespace,
            {"namespace": AN, "changes": {"x": None}},
        ),
        ("ALTER NAMESPACE a SET PROTECTION", namespaces.protect_namespace, {"namespace": AN, "protected": True}),
        ("ALTER NAMESPACE a UNSET PROTECTION", namespaces.protect_namespace, {"namespace": AN}),
        (
            "DROP SCHEMA IF EXISTS a CASCADE",
            namespaces.drop_namespace,
            {"namespace": AN, "if_exists": True, "cascade": True},
        ),
        ("DROP NAMESPACE a RESTRICT", namespaces.drop_namespace, {"namespace": AN}),
        ("UNDROP NAMESPACE a", namespaces.undrop_namespace, {"namespace": AN}),
        ("DROP TABLE IF EXISTS a.t PURGE", tables.drop_table, {"table": T, "if_exists": True, "purge": True}),
        ("UNDROP TABLE a.t", tables.undrop_table, {"table": T}),
        (
            "UNDROP a.t WITH ID 'x1' AS a.u",
            tables.undrop_table,
            {"table": T, "deletion_id": "x1", "new_name": ("a", "u")},
        ),
        (
            "PURGE TABLE a.t WITH ID 'x1' FORCE",
            tables.purge_table,
            {"table": T, "deletion_id": "x1", "force": True},
        ),
        ("PURGE TABLES", tables.purge_tables, {}),
        (
            "PURGE TABLES DROPPED BEFORE current_timestamp() - INTERVAL 1 DAY FORCE DRY RUN",
            tables.purge_tables,
            {"before": "current_timestamp() - INTERVAL 1 DAY", "force": True, "dry_run": True},
        ),
        (
            "RESTORE TABLE a.t TO VERSION AS OF 3",
            tables.restore_table,
            {"table": T, "travel": TimeTravel("version", "3")},
        ),
        (
            "RESTORE a.t TO TIMESTAMP AS OF now()",
            tables.restore_table,
            {"table": T, "travel": TimeTravel("timestamp", "now()")},
        ),
        ("ALTER TABLE a.t RENAME TO u", tables.rename_table, {"table": T, "new_name": ("a", "u")}),
        ("ALTER TABLE a.t RENAME TO b.u", tables.rename_table, {"table": T, "new_name": ("b", "u")}),
        (
            "ALTER TABLE a.t RENAME COLUMN x.y TO z",
            tables.rename_column,
            {"table": T, "column": ("x", "y"), "new_name": "z"},
        ),
        (
            "ALTER TABLE a.t ADD COLUMNS (x INT COMMENT 'c', v VECTOR(8), w VECTOR(DOUBLE, 2))",
            tables.add_columns,
            {
                "table": T,
                "columns": [
                    ColumnDefinition("x", "INT", comment="c"),
                    ColumnDefinition("v", "ARRAY<FLOAT>", width=8),
                    ColumnDefinition("w", "ARRAY<DOUBLE>", width=2),
                ],
            },
        ),
        (
            "ALTER TABLE a.t ADD COLUMN x map<string, array<int>>",
            tables.add_columns,
            {"table": T, "columns": [ColumnDefinition("x", "map<string, array<int>>")]},
        ),
        (
            "ALTER TABLE a.t DROP COLUMN IF EXISTS x",
            tables.drop_columns,
            {"table": T, "columns": [("x",)], "if_exists": True},
        ),
        ("ALTER TABLE a.t DROP COLUMNS (x, y.z)", tables.drop_columns, {"table": T, "columns": [("x",), ("y", "z")]}),
        (
            "ALTER TABLE a.t ALTER COLUMN x TYPE DECIMAL(10, 2)",
            tables.change_column_type,
            {"table": T, "column": ("x",), "definition": ColumnDefinition("x", "DECIMAL(10, 2)")},
        ),
        (
            "ALTER TABLE a.t CHANGE COLUMN x DROP NOT NULL",
            tables.change_nullability,
            {"table": T, "column": ("x",), "nullable": True},
        ),
        ("ALTER TABLE a.t ALTER x SET NOT NULL", tables.change_nullability, {"table": T, "column": ("x",)}),
        (
            "ALTER TABLE a.t SET TBLPROPERTIES (x.y = 'z')",
            tables.change_properties,
            {"table": T, "changes": {"x.y": "z"}, "if_exists": True},
        ),
        (
            "ALTER TABLE a.t UNSET TBLPROPERTIES ('x', 'y')",
            tables.change_properties,
            {"table": T, "changes": {"x": None, "y": None}},
        ),
        ("ALTER TABLE a.t SET PROTECTION", tables.protect_table, {"table": T, "protected": True}),
        ("OPTIMIZE a.t", indexes.optimize, {"table": T}),
        ("VACUUM TABLE a.t RETAIN 0.5 HOURS DRY RUN", indexes.vacuum, {"table": T, "hours": 0.5, "dry_run": True}),
        ("CREATE INDEX i ON a.t (x)", indexes.create_index, {"table": T, "columns": ["x"], "name": "i"}),
        (
            "CREATE OR REPLACE INDEX ON TABLE a.t USING ivf_pq (v) OPTIONS (metric = 'cosine', num_partitions = 4)",
            indexes.create_index,
            {
                "table": T,
                "columns": ["v"],
                "kind": "ivf_pq",
                "replace": True,
                "options": {"metric": "cosine", "num_partitions": "4"},
            },
        ),
        (
            "CREATE INDEX IF NOT EXISTS i ON a.t (x) USING FTS",
            indexes.create_index,
            {"table": T, "columns": ["x"], "name": "i", "kind": "FTS", "if_not_exists": True},
        ),
        ("DROP INDEX IF EXISTS i ON a.t", indexes.drop_index, {"table": T, "name": "i", "if_exists": True}),
        (
            (
                "CREATE TABLE a.t (x BIGINT NOT NULL COMMENT 'it''s', s STRUCT<a: INT, b: ARRAY<STRING>>) USING lance "
                "COMMENT 'c' TBLPROPERTIES ('k' = 'v')"
            ),
            tables.create_table,
            {
                "table": T,
                "content": [
                    ColumnDefinition("x", "BIGINT", nullable=False, comment="it's"),
                    ColumnDefinition("s", "STRUCT<a: INT, b: ARRAY<STRING>>"),
                ],
                "properties": {"comment": "c", "k": "v"},
                "mode": "create",
            },
        ),
        (
            "CREATE TABLE a.t (map INT)",
            tables.create_table,
            {"table": T, "content": [ColumnDefinition("map", "INT")], "mode": "create"},
        ),
        (
            "CREATE TABLE a.t (`from` INT, `values` INT)",
            tables.create_table,
            {
                "table": T,
                "content": [ColumnDefinition("from", "INT"), ColumnDefinition("values", "INT")],
                "mode": "create",
            },
        ),
        (
            "CREATE TABLE IF NOT EXISTS a.t AS SELECT 1",
            tables.create_table,
            {"table": T, "content": "SELECT 1", "mode": "ignore"},
        ),
        (
            "CREATE OR REPLACE TABLE a.t AS (SELECT 1)",
            tables.create_table,
            {"table": T, "content": "(SELECT 1)", "mode": "overwrite"},
        ),
        (
            "REPLACE TABLE a.t USING pennon SELECT 1",
            tables.create_table,
            {"table": T, "content": "SELECT 1", "mode": "overwrite", "must_exist": True},
        ),
        ("INSERT INTO a.t VALUES (1, 2)", data.insert, {"table": T, "query": "VALUES (1, 2)"}),
        (
            "INSERT INTO TABLE a.t (x, `y z`) SELECT 1, 2",
            data.insert,
            {"table": T, "query": "SELECT 1, 2", "columns": ["x", "y z"]},
        ),
        ("INSERT INTO a.t (map) SELECT 1", data.insert, {"table": T, "query": "SELECT 1", "columns": ["map"]}),
        ("INSERT INTO a.t (SELECT 1)", data.insert, {"table": T, "query": "(SELECT 1)"}),
        ("INSERT INTO a.t (TABLE u)", data.insert, {"table": T, "query": "(TABLE u)"}),
        ("INSERT INTO a.t ((SELECT 1))", data.insert, {"table": T, "query": "((SELECT 1))"}),
        (
            "INSERT INTO a.t (`values`, `from`) VALUES (1, 2)",
            data.insert,
            {"table": T, "query": "VALUES (1, 2)", "columns": ["values", "from"]},
        ),
        (
            "INSERT INTO a.t (table) (SELECT 1)",
            data.insert,
            {"table": T, "query": "(SELECT 1)", "columns": ["table"]},
        ),
        (
            "INSERT OVERWRITE a.t BY NAME TABLE u",
            data.insert,
            {"table": T, "query": "TABLE u", "overwrite": True, "by_name": True},
        ),
        (
            "INSERT WITH SCHEMA EVOLUTION INTO a.t SELECT 1",
            data.insert,
            {"table": T, "query": "SELECT 1", "evolve": True},
        ),
        (
            "WITH q AS (SELECT 1 AS insert) INSERT INTO a.t SELECT * FROM q",
            data.insert,
            {"table": T, "query": "WITH q AS (SELECT 1 AS insert) SELECT * FROM q"},
        ),
        ("TRUNCATE TABLE a.t", data.delete, {"target": Target(T, T)}),
        ("DELETE FROM a.t", data.delete, {"target": Target(T, T)}),
        (
            "DELETE FROM a.t AS x WHERE x.y = 'WHERE'",
            data.delete,
            {"target": Target(T, T, "x"), "where": "x.y = 'WHERE'"},
        ),
        (
            "UPDATE lake.a.t x SET x.y = CASE WHEN z THEN 1 ELSE f(2, 3) END, w.v = 5 WHERE z IN (1, 2)",
            data.update,
            {
                "target": Target(T, ("lake", "a", "t"), "x"),
                "assignments": (
                    Assignment(("x", "y"), "CASE WHEN z THEN 1 ELSE f(2, 3) END"),
                    Assignment(("w", "v"), "5"),
                ),
                "where": "z IN (1, 2)",
            },
        ),
        (
            (
                "UPDATE a.t SET end = (end + 1), v = (CASE end WHEN 1 THEN t.case ELSE end END), case = NOT (case) "
                "WHERE (t.end) > f(end, CASE WHEN case IS NULL THEN 0 END) AND case"
            ),
            data.update,
            {
                "target": Target(T, T),
                "assignments": (
                    Assignment(("end",), "(end + 1)"),
                    Assignment(("v",), "(CASE end WHEN 1 THEN t.case ELSE end END)"),
                    Assignment(("case",), "NOT (case)"),
                ),
                "where": "(t.end) > f(end, CASE WHEN case IS NULL THEN 0 END) AND case",
            },
        ),
        (
            (
                "MERGE INTO a.t USING b.u s ON (t.end = s.end) AND t.when = s.when "
                "WHEN MATCHED AND (s.end > 2 OR s.then) THEN UPDATE SET end = (s.end), v = CASE WHEN s THEN s.then END "
                "WHEN NOT MATCHED THEN INSERT (end) VALUES ((s.end))"
            ),
            data.merge_into,
            {
                "target": Target(T, T),
                "source": "SELECT * FROM b.u",
                "source_name": "s",
                "on": "(t.end = s.end) AND t.when = s.when",
                "when": [
                    MergeClause(
                        "matched",
                        "update",
                        "(s.end > 2 OR s.then)",
                        (Assignment(("end",), "(s.end)"), Assignment(("v",), "CASE WHEN s THEN s.then END")),
                    ),
                    MergeClause("missing", "insert", None, (Assignment(("end",), "(s.end)"),)),
                ],
            },
        ),
        (
            (
                "MERGE WITH SCHEMA EVOLUTION INTO a.t AS x USING (SELECT * FROM u WHERE v) s ON x.id = s.id "
                "WHEN MATCHED AND CASE WHEN s.gone THEN true END THEN DELETE WHEN MATCHED THEN UPDATE SET * "
                "WHEN NOT MATCHED BY TARGET THEN INSERT (id, n) VALUES (s.id, f(1, 2)) "
                "WHEN NOT MATCHED BY SOURCE AND x.old THEN UPDATE SET n = 0, m = 1;"
            ),
            data.merge_into,
            {
                "target": Target(T, T, "x"),
                "source": "SELECT * FROM (SELECT * FROM u WHERE v)",
                "source_name": "s",
                "on": "x.id = s.id",
                "when": [
                    MergeClause("matched", "delete", "CASE WHEN s.gone THEN true END"),
                    MergeClause("matched", "update", None, None),
                    MergeClause(
                        "missing", "insert", None, (Assignment(("id",), "s.id"), Assignment(("n",), "f(1, 2)"))
                    ),
                    MergeClause("extra", "update", "x.old", (Assignment(("n",), "0"), Assignment(("m",), "1"))),
                ],
                "evolve": True,
            },
        ),
        (
            "MERGE INTO a.t USING b.u ON t.id = u.id WHEN NOT MATCHED THEN INSERT *",
            data.merge_into,
            {
                "target": Target(T, T),
                "source": "SELECT * FROM b.u",
                "source_name": "u",
                "on": "t.id = u.id",
                "when": [MergeClause("missing", "insert", None, None)],
            },
        ),
        (
            "MERGE INTO a.t USING b.u VERSION AS OF 2 s ON t.id = s.id WHEN MATCHED THEN DELETE",
            data.merge_into,
            {
                "target": Target(T, T),
                "source": "SELECT * FROM b.u VERSION AS OF 2",
                "source_name": "s",
                "on": "t.id = s.id",
                "when": [MergeClause("matched", "delete")],
            },
        ),
        ("CREATE TEMP VIEW v AS SELECT 1", data.create_temp_view, {"name": "v", "query": "SELECT 1"}),
        (
            "CREATE OR REPLACE GLOBAL TEMPORARY VIEW v (a, b) AS SELECT 1, 2",
            data.create_temp_view,
            {"name": "v", "query": "SELECT 1, 2", "replace": True, "is_global": True, "columns": ["a", "b"]},
        ),
        ("CACHE TABLE v AS SELECT 1", data.create_temp_view, {"name": "v", "query": "SELECT 1", "cache": True}),
    ],
)
def test_statement_becomes_call(text, execute, arguments) -> None:
    call = parse(text)
    assert call is not None
    assert call.func is execute
    bound = inspect.signature(execute).bind(*call.args, **call.keywords).arguments
    assert {name: value for name, value in bound.items() if value and name not in CONTEXT} == arguments
    assert all(value is CONTEXT[name] for name, value in bound.items() if name in CONTEXT)


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
