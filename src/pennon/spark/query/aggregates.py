"""Split queries whose aggregates the read tasks can compute in part: sum, min, max, count and avg, grouped by columns.

Only queries of one table qualify, and only if Lance evaluates all of their conditions exactly. In the text, each call
of an aggregate is replaced by an expression that combines the partial results. The rest of the text stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from pyspark.sql import types as spark_types
from sqlglot import Token, TokenType, exp

from pennon.spark.query.conditions import find_spark_type
from pennon.spark.query.edits import TextEdit
from pennon.spark.query.predicates import join_predicates
from pennon.spark.quoting import fold_name
from pennon.spark.reading.partial_aggregates import COUNT, MAX, MIN, SUM, TOTAL, Measure, PartialAggregates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.spark.query.conditions import Pushdown
    from pennon.spark.query.references import TableReference

_FUNCTIONS: dict[str, type[exp.AggFunc]] = {
    "SUM": exp.Sum,
    "MIN": exp.Min,
    "MAX": exp.Max,
    "COUNT": exp.Count,
    "AVG": exp.Avg,
}
_CLAUSES = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset"}
_PREFIX = "__pennon_"
_AFTER_WHERE = {"GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"}
# Nodes that may surround aggregates and keys: each computes one value from values, and none is an aggregate.
_ALLOWED_AROUND = (
    *(exp.Alias, exp.Paren, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Order, exp.Ordered, exp.Having),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Round, exp.Abs, exp.Coalesce, exp.Is),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or, exp.Not, exp.Between, exp.In),
)
_KEY_TYPES = (
    *(spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType),
    *(spark_types.BooleanType, spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType),
)
_INTEGER_TYPES = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
_NUMBER_TYPES = (*_INTEGER_TYPES, spark_types.FloatType, spark_types.DoubleType)
_ORDERED_TYPES = (*_KEY_TYPES, spark_types.FloatType, spark_types.DoubleType)


@dataclass(frozen=True)
class PartialAggregation:
    """The aggregates that tasks compute over the rows that meet `where`, and the edits of the query's text."""

    partials: PartialAggregates
    columns: tuple[str, ...]
    where: str | None
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True)
class _AggregateCall:
    """A call of an aggregate in the text. `column` is None if it counts rows.

    If the call is a result column by itself, `name` is the name that Spark gives the column. Otherwise it is None.
    """

    function: str
    start: int
    end: int
    column: str | None
    name: str | None


def split_aggregates(
    tokens: Sequence[Token], tree: exp.Select, reference: TableReference, pushdown: Pushdown
) -> PartialAggregation | None:
    """Return the partial aggregation of a query of one table, or None if it has none or is not fully understood."""
    if tokens[0].token_type is not TokenType.SELECT or any(
        value and key not in _CLAUSES for key, value in tree.args.items()
    ):
        return None
    keys = _find_keys(tree, pushdown)
    calls = _find_calls(tokens, tree, pushdown)
    predicates = pushdown.translate_exactly(tree, reference)
    if not calls or keys is None or predicates is None or not _is_supported(tree, keys, pushdown, reference):
        return None
    schema = reference.table.schema
    if any(name.startswith(_PREFIX) for name in schema.names):
        return None
    kinds = {name: find_spark_type(schema, (name,)) for name in [*keys, *(one.column for one in calls if one.column)]}
    if not all(_is_key(kinds[name]) for name in keys) or not all(_is_computable(one, kinds) for one in calls):
        return None
    measures: dict[tuple[str, str | None], Measure] = {}
    edits = [TextEdit(one.start, one.end, text=_combine_partials(one, measures)) for one in calls]
    needed = {*keys, *(one.column for one in measures.values())}
    columns = tuple(name for name in schema.names if name in needed)
    if not columns:
        return None  # count(*) without a key: there is no column to read
    partials = PartialAggregates(keys, tuple(measures.values()))
    return PartialAggregation(partials, columns, join_predicates(predicates), (*edits, *_remove_where(tokens, tree)))


def _find_keys(tree: exp.Select, pushdown: Pushdown) -> tuple[str, ...] | None:
    """Return the columns that a query groups by, or None if it groups by anything but plain columns."""
    group = tree.args.get("group")
    if group is None:
        return ()
    if any(value and key != "expressions" for key, value in group.args.items()):
        return None
    names = [_find_column(tree, one, pushdown) for one in group.expressions]
    return None if None in names else tuple(dict.fromkeys(name for name in names if name is not None))


def _find_column(tree: exp.Select, node: exp.Expr, pushdown: Pushdown) -> str | None:
    """Return the table's column that a node names exactly, or None if it is anything else or differs in case."""
    target = pushdown.resolve_column(tree, node) if isinstance(node, exp.Column) else None
    if target is None or len(target.path) != 1 or node.name != target.path[0]:
        return None
    return target.path[0]


