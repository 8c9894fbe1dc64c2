"""Queries over tables of a lake return the same result as over the same tables in Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException

from pennon.spark.query.names import NameResolver
from pennon.spark.query.runner import QueryRunner
from pennon.spark.reading import scan
from tests.support import create_table, ipc

QUERIES = [
    "SELECT * FROM prod.events",
    "SELECT count(*) FROM prod.events",
    "SELECT count(*) AS n, count(1) FROM prod.events WHERE cid > 3 AND name LIKE 'a%'",
    "SELECT count(*) FROM prod.events WHERE amount > 0",
    "SELECT count(*), count(cid), count(DISTINCT name) FROM prod.events",
    "SELECT prod.events.id, events.name FROM prod.events WHERE prod.events.id < 5",
    "SELECT prod.customers.* FROM prod.customers JOIN prod.events ON customers.id = events.id",
    # comparisons of floats: NaN is the greatest value, and both zeros are equal
    *(
        " UNION ALL ".join(
            f"SELECT '{sign}', id, amount FROM prod.events WHERE amount {sign} {value} AND id < 100"
            for sign in ("=", "<>", "<", ">=")
        )
        for value in ("0", "-0.0D", "1.5", "double('NaN')", "double('-inf')", "0.1")
    ),
    "SELECT id, small FROM prod.events WHERE small > 1 OR small = 0.1",
    "SELECT id FROM prod.events WHERE NOT (amount > 1) AND id < 300",
    "SELECT id FROM prod.events WHERE amount IN (0, 1.5, -2.25) AND id < 300",
    "SELECT id FROM prod.events WHERE amount BETWEEN -3 AND 2 AND id < 300",
    # strings
    "SELECT id, name FROM prod.events WHERE name = 'it\\'s'",
    "SELECT id, name FROM prod.events WHERE name = 'x\\\\y' OR name = '\\n'",
    "SELECT id, name FROM prod.events WHERE name >= 'b'",
    "SELECT id, name FROM prod.events WHERE name < 'a'",
    "SELECT id, name FROM prod.events WHERE name IN ('a', 'ä', '日本', '')",
    "SELECT id, name FROM prod.events WHERE name NOT IN ('a', 'A') AND id < 500",
    "SELECT id, name FROM prod.events WHERE name LIKE 'a%' AND name NOT LIKE '%c'",
    "SELECT id, name FROM prod.events WHERE name LIKE 'a\\\\%b' OR name LIKE '_'",
    "SELECT id, name FROM prod.events WHERE contains(name, 'b') OR endswith(name, 'C')",
    "SELECT id FROM prod.events WHERE name <=> NULL AND id < 200",
    # constants of other numeric types
    "SELECT id FROM prod.events WHERE cid > 2.5 AND cid <= 9.0 AND id < 200",
    "SELECT id FROM prod.events WHERE cid = 3L OR id = 5.0",
    "SELECT id FROM prod.events WHERE price = 1.5 OR price > 4.985 AND price < 4.99",
    "SELECT id FROM prod.events WHERE cid < 3000000000 AND id < 50",
    "SELECT id FROM prod.events WHERE id = '17'",
    "SELECT id FROM prod.events WHERE id IN (1, NULL, 3)",
    "SELECT id FROM prod.events WHERE id NOT IN (1, NULL, 3)",
    # dates and timestamps
    "SELECT id, ts FROM prod.events WHERE ts >= '2024-01-02' AND ts < '2024-01-02 03:00:00'",
    "SELECT id FROM prod.events WHERE ts BETWEEN TIMESTAMP '2024-01-03 00:00:00' AND DATE '2024-01-04'",
    "SELECT id FROM prod.events WHERE local > '2024-01-04 03:00:00.5'",
    "SELECT id FROM prod.events WHERE day = '2024-01-07' OR day > DATE'2024-02-08' OR day IS NULL",
    "SELECT id FROM prod.events WHERE day IN ('2024-01-05', '2024-1-6')",
    "SELECT id FROM prod.events WHERE ts > '2024-01-29 00:00:00+02:00'",
    # booleans, binary, structs, arrays
    "SELECT id FROM prod.events WHERE flag AND id < 100",
    "SELECT id FROM prod.events WHERE NOT flag AND id < 100",
    "SELECT id FROM prod.events WHERE flag IS NOT TRUE AND id < 100",
    "SELECT id FROM prod.events WHERE (flag OR id < 3) IS NULL AND id < 100",
    "SELECT id, raw FROM prod.events WHERE raw = X'00FF' OR raw < X'01'",
    "SELECT id, info.b FROM prod.events WHERE info.a = 1 OR info.a IS NULL AND id < 50",
    "SELECT id FROM prod.events WHERE info IS NULL AND id < 100",
    "SELECT tag, count(*) FROM prod.events LATERAL VIEW OUTER explode(tags) e AS tag WHERE id < 500 GROUP BY tag",
    "SELECT id, transform(tags, x -> concat(x, name)) FROM prod.events WHERE id < 20",
    # joins
    "SELECT e.id, c.city FROM prod.events e JOIN prod.customers c ON e.cid = c.id WHERE c.city = 'x' AND e.id < 200",
    "SELECT e.id, c.city FROM prod.events e LEFT JOIN prod.customers c ON cid = c.id AND c.city = 'x' WHERE e.id < 60",
    "SELECT e.id FROM prod.events e LEFT JOIN prod.customers c ON e.cid = c.id WHERE c.id IS NULL AND e.id < 200",
    "SELECT e.id, c.id FROM prod.events e RIGHT JOIN prod.customers c ON e.id = c.id AND cid = 3 WHERE c.city IS NULL",
    "SELECT e.id, c.id FROM prod.events e FULL JOIN prod.customers c ON e.id = c.id WHERE e.id IS NULL OR c.id < 3",
    "SELECT id, e.name FROM prod.events e FULL JOIN prod.customers c USING (id) WHERE id IS NULL OR id < 3",
    "SELECT * FROM prod.customers NATURAL JOIN (SELECT id, name FROM prod.events)",
    "SELECT c.id FROM prod.customers c LEFT ANTI JOIN prod.events e ON c.id = e.cid AND e.flag",
    "SELECT c.id FROM prod.customers c LEFT SEMI JOIN prod.events e ON c.id = e.cid AND e.id < 5",
    "SELECT a.id, b.id FROM prod.events a JOIN prod.events b ON a.id = b.id + 1 WHERE a.id < 5",
    "SELECT c.name, q.n FROM prod.customers c, LATERAL (SELECT count(*) n FROM prod.events e WHERE e.cid = c.id) q",
    # subqueries, common table expressions, set operations
    "SELECT name FROM prod.customers WHERE EXISTS (SELECT * FROM prod.events WHERE cid = customers.id AND price > 4.9)",
    "SELECT name FROM prod.customers c WHERE id NOT IN (SELECT cid FROM prod.events WHERE cid IS NOT NULL AND cid < 5)",
    "SELECT name, (SELECT max(price) FROM prod.events e WHERE e.cid = c.id) FROM prod.customers c",
    "SELECT id FROM prod.events WHERE price = (SELECT max(price) FROM prod.events WHERE id < 100)",
    "WITH e AS (SELECT * FROM prod.events WHERE id < 100) SELECT name, count(*) FROM e GROUP BY name",
    "WITH e AS (SELECT * FROM prod.events) SELECT a.id FROM e a JOIN e b ON a.id = b.cid WHERE a.id < 3 AND b.flag",
    "WITH events AS (SELECT 1 AS one) SELECT * FROM events",
    "SELECT one FROM (WITH events AS (SELECT 1 AS one) SELECT * FROM events), prod.events WHERE id < 2",
    "SELECT id FROM prod.events WHERE id < 4 UNION ALL SELECT id FROM prod.customers",
    "SELECT name FROM prod.events INTERSECT SELECT name FROM prod.customers",
    "SELECT cid FROM prod.events EXCEPT SELECT id FROM prod.customers",
    "SELECT id FROM (SELECT DISTINCT * FROM prod.customers UNION SELECT * FROM prod.customers)",
    "SELECT x FROM (SELECT * FROM prod.customers) AS q(x, y, z, w) WHERE y = 'a'",
    # windows, groups, pivots, sorting
    "SELECT id, row_number() OVER (PARTITION BY cid ORDER BY id) FROM prod.events WHERE id < 200",
    "SELECT * FROM (SELECT id, cid, rank() OVER (PARTITION BY cid ORDER BY id) AS r FROM prod.events) WHERE r = 1",
    "SELECT cid, sum(price), min(ts), max(day) FROM prod.events GROUP BY cid HAVING count(*) > 10",
    "SELECT city, name, count(*) FROM prod.customers GROUP BY ROLLUP (city, name)",
    "SELECT cid, count(*) FROM prod.events GROUP BY ALL",
    "SELECT * FROM (SELECT cid, flag, id FROM prod.events WHERE id < 400) PIVOT (count(id) FOR flag IN (true, false))",
    "SELECT id AS x FROM prod.events ORDER BY price DESC, x LIMIT 7 OFFSET 2",
    "SELECT max(struct(price, id)) FROM prod.events",
    "SELECT count(*) FROM (SELECT to_json(struct(*)) AS j FROM prod.events WHERE id < 300) WHERE j LIKE '%日本%'",
    # other kinds of statements
    "TABLE prod.customers",
    "FROM prod.customers SELECT name WHERE city = 'x'",
    "FROM prod.events |> WHERE id < 5 |> AGGREGATE count(*) AS n GROUP BY flag",
    "SELECT IDENTIFIER('city') FROM prod.customers",
    "SELECT * FROM prod.customers c JOIN VALUES (1, 'one'), (2, 'two') AS v(id, word) ON c.id = v.id",
    "SELECT a.id FROM range(5) a JOIN prod.customers c ON a.id = c.id",
    "SELECT /*+ BROADCAST(c) */ e.id FROM prod.events e JOIN prod.customers c ON e.id = c.id -- that is all",
    "SELECT '{id}', map('{', '}') FROM prod.customers WHERE name <> '{t0}'",
    "VALUES (1, 'a'), (2, 'b')",
]


AGGREGATES = [
    "SELECT sum(id) FROM prod.events",
    "SELECT SUM(id), Sum(cid), count(*), count(cid), avg(cid), min(name), max(ts) FROM prod.events",
    "SELECT cid, sum(id), count(*) AS n, avg(id) FROM prod.events GROUP BY cid",
    "SELECT name, flag, min(day), max(local), min(id), max(flag) FROM prod.events GROUP BY name, flag",
    "SELECT cid, sum(amount), max(amount), min(amount), count(amount) FROM prod.events GROUP BY cid",
    "SELECT max(small), min(small), sum(small) FROM prod.events WHERE small IN (1.5, -2.25)",
    "SELECT flag, avg(amount), sum(small) FROM prod.events WHERE amount IN (1.5, -2.25) AND small >= 0 GROUP BY flag",
    "SELECT sum(id), count(*), avg(id), min(name) FROM prod.events WHERE id < 0",
    "SELECT cid, count(*) FROM prod.events WHERE id < 0 GROUP BY cid",
    "SELECT events.cid AS c, sum(prod.events.id) / 2 AS half FROM prod.events GROUP BY prod.events.cid",
    "SELECT cid, count(*) AS n FROM prod.events WHERE name = 'a' OR flag GROUP BY cid HAVING count(*) > 100 ORDER BY n",
    "SELECT e.cid, sum(e.id) AS total FROM prod.events AS e GROUP BY e.cid ORDER BY total DESC LIMIT 3 OFFSET 1",
    "SELECT sum(id) total, total + 1 AS more FROM prod.events",
    "SELECT round(avg(id), 1) AS a, coalesce(max(cid), 0) AS b, NOT (count(*) > 3) AS c FROM prod.events",
    "SELECT cid AS name, count(name) FROM prod.events GROUP BY cid",
    "SELECT day, ts, count(*) FROM prod.events GROUP BY day, ts",
    "SELECT cid, sum(id) AS id FROM prod.events GROUP BY cid HAVING id > 5",
    "SELECT amount, count(*) FROM prod.events GROUP BY amount",
    "SELECT sum(price), avg(price) FROM prod.events",
    "SELECT cid, sum(DISTINCT cid), sum(id) FILTER (WHERE flag) FROM prod.events GROUP BY cid",
    "SELECT cid + 1, sum(id) FROM prod.events GROUP BY cid + 1",
    "SELECT sum(id + 1), sum(id) + 1 FROM prod.events",
    "SELECT sum(info.a), first(name) FROM (SELECT * FROM prod.events ORDER BY id)",
    "SELECT cid, sum(id), sum(sum(id)) OVER () FROM prod.events GROUP BY cid",
    "SELECT count(*), max(id) FROM prod.events WHERE rand() >= 0",
    "SELECT max(id) FROM prod.events WHERE id <= (SELECT max(id) FROM prod.customers)",
]


def describe_result(frame):
    """Return the columns with their types, and the rows in a fixed order."""
    fields = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    return fields, sorted(map(repr, frame.collect()))


@pytest.mark.parametrize("text", QUERIES + AGGREGATES)
def test_query_matches_spark(spark, shop, text) -> None:
    assert describe_result(shop.sql(text)) == describe_result(spark.sql(text))


@pytest.mark.parametrize("text", AGGREGATES[:16])
def test_aggregates_of_large_tables_match_spark(spark, shop, text, monkeypatch) -> None:
    monkeypatch.setattr(scan, "_DRIVER_BYTES", 0)
    assert describe_result(shop.sql(text)) == describe_result(spark.sql(text))


@pytest.mark.parametrize("source", ["prod.events", "prod.events AS e"])
def test_result_columns_can_be_qualified(spark, shop, source) -> None:
    name = source.rpartition(" ")[2].rpartition(".")[2]
    text = f"SELECT id, name FROM {source} WHERE cid = 3"
    assert describe_result(shop.sql(text).select(f"{name}.name")) == describe_result(
        spark.sql(text).select(f"{name}.name")
    )


def test_aggregate_with_one_group_per_row_returns_all_groups(shop) -> None:
    frame = shop.sql("SELECT id, sum(cid), count(*) FROM prod.events GROUP BY id HAVING count(*) = 1")
    assert frame.count() == shop.count("prod.events")


def test_supported_aggregates_are_split(shop) -> None:
    runner = QueryRunner(shop, NameResolver(shop))
    split = [text for text in AGGREGATES if any(one.partials for one in runner.plan(text).reads)]
    assert split == AGGREGATES[:16]


def test_overflowing_sum_of_longs_raises_as_in_spark(spark, lake) -> None:
    large = [2**62] * 6000
    create_table(
        lake.catalog, "large", data=ipc({"x": pa.array(large, pa.int64()), "k": [n % 6000 for n in range(6000)]})
    )
    with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
        lake.sql("SELECT sum(x) FROM large").collect()
    assert lake.sql("SELECT avg(x) FROM large").first() == (float(2**62),)
    assert lake.sql("SELECT max(s) FROM (SELECT k, sum(x) AS s FROM large GROUP BY k)").first() == (2**62,)
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert lake.sql("SELECT sum(x) FROM large").first() == (0,)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.parametrize("zone", ["America/New_York", "+05:30"])
def test_timestamps_use_time_zone_of_session(spark, shop, zone) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for condition in ("ts >= '2024-01-29 23:00:00'", "ts < DATE '2024-01-02'", "ts = '2024-01-01 00:00:00'"):
            text = f"SELECT id FROM prod.events WHERE {condition}"
            assert describe_result(shop.sql(text)) == describe_result(spark.sql(text))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("setting", ["spark.sql.ansi.enabled", "spark.sql.caseSensitive"])
def test_session_settings_apply(spark, shop, setting) -> None:
    before = spark.conf.get(setting)
    spark.conf.set(setting, "false" if before == "true" else "true")
    try:
        for condition in ("id = '17'", "day IN ('2024-02-08')", "cid > 2.5 AND name = 'a'"):
            text = f"SELECT id, name FROM prod.events WHERE {condition}"
            assert describe_result(shop.sql(text)) == describe_result(spark.sql(text))
    finally:
        spark.conf.set(setting, before)


def test_few_rows_found_by_index_are_read_on_driver(lake, capsys) -> None:
    rows = 12_000
    data = ipc({"id": range(rows), "kind": [0 if n % 2 else n % 100 for n in range(rows)]})
    create_table(lake.catalog, "t", data=data)

    def explain(condition):
        frame = lake.sql(f"SELECT id FROM t WHERE {condition}")
        frame.explain()
        return "MapInArrow" not in capsys.readouterr().out, frame.count()

    assert explain("kind = 10") == (False, rows // 100)
    lake.sql("CREATE INDEX ON t (kind)")
    assert explain("kind = 10") == (True, rows // 100)
    assert explain("kind = 10 AND id >= 6000") == (False, rows // 200)
    assert explain("kind = 0") == (False, rows // 2 + rows // 100)
    assert explain("kind = 11") == (True, 0)
    lake.catalog.insert_into_table({"id": ["t"]}, ipc({"id": [-1], "kind": [10]}))
    assert explain("kind = 10") == (False, rows // 100 + 1)


def test_count_runs_no_job(lake, capsys) -> None:
    create_table(lake.catalog, "t", data=ipc({"id": range(5)}))
    counted = lake.sql("SELECT count(*), count(*) AS n FROM t WHERE id > 1")
    assert counted.columns == ["count(1)", "n"]
    assert [tuple(row) for row in counted.collect()] == [(3, 3)]
    counted.explain()
    assert "LocalTableScan" in capsys.readouterr().out


def test_only_small_tables_are_broadcast_in_joins(spark, lake, capsys) -> None:
    rows = 60_000  # more than the driver reads itself
    create_table(lake.catalog, "facts", data=ipc({"id": range(rows), "v": [str(n * 7919) for n in range(rows)]}))
    create_table(lake.catalog, "names", data=ipc({"id": range(9), "name": list("abcdefghi")}))
    settings = {"spark.sql.autoBroadcastJoinThreshold": "100KB", "spark.sql.adaptive.enabled": "false"}
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        large = lake.sql("SELECT count(a.v), count(b.v) FROM facts a JOIN facts b ON a.id = b.id")
        small = lake.sql("SELECT count(v), max(name) FROM facts JOIN names ON facts.id = names.id")
        large.explain()
        assert "Broadcast" not in capsys.readouterr().out
        small.explain()
        assert "BroadcastHashJoin" in capsys.readouterr().out
        assert (large.first(), small.first()) == ((rows, rows), (9, "i"))
        for wide in ("-1", "1g"):
            spark.conf.set("spark.sql.autoBroadcastJoinThreshold", wide)
            frame = lake.sql("SELECT count(a.v), count(b.v) FROM facts a JOIN facts b ON a.id = b.id")
            frame.explain()
            assert ("BroadcastHashJoin" in capsys.readouterr().out) == (wide == "1g")
            assert frame.first() == (rows, rows)
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
