"""Random queries over three tables, for comparing `lake.sql` with Spark over the same rows.

Every query has one result for both: sums are exact, divisions and casts cannot fail, and a LIMIT follows a total order.
"""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

INT, FLOAT, DECIMAL, TEXT, DATE, TIME, BOOL = "int", "float", "decimal", "text", "date", "time", "bool"
SPARK_TYPES = {
    INT: "BIGINT",
    FLOAT: "DOUBLE",
    DECIMAL: "DECIMAL(12,2)",
    TEXT: "STRING",
    DATE: "DATE",
    TIME: "TIMESTAMP",
    BOOL: "BOOLEAN",
}
TABLES = {
    "facts": {
        "id": INT,
        "k": INT,
        "n": INT,
        "x": FLOAT,
        "y": FLOAT,
        "p": DECIMAL,
        "s": TEXT,
        "u": TEXT,
        "d": DATE,
        "ts": TIME,
        "b": BOOL,
    },
    "dims": {"id": INT, "k": INT, "name": TEXT, "since": DATE, "rate": DECIMAL, "w": FLOAT},
    "labels": {"k": INT, "s": TEXT, "on": BOOL},
}
"""The tables, whose names stand for `<namespace>.<name>` in queries, and the columns that queries use."""

_UTC = dt.timezone.utc
_INTS = [None, 0, 1, -1, 2, 3, 7, 100, -(2**31), 2**31, 2**40]
_FLOATS = [None, 0.0, -0.0, 1.5, -2.25, 0.125, 1024.0, float("nan"), float("inf"), float("-inf")]
_TEXTS = [None, "", "a", "A", "ab", "a%b", "a_b", "it's", "x\\y", "ä", "日本", "  b ", "null", "12"]
_LITERALS = {
    INT: ["0", "1", "-1", "2", "3", "7", "100", "2147483648", "CAST(NULL AS BIGINT)", "5L"],
    FLOAT: [
        *("0.0D", "-0.0D", "1.5D", "-2.25D", "double('NaN')", "double('Infinity')", "double('-Infinity')"),
        *("CAST(NULL AS DOUBLE)", "1e3", "float(0.125)"),
    ],
    DECIMAL: ["0.00", "1.25", "-3.5", "4.99BD", "100", "CAST(NULL AS DECIMAL(5,2))", "0.005"],
    TEXT: ["''", "'a'", "'A'", "'ab'", "'it''s'", "'ä'", "'12'", "'zzz'", "NULL", '"a_b"', "'x\\\\y'"],
    DATE: ["DATE '2024-01-05'", "DATE'2024-02-29'", "date('2023-12-31')", "CAST(NULL AS DATE)", "'2024-01-20'"],
    TIME: [
        *("TIMESTAMP '2024-01-03 10:00:00'", "TIMESTAMP'2024-01-10 00:00:00.5'", "'2024-01-07 12:30:00'"),
        *("to_timestamp('2024-01-02')", "CAST(NULL AS TIMESTAMP)", "timestamp '2024-01-05 01:00:00+02:00'"),
    ],
    BOOL: ["true", "false", "CAST(NULL AS BOOLEAN)"],
}
_PATTERNS = ["'a%'", "'%b'", "'%a%'", "'_b'", "'a\\\\%b'", "'%'", "''", "'x\\\\\\\\y'", "'a'", "'%''%'"]
_COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "!=", "=="]
_JOINS = [
    "JOIN",
    "INNER JOIN",
    "LEFT JOIN",
    "LEFT OUTER JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
]


