"""Statements that the catalog executes: effects, results and errors."""

from __future__ import annotations

import threading

import pytest

from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableColumnNotFoundError,
    TableIndexAlreadyExistsError,
    TableIndexNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from pennon.spark.query.names import NameResolver
from pennon.spark.query.runner import QueryRunner
from pennon.spark.reading.pinned import pin


def run(lake, text):
    """Run a statement and return its rows as tuples."""
    return [tuple(row) for row in lake.sql(text).collect()]


@pytest.fixture(params=["plain", "managed"])
def prod(request, lake):
    """Return a lake with a namespace, with and without managed versions."""
    if request.param == "managed":
        lake.catalog.enable_table_version_management()
    lake.sql("CREATE NAMESPACE prod")
    return lake


def test_insert_update_delete_merge_and_restore(prod) -> None:
    assert run(prod, "CREATE TABLE prod.t (id BIGINT NOT NULL, s STRING, info STRUCT<a: INT, b: STRING>)") == [
        ("prod.t", 1, 0, True)
    ]
    assert run(prod, "INSERT INTO prod.t VALUES (1, 'a', named_struct('a', 1, 'b', 'x')), (2, 'b', NULL)") == [(2, 2)]
    assert run(prod, "INSERT INTO prod.t (s, id) SELECT 'c', 3") == [(3, 1)]
    assert run(prod, "INSERT INTO lake.prod.t BY NAME SELECT 4 AS id, 5 AS s") == [(4, 1)]
    assert run(prod, "UPDATE prod.t SET s = upper(s), info.a = 7 WHERE prod.t.id <= 1") == [(5, 1)]
    assert run(prod, "SELECT id, s, info.a, info.b FROM prod.t ORDER BY id") == [
        (1, "A", 7, "x"),
        (2, "b", None, None),
        (3, "c", None, None),
        (4, "5", None, None),
    ]
    assert run(prod, "DELETE FROM prod.t AS x WHERE x.id = (SELECT max(id) FROM prod.t)") == [(6, 1)]
    merged = run(
        prod,
        """MERGE INTO prod.t USING (SELECT 2 AS id, 'two' AS s UNION ALL SELECT 9, 'nine') n ON t.id = n.id
        WHEN MATCHED THEN UPDATE SET s = n.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (n.id, n.s)
        WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE""",
    )
    assert merged == [(7, 1, 1, 1)]
    assert run(prod, "SELECT id, s FROM prod.t ORDER BY id") == [(1, "A"), (2, "two"), (9, "nine")]
    assert run(prod, "SELECT count(*) FROM prod.t VERSION AS OF 2") == [(2,)]
    assert run(prod, "RESTORE TABLE prod.t TO VERSION AS OF 2") == [("prod.t", 2, 8)]
    assert run(prod, "SELECT id, s FROM prod.t ORDER BY id") == [(1, "a"), (2, "b")]
    assert [row[0] for row in run(prod, "DESCRIBE HISTORY prod.t LIMIT 2")] == [8, 7]
    assert run(prod, "INSERT OVERWRITE prod.t SELECT id + 10, s, info FROM prod.t WHERE id = 2") == [(9, 1)]
    assert run(prod, "SELECT id FROM prod.t") == [(12,)]
    assert run(prod, "TRUNCATE TABLE prod.t") == [(10, 1)]
    described = prod.catalog.describe_table_version({"id": ["prod", "t"]})
    assert described.version.version == 10


