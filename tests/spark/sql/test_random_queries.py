"""Random queries return the same result over whole tables and over the rows and columns that their plans read.

SQLite evaluates both. For these queries, its names, joins, nulls and subqueries work as in Spark.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter

import pyarrow as pa
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from pennon.spark.query.plan import plan_query
from pennon.spark.query.references import QueryTable
from pennon.spark.reading.partial_aggregates import COUNT, MAX, MIN, SUM, TOTAL

TABLES = {
    "t": {"a": "INT", "b": "TEXT", "c": "INT", "k": "INT"},
    "u": {"a": "INT", "e": "TEXT", "k": "INT"},
    "w": {"e": "TEXT", "b": "TEXT", "z": "INT"},
}
ROWS = {
    "t": [(1, "x", 3, 1), (2, "y", None, 1), (None, "x", 1, 2), (3, None, 2, 3), (1, "xy", 3, None), (4, "z", 0, 4)],
    "u": [(1, "p", 1), (2, "q", 2), (None, "p", 3), (4, None, 1), (5, "r", None)],
    "w": [("p", "x", 1), ("q", None, 2), (None, "y", 2), ("s", "xy", None)],
}
ARROW = {"INT": pa.int32(), "TEXT": pa.string()}
SCHEMAS = {name: pa.schema({key: ARROW[kind] for key, kind in columns.items()}) for name, columns in TABLES.items()}


def find(parts, travel):
    del travel
    return QueryTable(parts, SCHEMAS[parts[0]]) if len(parts) == 1 and parts[0] in SCHEMAS else None


class Query:
    """A random query and its result columns."""

    def __init__(self, text: str, columns: dict[str, str]) -> None:
        self.text = text
        self.columns = columns


class Writer:
    """Writes random queries."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def literal(self, kind):
        return self.pick("0", "1", "2", "3", "-1") if kind == "INT" else self.pick("'x'", "'y'", "'p'", "'q'", "''")

    def condition(self, scope, depth, outer=()):
        """Return a condition on columns of a scope, which is a list of (written name, type)."""
        shape = self.pick(*["leaf"] * 6, "and", "or", "not", "exists", "in") if depth > 0 else "leaf"
        if shape in {"and", "or"}:
            left, right = (self.condition(scope, depth - 1, outer) for _ in range(2))
            return f"({left} {shape.upper()} {right})"
        if shape == "not":
            return f"NOT ({self.condition(scope, depth - 1, outer)})"
        if shape in {"exists", "in"}:
            inner = self.select(depth - 1, outer=[*scope, *outer])
            name, kind = self.pick(*scope)
            fitting = [column for column, its in inner.columns.items() if its == kind]
            if shape == "exists" or not fitting:
                return f"{self.pick('', 'NOT ')}EXISTS ({inner.text})"
            return f"{name} {self.pick('', 'NOT ')}IN (SELECT {fitting[0]} FROM ({inner.text}) AS i)"
        return self.leaf(scope, outer)

    def leaf(self, scope, outer):
        name, kind = self.pick(*scope)
        shape = self.pick("compare", "compare", "null", "null", "in", "between", "like", "column", "unknown")
        if shape == "null":
            return f"{name} IS {self.pick('', '', 'NOT ')}NULL"
        if shape == "in":
            values = ", ".join(self.literal(kind) for _ in range(self.random.randint(1, 3)))
            return f"{name} {self.pick('', 'NOT ')}IN ({values})"
        if shape == "between" and kind == "INT":
            return f"{name} BETWEEN {self.literal(kind)} AND {self.literal(kind)}"
        if shape == "like" and kind == "TEXT":
            return f"{name} {self.pick('', 'NOT ')}LIKE {self.pick('x%', '%y', '%x%', 'x')!r}"
        if shape == "column" or (outer and self.random.random() < 0.5):
            others = [other for other, its in outer or scope if its == kind]
            return f"{name} {self.pick('=', '<', '<>')} {self.pick(*(others or [name]))}"
        if shape == "unknown":
            return f"coalesce({name}, {self.literal(kind)}) = {self.literal(kind)}"
        sides = [name, self.literal(kind)]
        return f" {self.pick('=', '<>', '<', '<=', '>', '>=')} ".join(reversed(sides) if self.pick(0, 1) else sides)

    def relation(self, depth, alias, ctes):
        """Return an item of FROM: a table, a common table expression or a subquery."""
        shapes = ["table"] * 4 + (["query"] * 3 if depth > 0 else []) + (["cte"] * 8 if ctes else [])
        shape = self.pick(*shapes)
        if shape == "query":
            inner = self.query(depth - 1)
            return f"({inner.text}) AS {alias}", inner.columns
        if shape == "cte":
            name = self.pick(*sorted(ctes))
            return f"{name} AS {alias}", ctes[name]
        name = self.pick(*sorted(set(TABLES) - set(ctes or ())))
        return f"{name} AS {alias}", TABLES[name]

    def select(self, depth, outer=(), ctes=None):
        number = self.pick(1, 1, 2, 2, 3)
        prefix = self.pick("r", "s", "b", "a")  # some aliases are also names of columns
        aliases = [f"{prefix}{index or ''}" for index in range(number)]
        scope: list[tuple[str, str]] = []
        seen: Counter = Counter()
        text = ""
        for index, alias in enumerate(aliases):
            source, columns = self.relation(depth, alias, ctes)
            scope += [(f"{alias}.{column}", kind) for column, kind in columns.items()]
            seen.update(list(columns))
            if not index:
                text = source
                continue
            join = self.pick("JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ",")
            text += f" {join} {source}"
            if join not in {"CROSS JOIN", ","}:
                text += f" ON {self.joining(scope, alias)}"
        scope += [(name.partition(".")[2], kind) for name, kind in scope if seen[name.partition(".")[2]] == 1]
        where = f" WHERE {self.condition(scope, depth, outer)}" if outer or self.random.random() < 0.7 else ""
        return self.projected(text, where, scope, aliases, seen)

    def joining(self, scope, alias):
        """Return a join condition: usually an equality, sometimes with another condition."""
        mine = [one for one in scope if one[0].startswith(f"{alias}.")]
        others = [one for one in scope if one not in mine]
        name, kind = self.pick(*mine)
        fitting = [other for other, its in others if its == kind]
        first = f"{name} = {self.pick(*fitting)}" if fitting else self.condition(scope, 0)
        return first if self.pick(0, 1) else f"{first} AND {self.condition(scope, 0)}"

    def projected(self, text, where, scope, aliases, seen):
        shape = self.pick("columns", "columns", "star", "star", "qualified", "group", "distinct", "limit")
        if shape in {"star", "limit"} and max(seen.values()) == 1:
            columns = {name: kind for name, kind in scope if "." not in name}
            order = f" ORDER BY {', '.join(str(index + 1) for index in range(len(columns)))} LIMIT 2"
            return Query(f"SELECT * FROM {text}{where}{order if shape == 'limit' else ''}", columns)
        if shape == "qualified":
            alias = self.pick(*aliases)
            columns = {name.partition(".")[2]: kind for name, kind in scope if name.startswith(f"{alias}.")}
            return Query(f"SELECT {alias}.* FROM {text}{where}", columns)
        chosen = [self.pick(*scope) for _ in range(self.random.randint(1, 3))]
        given_names = self.random.sample(["a", "b", "c", "e", "v"], len(chosen))
        written = ", ".join(f"{name} AS {given}" for (name, _), given in zip(chosen, given_names, strict=True))
        columns = {given: kind for (_, kind), given in zip(chosen, given_names, strict=True)}
        if shape == "group":
            names = ", ".join(name for name, _ in chosen)
            counted = f"SELECT {written}, count(*) AS n FROM {text}{where} GROUP BY {names}"
            return Query(counted, {**columns, "n": "INT"})
        return Query(f"SELECT {'DISTINCT ' if shape == 'distinct' else ''}{written} FROM {text}{where}", columns)

    def aggregates(self):
        """Return a query with aggregates of one table, with or without groups."""
        table = self.pick(*sorted(TABLES))
        columns = dict(TABLES[table])
        keys = self.random.sample(sorted(columns), self.random.randint(0, 2))
        calls = ["count(*)", *(f"{self.pick('count', 'min', 'max')}({name})" for name in columns)]
        calls += [f"{word}({name})" for name, kind in columns.items() if kind == "INT" for word in ("sum", "avg")]
        chosen = [self.pick(*calls) for _ in range(self.random.randint(1, 4))]
        results = [f"{call}{self.pick('', f' AS n{number}')}" for number, call in enumerate(chosen)]
        results += [f"{self.pick(*calls)} + 1 AS more"] if self.pick(0, 1) else []
        where = self.condition(list(columns.items()), 1) if self.pick(0, 1) else ""
        text = f"SELECT {', '.join([*keys, *results])} FROM {table}{where and f' WHERE {where}'}"
        if keys:
            text += f" GROUP BY {', '.join(keys)}"
        if keys and self.pick(0, 1):
            text += f" HAVING {self.pick(*calls)} {self.pick('>', '<=')} {self.literal('INT')}"
        return f"{text} ORDER BY {len(results)}" if self.pick(0, 1) else text

    def query(self, depth):
        shape = self.pick(*["select"] * 3, "union", "union", "with", "with") if depth > 0 else "select"
        if shape == "union":
            branch = self.select(depth - 1)
            if "LIMIT" in branch.text:
                return branch
            # SQLite 3.40 returns wrong rows for UNION ALL over RIGHT and FULL joins.
            simple = "RIGHT" not in branch.text and "FULL" not in branch.text
            word = self.pick("UNION", "UNION ALL" if simple else "UNION", "EXCEPT")
            return Query(f"{branch.text} {word} {branch.text}", branch.columns)
        if shape == "with":
            name = self.pick("q", "t", "u")  # two of these hide a table
            inner = self.select(depth - 1)
            outer = self.select(depth - 1, ctes={name: inner.columns})
            return Query(f"WITH {name} AS ({inner.text}) {outer.text}", outer.columns)
        return self.select(depth)


def connect():
    made = sqlite3.connect(":memory:")
    made.execute("PRAGMA case_sensitive_like = ON")
    made.create_function("starts_with", 2, lambda text, part: None if text is None else text.startswith(part))
    made.create_function("ends_with", 2, lambda text, part: None if text is None else text.endswith(part))
    made.create_function("contains", 2, lambda text, part: None if text is None else part in text)
    for name, columns in TABLES.items():
        made.execute(f"CREATE TABLE {name} ({', '.join(f'{key} {kind}' for key, kind in columns.items())})")
        marks = ", ".join("?" * len(columns))
        made.executemany(f"INSERT INTO {name} VALUES ({marks})", ROWS[name])
    return made


DATABASE = connect()
# SQLite divides integers without a fraction; Spark does not.
WORDS = {SUM: "sum", TOTAL: "1.0 * sum", COUNT: "count", MIN: "min", MAX: "max"}


def fetch_rows(text):
    return Counter(DATABASE.execute(text).fetchall())


def materialize_reads(made):
    """Create a table for each read of a plan. Partial aggregates get two rows per group, as from two tasks."""
    views = {}
    for number, read in enumerate(made.reads):
        wanted = ", ".join(read.columns) if read.columns is not None else "*"
        where = f" WHERE {read.where}" if read.where else ""
        limit = f" LIMIT {read.limit}" if read.limit is not None else ""
        if read.partials is not None:
            parts = [f"{WORDS[one.function]}({one.column or '*'}) AS {one.name}" for one in read.partials.measures]
            wanted = ", ".join([*read.partials.keys, *parts])
            limit = f" GROUP BY {', '.join([*read.partials.keys, 'rowid % 2'])}"
        views[read.name] = f"view{number}"
        DATABASE.execute(f"DROP TABLE IF EXISTS view{number}")
        source = read.identifier[0]
        DATABASE.execute(f"CREATE TABLE view{number} AS SELECT {wanted} FROM {source}{where}{limit}")
    return views


@settings(max_examples=200, deadline=None, derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 2**40), depth=st.integers(0, 3))
def test_plan_keeps_all_needed_rows_and_columns(seed, depth) -> None:
    text = Writer(seed).query(depth).text
    note(text)
    try:
        expected = fetch_rows(text)
    except sqlite3.OperationalError as error:
        note(f"SQLite cannot run it: {error}")
        return
    made = plan_query(text, find)
    assert made.reads or made.count
    if made.count is not None:
        where = f" WHERE {made.count.where}" if made.count.where else ""
        assert expected == fetch_rows(f"SELECT count(*) FROM {made.count.identifier[0]}{where}")
        return
    views = materialize_reads(made)
    changed = made.text.format(**views)
    note(changed)
    note(str(made.reads))
    assert fetch_rows(changed) == expected


@settings(max_examples=200, deadline=None, derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 2**40))
def test_combined_partial_aggregates_match_query(seed) -> None:
    text = Writer(seed).aggregates()
    note(text)
    made = plan_query(text, find)
    if made.count is not None or made.reads[0].partials is None:
        return
    changed = made.text.format(**materialize_reads(made))
    note(changed)
    note(str(made.reads))
    given, expected = DATABASE.execute(changed), DATABASE.execute(text)
    spelled = [(one[0], other[0]) for one, other in zip(given.description, expected.description, strict=True)]
    assert all(one == other or (one, other) == ("count(1)", "count(*)") for one, other in spelled)
    assert Counter(given.fetchall()) == Counter(expected.fetchall())