def _find_calls(tokens: Sequence[Token], tree: exp.Select, pushdown: Pushdown) -> list[_AggregateCall] | None:
    """Return the calls of aggregates, or None if one of them is not understood."""
    numbers = {token.start: number for number, token in enumerate(tokens)}
    calls = []
    for node in tree.find_all(exp.AggFunc):
        call = _read_call(tokens, numbers.get(node.meta.get("start", -1)), node, tree, pushdown)
        if call is None:
            return None
        calls.append(call)
    return calls


def _read_call(
    tokens: Sequence[Token], number: int | None, node: exp.AggFunc, tree: exp.Select, pushdown: Pushdown
) -> _AggregateCall | None:
    """Return the call at a node, whose name is a token, or None if it has more than one plain argument."""
    if number is None or _FUNCTIONS.get(tokens[number].text.upper()) is not type(node) or node.expressions:
        return None
    function, argument = tokens[number].text.upper(), node.this
    inside = list(takewhile(lambda token: token.token_type is not TokenType.R_PAREN, tokens[number + 2 :]))
    if function == "COUNT" and [token.text for token in inside] in (["*"], ["1"]):
        column, shown = None, "1"
    else:
        column, shown = _find_column(tree, argument, pushdown), inside[-1].text if inside else ""
        # The tree does not have all words of the text, such as ALL.
        if column is None or len(inside) != 2 * len(argument.parts) - 1:
            return None
    is_result = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
    name = f"{function.lower()}({shown})" if is_result else None
    return _AggregateCall(function, tokens[number].start, tokens[number + 2 + len(inside)].end + 1, column, name)


def _is_supported(tree: exp.Select, keys: Sequence[str], pushdown: Pushdown, reference: TableReference) -> bool:
    """Return True if only aggregates, keys and aliases of results occur outside WHERE."""
    results = {fold_name(one.alias) for one in tree.expressions if isinstance(one, exp.Alias)}
    taken = {fold_name(name) for name in reference.table.schema.names}
    for one in tree.expressions:
        if not isinstance(one, (exp.Alias, exp.Column)) and type(one) not in _FUNCTIONS.values():
            return False  # Spark names the column after its text, which an edit would change
    parts = [*tree.expressions, tree.args.get("having"), tree.args.get("order")]
    for node in _iterate_outside_calls(parts):
        if isinstance(node, exp.Column):
            name = _find_column(tree, node, pushdown)
            alias = len(node.parts) == 1 and fold_name(node.name) in results - taken
            if not alias and name not in keys:
                return False
        elif not isinstance(node, _ALLOWED_AROUND):
            return False
    return True


def _iterate_outside_calls(parts: Sequence[exp.Expr | None]) -> Iterator[exp.Expr]:
    """Yield the nodes of expressions, except those within aggregates and within column names."""
    waiting = [one for one in parts if one is not None]
    while waiting:
        node = waiting.pop()
        if type(node) in _FUNCTIONS.values():
            continue
        yield node
        if not isinstance(node, exp.Column):
            waiting += node.iter_expressions()


def _is_key(kind: spark_types.DataType | None) -> bool:
    # Floating-point numbers are no keys: to Spark, all NaNs are one group, and so are both zeros.
    return isinstance(kind, _KEY_TYPES) or kind == spark_types.StringType()


def _is_computable(call: _AggregateCall, kinds: dict[str, spark_types.DataType | None]) -> bool:
    if call.column is None or call.function == "COUNT":
        return True
    kind = kinds[call.column]
    if call.function in {"SUM", "AVG"}:
        return isinstance(kind, _NUMBER_TYPES)
    return isinstance(kind, _ORDERED_TYPES) or kind == spark_types.StringType()


def _combine_partials(call: _AggregateCall, measures: dict[tuple[str, str | None], Measure]) -> str:
    """Return the expression that combines the partial results, under the name that Spark gives the call."""

    def part(function: str) -> str:
        key = (function, call.column)
        measure = measures.setdefault(key, Measure(f"{_PREFIX}{function}_{len(measures)}", function, call.column))
        return measure.name

    if call.function == "COUNT":
        text = f"coalesce(sum({part(COUNT)}), 0)"
    elif call.function == "AVG":
        text = f"(sum({part(TOTAL)}) / nullif(sum({part(COUNT)}), 0))"
    else:
        function = {"SUM": SUM, "MIN": MIN, "MAX": MAX}[call.function]
        text = f"{function}({part(function)})"
    return text if call.name is None else f"{text} AS `{call.name.replace('`', '``')}`"


def _remove_where(tokens: Sequence[Token], tree: exp.Select) -> Iterator[TextEdit]:
    """Yield the edit that removes WHERE: the rows already meet it, and lack the columns that it names."""
    if tree.args.get("where") is None:
        return
    depth = 0
    start = None
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        word = token.text.upper() if depth == 0 and token.token_type is not TokenType.IDENTIFIER else ""
        if word == "WHERE" and start is None:
            start = token.start
        elif start is not None and word in _AFTER_WHERE:
            yield TextEdit(start, token.start)
            return
    if start is not None:
        yield TextEdit(start, tokens[-1].end + 1)