def test_alter_table_changes_columns_and_properties(prod) -> None:
    prod.sql("CREATE TABLE prod.t (id INT, old STRING COMMENT 'c') COMMENT 'it''s' TBLPROPERTIES ('k' = 'v')")
    prod.sql("INSERT INTO prod.t VALUES (1, 'a')")
    prod.sql("ALTER TABLE prod.t ADD COLUMNS (n INT, v VECTOR(2))")
    prod.sql("ALTER TABLE prod.t RENAME COLUMN old TO new")
    prod.sql("ALTER TABLE prod.t ALTER COLUMN id TYPE BIGINT")
    prod.sql("ALTER TABLE prod.t DROP COLUMN IF EXISTS n, nothing")
    assert run(prod, "DESCRIBE prod.t") == [
        ("id", "bigint", None),
        ("new", "string", "c"),
        ("v", "array<float>", None),
    ]
    prod.sql("ALTER TABLE prod.t SET TBLPROPERTIES ('x' = 'y')")
    prod.sql("ALTER TABLE prod.t UNSET TBLPROPERTIES ('k')")
    assert run(prod, "SHOW TBLPROPERTIES prod.t") == [("comment", "it's"), ("x", "y")]
    prod.sql("INSERT INTO prod.t VALUES (2, 'b', array(1, 2))")
    assert run(prod, "SELECT id, new, v FROM prod.t ORDER BY id") == [(1, "a", None), (2, "b", [1.0, 2.0])]
    ((text,),) = run(prod, "SHOW CREATE TABLE prod.t")
    prod.sql(text.replace("prod.t", "prod.copy"))
    assert run(prod, "DESCRIBE prod.copy") == run(prod, "DESCRIBE prod.t")
    assert run(prod, "SHOW TBLPROPERTIES prod.copy") == run(prod, "SHOW TBLPROPERTIES prod.t")
    for text, error in (
        ("ALTER TABLE prod.t DROP COLUMN nothing", TableColumnNotFoundError),
        ("ALTER TABLE prod.t ADD COLUMN ID INT", InvalidInputError),
        ("ALTER TABLE prod.t ADD COLUMN z INT NOT NULL", InvalidInputError),
        ("ALTER TABLE prod.t ALTER COLUMN new TYPE INT", InvalidInputError),
        ("ALTER TABLE prod.t UNSET TBLPROPERTIES ('nothing')", InvalidInputError),
        ("CREATE TABLE prod.t (x INT)", TableAlreadyExistsError),
        ("CREATE TABLE prod.u (x NOTYPE)", InvalidInputError),
        ("REPLACE TABLE prod.u (x INT)", TableNotFoundError),
    ):
        with pytest.raises(error, match="prod"):
            prod.sql(text)
    assert run(prod, "CREATE OR REPLACE TABLE prod.t AS SELECT 1 AS one")[0][2:] == (1, False)
    assert run(prod, "SELECT * FROM prod.t") == [(1,)]


def test_drop_undrop_and_purge_tables_and_namespaces(prod) -> None:
    prod.sql("CREATE TABLE prod.`odd.name` AS SELECT 1 AS id")
    assert run(prod, "SHOW TABLES IN prod") == [("prod", "odd.name", False)]
    assert run(prod, "SHOW TABLES IN lake.prod LIKE 'x*'") == []
    prod.sql("ALTER TABLE prod.`odd.name` SET PROTECTION")
    with pytest.raises(InvalidTableStateError):
        prod.sql("DROP TABLE prod.`odd.name`")
    prod.sql("ALTER TABLE prod.`odd.name` UNSET PROTECTION")
    assert run(prod, "DROP TABLE prod.`odd.name`") == [("prod.`odd.name`", True)]
    assert run(prod, "DROP TABLE IF EXISTS prod.`odd.name`") == [("prod.`odd.name`", False)]
    assert [row[1] for row in run(prod, "SHOW TABLES DROPPED IN prod")] == ["odd.name"]
    assert run(prod, "UNDROP TABLE prod.`odd.name` AS prod.t")[0][0] == "prod.t"
    prod.sql("ALTER TABLE prod.t RENAME TO u")
    assert run(prod, "SELECT id FROM lake.prod.u") == [(1,)]
    with pytest.raises(NamespaceNotEmptyError):
        prod.sql("DROP NAMESPACE prod")
    prod.sql("DROP NAMESPACE prod CASCADE")
    assert run(prod, "SHOW NAMESPACES") == []
    assert run(prod, "UNDROP NAMESPACE prod") == [("prod.u",)]
    prod.sql("DROP TABLE prod.u")
    ((table, _, files, _, error),) = run(prod, "PURGE TABLE prod.u FORCE")
    assert (table, files > 0, error) == ("prod.u", True, None)
    assert run(prod, "PURGE TABLES DRY RUN") == []
    with pytest.raises(NamespaceAlreadyExistsError):
        prod.sql("CREATE NAMESPACE prod")
    assert run(prod, "ALTER NAMESPACE prod SET PROPERTIES ('a' = 'b')") == [("a", "b")]
    assert ("a", "b") in run(prod, "DESCRIBE NAMESPACE prod")


