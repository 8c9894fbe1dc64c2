"""Queries whose aggregates tasks can compute in part: sum, min, max, count and avg of columns, grouped by columns.

Only queries of one table are looked at, whose conditions Lance can do exactly. The calls of aggregates in the text are
replaced by calls that put the partial results together; what stands around them stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import types as spark_types
from sqlglot import Token, TokenType, exp

from pennon.spark.reading.partial_aggregates import COUNT, MAX, MIN, SUM, TOTAL, Measure, PartialAggregates
from pennon.spark.sql.predicates import join_predicates
from pennon.spark.sql.pruning import index_identifiers
from pennon.spark.sql.pushdown import find_spark_type
from pennon.spark.sql.references import fold_name
from pennon.spark.sql.text_edits import TextEdit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pennon.spark.sql.pushdown import Pushdown
    from pennon.spark.sql.references import TableReference

_FUNCTIONS: dict[str, type[exp.AggFunc]] = {
    "SUM": exp.Sum,
    "MIN": exp.Min,
    "MAX": exp.Max,
    "COUNT": exp.Count,
    "AVG": exp.Avg,
}
_CLAUSES = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset"}
_OURS = "__pennon_"
_AFTER_WHERE = {"GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"}
# What may stand around aggregates and keys: it makes one value of values, and none of it is an aggregate.
_AROUND = (
    *(exp.Alias, exp.Paren, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Order, exp.Ordered, exp.Having),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Round, exp.Abs, exp.Coalesce, exp.Is),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or, exp.Not, exp.Between, exp.In),
)
_KEYS = (
    *(spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType),
    *(spark_types.BooleanType, spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType),
)
_WHOLE = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
_NUMBERS = (*_WHOLE, spark_types.FloatType, spark_types.DoubleType)
_ORDERED = (*_KEYS, spark_types.FloatType, spark_types.DoubleType)


@dataclass(frozen=True)
class PartialAggregation:
    """What tasks compute of the rows that meet `where`, and how the text of the query changes."""

    partials: PartialAggregates
    columns: tuple[str, ...]
    where: str | None
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True)
class _Call:
    """A call of an aggregate in the text; no `column` where rows are counted.

    `name` is what Spark calls a result that is such a call and nothing more, None if it is not.
    """

    function: str
    start: int
    end: int
    column: str | None
    name: str | None


def split_aggregates(
    tokens: Sequence[Token], tree: exp.Select, reference: TableReference, pushdown: Pushdown
) -> PartialAggregation | None:
    """Split a query of one table; None if it has no aggregates, or if parts of it could mean something else."""
    if tokens[0].token_type is not TokenType.SELECT or any(
        value and key not in _CLAUSES for key, value in tree.args.items()
    ):
        return None
    keys, calls, conditions = (
        _keys(tree, pushdown),
        _calls(tokens, tree, pushdown),
        pushdown.translate_exactly(tree, reference),
    )
    if not calls or keys is None or conditions is None or not _is_plain(tree, keys, pushdown, reference):
        return None
    schema = reference.table.schema
    if any(name.startswith(_OURS) for name in schema.names):
        return None
    kinds = {name: find_spark_type(schema, (name,)) for name in [*keys, *(one.column for one in calls if one.column)]}
    if not all(_is_key(kinds[name]) for name in keys) or not all(_is_known(one, kinds) for one in calls):
        return None
    measures: dict[tuple[str, str | None], Measure] = {}
    edits = [TextEdit(one.start, one.end, text=_rewritten(one, measures)) for one in calls]
    wanted = {*keys, *(one.column for one in measures.values())}
    columns = tuple(name for name in schema.names if name in wanted)
    if not columns:
        return None  # rows are counted, by a condition that names no column
    partials = PartialAggregates(keys, tuple(measures.values()))
    return PartialAggregation(partials, columns, join_predicates(conditions), (*edits, *_without_where(tokens, tree)))


def _keys(tree: exp.Select, pushdown: Pushdown) -> tuple[str, ...] | None:
    """Give the columns by which a query groups; None for what is not grouped by plain columns."""
    group = tree.args.get("group")
    if group is None:
        return ()
    if any(value and key != "expressions" for key, value in group.args.items()):
        return None
    names = [_column(tree, one, pushdown) for one in group.expressions]
    return None if None in names else tuple(dict.fromkeys(name for name in names if name is not None))


def _column(tree: exp.Select, node: exp.Expr, pushdown: Pushdown) -> str | None:
    """Give the table's column that a node is; None if it is anything else, or written in other letters."""
    target = pushdown.resolve(tree, node) if isinstance(node, exp.Column) else None
    if target is None or len(target.path) != 1 or node.name != target.path[0]:
        return None
    return target.path[0]


def _calls(tokens: Sequence[Token], tree: exp.Select, pushdown: Pushdown) -> list[_Call] | None:
    """Find the calls of aggregates in the text, in its order; None if one of them is not understood."""
    places = index_identifiers(tree)
    # The parser says where each call begins. What looks like a call and is none to the parser, or the other way round,
    # is not understood.
    nodes = {node.meta.get("start"): node for node in tree.find_all(exp.AggFunc)}
    written = [
        number
        for number, (token, following) in enumerate(pairwise(tokens))
        if token.text.upper() in _FUNCTIONS and following.token_type is TokenType.L_PAREN
    ]
    if nodes.keys() != {tokens[number].start for number in written} or len(nodes) != len(written):
        return None
    calls = []
    for number in written:
        node = nodes[tokens[number].start]
        made = _call(tokens, number, node, lambda inside: _argument(inside, places, tree, pushdown))
        if made is None:
            return None
        calls.append(made)
    return calls


