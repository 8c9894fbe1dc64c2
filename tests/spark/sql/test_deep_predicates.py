"""Spark evaluates predicates that are too large for Lance. Where only Lance could, they are rejected."""

from __future__ import annotations

import pytest

from tests.support import fails

DEEP = {
    "a long sum": "a = " + "+".join(["1"] * 300) + " - 298",
    "many terms": " OR ".join(f"a = {number}" for number in range(1500)),
    "casts": "CAST(" * 20 + "a" + " AS BIGINT)" * 20 + " = 2",
}


@pytest.fixture
def table(lake):
    lake.write(lake.spark.createDataFrame([(1, "x"), (2, "y"), (3, "z")], "a BIGINT, s STRING"), "t")
    return lake


@pytest.mark.parametrize("name", ["a long sum", "many terms", "casts"])
def test_spark_evaluates_deep_predicates_of_queries(table, name):
    rows = table.sql(f"SELECT a FROM t WHERE {DEEP[name]} ORDER BY a").collect()
    assert 2 in [row[0] for row in rows]
    assert table.sql(f"SELECT count(*) FROM t WHERE {DEEP[name]}").collect()[0][0] == len(rows)


@pytest.mark.parametrize("name", ["a long sum", "casts"])
def test_spark_evaluates_deep_predicates_of_updates_and_deletes(table, name):
    table.update("t", {"s": "'new'"}, where=DEEP[name])
    assert table.sql("SELECT s FROM t ORDER BY a").collect()[1][0] == "new"
    table.delete("t", DEEP[name])
    assert [row[0] for row in table.sql("SELECT a FROM t ORDER BY a").collect()] == [1, 3]


def test_data_source_leaves_long_predicates_to_spark(table):
    root = dict(table.address.properties)["root"]
    frame = table.spark.read.format("pennon").option("root", root).load("t")
    wanted = [str(number) * 200_000 for number in range(8)]
    assert frame.where(frame.s.isin([*wanted, "x"])).count() == 1


def test_deep_predicate_that_only_lance_evaluates_raises_invalid_input(table):
    with fails(13, "operators in a row"):
        table.table("t", where="a = " + "+".join(["1"] * 1000))
    with fails(13, "operators in a row"):
        condition = "a = " + "+".join(["1"] * 1000)
        table.sql(f"SELECT * FROM text_search('t', 'x', where => '{condition}')").collect()