def test_indexes_maintenance_and_search(prod) -> None:
    prod.sql("CREATE TABLE prod.docs (id INT, words STRING, v VECTOR(2))")
    prod.sql("INSERT INTO prod.docs VALUES (1, 'red fish', array(0, 0)), (2, 'blue fish', array(1, 1))")
    prod.sql("INSERT INTO prod.docs VALUES (3, 'red bird', array(5, 5))")
    assert run(prod, "CREATE INDEX w ON prod.docs USING FTS (words)")[0][:4] == ("prod.docs", "w", "INVERTED", "words")
    with pytest.raises(TableIndexAlreadyExistsError):
        prod.sql("CREATE INDEX w ON prod.docs USING FTS (words)")
    prod.sql("CREATE INDEX IF NOT EXISTS w ON prod.docs USING FTS (words)")
    assert [row[0] for row in run(prod, "SHOW INDEXES ON prod.docs")] == ["w"]
    found = run(prod, "SELECT id FROM text_search('prod.docs', 'red', columns => 'words') WHERE _score > 0 ORDER BY id")
    assert found == [(1,), (3,)]
    # The outer query filters the rows that the search found: one of the two nearest is left.
    near = "vector_search('prod.docs', 'v', array(0, 0), k => 2)"
    assert run(prod, f"SELECT id, _distance FROM {near} ORDER BY _distance") == [(1, 0.0), (2, 2.0)]
    assert run(prod, f"SELECT count(*) FROM {near} q WHERE q.id > 1") == [(1,)]
    like = "vector_search('lake.prod.docs', 'v', (SELECT v FROM prod.docs WHERE id = 3), k => 1, where => 'id < 3')"
    assert run(prod, f"SELECT d.words FROM {like} q JOIN prod.docs d ON d.id = q.id") == [("blue fish",)]
    for text, error in (
        ("vector_search('prod.docs', 'nothing', array(0, 0))", TableColumnNotFoundError),
        ("vector_search('prod.docs', 'v', array(0, 0, 0))", InvalidInputError),
        ("vector_search('prod.docs', 'v', 'text')", InvalidInputError),
        ("vector_search('prod.docs', 'v', array(0, 0), k => 0)", InvalidInputError),
        ("vector_search('prod.docs', 'v', array(0, 0), where => 'nonsense ((')", InvalidInputError),
        ("vector_search('prod.docs', 'v', array(0, 0), odd => 1)", InvalidInputError),
        ("text_search('prod.none', 'x')", TableNotFoundError),
    ):
        with pytest.raises(error):
            prod.sql(f"SELECT * FROM {text}").collect()
    optimized = prod.sql("OPTIMIZE prod.docs").first()
    assert optimized.fragments_before > optimized.fragments_after == 1
    assert run(prod, "VACUUM prod.docs RETAIN 0 HOURS DRY RUN")[0][-1] is True
    assert run(prod, "VACUUM prod.docs RETAIN 0 HOURS")[0][2] == 1
    assert run(prod, "DROP INDEX w ON prod.docs") == [("prod.docs", "w", True)]
    with pytest.raises(TableIndexNotFoundError):
        prod.sql("DROP INDEX w ON prod.docs")


def test_statement_about_a_missing_table_names_it(prod) -> None:
    for text in (
        "OPTIMIZE prod.`odd.name`",
        "VACUUM prod.`odd.name`",
        "CREATE INDEX ON prod.`odd.name` (id)",
        "DROP INDEX i ON prod.`odd.name`",
        "ALTER TABLE prod.`odd.name` ADD COLUMN x INT",
        "SHOW TAGS IN prod.`odd.name`",
        "DROP TABLE prod.`odd.name`",
        "DELETE FROM prod.`odd.name`",
    ):
        with pytest.raises(TableNotFoundError, match=r"'prod\.`odd\.name`'"):
            prod.sql(text)
    with pytest.raises(NamespaceNotFoundError, match="'nowhere'"):
        prod.sql("OPTIMIZE nowhere.t")


