"""The predicates that are pushed down to Lance: only those that keep every row that Spark would keep."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne

import lance
import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from pennon.spark.reading import filters
from tests.spark.sql.schemas import CUSTOMERS, EVENTS, TABLES, find_predicates

UTC = dt.timezone.utc


def to_lance(filters_, schema=EVENTS):
    """Return the predicate of Lance for filters of Spark."""
    texts = [filters.translate_filter(one, schema) for one in (filters_ if isinstance(filters_, list) else [filters_])]
    assert None not in texts
    return texts[0] if len(texts) == 1 else " AND ".join(f"({text})" for text in texts)


def compare(column, kind, value):
    return kind((column,), value)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id = 5", compare("id", EqualTo, 5)),
        ("5 < id", compare("id", GreaterThan, 5)),
        ("id == 5L", compare("id", EqualTo, 5)),
        ("id != -5", Not(compare("id", EqualTo, -5))),
        ("NOT id < 5", compare("id", GreaterThanOrEqual, 5)),
        ("NOT (id < 5 OR name = 'x')", [compare("id", GreaterThanOrEqual, 5), Not(compare("name", EqualTo, "x"))]),
        ("id BETWEEN 3 AND 7", [compare("id", GreaterThanOrEqual, 3), compare("id", LessThanOrEqual, 7)]),
        ("id IN (1, 2, 3)", compare("id", In, (1, 2, 3))),
        ("id NOT IN (1, 2)", Not(compare("id", In, (1, 2)))),
        ("id IS NULL", IsNull(("id",))),
        ("id IS NOT NULL", IsNotNull(("id",))),
        ("isnotnull(id)", IsNotNull(("id",))),
        ("id <=> 5", compare("id", EqualNullSafe, 5)),
        ("id IS NOT DISTINCT FROM 5", compare("id", EqualNullSafe, 5)),
        ("id IS DISTINCT FROM 5", Not(compare("id", EqualNullSafe, 5))),
        ("flag", EqualTo(("flag",), value=True)),
        ("NOT flag", Not(EqualTo(("flag",), value=True))),
        ("flag = false", EqualTo(("flag",), value=False)),
        ("flag IS TRUE", EqualNullSafe(("flag",), value=True)),
        ("flag IS NOT FALSE", Not(EqualNullSafe(("flag",), value=False))),
        ("name LIKE 'x%'", compare("name", StringStartsWith, "x")),
        ("name LIKE '%x'", compare("name", StringEndsWith, "x")),
        ("name LIKE '%x%'", compare("name", StringContains, "x")),
        ("name NOT LIKE 'x%'", Not(compare("name", StringStartsWith, "x"))),
        ("name LIKE 'x'", compare("name", EqualTo, "x")),
        ("startswith(name, 'x')", compare("name", StringStartsWith, "x")),
        # numbers, converted to the column's type if the outcome is the same
        ("cid > 1.5", compare("cid", GreaterThan, 1)),
        ("cid >= 1.5", compare("cid", GreaterThan, 1)),
        ("cid < -1.5", compare("cid", LessThanOrEqual, -2)),
        ("cid <= -1.5", compare("cid", LessThanOrEqual, -2)),
        ("cid = 2.0", compare("cid", EqualTo, 2)),
        ("amount > 1", compare("amount", GreaterThan, 1.0)),
        ("amount > 0.1", compare("amount", GreaterThan, 0.1)),
        ("amount = 1e3", compare("amount", EqualTo, 1000.0)),
        ("price = 1.5", compare("price", EqualTo, Decimal("1.50"))),
        ("price > 3", compare("price", GreaterThan, Decimal("3.00"))),
        # dates and timestamps
        ("day = '2024-02-29'", compare("day", EqualTo, dt.date(2024, 2, 29))),
        ("day >= DATE '2024-01-01'", compare("day", GreaterThanOrEqual, dt.date(2024, 1, 1))),
        ("ts >= '2024-01-01'", compare("ts", GreaterThanOrEqual, dt.datetime(2024, 1, 1, tzinfo=UTC))),
        (
            "ts < TIMESTAMP '2024-01-01 10:00:00.5'",
            compare("ts", LessThan, dt.datetime(2024, 1, 1, 10, 0, 0, 500000, UTC)),
        ),
        ("ts > DATE '2024-01-01'", compare("ts", GreaterThan, dt.datetime(2024, 1, 1, tzinfo=UTC))),
        ("local > '2024-01-01 10:00:00'", compare("local", GreaterThan, dt.datetime(2024, 1, 1, 10))),
        ("raw = X'0aff'", compare("raw", EqualTo, b"\x0a\xff")),
        ("info.a = 5", EqualTo(("info", "a"), 5)),
        ("events.INFO.b = 'x'", EqualTo(("info", "b"), "x")),
        # unsupported parts are left out if that only keeps more rows
        ("id = 5 AND length(name) > 3", compare("id", EqualTo, 5)),
        ("(id = 5 AND length(name) > 3) AND (flag)", [compare("id", EqualTo, 5), EqualTo(("flag",), value=True)]),
    ],
)
def test_conditions_on_one_table_are_pushed_down(condition, expected) -> None:
    assert find_predicates(f"SELECT id, name FROM prod.events WHERE {condition} ORDER BY 1") == [to_lance(expected)]


def test_or_is_pushed_down_with_all_its_sides() -> None:
    one, other = to_lance(EqualTo(("id",), 5)), to_lance(EqualTo(("cid",), 3))
    assert find_predicates("SELECT id FROM prod.events WHERE id = 5 OR (cid = 3 AND length(name) > 1)") == [
        f"({one}) OR ({other})"
    ]


@pytest.mark.parametrize(
    "condition",
    [
        "id = 5 OR length(name) > 3",
        "NOT (id = 5 AND length(name) > 3)",
        "length(name) = 3",
        "id + 1 = 5",
        "id = cid",
        "id = NULL",
        "id = '5'",
        "name = 5",
        "name IN ('x', 5)",
        "id IN (1, 2.5)",
        "id = 1.5",
        "id > 1e300",
        "id > 9223372036854775808",
        "cid = 3000000000",
        "amount = '1.5'",
        "price = 1.555",
        "price = 1e0",
        "day = '2024-1-1'",
        "day = '2024-02-30'",
        "day > TIMESTAMP '2024-01-01 00:00:00'",
        "ts = 'yesterday'",
        "ts > current_timestamp()",
        "ts IN ('2024-01-01 00:00:00')",
        "ts > '2024-01-01T00:00:00+02:00'",
        "local > TIMESTAMP '2024-01-01 00:00:00'",
        "CAST(id AS STRING) = '5'",
        "name = 'a\\tb'",
        "name = 'a' 'b'",
        "name = r'a'",
        "name LIKE 'a_b'",
        "name LIKE 'a%b'",
        "name LIKE '%'",
        "name LIKE 'a\\\\%'",
        "name LIKE 'x%' ESCAPE '/'",
        "name ILIKE 'x%'",
        "name RLIKE 'x'",
        "name COLLATE UNICODE_CI = 'x'",
        "name = 'x' COLLATE UNICODE_CI",
        "id = :parameter",
        "info = named_struct('a', 1, 'b', 'x')",
        "nosuch = 5",
        "rand() > 0.5 AND id = 5",
        "id IN (SELECT 5)",
        "EXISTS (SELECT 1 WHERE id = 5)",
        "CASE WHEN id = 5 THEN true END",
        "coalesce(id, 5) = 5",
        "(id, cid) = (1, 2)",
        "true",
    ],
)
def test_other_conditions_are_left_to_spark(condition) -> None:
    assert find_predicates(f"SELECT id FROM prod.events WHERE {condition}") == [None]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("name < city", "`name` < `city`"),
        ("c.city <> prod.customers.name", None),
        ("NOT name >= c.city", "`name` < `city`"),
        ("c.name = city AND since > DATE'2024-01-01'", "(`name` = `city`) AND (`since` > arrow_cast(19723, 'Date32'))"),
        ("since < name", None),
        ("id = since", None),
        ("name < upper(city)", None),
    ],
)
def test_two_columns_of_one_type_are_compared_by_lance(condition, expected) -> None:
    assert find_predicates(f"SELECT id FROM prod.customers c WHERE {condition}") == [expected]


@pytest.mark.parametrize(
    ("kind", "comparable"),
    [
        *((kind, True) for kind in (pa.int8(), pa.int64(), pa.uint64(), pa.date32(), pa.decimal128(9, 2), pa.string())),
        *((kind, False) for kind in (pa.float64(), pa.timestamp("ns"), pa.date64(), pa.list_(pa.int8()), pa.bool_())),
    ],
    ids=str,
)
def test_columns_are_compared_if_spark_and_lance_order_their_type_alike(kind, comparable) -> None:
    schema = pa.schema({"a": kind, "b": kind, "c": pa.int32()})
    assert filters.compare_columns(("a",), "<", ("b",), schema) == ("`a` < `b`" if comparable else None)
    assert filters.compare_columns(("a",), "<", ("c",), schema) is None


@pytest.mark.parametrize("sign", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [-128, 0, 127, None]),
        (pa.uint64(), [0, 2**63, 2**64 - 1, None]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31), None]),
        (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.00"), Decimal("9999999.99"), None]),
        # Spark compares the bytes of UTF-8.
        (pa.string(), ["", "A", "a", "a ", "e\u0301", "\u00e9", "\uffee", "\U0001f600", None]),
    ],
    ids=["int8", "uint64", "date32", "decimal128", "string"],
)
def test_lance_compares_columns_as_spark_does(tmp_path, kind, values, sign) -> None:
    pairs = [(left, right) for left in values for right in values]
    data = pa.table({"a": pa.array([a for a, _ in pairs], kind), "b": pa.array([b for _, b in pairs], kind)})
    predicate = filters.compare_columns(("a",), sign, ("b",), data.schema)
    rows = lance.write_dataset(data, tmp_path / "t").to_table(filter=predicate).to_pylist()
    compare_values = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}[sign]

    def ordered(value):
        return value.encode() if isinstance(value, str) else value

    expected = [(a, b) for a, b in pairs if None not in (a, b) and compare_values(ordered(a), ordered(b))]
    assert [(row["a"], row["b"]) for row in rows] == expected


def test_timestamp_in_regional_zone_is_pushed_down_with_slack() -> None:
    (predicate,) = find_predicates("SELECT id FROM prod.events WHERE ts >= '2024-01-02'", zone="Europe/Berlin")
    assert predicate == to_lance(GreaterThanOrEqual(("ts",), dt.datetime(2024, 1, 1, 6, tzinfo=UTC)))
    (predicate,) = find_predicates("SELECT id FROM prod.events WHERE ts = '2024-01-02'", zone=None)
    assert predicate == to_lance(
        [
            GreaterThanOrEqual(("ts",), dt.datetime(2024, 1, 1, 6, tzinfo=UTC)),
            LessThanOrEqual(("ts",), dt.datetime(2024, 1, 2, 18, tzinfo=UTC)),
        ]
    )
    assert find_predicates("SELECT id FROM prod.events WHERE ts <> '2024-01-02'", zone="Europe/Berlin") == [None]
    assert find_predicates("SELECT id FROM prod.events WHERE ts IS NOT DISTINCT FROM '2024-01-02'", zone=None) == [None]


def test_timestamp_in_fixed_zone_is_exact() -> None:
    (predicate,) = find_predicates("SELECT id FROM prod.events WHERE ts > '2024-01-02 00:00:00'", zone="+02:00")
    assert predicate == to_lance(GreaterThan(("ts",), dt.datetime(2024, 1, 1, 22, tzinfo=UTC)))
    (predicate,) = find_predicates("SELECT id FROM prod.events WHERE ts > '2024-01-02 00:00:00Z'", zone="Europe/Berlin")
    assert predicate == to_lance(GreaterThan(("ts",), dt.datetime(2024, 1, 2, tzinfo=UTC)))


ID = to_lance(EqualTo(("id",), 5))
NO_ID = to_lance(IsNull(("id",)))
CITY = to_lance(EqualTo(("city",), "x"), CUSTOMERS)
NO_CITY = to_lance(IsNull(("city",)), CUSTOMERS)
NAME = to_lance(EqualTo(("name",), "x"))
SOME_CITY = to_lance([Not(EqualTo(("city",), "x")), IsNotNull(("city",))], CUSTOMERS)
E = "prod.events e"
C = "prod.customers c"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"FROM {E} JOIN {C} ON e.cid = c.id WHERE e.id = 5 AND c.city = 'x'", [ID, CITY]),
        (f"FROM {E} JOIN {C} ON e.cid = c.id AND e.id = 5 AND c.city = 'x'", [ID, CITY]),
        (f"FROM {E}, {C} WHERE e.cid = c.id AND e.id = 5 AND city = 'x'", [ID, CITY]),
        (f"FROM {E} CROSS JOIN {C} WHERE e.id IS NULL AND c.city IS NULL", [NO_ID, NO_CITY]),
        # LEFT: a condition on the nullable side is pushed down only if nulls fail it
        (f"FROM {E} LEFT JOIN {C} ON e.cid = c.id WHERE e.id = 5 AND c.city = 'x'", [ID, CITY]),
        (f"FROM {E} LEFT JOIN {C} ON e.cid = c.id WHERE e.id IS NULL AND c.city IS NULL", [NO_ID, None]),
        (f"FROM {E} LEFT JOIN {C} ON e.cid = c.id AND e.id = 5 AND c.city = 'x'", [None, CITY]),
        (f"FROM {E} LEFT JOIN {C} ON e.cid = c.id AND c.city IS NULL", [None, NO_CITY]),
        (f"FROM {E} LEFT JOIN {C} ON e.cid = c.id WHERE c.city <=> NULL", [None, None]),
        (f"FROM {E} LEFT JOIN {C} ON e.cid = c.id WHERE NOT (c.city <=> 'x' OR c.id IS NOT NULL)", [None, None]),
        (f"FROM {E} LEFT JOIN {C} ON e.cid = c.id WHERE NOT (c.city = 'x' OR c.city IS NULL)", [None, SOME_CITY]),
        # RIGHT and FULL
        (f"FROM {E} RIGHT JOIN {C} ON e.cid = c.id WHERE e.id IS NULL AND c.city IS NULL", [None, NO_CITY]),
        (f"FROM {E} RIGHT JOIN {C} ON e.cid = c.id AND e.id = 5 AND c.city = 'x'", [ID, None]),
        (f"FROM {E} FULL JOIN {C} ON e.cid = c.id WHERE e.id = 5 AND c.city = 'x'", [ID, CITY]),
        (f"FROM {E} FULL JOIN {C} ON e.cid = c.id WHERE e.id IS NULL AND c.city IS NULL", [None, None]),
        (f"FROM {E} FULL JOIN {C} ON e.cid = c.id AND e.id = 5 AND c.city = 'x'", [None, None]),
        # SEMI and ANTI
        (f"FROM {E} LEFT SEMI JOIN {C} ON e.cid = c.id AND e.id = 5 AND c.city = 'x'", [ID, CITY]),
        (f"FROM {E} LEFT ANTI JOIN {C} ON e.cid = c.id AND e.id = 5 AND c.city IS NULL", [None, NO_CITY]),
        (f"FROM {E} LEFT ANTI JOIN {C} ON e.cid = c.id WHERE e.id = 5", [ID, None]),
        # three tables
        (f"FROM {E} LEFT JOIN t ON true RIGHT JOIN {C} ON e.cid = c.id WHERE e.id IS NULL", [None, None, None]),
        (
            f"FROM {C} LEFT JOIN ({E} JOIN t ON true) ON e.cid = c.id WHERE e.id IS NULL AND c.city = 'x'",
            [CITY, None, None],
        ),
        (f"FROM {C} LEFT JOIN ({E} JOIN t ON true) ON e.cid = c.id WHERE e.id = 5", [None, ID, None]),
        # a join with a table of Spark
        (
            f"FROM {E} JOIN of_spark s ON e.cid = s.id WHERE e.id = 5 AND name = 'x' AND unknown = 3",
            [f"({ID}) AND ({NAME})"],
        ),
        # names that occur in both tables
        (f"FROM {E} JOIN {C} USING (id) WHERE id = 5 AND c.city = 'x'", [None, CITY]),
        (f"FROM {E} NATURAL JOIN {C} WHERE city = 'x'", [None, None]),
        (f"FROM {E} JOIN {C} ON e.cid = c.id WHERE name = 'x'", [None, None]),
    ],
)
def test_pushdown_through_joins(text, expected) -> None:
    assert find_predicates(f"SELECT 1 {text}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id FROM (SELECT * FROM prod.events) q WHERE id = 5", [ID]),
        ("SELECT x FROM (SELECT id AS x FROM prod.events) q WHERE q.x = 5", [ID]),
        ("WITH q AS (SELECT id FROM prod.events) SELECT id FROM q WHERE id = 5", [ID]),
        ("WITH q AS (SELECT * FROM prod.events), r AS (SELECT * FROM q) SELECT id FROM r WHERE id = 5", [ID]),
        ("SELECT 1 FROM t LEFT JOIN (SELECT id FROM prod.events) q ON t.a = q.id WHERE q.id IS NULL", [None, None]),
        ("SELECT 1 FROM t LEFT JOIN (SELECT id FROM prod.events) q ON t.a = q.id WHERE q.id = 5", [None, ID]),
        # a CTE that is read twice
        ("WITH q AS (SELECT id FROM prod.events) SELECT 1 FROM q a JOIN q b ON a.id = b.id WHERE a.id = 5", [None]),
        # subqueries that need all rows first
        ("SELECT id FROM (SELECT * FROM prod.events LIMIT 3) q WHERE id = 5", [None]),
        ("SELECT id FROM (SELECT DISTINCT id FROM prod.events) q WHERE id = 5", [None]),
        ("SELECT id FROM (SELECT id, count(*) FROM prod.events GROUP BY id) q WHERE id = 5", [None]),
        ("SELECT id FROM (SELECT id, row_number() OVER (ORDER BY ts) FROM prod.events) q WHERE id = 5", [None]),
        ("SELECT x FROM (SELECT id + 1 AS x FROM prod.events) q WHERE x = 5", [None]),
        ("SELECT x FROM (SELECT id FROM prod.events) AS q(x) WHERE x = 5", [None]),
        ("SELECT x FROM (SELECT id AS x, cid AS x FROM prod.events) q WHERE x = 5", [None]),
        ("SELECT id FROM (SELECT id FROM prod.events UNION ALL SELECT a FROM t) q WHERE id = 5", [None, None]),
        ("SELECT id FROM prod.events TABLESAMPLE (10 PERCENT) WHERE id = 5", [None]),
        ("SELECT id FROM prod.events GROUP BY id HAVING id = 5", [None]),
        # conditions within subqueries
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM prod.events e WHERE e.cid = t.a AND e.id = 5)", [None, ID]),
        ("SELECT a FROM t WHERE a NOT IN (SELECT cid FROM prod.events WHERE id = 5)", [None, ID]),
        ("SELECT a, (SELECT max(id) FROM prod.events WHERE id = 5) FROM t", [None, ID]),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM prod.events e WHERE t.a = 5)", [None, None]),
        ("SELECT a FROM t, LATERAL (SELECT cid FROM prod.events WHERE id = 5 AND cid = t.a) q", [None, ID]),
        ("SELECT id FROM prod.events LATERAL VIEW explode(tags) x AS tag WHERE id = 5 AND tag = 'x'", [ID]),
        ("SELECT id FROM prod.events WHERE id = 5 UNION ALL SELECT id FROM prod.events", [ID, None]),
        ("SELECT lake.prod.events.id FROM lake.prod.events WHERE prod.events.id = 5", [ID]),
    ],
)
def test_pushdown_into_subqueries(text, expected) -> None:
    assert find_predicates(text) == expected


def test_condition_on_two_tables_is_split_between_them() -> None:
    a = to_lance(EqualTo(("a",), 1), TABLES["t",]), to_lance(EqualTo(("a",), 3), TABLES["t",])
    e = to_lance(EqualTo(("e",), "p"), TABLES["u",]), to_lance(EqualTo(("e",), "q"), TABLES["u",])
    predicate = find_predicates("SELECT 1 FROM t, u WHERE (t.a = 1 AND e = 'p') OR (t.a = 3 AND e = 'q')")
    assert predicate == [f"({a[0]}) OR ({a[1]})", f"({e[0]}) OR ({e[1]})"]
