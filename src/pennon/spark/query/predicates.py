"""Translate conditions of a query to predicates of Lance.

A translated predicate must hold for every row for which Spark's condition holds. It may hold for more rows, because
Spark evaluates the whole query again. `exact` is True if it holds for no other rows.
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

from pennon.spark.query.constants import (
    Bound,
    Constant,
    coerce_constant,
    find_fractional_value,
    parse_constant,
)
from pennon.spark.reading import filters

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from pennon.spark.query.settings import SessionSettings

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
_STRING_FILTERS: dict[type[exp.Expr], Any] = {
    exp.StartsWith: StringStartsWith,
    exp.EndsWith: StringEndsWith,
    exp.Contains: StringContains,
}
_MAX_IN_VALUES = 1000


@dataclass(frozen=True)
class LancePredicate:
    """A predicate of Lance. `rejects_nulls` is True if it does not hold when all columns of the table are null."""

    sql: str
    exact: bool = True
    rejects_nulls: bool = True


@dataclass(frozen=True)
class PredicateTranslator:
    """Translates conditions on one table. `resolve` returns the path of a column of that table, else None."""

    schema: pa.Schema
    resolve: Callable[[exp.Expr], Path | None]
    type_of: Callable[[Path], spark_types.DataType | None]
    session: SessionSettings

    def translate(self, node: exp.Expr, *, negated: bool = False) -> LancePredicate | None:
        """Return a predicate for as much of a condition as possible, or None."""
        if isinstance(node, exp.Paren):
            return self.translate(node.this, negated=negated)
        if isinstance(node, exp.Not):
            return self.translate(node.this, negated=not negated)
        if isinstance(node, (exp.And, exp.Or)):
            sides = [self.translate(side, negated=negated) for side in (node.left, node.right)]
            return _join_and(sides) if isinstance(node, exp.And) is not negated else _join_or(sides)
        return self._translate_leaf(node, negated=negated)

    def _translate_leaf(self, node: exp.Expr, *, negated: bool) -> LancePredicate | None:
        if type(node) in _SIGNS and _has_only(node, "this", "expression"):
            return self._translate_comparison(node, negated=negated)
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            return self._translate_null_safe(node, negated=negated is not isinstance(node, exp.NullSafeNEQ))
        if isinstance(node, exp.Is) and _has_only(node, "this", "expression"):
            return self._translate_is(node, negated=negated)
        if isinstance(node, exp.Between) and _has_only(node, "this", "low", "high"):
            low = self._compare_with_constant(node.this, ">=", node.args["low"], negated=negated)
            high = self._compare_with_constant(node.this, "<=", node.args["high"], negated=negated)
            return _join_or([low, high]) if negated else _join_and([low, high])
        if isinstance(node, exp.In) and _has_only(node, "this", "expressions"):
            return self._translate_in(node, negated=negated)
        if isinstance(node, exp.Like) and _has_only(node, "this", "expression", "negate"):
            return self._translate_like(node, negated=negated is not bool(node.args.get("negate")))
        if type(node) in _STRING_FILTERS and _has_only(node, "this", "expression"):
            return self._translate_string(_STRING_FILTERS[type(node)], node.this, node.expression, negated=negated)
        if isinstance(node, exp.Anonymous) and node.name.lower() in {"isnull", "isnotnull"}:
            path = self.resolve(node.expressions[0]) if len(node.expressions) == 1 else None
            return self._translate_null(path, is_null=(node.name.lower() == "isnull") is not negated)
        path = self.resolve(node)
        if path is not None and isinstance(self.type_of(path), spark_types.BooleanType):
            return self._to_predicate(EqualTo(path, value=True), negated=negated)
        return None

    def _translate_comparison(self, node: exp.Expr, *, negated: bool) -> LancePredicate | None:
        sign = _SIGNS[type(node)]
        left, right = node.this, node.expression
        paths = self.resolve(left), self.resolve(right)
        if paths[0] is not None and paths[1] is not None:
            sql = filters.compare_columns(paths[0], _NEGATED[sign] if negated else sign, paths[1], self.schema)
            return None if sql is None else LancePredicate(sql)
        if paths[0] is None:
            left, right, sign = right, left, _FLIPPED[sign]
        return self._compare_with_constant(left, sign, right, negated=negated)

    def _compare_with_constant(
        self, column: exp.Expr, sign: str, value: exp.Expr, *, negated: bool
    ) -> LancePredicate | None:
        path = self.resolve(column)
        kind = None if path is None else self.type_of(path)
        constant = parse_constant(value, self.session)
        if path is None or kind is None or constant is None:
            return None
        sign = _NEGATED[sign] if negated else sign
        bound = coerce_constant(constant, kind, self.session)
        if bound is None:
            return self._translate_fraction(path, sign, find_fractional_value(constant, kind))
        if bound.slack is not None:
            return self._translate_with_slack(path, sign, bound)
        if sign in {"=", "<>"}:
            return self._to_predicate(EqualTo(path, bound.value), negated=sign == "<>")
        return self._to_predicate(_ORDERED[sign](path, bound.value))

    def _translate_fraction(self, path: Path, sign: str, value: decimal.Decimal | None) -> LancePredicate | None:
        """Return the comparison of an integer column with a fractional number."""
        if value is None or sign in {"=", "<>"}:
            return None
        below = int(value.to_integral_value(rounding=decimal.ROUND_FLOOR))
        filter_ = LessThanOrEqual(path, below) if sign in {"<", "<="} else GreaterThan(path, below)
        return self._to_predicate(filter_)

    def _translate_with_slack(self, path: Path, sign: str, bound: Bound) -> LancePredicate | None:
        assert bound.slack is not None
        if sign == "<>":
            return None
        try:
            low = GreaterThanOrEqual(path, bound.value - bound.slack)
            high = LessThanOrEqual(path, bound.value + bound.slack)
        except OverflowError:
            return None
        sides = [*([low] if sign in {"=", ">", ">="} else []), *([high] if sign in {"=", "<", "<="} else [])]
        predicate = _join_and([self._to_predicate(side) for side in sides])
        return None if predicate is None else LancePredicate(predicate.sql, exact=False)

    def _translate_null_safe(self, node: exp.Expr, *, negated: bool) -> LancePredicate | None:
        left, right = node.this, node.expression
        if self.resolve(left) is None:
            left, right = right, left
        path = self.resolve(left)
        kind = None if path is None else self.type_of(path)
        constant = parse_constant(right, self.session)
        if path is None or kind is None or constant is None:
            return None
        if constant.kind == "null":
            return self._translate_null(path, is_null=not negated)
        bound = coerce_constant(constant, kind, self.session)
        if bound is None or bound.slack is not None:
            return None
        return self._to_predicate(EqualNullSafe(path, bound.value), negated=negated, rejects_nulls=not negated)

    def _translate_is(self, node: exp.Is, *, negated: bool) -> LancePredicate | None:
        path = self.resolve(node.this)
        if path is None:
            return None
        if isinstance(node.expression, exp.Null):
            return self._translate_null(path, is_null=not negated)
        if isinstance(node.expression, exp.Boolean) and isinstance(self.type_of(path), spark_types.BooleanType):
            filter_ = EqualNullSafe(path, bool(node.expression.this))
            return self._to_predicate(filter_, negated=negated, rejects_nulls=not negated)
        return None

    def _translate_null(self, path: Path | None, *, is_null: bool) -> LancePredicate | None:
        if path is None:
            return None
        return self._to_predicate(IsNull(path) if is_null else IsNotNull(path), rejects_nulls=not is_null)

    def _translate_in(self, node: exp.In, *, negated: bool) -> LancePredicate | None:
        path = self.resolve(node.this)
        kind = None if path is None else self.type_of(path)
        if path is None or kind is None or not 0 < len(node.expressions) <= _MAX_IN_VALUES:
            return None
        constants = [parse_constant(one, self.session) for one in node.expressions]
        bounds = [None if one is None else _coerce_in_list(one, kind, self.session) for one in constants]
        values = [bound.value for bound in bounds if bound is not None]
        if len(values) != len(bounds):
            return None
        return self._to_predicate(In(path, tuple(values)), negated=negated)

    def _translate_like(self, node: exp.Like, *, negated: bool) -> LancePredicate | None:
        pattern = parse_constant(node.expression, self.session)
        if pattern is None or pattern.kind != "string" or any(sign in pattern.value for sign in "_\\"):
            return None
        text = pattern.value.strip("%")
        if not text or "%" in text:
            return None
        ahead, behind = pattern.value.startswith("%"), pattern.value.endswith("%")
        kind: Any = StringContains if ahead and behind else StringEndsWith if ahead else StringStartsWith
        kind = kind if ahead or behind else EqualTo
        return self._translate_string(kind, node.this, exp.Literal.string(text), negated=negated)

    def _translate_string(
        self,
        kind: Callable[..., Filter],
        column: exp.Expr,
        value: exp.Expr,
        *,
        negated: bool,
    ) -> LancePredicate | None:
        path = self.resolve(column)
        constant = parse_constant(value, self.session)
        if path is None or constant is None or type(self.type_of(path)) is not spark_types.StringType:
            return None
        bound = coerce_constant(constant, spark_types.StringType(), self.session)
        return None if bound is None else self._to_predicate(kind(path, bound.value), negated=negated)

    def _to_predicate(
        self, filter_: Filter, *, negated: bool = False, rejects_nulls: bool = True
    ) -> LancePredicate | None:
        sql = filters.translate_filter(Not(filter_) if negated else filter_, self.schema)
        return None if sql is None else LancePredicate(sql, rejects_nulls=rejects_nulls)


def split_conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Return the parts of a condition that must all hold."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        return split_conjuncts(node.this)
    return [*split_conjuncts(node.left), *split_conjuncts(node.right)] if isinstance(node, exp.And) else [node]


def join_predicates(predicates: list[LancePredicate]) -> str | None:
    """Return several predicates joined by AND, or None if there are none."""
    texts = list(dict.fromkeys(one.sql for one in predicates))
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else " AND ".join(f"({text})" for text in texts)


def _join_and(sides: list[LancePredicate | None]) -> LancePredicate | None:
    known = [side for side in sides if side is not None]
    if not known:
        return None
    return LancePredicate(
        str(join_predicates(known)),
        exact=len(known) == len(sides) and all(side.exact for side in known),
        rejects_nulls=any(side.rejects_nulls for side in known),
    )


def _join_or(sides: list[LancePredicate | None]) -> LancePredicate | None:
    known = [side for side in sides if side is not None]
    if len(known) != len(sides):
        return None
    return LancePredicate(
        " OR ".join(f"({side.sql})" for side in known),
        exact=all(side.exact for side in known),
        rejects_nulls=all(side.rejects_nulls for side in known),
    )


def _coerce_in_list(constant: Constant, kind: spark_types.DataType, session: SessionSettings) -> Bound | None:
    """Return a value of an IN list in the column's type, or None; Spark may compare timestamps there as strings."""
    timed = isinstance(kind, (spark_types.TimestampType, spark_types.TimestampNTZType))
    if timed and constant.kind in {"string", "date"}:
        return None
    bound = coerce_constant(constant, kind, session)
    return None if bound is None or bound.slack is not None else bound


def _has_only(node: exp.Expr, *keys: str) -> bool:
    """Return True if a node has no arguments other than these."""
    return all(key in keys for key, value in node.args.items() if value and not key.startswith("_"))