def test_create_index_reports_rows_of_the_table(prod) -> None:
    prod.sql("CREATE TABLE prod.t AS SELECT id FROM range(10)")
    prod.sql("DELETE FROM prod.t WHERE id >= 7")
    assert prod.sql("CREATE INDEX ON prod.t (id)").first().rows == 7
    assert run(prod, "SHOW INDEXES ON prod.t")[0][3] == 7


def test_views_of_spark_hide_tables_and_stay_in_spark(lake, spark) -> None:
    lake.sql("CREATE TABLE t AS SELECT 1 AS id, 'lake' AS origin")
    assert run(lake, "SELECT origin FROM t") == [("lake",)]
    spark.createDataFrame([(1, "view")], "id int, origin string").createOrReplaceTempView("t")
    try:
        assert run(lake, "SELECT origin FROM t") == [("view",)]
        assert run(lake, "SELECT a.origin, b.origin FROM t a JOIN lake.t b USING (id)") == [("view", "lake")]
    finally:
        spark.catalog.dropTempView("t")
    lake.sql("CREATE OR REPLACE TEMP VIEW kept (a, b) AS SELECT id, origin FROM t")
    lake.sql("INSERT INTO t VALUES (2, 'later')")
    assert run(lake, "SELECT * FROM kept") == [(1, "lake")]
    spark.catalog.dropTempView("kept")
    assert spark.catalog.listTables() == []  # no temporary view of Pennon is left
    with pytest.raises(UnsupportedOperationError):
        lake.sql("CREATE VIEW persistent AS SELECT * FROM t")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", InvalidInputError),
        ("SELEC 1", InvalidInputError),
        ("SELECT * FROM t WHERE (", InvalidInputError),
        ("SELECT * FROM nowhere.none", TableNotFoundError),
        ("SELECT * FROM lake.none", TableNotFoundError),
        ("DESCRIBE none", TableNotFoundError),
        ("INSERT INTO none VALUES (1)", TableNotFoundError),
        ("INSERT INTO t VALUES (1, 2)", InvalidInputError),
        ("INSERT INTO t (nothing) VALUES (1)", InvalidInputError),
        ("INSERT INTO t BY NAME SELECT 1 AS nothing", InvalidInputError),
        ("INSERT INTO t VALUES ('text')", InvalidInputError),
        ("UPDATE t SET nothing = 1", TableColumnNotFoundError),
        ("UPDATE t SET id = 1, t.ID = 2", InvalidInputError),
        ("DELETE FROM t WHERE nothing = 1", InvalidInputError),
        ("SELECT * FROM t VERSION AS OF 99", TableVersionNotFoundError),
        ("SELECT * FROM t VERSION AS OF 'nothing'", TableTagNotFoundError),
        ("SELECT * FROM t TIMESTAMP AS OF '1999-01-01'", TableVersionNotFoundError),
        ("RESTORE TABLE t TO VERSION AS OF 99", TableVersionNotFoundError),
    ],
)
def test_rejected_statement_changes_nothing(spark, shared_lake, text, error) -> None:
    del spark
    with pytest.raises(error):
        shared_lake.sql(text).collect()
    assert [row[0] for row in run(shared_lake, "DESCRIBE HISTORY t")] == [1]


@pytest.fixture(scope="module")
def shared_lake(spark, tmp_path_factory):
    from pennon.spark import attach

    lake = attach(spark, root=str(tmp_path_factory.mktemp("shared")))
    lake.sql("CREATE TABLE t AS SELECT 1 AS id")
    return lake


def test_query_of_several_tables_sees_one_moment(managed_lake) -> None:
    managed_lake.sql("CREATE TABLE a AS SELECT 1 AS n")
    managed_lake.sql("CREATE TABLE b AS SELECT 1 AS n")
    runner = QueryRunner(managed_lake, NameResolver(managed_lake))
    runner.find_table(("a",), None)
    for table in ("a", "b"):
        managed_lake.sql(f"UPDATE {table} SET n = 2")
    # The runner opened `a` before both updates. To read it together with `b`, it opens `a` again.
    frame = runner.run_query("SELECT a.n, b.n FROM a, b")
    assert [tuple(row) for row in frame.collect()] == [(2, 2)]


