"""Parts of a WHERE as predicates of Lance.

A predicate that is pushed down must be true for every row for which Spark's is. It may be true for more rows, since
Spark evaluates the whole query anyway; `exact` says that it is not.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark_types
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
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
from sqlglot import exp

from pennon.spark.reading import filters
from pennon.spark.sql.constants import (
    Bound,
    Constant,
    SessionSettings,
    coerce_constant,
    find_fractional_value,
    parse_constant,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    Path = tuple[str, ...]

_SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_ORDERED: dict[str, Any] = {"<": LessThan, "<=": LessThanOrEqual, ">": GreaterThan, ">=": GreaterThanOrEqual}
_TEXTS: dict[type[exp.Expr], Any] = {
    exp.StartsWith: StringStartsWith,
    exp.EndsWith: StringEndsWith,
    exp.Contains: StringContains,
}
_MOST_VALUES = 1000


@dataclass(frozen=True)
class LancePredicate:
    """A predicate of Lance; `rejects_nulls` says that it is not true where all columns of the table are null."""

    sql: str
    exact: bool = True
    rejects_nulls: bool = True


@dataclass(frozen=True)
class PredicateTranslator:
    """Translates conditions on one table; `resolve` gives the path of a column of that table, None for all others."""

    schema: pa.Schema
    resolve: Callable[[exp.Expr], Path | None]
    type_of: Callable[[Path], spark_types.DataType | None]
    session: SessionSettings

    def translate(self, node: exp.Expr, *, negated: bool = False) -> LancePredicate | None:
        """Translate what can be; None if nothing of it can."""
        if isinstance(node, exp.Paren):
            return self.translate(node.this, negated=negated)
        if isinstance(node, exp.Not):
            return self.translate(node.this, negated=not negated)
        if isinstance(node, (exp.And, exp.Or)):
            sides = [self.translate(side, negated=negated) for side in (node.left, node.right)]
            return _both(sides) if isinstance(node, exp.And) is not negated else _either(sides)
        return self._leaf(node, negated=negated)

    def _leaf(self, node: exp.Expr, *, negated: bool) -> LancePredicate | None:
        if type(node) in _SIGNS and _has_only(node, "this", "expression"):
            return self._comparison(node, negated=negated)
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            return self._null_safe(node, negated=negated is not isinstance(node, exp.NullSafeNEQ))
        if isinstance(node, exp.Is) and _has_only(node, "this", "expression"):
            return self._is(node, negated=negated)
        if isinstance(node, exp.Between) and _has_only(node, "this", "low", "high"):
            low = self._compare(node.this, ">=", node.args["low"], negated=negated)
            high = self._compare(node.this, "<=", node.args["high"], negated=negated)
            return _either([low, high]) if negated else _both([low, high])
        if isinstance(node, exp.In) and _has_only(node, "this", "expressions"):
            return self._in(node, negated=negated)
        if isinstance(node, exp.Like) and _has_only(node, "this", "expression", "negate"):
            return self._like(node, negated=negated is not bool(node.args.get("negate")))
        if type(node) in _TEXTS and _has_only(node, "this", "expression"):
            return self._text(_TEXTS[type(node)], node.this, node.expression, negated=negated)
        if isinstance(node, exp.Anonymous) and node.name.lower() in {"isnull", "isnotnull"}:
            path = self.resolve(node.expressions[0]) if len(node.expressions) == 1 else None
            return self._null(path, wanted=(node.name.lower() == "isnull") is not negated)
        path = self.resolve(node)
        if path is not None and isinstance(self.type_of(path), spark_types.BooleanType):
            return self._pushed(EqualTo(path, value=True), negated=negated)
        return None

    def _comparison(self, node: exp.Expr, *, negated: bool) -> LancePredicate | None:
        sign = _SIGNS[type(node)]
        left, right = node.this, node.expression
        if self.resolve(left) is None:
            left, right, sign = right, left, _FLIPPED[sign]
        return self._compare(left, sign, right, negated=negated)

    def _compare(self, column: exp.Expr, sign: str, value: exp.Expr, *, negated: bool) -> LancePredicate | None:
        path = self.resolve(column)
        kind = None if path is None else self.type_of(path)
        found = parse_constant(value, self.session)
        if path is None or kind is None or found is None:
            return None
        sign = _NEGATED[sign] if negated else sign
        bound = coerce_constant(found, kind, self.session)
        if bound is None:
            return self._between_integers(path, sign, find_fractional_value(found, kind))
        if bound.slack is not None:
            return self._with_slack(path, sign, bound)
        if sign in {"=", "<>"}:
            return self._pushed(EqualTo(path, bound.value), negated=sign == "<>")
        return self._pushed(_ORDERED[sign](path, bound.value))

    def _between_integers(self, path: Path, sign: str, value: decimal.Decimal | None) -> LancePredicate | None:
        """Compare an integer column with a number that is none."""
        if value is None or sign in {"=", "<>"}:
            return None
        below = int(value.to_integral_value(rounding=decimal.ROUND_FLOOR))
        made = LessThanOrEqual(path, below) if sign in {"<", "<="} else GreaterThan(path, below)
        return self._pushed(made)

    def _with_slack(self, path: Path, sign: str, bound: Bound) -> LancePredicate | None:
        assert bound.slack is not None
        if sign == "<>":
            return None
        try:
            low = GreaterThanOrEqual(path, bound.value - bound.slack)
            high = LessThanOrEqual(path, bound.value + bound.slack)
        except OverflowError:
            return None
        sides = [*([low] if sign in {"=", ">", ">="} else []), *([high] if sign in {"=", "<", "<="} else [])]
        made = _both([self._pushed(side) for side in sides])
        return None if made is None else LancePredicate(made.sql, exact=False)

    def _null_safe(self, node: exp.Expr, *, negated: bool) -> LancePredicate | None:
        left, right = node.this, node.expression
        if self.resolve(left) is None:
            left, right = right, left
        path = self.resolve(left)
        kind = None if path is None else self.type_of(path)
        found = parse_constant(right, self.session)
        if path is None or kind is None or found is None:
            return None
        if found.kind == "null":
            return self._null(path, wanted=not negated)
        bound = coerce_constant(found, kind, self.session)
        if bound is None or bound.slack is not None:
            return None
        return self._pushed(EqualNullSafe(path, bound.value), negated=negated, rejects_nulls=not negated)

    def _is(self, node: exp.Is, *, negated: bool) -> LancePredicate | None:
        path = self.resolve(node.this)
        if path is None:
            return None
        if isinstance(node.expression, exp.Null):
            return self._null(path, wanted=not negated)
        if isinstance(node.expression, exp.Boolean) and isinstance(self.type_of(path), spark_types.BooleanType):
            made = EqualNullSafe(path, bool(node.expression.this))
            return self._pushed(made, negated=negated, rejects_nulls=not negated)
        return None

    def _null(self, path: Path | None, *, wanted: bool) -> LancePredicate | None:
        if path is None:
            return None
        return self._pushed(IsNull(path) if wanted else IsNotNull(path), rejects_nulls=not wanted)

    def _in(self, node: exp.In, *, negated: bool) -> LancePredicate | None:
        path = self.resolve(node.this)
        kind = None if path is None else self.type_of(path)
        if path is None or kind is None or not 0 < len(node.expressions) <= _MOST_VALUES:
            return None
        found = [parse_constant(one, self.session) for one in node.expressions]
        bounds = [None if one is None else _in_list(one, kind, self.session) for one in found]
        values = [bound.value for bound in bounds if bound is not None]
        if len(values) != len(bounds):
            return None
        return self._pushed(In(path, tuple(values)), negated=negated)

    def _like(self, node: exp.Like, *, negated: bool) -> LancePredicate | None:
        pattern = parse_constant(node.expression, self.session)
        if pattern is None or pattern.kind != "string" or any(sign in pattern.value for sign in "_\\"):
            return None
        text = pattern.value.strip("%")
        if not text or "%" in text:
            return None
        ahead, behind = pattern.value.startswith("%"), pattern.value.endswith("%")
        kind: Any = StringContains if ahead and behind else StringEndsWith if ahead else StringStartsWith
        kind = kind if ahead or behind else EqualTo
        return self._text(kind, node.this, exp.Literal.string(text), negated=negated)

    def _text(
        self,
        kind: Callable[..., Filter],
        column: exp.Expr,
        value: exp.Expr,
        *,
        negated: bool,
    ) -> LancePredicate | None:
        path = self.resolve(column)
        found = parse_constant(value, self.session)
        if path is None or found is None or type(self.type_of(path)) is not spark_types.StringType:
            return None
        bound = coerce_constant(found, spark_types.StringType(), self.session)
        return None if bound is None else self._pushed(kind(path, bound.value), negated=negated)

    def _pushed(self, made: Filter, *, negated: bool = False, rejects_nulls: bool = True) -> LancePredicate | None:
        sql = filters.translate_filter(Not(made) if negated else made, self.schema)
        return None if sql is None else LancePredicate(sql, rejects_nulls=rejects_nulls)


def split_conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Give the parts of a condition that must all hold."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        return split_conjuncts(node.this)
    return [*split_conjuncts(node.left), *split_conjuncts(node.right)] if isinstance(node, exp.And) else [node]


def join_predicates(conditions: list[LancePredicate]) -> str | None:
    """Write several conditions as one predicate; None if there are none."""
    texts = list(dict.fromkeys(one.sql for one in conditions))
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else " AND ".join(f"({text})" for text in texts)


def _both(sides: list[LancePredicate | None]) -> LancePredicate | None:
    known = [side for side in sides if side is not None]
    if not known:
        return None
    return LancePredicate(
        str(join_predicates(known)),
        exact=len(known) == len(sides) and all(side.exact for side in known),
        rejects_nulls=any(side.rejects_nulls for side in known),
    )


def _either(sides: list[LancePredicate | None]) -> LancePredicate | None:
    known = [side for side in sides if side is not None]
    if len(known) != len(sides):
        return None
    return LancePredicate(
        " OR ".join(f"({side.sql})" for side in known),
        exact=all(side.exact for side in known),
        rejects_nulls=all(side.rejects_nulls for side in known),
    )


def _in_list(found: Constant, kind: spark_types.DataType, session: SessionSettings) -> Bound | None:
    """Bring a value of an IN list to the column's type; there, Spark may compare times as texts."""
    timed = isinstance(kind, (spark_types.TimestampType, spark_types.TimestampNTZType))
    if timed and found.kind in {"string", "date"}:
        return None
    bound = coerce_constant(found, kind, session)
    return None if bound is None or bound.slack is not None else bound


def _has_only(node: exp.Expr, *keys: str) -> bool:
    """Tell whether a part of the query says nothing beyond what is looked at."""
    return all(key in keys for key, value in node.args.items() if value and not key.startswith("_"))
