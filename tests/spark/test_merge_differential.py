"""Merges of random tables, sources and clauses, compared with a simple model of SQL's MERGE."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.merging import assert_clean, open_latest, write_table
from tests.support import fails

TABLE = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("s", pa.string()), ("v", pa.list_(pa.float32(), 2))])
SOURCE = "id bigint, a int, s string"


@dataclass(frozen=True)
class Condition:
    """A condition as SQL, and as a function of a row of the table and a row of the source."""

    text: str | None
    holds: Any


def compared(left, right, of):
    return left is not None and right is not None and of(left, right)


MATCHED = [
    Condition("source.a > target.a", lambda t, s: compared(s["a"], t["a"], int.__gt__)),
    Condition("target.s IS NULL", lambda t, s: t["s"] is None),
    Condition("pmod(source.a, 2) = 0", lambda t, s: s["a"] is not None and s["a"] % 2 == 0),
    Condition("NOT (target.a = source.a)", lambda t, s: compared(t["a"], s["a"], int.__ne__)),
]
INSERTED = [
    Condition("a > 2", lambda t, s: s["a"] is not None and s["a"] > 2),
    Condition("source.s <> 'b'", lambda t, s: s["s"] is not None and s["s"] != "b"),
    Condition("id IS NULL", lambda t, s: s["id"] is None),
]
LOST = [
    Condition("a <= 2", lambda t, s: t["a"] is not None and t["a"] <= 2),
    Condition("target.s = 'a'", lambda t, s: t["s"] == "a"),
    Condition("id IS NULL", lambda t, s: t["id"] is None),
]
ALWAYS = Condition(None, lambda t, s: True)
MATCHED_SETS = [
    ({"a": "source.a"}, lambda t, s: {"a": s["a"]}),
    ({"a": "target.a + source.a", "s": "'m'"}, lambda t, s: {"a": added(t["a"], s["a"]), "s": "m"}),
    ({"s": "NULL", "id": "target.id + 100"}, lambda t, s: {"s": None, "id": added(t["id"], 100)}),
    (None, lambda t, s: dict(s)),
]
INSERTED_VALUES = [
    ({"id": "id", "s": "concat(s, '!')"}, lambda t, s: {"id": s["id"], "s": None if s["s"] is None else s["s"] + "!"}),
    ({"a": "source.a * 2", "v": "array(1, 2)"}, lambda t, s: {"a": added(s["a"], s["a"]), "v": [1.0, 2.0]}),
    (None, lambda t, s: dict(s)),
]
LOST_SETS = [
    ({"s": "concat(s, '?')"}, lambda t, s: {"s": None if t["s"] is None else t["s"] + "?"}),
    ({"a": "-1", "v": "NULL"}, lambda t, s: {"a": -1, "v": None}),
]


def added(left, right):
    return None if left is None or right is None else left + right


@dataclass(frozen=True)
class Rule:
    """A clause, and its effect on a row: None if it deletes the row."""

    clause: Any
    holds: Any
    made: Any


class Case:
    """One random merge."""

    def __init__(self, seed: int) -> None:
        from pennon.spark.merging.clauses import Delete, Insert, Update

        self.pick = random.Random(seed)
        domain = [None, *range(self.pick.choice([4, 12, 40]))]
        self.target = [self._row(domain) | {"v": self._vector()} for _ in range(self.pick.choice([0, 3, 10, 25]))]
        unique = self.pick.random() < 0.7
        keys = self.pick.sample(domain, min(len(domain), self.pick.choice([0, 2, 9]))) if unique else None
        count = self.pick.choice([1, 5]) if keys is None else len(keys)
        self.source = [self._row(domain if keys is None else [keys[number]]) for number in range(count)]
        self.matched = self._rules(Update, MATCHED, MATCHED_SETS, Delete)
        self.inserted = self._rules(Insert, INSERTED, INSERTED_VALUES)
        self.lost = self._rules(Update, LOST, LOST_SETS, Delete) if self.pick.random() < 0.5 else []
        if not self.matched and not self.inserted and not self.lost:
            self.inserted = [Rule(Insert(), ALWAYS.holds, INSERTED_VALUES[-1][1])]
        self.joining = self.pick.choice(
            [
                ({"on": ["id"]}, lambda t, s: t["id"] is not None and t["id"] == s["id"]),
                ({"on": ["ID"], "null_safe": True}, lambda t, s: t["id"] == s["id"]),
                (
                    {"on": (), "on_condition": "target.id = source.id AND target.a > 1"},
                    lambda t, s: t["id"] is not None and t["id"] == s["id"] and t["a"] is not None and t["a"] > 1,
                ),
            ]
        )

    def _row(self, domain):
        pick = self.pick
        return {"id": pick.choice(domain), "a": pick.choice([None, *range(6)]), "s": pick.choice([None, "a", "b"])}

    def _vector(self):
        return self.pick.choice([None, [float(self.pick.randint(0, 9)), 0.5]])

    def _rules(self, kind, conditions, values, delete=None):
        rules = []
        count = self.pick.choice([0, 1, 1, 2, 3])
        for number in range(count):
            last = number == count - 1 and self.pick.random() < 0.6
            condition = ALWAYS if last else self.pick.choice(conditions)
            if delete is not None and self.pick.random() < 0.35:
                rules.append(Rule(delete(condition.text), condition.holds, None))
                continue
            text, made = self.pick.choice(values)
            rules.append(Rule(kind(text, condition.text), condition.holds, made))
        return rules

    def expected(self):
        """Return the rows after the merge and the counts; None if a row would be changed twice."""
        _, matches = self.joining
        kept, counts = [], Counter()
        for row in self.target:
            partners = [other for other in self.source if matches(row, other)]
            fitting = [(self._first(self.matched, row, other), other) for other in partners]
            chosen = [(rule, other) for rule, other in fitting if rule is not None]
            if not partners:
                chosen = [(rule, None) for rule in [self._first(self.lost, row, None)] if rule is not None]
            if not chosen:
                kept.append(row)
                continue
            deletes = [rule.clause for rule in self.matched] == [type(chosen[0][0].clause)()] and not chosen[0][0].made
            if len(chosen) > 1 and not (partners and deletes):
                return None
            rule, other = chosen[0]
            counts["updated" if rule.made else "deleted"] += 1
            if rule.made:
                kept.append(row | rule.made(row, other))
        for other in self.source:
            if not any(matches(row, other) for row in self.target):
                rule = self._first(self.inserted, None, other)
                if rule is not None:
                    counts["inserted"] += 1
                    kept.append(dict.fromkeys(TABLE.names) | rule.made(None, other))
        return kept, counts

    @staticmethod
    def _first(rules, row, other):
        return next((rule for rule in rules if rule.holds(row, other)), None)


def counted(rows):
    return Counter(tuple((name, str(row[name])) for name in TABLE.names) for row in rows)


@pytest.mark.parametrize("stable", [False, True])
def test_random_merges_equal_a_model_of_sql(spark, lake, stable):
    seen = Counter()
    for seed in range(100 * stable, 100 * stable + 6):
        case = Case(seed)
        name = f"t{seed}"
        write_table(lake, name, pa.Table.from_pylist(case.target, TABLE), enable_stable_row_ids=stable)
        options = {
            **case.joining[0],
            "when_matched": [rule.clause for rule in case.matched],
            "when_not_matched": [rule.clause for rule in case.inserted],
            "when_not_matched_by_source": [rule.clause for rule in case.lost],
        }
        frame = spark.createDataFrame([(row["id"], row["a"], row["s"]) for row in case.source], SOURCE)
        expected = case.expected()
        if expected is None:
            seen["refused"] += 1
            with fails(13, f"'{name}'"):
                lake.merge(frame, name, **options)
            assert open_latest(lake, name).version == 1, f"seed {seed}"
        else:
            rows, counts = expected
            result = lake.merge(frame, name, **options)
            assert (result.inserted, result.updated, result.deleted) == (
                counts["inserted"],
                counts["updated"],
                counts["deleted"],
            ), f"seed {seed}"
            assert counted(open_latest(lake, name).to_table().to_pylist()) == counted(rows), f"seed {seed}"
            assert result.version == (2 if counts else 1), f"seed {seed}"
            seen.update(counts.keys())
        open_latest(lake, name).validate()
        assert_clean(lake, name)
    assert {"inserted", "updated", "deleted"} <= set(seen)
