"""Decimals that Spark receives as whole numbers: the same rows and schema as before."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from pennon.spark.reading import scan
from pennon.spark.reading import unscaled_decimals as module
from pennon.spark.reading.unscaled_decimals import UnscaledDecimals, find_unscaled_decimals
from pennon.spark.session_settings import classic_context
from tests.support import create_table, ipc

ROWS = 5000  # more than the driver reads itself
KINDS = {
    "money": pa.decimal128(15, 2),
    "b c": pa.decimal128(18, 18),
    "whole": pa.decimal128(18, 0),
    "large": pa.decimal128(19, 2),
}


def decimals():
    """Return decimals of several types, with nulls, both signs, and the largest values."""
    columns = {"id": pa.array(range(ROWS), pa.int64())}
    for name, kind in KINDS.items():
        largest = Decimal(10**kind.precision - 1).scaleb(-kind.scale)
        values = [Decimal(number - ROWS // 2).scaleb(-kind.scale) for number in range(ROWS)]
        values[:4] = [largest, -largest, None, Decimal(0)]
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


@pytest.fixture
def read_all(monkeypatch):
    """Send decimals of small tables as whole numbers, too."""
    monkeypatch.setattr(module, "_LEAST_ROWS", 1)


def test_spark_reads_the_same_rows_and_schema(lake, read_all, capsys) -> None:
    data = decimals()
    create_table(lake.catalog, "t", data=ipc(data))
    frame = lake.sql("SELECT * FROM t")
    assert frame.schema == scan.plan_scan(lake.address, ("t",)).spark_schema() == lake.table("t").schema
    assert frame.orderBy("id").toArrow().to_pylist() == data.to_pylist()
    frame.explain()
    sent = capsys.readouterr().out.count("MakeDecimal")
    assert sent == (0 if classic_context(lake.spark) is None else len(KINDS) - 1)


def test_queries_compute_with_decimals_that_were_sent_as_whole_numbers(lake, read_all) -> None:
    data = decimals()
    create_table(lake.catalog, "t", data=ipc(data))
    money = [value for value in data["money"].to_pylist()[2:] if value is not None]
    row = lake.sql(
        "SELECT sum(t.money), max(t.money), min(u.money * 2), count(t.money), count(*) FROM t JOIN t AS u USING (id) "
        "WHERE id > 1"
    ).first()
    assert tuple(row) == (sum(money), max(money), 2 * min(money), len(money), ROWS - 2)
    assert lake.sql("SELECT count(DISTINCT money) FROM t WHERE money + 1 > -1.5").first() == (
        len({value for value in data["money"].to_pylist() if value is not None and value + 1 > Decimal("-1.5")}),
    )


def test_partial_aggregates_of_decimals(lake, read_all) -> None:
    data = decimals()
    create_table(lake.catalog, "t", data=ipc(data))
    rows = lake.sql("SELECT money, max(whole) AS top FROM t GROUP BY money").collect()
    expected = {}
    for money, whole in zip(data["money"].to_pylist(), data["whole"].to_pylist(), strict=True):
        known = expected.setdefault(money, whole)
        expected[money] = whole if known is None else known if whole is None else max(known, whole)
    assert {row.money: row.top for row in rows} == expected


@pytest.mark.parametrize(
    ("fields", "rows", "expected"),
    [
        ({"a": DecimalType(18, 2), "b": DecimalType(19, 2), "c": LongType()}, 100_000, {"a"}),
        ({"a": DecimalType(18, 2)}, 1000, set()),
        ({"a": DecimalType(18, 2), "A": LongType()}, 100_000, set()),
        ({f"c{number}": DecimalType(18, 2) for number in range(65)}, 100_000, set()),
        ({"a": LongType()}, 100_000, set()),
    ],
    ids=["up to 18 digits", "few rows", "names that differ in case", "many columns", "no decimals"],
)
def test_choice_of_columns(spark, fields, rows, expected) -> None:
    schema = StructType([StructField(name, kind) for name, kind in fields.items()])
    found = find_unscaled_decimals(spark, schema, rows).columns
    assert found == (set() if classic_context(spark) is None else expected)


def test_value_of_more_than_64_bits_is_an_error() -> None:
    values = pa.array([Decimal(10**20)], pa.decimal128(38, 0)).view(pa.decimal128(18, 0))
    with pytest.raises(pa.ArrowInvalid, match="out of"):
        UnscaledDecimals(frozenset("a")).to_sent(pa.record_batch({"a": values}))