def make_rows(seed: int = 3) -> dict[str, pa.Table]:
    """Return the rows of the tables; `facts` has more than the driver reads by itself."""
    draw = random.Random(seed)
    count = 4_200
    start, day = dt.datetime(2024, 1, 1, tzinfo=_UTC), dt.date(2023, 12, 20)

    def column(values: list[object], size: int, kind: pa.DataType) -> pa.Array:
        return pa.array([draw.choice(values) for _ in range(size)], kind)

    def spread(size: int) -> list[object]:
        return [None if draw.random() < 0.05 else draw.randrange(80) for _ in range(size)]

    price = pa.decimal128(10, 2)
    facts = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "k": pa.array(spread(count), pa.int32()),
            "n": column(_INTS, count, pa.int64()),
            "x": column(_FLOATS, count, pa.float64()),
            "y": column(_FLOATS, count, pa.float32()),
            "p": pa.array([draw.choice([None, Decimal(number % 700) / 100]) for number in range(count)], price),
            "s": column(_TEXTS, count, pa.string()),
            "u": pa.array([str(draw.randrange(200)) for _ in range(count)]),
            "d": pa.array([None if value is None else day + dt.timedelta(days=value) for value in spread(count)]),
            "ts": pa.array(
                [None if draw.random() < 0.1 else start + dt.timedelta(minutes=7 * number) for number in range(count)],
                pa.timestamp("us", "UTC"),
            ),
            "b": column([True, False, None], count, pa.bool_()),
        }
    )
    dims = pa.table(
        {
            "id": pa.array([*range(0, 160, 2), None], pa.int64()),
            "k": column([None, *range(20)], 81, pa.int32()),
            "name": column(_TEXTS, 81, pa.string()),
            "since": pa.array([day + dt.timedelta(days=number % 30) for number in range(81)]),
            "rate": column([None, Decimal("0.05"), Decimal("1.25"), Decimal("-3.50")], 81, price),
            "w": column(_FLOATS, 81, pa.float64()),
        }
    )
    labels = pa.table(
        {
            "k": pa.array([None, *range(8), 3], pa.int32()),
            "s": column(_TEXTS, 10, pa.string()),
            "on": column([True, False, None], 10, pa.bool_()),
        }
    )
    return {"facts": facts, "dims": dims, "labels": labels}


@dataclass(frozen=True)
class Column:
    """A column that an expression can use: its text and kind."""

    text: str
    kind: str


