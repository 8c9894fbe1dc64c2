"""Tables that exist twice: in a lake, and under the same names in Spark."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import ipc

UTC = dt.timezone.utc
ROWS = 6000
FLOATS = [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), None, 1e300, 0.1]
NAMES = ["a", "A", "ä", "", "a%b", "it's", "x\\y", None, "日本", "abc", "ABC", "a b", "\n"]


def events():
    draw = random.Random(5)
    day = dt.date(2024, 1, 1)
    start = dt.datetime(2024, 1, 1, tzinfo=UTC)
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "cid": pa.array([draw.choice([None, *range(12)]) for _ in range(ROWS)], pa.int32()),
            "amount": pa.array([draw.choice(FLOATS) for _ in range(ROWS)], pa.float64()),
            "small": pa.array([draw.choice(FLOATS[:8]) for _ in range(ROWS)], pa.float32()),
            "name": pa.array([draw.choice(NAMES) for _ in range(ROWS)], pa.string()),
            "ts": pa.array(
                [None if n % 97 == 0 else start + dt.timedelta(minutes=n * 7) for n in range(ROWS)],
                pa.timestamp("us", "UTC"),
            ),
            "local": pa.array(
                [(start + dt.timedelta(minutes=n)).replace(tzinfo=None) for n in range(ROWS)], pa.timestamp("us")
            ),
            "day": pa.array([None if n % 89 == 0 else day + dt.timedelta(days=n % 40) for n in range(ROWS)]),
            "price": pa.array([Decimal(n % 500) / 100 for n in range(ROWS)], pa.decimal128(10, 2)),
            "flag": pa.array([draw.choice([True, False, None]) for _ in range(ROWS)]),
            "raw": pa.array([draw.choice([b"", b"\x00\xff", b"a", None]) for _ in range(ROWS)]),
            "info": pa.array(
                [
                    draw.choice([None, {"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 3, "b": None}])
                    for _ in range(ROWS)
                ],
                pa.struct({"a": pa.int32(), "b": pa.string()}),
            ),
            "tags": pa.array([draw.choice([None, [], ["x"], ["x", "y", None]]) for _ in range(ROWS)]),
        }
    )


def customers():
    return pa.table(
        {
            "id": pa.array([*range(10), None], pa.int64()),
            "name": pa.array(["a", "b", None, "abc", "ä", "f", "g", "h", "it's", "j", "k"]),
            "city": pa.array(["x", "y", "x", None, "z", "x", "y", "y", None, "w", "x"]),
            "since": pa.array([dt.date(2020, 1, n + 1) for n in range(11)]),
        }
    )


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    """Return a lake with tables that also exist in Spark, in a database with the name of the namespace."""
    from pennon.spark import attach

    place = tmp_path_factory.mktemp("shop")
    lake = attach(spark, root=str(place / "lake"))
    lake.catalog.create_namespace({"id": ["prod"]})
    # Statistics of Parquet ignore NaN, so with filter pushdown Spark would miss these rows.
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    spark.sql(f"CREATE DATABASE prod LOCATION '{place / 'database'}'")
    for name, table in (("events", events()), ("customers", customers())):
        lake.catalog.create_table({"id": ["prod", name]}, ipc(table))
        (place / name).mkdir()
        pq.write_table(table, place / name / "rows.parquet")
        spark.sql(f"CREATE TABLE prod.{name} USING parquet LOCATION '{place / name}'")
    yield lake
    spark.sql("DROP DATABASE prod CASCADE")
    spark.conf.unset("spark.sql.parquet.filterPushdown")