def test_threads_with_separate_lakes_are_isolated(spark, tmp_path) -> None:
    from pennon.spark import attach

    lakes = [attach(spark, root=str(tmp_path / str(number))) for number in range(2)]
    for number, lake in enumerate(lakes):
        lake.sql(f"CREATE TABLE t AS SELECT {number} AS n")
    seen: dict[int, set] = {0: set(), 1: set()}
    failures: list[BaseException] = []

    def ask(number):
        try:
            for _ in range(5):
                seen[number].update(run(lakes[number], "SELECT x.n, y.n FROM t x JOIN t y ON x.n = y.n"))
        except BaseException as error:  # noqa: BLE001 (shown by the assertion below)
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert seen == {0: {(0, 0)}, 1: {(1, 1)}}


def test_null_is_inserted_into_columns_of_any_type(lake):
    run(lake, "CREATE TABLE t (id BIGINT, s STRING, v VECTOR(2), info STRUCT<a: INT>)")
    for number, statement in enumerate(("INSERT INTO", "INSERT OVERWRITE")):
        run(lake, f"{statement} t SELECT {number}, NULL, NULL, NULL")
        assert run(lake, "SELECT * FROM t") == [(number, None, None, None)]
    assert run(lake, "SHOW COLUMNS IN t") == [("id",), ("s",), ("v",), ("info",)]


def test_insert_overwrite_keeps_the_types_of_the_table(lake):
    run(lake, "CREATE TABLE t (id BIGINT, x DOUBLE, v VECTOR(2))")
    created = pin(lake.address, ("t",))[1].schema
    run(lake, "INSERT OVERWRITE t SELECT 1, 2, array(1.5f, 2.5f)")
    assert pin(lake.address, ("t",))[1].schema == created
    assert run(lake, "SELECT * FROM t") == [(1, 2.0, [1.5, 2.5])]
    with pytest.raises(InvalidInputError, match="Column id is string in the DataFrame, which does not fit int64"):
        run(lake, "INSERT OVERWRITE t SELECT 'a', 2, NULL")


def test_keywords_are_names_of_first_columns(lake):
    with pytest.raises(InvalidInputError, match=r"'from'.*no texts of limited length, use STRING"):
        run(lake, "CREATE TABLE t (values BIGINT, from VARCHAR(3))")
    run(lake, "CREATE TABLE t (values BIGINT, from DECIMAL(3, 1), table VECTOR(2))")
    assert run(lake, "SHOW COLUMNS IN t") == [("values",), ("from",), ("table",)]
    for number, query in enumerate(("VALUES (1), (2)", "SELECT date, values FROM (SELECT 1 AS date, 2 AS values)")):
        run(lake, f"CREATE TABLE q{number} ({query})")
    assert run(lake, "SELECT * FROM q1") == [(1, 2)]


def test_names_with_other_letters_need_backticks_as_in_spark(lake):
    run(lake, "CREATE TABLE `été` (`größe` BIGINT)")
    run(lake, "INSERT INTO `été` VALUES (3)")
    assert run(lake, "SELECT `größe` FROM `été`") == [(3,)]
    for text in ("INSERT INTO été VALUES (3)", "CREATE TABLE t (größe INT)", "SELECT größe FROM `été`"):
        with pytest.raises(InvalidInputError, match="Syntax error"):
            run(lake, text)


def test_merge_with_unknown_columns_lists_those_of_both_sides(lake):
    run(lake, "CREATE TABLE t (id BIGINT, v STRING)")
    run(lake, "CREATE TABLE s (id BIGINT, v STRING, more INT)")
    merge = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET"
    with pytest.raises(InvalidInputError, match=r"has no column 'more'.*; it has id, v\."):
        run(lake, f"{merge} *")
    with pytest.raises(InvalidInputError, match=r"The table has id, v, and the source has id, v, more\."):
        run(lake, f"{merge} v = s.nope")
