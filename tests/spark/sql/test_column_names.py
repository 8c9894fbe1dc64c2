"""Column names resolve as in Spark: quoted patterns, and columns with the name of their table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pennon.spark.query.plan import plan_query
from pennon.spark.query.references import QueryTable
from tests.support import create_namespace, create_table, ipc

PATTERNS = "spark.sql.parser.quotedRegexColumnNames"
STRUCT = pa.struct({"i1": pa.int64(), "t5": pa.int64()})
SCHEMA = pa.schema({"i1": pa.int64(), "t5": STRUCT})
ROWS = pa.table({"i1": [1, 2], "t5": [{"i1": 10, "t5": 11}, {"i1": 20, "t5": 21}]}, schema=SCHEMA)


def describe_rows(frame):
    return frame.columns, sorted(tuple(row) for row in frame.collect())


@pytest.fixture
def patterns(spark):
    spark.conf.set(PATTERNS, "true")
    yield
    spark.conf.unset(PATTERNS)


@pytest.mark.usefixtures("patterns")
def test_quoted_pattern_selects_all_matching_columns(spark, lake):
    content = {"a1": [1, 2], "a2": [3, 4], "b1": [5, 6]}
    create_table(lake.catalog, "t", data=ipc(content))
    spark.createDataFrame(list(zip(*content.values(), strict=True)), list(content)).createOrReplaceTempView("rows_of_t")
    try:
        for columns in ("`a.*`", "`(a2)?+.+`", "t.`[ab]1`", "count(`a1`)", "`a1`, b1"):
            expected = describe_rows(spark.sql(f"SELECT {columns} FROM rows_of_t AS t"))
            assert describe_rows(lake.sql(f"SELECT {columns} FROM t")) == expected, columns
    finally:
        spark.catalog.dropTempView("rows_of_t")


@pytest.mark.usefixtures("patterns")
def test_delete_resolves_quoted_column_while_patterns_are_enabled(lake):
    create_table(lake.catalog, "t", data=ipc({"a1": [1, 2], "a2": [3, 4]}))
    assert lake.sql("DELETE FROM t WHERE `a1` = 1").first().deleted == 1
    assert describe_rows(lake.sql("SELECT * FROM t")) == (["a1", "a2"], [(2, 4)])


NAMESAKES = [
    ("SELECT t5.t5.i1 FROM t5", (["i1"], [(10,), (20,)])),
    ("SELECT t5.i1 FROM t5", (["i1"], [(1,), (2,)])),
    ("SELECT t5.t5.t5 FROM t5 WHERE t5.t5.i1 > 10", (["t5"], [(21,)])),
    ("SELECT t5.t5.t5 FROM t5 WHERE t5.i1 > 1", (["t5"], [(21,)])),
    ("SELECT lake.t5.i1 FROM t5", (["i1"], [(1,), (2,)])),
    ("SELECT lake.t5.t5.i1 FROM lake.t5", (["i1"], [(10,), (20,)])),
    ("SELECT max(t5.t5.i1) AS m FROM t5", (["m"], [(20,)])),
    ("SELECT n.t5.i1 FROM n.t5", (["i1"], [(1,), (2,)])),
    ("SELECT n.t5.t5.i1 FROM n.t5", (["i1"], [(10,), (20,)])),
    ("SELECT t5.t5.i1 FROM n.t5", (["i1"], [(10,), (20,)])),
    ("SELECT t5.n.x FROM other.t5", (["x"], [(7,)])),
    ("SELECT n.t5.x FROM n.u AS t5 JOIN n.t5 AS v ON t5.i1 = v.i1", (["x"], [(8,)])),
]


def test_column_with_the_name_of_its_table_is_resolved(lake):
    for name in ("n", "other"):
        create_namespace(lake.catalog, name)
    create_table(lake.catalog, "t5", data=ipc(ROWS))
    create_table(lake.catalog, "n", "t5", data=ipc(ROWS))
    create_table(lake.catalog, "other", "t5", data=ipc(pa.table({"n": [{"x": 7}]})))
    create_table(lake.catalog, "n", "u", data=ipc(pa.table({"n": [{"t5": {"x": 8}}], "i1": [1]})))
    for text, expected in NAMESAKES:
        assert describe_rows(lake.sql(text)) == expected, text


def test_only_the_name_of_the_lake_can_precede_a_table():
    def find(parts, travel):
        del travel
        return QueryTable(("t5",), SCHEMA, lake="lake") if parts == ("t5",) else None

    assert plan_query("SELECT lake.t5.i1 FROM t5", find).text == "SELECT `t5`.i1 FROM {t0} AS `t5`"
    assert plan_query("SELECT t5.t5.i1 FROM t5", find).text == "SELECT t5.t5.i1 FROM {t0} AS `t5`"
    assert plan_query("SELECT t5.t5.i1 FROM t5", find).reads[0].columns == ("t5",)