def _call(
    tokens: Sequence[Token], number: int, node: exp.AggFunc, column_of: Callable[[list[Token]], str | None]
) -> _Call | None:
    """Read the call that begins at a token; None if it is not understood. `column_of` reads what it is called with."""
    function = tokens[number].text.upper()
    inside, end = _inside(tokens, number + 2)
    if end is None or type(node) is not _FUNCTIONS[function] or not _is_call(node):
        return None
    written, column = "1", None
    if function != "COUNT" or [one.text for one in inside] not in (["*"], ["1"]):
        column = column_of(inside)
        if column is None:
            return None
        written = inside[-1].text
    is_result = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
    name = f"{function.lower()}({written})" if is_result else None
    return _Call(function, tokens[number].start, end.end + 1, column, name)


def _argument(
    inside: Sequence[Token], places: dict[int, exp.Identifier], tree: exp.Select, pushdown: Pushdown
) -> str | None:
    """Give the table's column that the tokens name, and nothing else."""
    node = places.get(inside[0].start) if inside else None
    parent = None if node is None else node.parent
    if not isinstance(parent, exp.Column) or len(inside) != 2 * len(parent.parts) - 1:
        return None
    return _column(tree, parent, pushdown)


def _inside(tokens: Sequence[Token], at: int) -> tuple[list[Token], Token | None]:
    """Give the tokens up to a closing parenthesis, and that one; there is none if others open before it."""
    inside: list[Token] = []
    for token in tokens[at:]:
        if token.token_type is TokenType.R_PAREN:
            return inside, token
        if token.token_type is TokenType.L_PAREN:
            break
        inside.append(token)
    return inside, None


def _is_call(node: exp.AggFunc) -> bool:
    """Return True if an aggregate has one argument and nothing else."""
    return not node.expressions and not isinstance(node.this, exp.Distinct)


def _is_plain(tree: exp.Select, keys: Sequence[str], pushdown: Pushdown, reference: TableReference) -> bool:
    """Tell whether nothing but aggregates, keys, and names of results stands outside of WHERE."""
    results = {fold_name(one.alias) for one in tree.expressions if isinstance(one, exp.Alias)}
    taken = {fold_name(name) for name in reference.table.schema.names}
    for one in tree.expressions:
        if not isinstance(one, (exp.Alias, exp.Column)) and type(one) not in _FUNCTIONS.values():
            return False  # Spark names it by its text, which changes
    parts = [*tree.expressions, tree.args.get("having"), tree.args.get("order")]
    for node in _outside_of_calls(parts):
        if isinstance(node, exp.Column):
            name = _column(tree, node, pushdown)
            alias = len(node.parts) == 1 and fold_name(node.name) in results - taken
            if not alias and name not in keys:
                return False
        elif not isinstance(node, _AROUND):
            return False
    return True


def _outside_of_calls(parts: Sequence[exp.Expr | None]) -> Iterator[exp.Expr]:
    """Give the nodes of some expressions, without what is inside of aggregates and of names."""
    waiting = [one for one in parts if one is not None]
    while waiting:
        node = waiting.pop()
        if type(node) in _FUNCTIONS.values():
            continue
        yield node
        if not isinstance(node, exp.Column):
            waiting += node.iter_expressions()


def _is_key(kind: spark_types.DataType | None) -> bool:
    # Numbers with a fraction are no keys: Spark takes all NaNs for one, and both zeros.
    return isinstance(kind, _KEYS) or kind == spark_types.StringType()


def _is_known(call: _Call, kinds: dict[str, spark_types.DataType | None]) -> bool:
    if call.column is None or call.function == "COUNT":
        return True
    kind = kinds[call.column]
    if call.function in {"SUM", "AVG"}:
        return isinstance(kind, _NUMBERS)
    return isinstance(kind, _ORDERED) or kind == spark_types.StringType()


def _rewritten(call: _Call, measures: dict[tuple[str, str | None], Measure]) -> str:
    """Write the call that puts partial results together, with the name that Spark would give to it."""

    def part(function: str) -> str:
        key = (function, call.column)
        made = measures.setdefault(key, Measure(f"{_OURS}{function}_{len(measures)}", function, call.column))
        return made.name

    if call.function == "COUNT":
        text = f"coalesce(sum({part(COUNT)}), 0)"
    elif call.function == "AVG":
        text = f"(sum({part(TOTAL)}) / nullif(sum({part(COUNT)}), 0))"
    else:
        function = {"SUM": SUM, "MIN": MIN, "MAX": MAX}[call.function]
        text = f"{function}({part(function)})"
    return text if call.name is None else f"{text} AS `{call.name.replace('`', '``')}`"


def _without_where(tokens: Sequence[Token], tree: exp.Select) -> Iterator[TextEdit]:
    """Take the condition out of the text: the rows that are read meet it, and have not the columns that it names."""
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