class QueryWriter:
    """Writes one random query. The same seed gives the same query."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def query(self) -> str:
        """Return a query; table names are written as `prod.<name>`."""
        shapes = {
            self._plain: 5,
            self._joined: 5,
            self._grouped: 6,
            self._nested: 3,
            self._with: 2,
            self._set_operation: 2,
            self._piped: 4,
            self._windowed: 1,
            self._counted: 1,
        }
        return self._draw.choices(list(shapes), list(shapes.values()))[0]()

    # Shapes of queries

    def _plain(self) -> str:
        table, alias, columns = self._table()
        if self._chance(0.15):
            return f"SELECT * FROM {table} {alias}{self._where(columns)}"
        results, names = self._results(columns)
        distinct = "DISTINCT " if self._chance(0.15) else ""
        text = f"SELECT {distinct}{results} FROM {table} {alias}{self._where(columns)}"
        return text + self._total_order(len(names))

    def _joined(self) -> str:
        source, columns = self._join()
        results, names = self._results(columns)
        return f"SELECT {results} FROM {source}{self._where(columns)}{self._total_order(len(names))}"

    def _grouped(self) -> str:
        if self._chance(0.6):
            table, alias, columns = self._table()
            source = f"{table} {alias}"
        else:
            source, columns = self._join()
        return self._group(source, columns, self._where(columns))

    def _group(self, source: str, columns: list[Column], where: str) -> str:
        keys = [self._key(columns) for _ in range(self._draw.choice([0, 1, 1, 1, 2]))]
        measures = [self._aggregate(columns) for _ in range(self._draw.choice([1, 2, 3]))]
        shown = [one for one in keys if self._chance(0.8)] + [
            one + (f" AS m{number}" if self._chance(0.6) else "") for number, one in enumerate(measures)
        ]
        text = f"SELECT {', '.join(shown)} FROM {source}{where}"
        if keys:
            plain = ", ".join(keys)
            text += " GROUP BY " + self._pick(
                [plain] * 6
                + [f"ROLLUP ({plain})", f"CUBE ({plain})", f"{plain} WITH ROLLUP", f"GROUPING SETS (({plain}), ())"]
            )
        if self._chance(0.35):
            text += f" HAVING {self._having(measures, columns)}"
        if keys and self._chance(0.35):
            text += f" ORDER BY {self._pick([*measures, *keys])}{self._pick(['', ' DESC', ' ASC NULLS LAST'])}"
        return text

    def _nested(self) -> str:
        table, alias, columns = self._table("facts")
        other, inner, inside = self._table("dims")
        keep = self._where(inside)
        joined = f"{keep} AND " if keep else " WHERE "
        shapes = [
            f"{alias}.k IN (SELECT {inner}.k FROM {other} {inner}{keep})",
            f"{alias}.id NOT IN (SELECT {inner}.id FROM {other} {inner} WHERE {inner}.id IS NOT NULL)",
            f"EXISTS (SELECT 1 FROM {other} {inner}{joined}{inner}.k = {alias}.k)",
            f"NOT EXISTS (SELECT 1 FROM {other} {inner}{joined}{inner}.k = {alias}.k)",
            f"{alias}.k > (SELECT min({inner}.k) FROM {other} {inner}{keep})",
            f"{alias}.p = (SELECT max({inner}.rate) FROM {other} {inner} WHERE {inner}.k = {alias}.k)",
        ]
        condition = self._pick(shapes)
        extra = f" AND {self._condition(columns)}" if self._chance(0.5) else ""
        results, names = self._results(columns)
        if self._chance(0.3):
            derived = f"(SELECT {alias}.* FROM {table} {alias} WHERE {condition}{extra})"
            return self._group(f"{derived} {alias}", columns, self._where(columns))
        if self._chance(0.2):
            results += f", (SELECT count(*) FROM {other} {inner}{joined}{inner}.k = {alias}.k) AS c"
            return f"SELECT {results} FROM {table} {alias} WHERE {alias}.id < 40"
        return f"SELECT {results} FROM {table} {alias} WHERE {condition}{extra}{self._total_order(len(names))}"

    def _with(self) -> str:
        first, names = self._typed_select()
        columns = [Column(f"q.{name}", kind) for name, kind in names.items()]
        results, _ = self._results(columns)
        body = f"SELECT {results} FROM q{self._where(columns)}"
        if self._chance(0.4):
            body = self._group("q", columns, self._where(columns))
        elif self._chance(0.3):
            body = f"SELECT q.r0, o.r0 AS other FROM q JOIN q o ON q.r0 <=> o.r0{self._where(columns)}"
        if self._chance(0.3):
            return f"WITH p AS ({first}), q AS (SELECT * FROM p) {body}"
        return f"WITH q AS ({first}) {body}"

    def _set_operation(self) -> str:
        kinds = [self._pick([INT, TEXT, DATE, FLOAT, DECIMAL]) for _ in range(self._draw.choice([1, 2]))]
        parts = [self._typed_select(kinds)[0] for _ in range(self._draw.choice([2, 2, 3]))]
        words = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "MINUS", "EXCEPT ALL", "INTERSECT ALL"]
        text = f"({parts[0]})"
        for part in parts[1:]:
            text = f"({text} {self._pick(words)} ({part}))"
        if self._chance(0.3):
            return f"SELECT count(*), min(r0) FROM {text} z"
        return text[1:-1]

    def _piped(self) -> str:
        table, _, _ = self._table()
        columns = [Column(name, kind) for name, kind in TABLES[table.removeprefix("prod.")].items()]
        text = f"{self._pick(['FROM', 'TABLE'])} {table}"
        for _ in range(self._draw.choice([1, 2, 3])):
            step = self._pick(["where", "where", "select", "extend", "join", "set", "drop"])
            if step == "where":
                text += f" |> WHERE {self._condition(columns)}"
            elif step == "select":
                results, names = self._results(columns)
                text += f" |> SELECT {results}"
                columns = [Column(name, kind) for name, kind in names.items()]
            elif step == "extend":
                kind = self._pick(list(SPARK_TYPES))
                name = f"e{len(text)}"
                text += f" |> EXTEND {self._expression(kind, columns)} AS {name}"
                columns = [*columns, Column(name, kind)]
            elif step == "join" and any(one.text == "k" for one in columns) and "labels" not in text:
                text += f" |> {self._pick(['LEFT JOIN', 'JOIN'])} prod.labels USING (k)"
                kept = [one for one in columns if one.text not in {"s", "on"}]
                columns = [*kept, Column("`on`", BOOL)]
            elif step == "set" and columns:
                column = self._pick(columns)
                text += f" |> SET {column.text} = {self._expression(column.kind, columns)}"
            elif step == "drop" and len(columns) > 2:
                column = self._pick(columns)
                text += f" |> DROP {column.text}"
                columns = [one for one in columns if one != column]
        if self._chance(0.5):
            keys = self._pick(columns).text
            text += f" |> AGGREGATE {self._aggregate(columns)} AS m GROUP BY {keys}"
        return text

    def _windowed(self) -> str:
        table, alias, columns = self._table("facts")
        over = f"OVER (PARTITION BY {self._column(columns)} ORDER BY {alias}.id)"
        calls = [f"row_number() {over}", f"sum({alias}.n) {over}", f"lag({self._column(columns)}) {over}"]
        results, _ = self._results(columns)
        return f"SELECT {results}, {self._pick(calls)} AS w FROM {table} {alias}{self._where(columns)}"

    def _counted(self) -> str:
        table, alias, columns = self._table()
        call = self._pick(["count(*)", "count(1)", "count(*) AS c"])
        return f"SELECT {call} FROM {table} {alias}{self._where(columns)}"

    # Parts of queries

    def _table(self, name: str | None = None) -> tuple[str, str, list[Column]]:
        """Return a table, its alias, and its columns."""
        name = name or self._draw.choices(list(TABLES), [5, 3, 1])[0]
        alias = f"{name[0]}{self._draw.randrange(100)}"
        return f"prod.{name}", alias, [Column(f"{alias}.{_quote(one)}", kind) for one, kind in TABLES[name].items()]

    def _join(self) -> tuple[str, list[Column]]:
        left, a, columns = self._table("facts")
        right, b, others = self._table(self._pick(["dims", "labels"]))
        word = self._pick(_JOINS)
        on = f"{a}.k = {b}.k"
        if right.endswith("dims") and self._chance(0.4):
            on = self._pick([f"{a}.id = {b}.id", f"{a}.id = {b}.id AND {a}.k <=> {b}.k", f"{a}.d = {b}.since"])
        if self._chance(0.3):
            on += f" AND {self._condition([*columns, *others])}"
        if self._chance(0.1) and "SEMI" not in word and "ANTI" not in word:
            kept = [one for one in [*columns, *others] if not one.text.endswith(".k")]
            return f"{left} {a} {word} {right} {b} USING (k)", [*kept, Column("k", INT)]
        if self._chance(0.08):
            return f"(SELECT * FROM {left} WHERE id < 40) {a}, {right} {b}", [*columns, *others]
        seen = columns if "SEMI" in word or "ANTI" in word else [*columns, *others]
        return f"{left} {a} {word} {right} {b} ON {on}", seen

    def _where(self, columns: list[Column]) -> str:
        return f" WHERE {self._condition(columns)}" if self._chance(0.75) else ""

    def _results(self, columns: list[Column]) -> tuple[str, dict[str, str]]:
        """Return a select list, and the names and kinds of its columns."""
        kinds = [self._pick(list(SPARK_TYPES)) for _ in range(self._draw.choice([1, 2, 3]))]
        return self._select_list(kinds, columns)

    def _select_list(self, kinds: list[str], columns: list[Column]) -> tuple[str, dict[str, str]]:
        texts = [f"{self._expression(kind, columns)} AS r{number}" for number, kind in enumerate(kinds)]
        return ", ".join(texts), {f"r{number}": kind for number, kind in enumerate(kinds)}

    def _typed_select(self, kinds: list[str] | None = None) -> tuple[str, dict[str, str]]:
        table, alias, columns = self._table()
        wanted = kinds or [self._pick(list(SPARK_TYPES)) for _ in range(self._draw.choice([1, 2, 3]))]
        texts = [
            f"CAST({self._expression(one, columns)} AS {SPARK_TYPES[one]}) AS r{n}" for n, one in enumerate(wanted)
        ]
        names = {f"r{number}": kind for number, kind in enumerate(wanted)}
        return f"SELECT {', '.join(texts)} FROM {table} {alias}{self._where(columns)}", names

    def _total_order(self, count: int) -> str:
        if not self._chance(0.25):
            return ""
        order = ", ".join(f"{number + 1}{self._pick(['', ' DESC', ' NULLS LAST'])}" for number in range(count))
        return f" ORDER BY {order}" + (f" LIMIT {self._pick([0, 1, 5, 50])}" if self._chance(0.6) else "")

    def _key(self, columns: list[Column]) -> str:
        column = self._pick(columns)
        if self._chance(0.8):
            return column.text
        shapes = {INT: f"{column.text} % 5", TEXT: f"upper({column.text})", DATE: f"month({column.text})"}
        return shapes.get(column.kind, column.text)

    def _aggregate(self, columns: list[Column]) -> str:
        numbers = [one.text for one in columns if one.kind in {INT, DECIMAL}] or ["1"]
        small = [one.text for one in columns if one.kind == INT and one.text.split(".")[-1] in {"id", "k"}] or ["1"]
        word = self._pick(
            [
                "count(*)",
                "count",
                "sum",
                "sum",
                "avg",
                "min",
                "max",
                "min",
                "max",
                "distinct",
                "filter",
                "case",
                "bools",
            ]
        )
        if word == "count(*)":
            return word
        if word == "sum":
            return f"{self._pick(['sum', 'SUM'])}({self._pick(numbers)})"
        if word == "avg":
            return f"avg({self._pick(small)})"
        if word == "distinct":
            return f"count(DISTINCT {self._column(columns)})"
        if word == "filter":
            return f"count({self._column(columns)}) FILTER (WHERE {self._condition(columns, 1)})"
        if word == "case":
            return f"sum(CASE WHEN {self._condition(columns, 1)} THEN 1 ELSE 0 END)"
        if word == "bools":
            return f"{self._pick(['bool_or', 'every'])}({self._condition(columns, 1)})"
        return f"{word}({self._column(columns)})"

    def _having(self, measures: list[str], columns: list[Column]) -> str:
        counts = [one for one in measures if one.startswith(("count", "sum", "SUM"))] or ["count(*)"]
        shapes = [f"{self._pick(counts)} > {self._pick([0, 1, 3])}", f"count({self._column(columns)}) >= 1"]
        shapes += [f"{self._pick(counts)} IS NOT NULL", f"max({self._column(columns)}) IS NOT NULL"]
        return self._pick(shapes)

    # Expressions

    def _condition(self, columns: list[Column], depth: int = 2) -> str:
        if depth and self._chance(0.35):
            word = self._pick([" AND ", " AND ", " OR "])
            return f"({self._condition(columns, depth - 1)}{word}{self._condition(columns, depth - 1)})"
        if depth and self._chance(0.1):
            return f"NOT ({self._condition(columns, depth - 1)})"
        column, inner = self._pick(columns), max(depth - 1, 0)
        name, kind = column.text, column.kind
        literal = self._pick(_LITERALS[kind])
        shapes = [
            f"{name} {self._pick(_COMPARISONS)} {literal}",
            f"{name} {self._pick(_COMPARISONS)} {literal}",
            f"{literal} {self._pick(_COMPARISONS)} {name}",
            f"{name} IS {self._pick(['', 'NOT '])}NULL",
            f"{name} {self._pick(['', 'NOT '])}IN ({', '.join(self._some(_LITERALS[kind]))})",
            f"{name} {self._pick(['', 'NOT '])}BETWEEN {literal} AND {self._pick(_LITERALS[kind])}",
            f"{name} <=> {literal}",
            f"{name} IS {self._pick(['', 'NOT '])}DISTINCT FROM {literal}",
            f" {self._pick(_COMPARISONS)} ".join(self._expression(kind, columns, inner) for _ in range(2)),
            f"coalesce({name}, {literal}) {self._pick(_COMPARISONS)} {self._pick(_LITERALS[kind])}",
            f"CASE WHEN {name} IS NULL THEN true ELSE {name} {self._pick(_COMPARISONS)} {literal} END",
        ]
        if kind == TEXT:
            shapes += [f"{name} {self._pick(['LIKE', 'NOT LIKE', 'ILIKE'])} {self._pick(_PATTERNS)}"] * 4
            shapes += [f"{self._pick(['startswith', 'endswith', 'contains'])}({name}, {self._pick(['x', 'a', 'b'])!r})"]
            shapes += [f"length({name}) > 1", f"{name} RLIKE '^a'"]
        elif kind == BOOL:
            shapes += [name, f"NOT {name}", f"{name} IS {self._pick(['TRUE', 'FALSE', 'NOT TRUE', 'UNKNOWN'])}"] * 2
        elif kind == FLOAT:
            shapes += [f"isnan({name})", f"NOT isnan({name})", f"{name} > {self._pick([0, 1, 2.5])}"] * 2
        elif kind == DATE:
            shapes += [f"year({name}) = 2024", f"{name} >= DATE '2024-01-01' + INTERVAL {self._pick([1, 9])} DAYS"]
        elif kind in {INT, DECIMAL}:
            shapes += [
                f"{name} > {self._pick([0.5, 2.5, 1e2])}",
                f"{name} = {self._pick(['1.0', '2.5', chr(39) + '3' + chr(39)])}",
            ]
        return self._pick(shapes)

    def _expression(self, kind: str, columns: list[Column], depth: int = 2) -> str:
        """Return an expression of a kind that cannot fail."""
        same = [one.text for one in columns if one.kind == kind]
        if not depth or self._chance(0.45):
            return self._pick(same) if same and self._chance(0.85) else self._pick(_LITERALS[kind])
        inner = self._expression(kind, columns, depth - 1)
        other = self._expression(kind, columns, depth - 1)
        shapes = [
            f"CASE WHEN {self._condition(columns, depth - 1)} THEN {inner} ELSE {other} END",
            f"CASE WHEN {self._condition(columns, depth - 1)} THEN {inner} END",
            f"coalesce({inner}, {other})",
            f"nullif({inner}, {other})",
            f"if({self._condition(columns, depth - 1)}, {inner}, {other})",
            f"try_cast({self._column(columns)} AS {SPARK_TYPES[kind]})" if self._chance(0.3) else inner,
            *self._typed_shapes(kind, inner, other, columns, depth),
        ]
        return self._pick(shapes)

    def _typed_shapes(self, kind: str, inner: str, other: str, columns: list[Column], depth: int) -> list[str]:
        if kind == INT:
            texts = [one.text for one in columns if one.kind == TEXT and one.text.endswith("u")]
            return [
                *(f"try_add({inner}, {other})", f"{inner} % 7", f"try_subtract({inner}, 1)", f"{inner} div 4"),
                *(f"length({self._expression(TEXT, columns, 0)})", f"CAST({self._pick(texts or ['3'])} AS INT)"),
                *(f"year({self._expression(DATE, columns, 0)})", f"greatest({inner}, {other})"),
            ]
        if kind == FLOAT:
            return [
                *(f"{inner} + {other}", f"{inner} * 2", f"-{inner}", f"abs({inner})", f"nanvl({inner}, 0.0D)"),
                *(f"CAST({self._expression(INT, columns, 0)} AS DOUBLE)", f"try_divide({inner}, {other})"),
            ]
        if kind == DECIMAL:
            return [f"try_add({inner}, {other})", f"{inner} * 1.5", f"round({inner}, 1)"]
        if kind == TEXT:
            return [
                *(f"upper({inner})", f"concat({inner}, {other})", f"substr({inner}, 1, 2)", f"trim({inner})"),
                *(f"CAST({self._column([one for one in columns if one.kind != FLOAT] or columns)} AS STRING)",),
                *(f"{inner} || '-'", f"replace({inner}, 'a', 'b')"),
            ]
        if kind == DATE:
            return [f"date_add({inner}, 3)", f"to_date({self._expression(TIME, columns, 0)})", f"last_day({inner})"]
        if kind == TIME:
            return [f"date_trunc('DAY', {inner})", f"CAST({self._expression(DATE, columns, 0)} AS TIMESTAMP)"]
        return [self._condition(columns, depth - 1), f"{inner} AND {other}", f"{inner} OR {other}"]

    def _column(self, columns: list[Column]) -> str:
        return self._pick(columns).text

    def _some(self, values: list[str]) -> list[str]:
        return self._draw.sample(values, self._draw.choice([1, 2, 3]))

    def _pick(self, values):
        return self._draw.choice(values)

    def _chance(self, share: float) -> bool:
        return self._draw.random() < share


def _quote(name: str) -> str:
    return f"`{name}`" if name == "on" else name
