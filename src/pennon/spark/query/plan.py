"""Plan a query: what to read from each table, and the text that Spark evaluates.

Planning does not need Spark. The text is the query as written, with the names of tables replaced. Nothing else in it
changes, so Spark evaluates the whole query.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from pennon.spark.query.aggregates import PartialAggregation, split_aggregates
from pennon.spark.query.columns import find_needed_columns
from pennon.spark.query.conditions import Pushdown, is_row_by_row
from pennon.spark.query.edits import TextEdit, apply_edits, edit_names
from pennon.spark.query.predicates import join_predicates
from pennon.spark.query.references import TableFinder, TableReference, TimeTravel, find_references
from pennon.spark.query.scopes import Scopes
from pennon.spark.query.settings import SessionSettings
from pennon.spark.query.whole_tables import WholeTables, find_query_start, find_whole_tables, has_ambiguous_column
from pennon.spark.quoting import fold_name
from pennon.spark.tokens import tokenize
from pennon.table.expression_limits import find_excess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pennon.identifiers import Identifier
    from pennon.spark.reading.partial_aggregates import PartialAggregates

_log = logging.getLogger(__name__)

_QUERY_STARTS = {"SELECT", "WITH", "FROM", "VALUES", "("}
_AFTER_SKIPPED_COMMA = {",", ")", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET"}
_COUNT_CALL = ["COUNT", "(", "*", ")"]
_RANDOM_FUNCTIONS = {
    *("RAND", "RANDN", "RANDOM", "UUID", "SHUFFLE", "RANDSTR", "UNIFORM", "MONOTONICALLY_INCREASING_ID"),
    *("SPARK_PARTITION_ID", "INPUT_FILE_NAME", "INPUT_FILE_BLOCK_START", "INPUT_FILE_BLOCK_LENGTH"),
}


@dataclass(frozen=True)
class TableRead:
    """A read of a table: `columns` (None: all) of at most `limit` rows that meet `where`.

    With `partials`, the read returns these aggregates instead of the rows.
    """

    name: str
    identifier: Identifier
    travel: TimeTravel | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    limit: int | None = None
    partials: PartialAggregates | None = None


@dataclass(frozen=True)
class QueryPlan:
    """The reads of a query, and its text with `{name}` in place of each table and other braces doubled.

    Without reads, the text is the query itself.
    """

    text: str
    reads: tuple[TableRead, ...] = ()
    count: TableRead | None = None
    """The read whose number of rows is the result, under each of `count_names`, or None."""
    count_names: tuple[str, ...] = ()
    direct_read: TableRead | None = None
    """The read that is the whole result, or None. Its name is the one that qualifies columns."""
    whole: WholeTables | None = None
    """How the text was changed if the query was not analysed and reads whole tables."""

    @property
    def is_partly_evaluated(self) -> bool:
        """Whether parts of the query are evaluated here, so that Spark does not see all of its text."""
        return bool(self.count or self.direct_read or any(read.partials for read in self.reads))


def plan_query(
    text: str, find: TableFinder, session: SessionSettings | None = None, *, analyse: bool = True
) -> QueryPlan:
    """Return the plan of a query.

    A query that cannot be analysed reads whole tables. A query without tables of the catalog stays as it is.
    """
    tokens = tokenize(text)
    if not tokens:
        return QueryPlan(text)
    session = session or SessionSettings()
    plan = _analyse(text, tokens, find, session) if analyse and session.plain_names else None
    return _plan_whole_tables(text, tokens, find) if plan is None else plan


def _analyse(text: str, tokens: list[Token], find: TableFinder, session: SessionSettings) -> QueryPlan | None:
    """Return the plan of a query, or None if it is not certain what the query means."""
    start = find_query_start(tokens)
    if any(_is_uncertain(token, following) for token, following in pairwise([*tokens[start:], tokens[-1]])):
        return None
    try:
        tree = _parse_query(text, tokens[start:])
        plan = None if tree is None else _plan_tree(text, tokens[start:], tree, find, session, alone=not start)
    except RecursionError:
        return None
    if plan is None:
        return None
    # Spark has no such limits, so it evaluates conditions that are too long or too deep for Lance.
    pushed = [one.where for one in (*plan.reads, plan.count) if one is not None and one.where is not None]
    return None if any(map(find_excess, pushed)) else plan


def _plan_whole_tables(text: str, tokens: Sequence[Token], find: TableFinder) -> QueryPlan:
    whole = find_whole_tables(text, tokens, find)
    if whole is None:
        return QueryPlan(text)
    reads = tuple(TableRead(f"t{number}", one.table.identifier, one.travel) for number, one in enumerate(whole.tables))
    return QueryPlan(whole.write([f"{{{read.name}}}" for read in reads]), reads, whole=whole)


def _plan_tree(
    text: str, tokens: Sequence[Token], tree: exp.Expr, find: TableFinder, session: SessionSettings, *, alone: bool
) -> QueryPlan | None:
    """Return the plan of a parsed query, or None. `alone` is True if the statement has nothing before the query."""
    references = find_references(text, tokens, tree, find)
    if not references:
        return QueryPlan(text)
    if has_ambiguous_column(tokens, [(one.name, one.start, one.table.schema.names) for one in references]):
        return None
    scopes = Scopes(tree, references)
    edits = edit_names(tokens, scopes)
    columns = find_needed_columns(text, tokens, scopes)
    if _is_random(tokens):
        return _build_plan(text, references, edits, columns=columns)
    pushdown = Pushdown(scopes, replace(session, plain_strings=_has_plain_strings(text, tokens)))
    summary = _plan_summary(text, tokens, edits, scopes, pushdown, counts=alone)
    if summary is not None:
        return summary
    where = {reference: join_predicates(predicates) for reference, predicates in pushdown.predicates.items()}
    plan = _build_plan(text, references, edits, columns=columns, where=where, limit=_find_limit(tree, scopes))
    return replace(plan, direct_read=_plan_direct_read(tokens, scopes, pushdown) if alone else None)


def _build_plan(
    text: str,
    references: Sequence[TableReference],
    edits: Sequence[TextEdit],
    *,
    columns: Mapping[TableReference, tuple[str, ...] | None] | None = None,
    where: Mapping[TableReference, str | None] | None = None,
    limit: int | None = None,
) -> QueryPlan:
    columns, where = columns or {}, where or {}
    reads: dict[tuple[object, ...], TableRead] = {}
    names: dict[int, str] = {}
    for reference in references:
        content = (reference.table.identifier, reference.travel, columns.get(reference), where.get(reference), limit)
        read = reads.setdefault(content, TableRead(f"t{len(reads)}", *content))
        names[reference.number] = read.name
    return QueryPlan(apply_edits(text, edits, names), tuple(reads.values())) if references else QueryPlan(text)


def _plan_summary(
    text: str, tokens: Sequence[Token], edits: Sequence[TextEdit], scopes: Scopes, pushdown: Pushdown, *, counts: bool
) -> QueryPlan | None:
    """Return the plan of a query of one table that needs only counts or aggregates of it, or None."""
    tree = scopes.tree
    reference = _find_only_table(tree, scopes) if isinstance(tree, exp.Select) else None
    if reference is None or not isinstance(tree, exp.Select):
        return None
    count = _plan_count(text, tokens, tree, reference, pushdown) if counts else None
    if count is not None:
        return count
    split = split_aggregates(tokens, tree, reference, pushdown)
    return None if split is None else _plan_aggregation(text, reference, edits, split)


def _plan_aggregation(
    text: str, reference: TableReference, edits: Sequence[TextEdit], split: PartialAggregation
) -> QueryPlan:
    def stays(edit: TextEdit) -> bool:
        return not any(one.start <= edit.start and edit.end <= one.end for one in split.edits)

    read = TableRead(
        "t0", reference.table.identifier, reference.travel, split.columns, split.where, None, split.partials
    )
    changed = [*split.edits, *filter(stays, edits)]
    return QueryPlan(apply_edits(text, changed, {reference.number: read.name}), (read,))


def _parse_query(text: str, tokens: Sequence[Token]) -> exp.Expr | None:
    """Return the syntax tree of the query that these tokens are, with positions in the whole text, or None."""
    if tokens[0].text.upper() not in _QUERY_STARTS:
        return None  # sqlglot logs a warning for statements that it does not know
    padded = " " * tokens[0].start + text[tokens[0].start : tokens[-1].end + 1]
    for dialect in ("spark", "databricks"):
        try:
            trees = sqlglot.parse(padded, dialect=dialect)
        except SqlglotError as error:
            _log.debug("sqlglot cannot parse the query as %s: %s", dialect, error)
            continue
        tree = trees[0] if len(trees) == 1 else None
        if isinstance(tree, exp.Query):
            return tree
    return None


def _split_results(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the tokens of each result column of a SELECT in which no column contains a comma."""
    start = next((number for number, token in enumerate(tokens) if token.token_type is TokenType.SELECT), len(tokens))
    results: list[list[Token]] = [[]]
    for token in tokens[start + 1 :]:
        if token.token_type in {TokenType.FROM, TokenType.WHERE}:
            break
        if token.token_type is TokenType.COMMA:
            results.append([])
        else:
            results[-1].append(token)
    return results


def _plan_direct_read(tokens: Sequence[Token], scopes: Scopes, pushdown: Pushdown) -> TableRead | None:
    """Return the read that is the whole result of a query, or None if Spark must evaluate the query."""
    tree = scopes.tree
    if not isinstance(tree, exp.Select) or not _has_only(tree, "expressions", "from_", "where"):
        return None
    if any(len(result) != 1 for result in _split_results(tokens)):
        return None  # the parser drops words and signs, such as that of `+a`
    reference = _find_only_table(tree, scopes)
    if reference is None or scopes.relations(tree)[0].columns_renamed:
        return None
    predicates, names = pushdown.translate_exactly(tree, reference), _get_bare_names(tree)
    if predicates is None or (names is not None and not _are_unambiguous(names, reference.table.schema.names)):
        return None
    return TableRead(reference.name, reference.table.identifier, reference.travel, names, join_predicates(predicates))


def _get_bare_names(tree: exp.Select) -> tuple[str, ...] | None:
    """Return the column names of a SELECT; None for `*`; an empty tuple if it has other expressions."""
    results = tree.expressions
    if len(results) == 1 and isinstance(results[0], exp.Star) and not any(results[0].args.values()):
        return None
    if not all(isinstance(one, exp.Column) and len(one.parts) == 1 and not one.is_star for one in results):
        return ()
    return tuple(str(one.name) for one in results)


def _are_unambiguous(names: tuple[str, ...], columns: Sequence[str]) -> bool:
    """Return True if each name is a column exactly, occurs once, and no other column differs only in case."""
    known = Counter(map(fold_name, columns))
    once = len(set(names)) == len(names) > 0
    return once and all(name in columns and known[fold_name(name)] == 1 for name in names)


def _has_only(tree: exp.Select, *clauses: str) -> bool:
    return not any(value and key not in clauses for key, value in tree.args.items())


def _plan_count(
    text: str, tokens: Sequence[Token], tree: exp.Select, reference: TableReference, pushdown: Pushdown
) -> QueryPlan | None:
    if not _has_only(tree, "expressions", "from_", "where") or not all(map(_is_count, _split_results(tokens))):
        return None
    names = [_get_count_name(one) for one in tree.expressions]
    if not names or None in names:
        return None
    predicates = pushdown.translate_exactly(tree, reference)
    if predicates is None:
        return None
    read = TableRead(reference.name, reference.table.identifier, reference.travel, where=join_predicates(predicates))
    return QueryPlan(text, count=read, count_names=tuple(str(name) for name in names))


def _is_count(result: Sequence[Token]) -> bool:
    """Return True for `count(*)` or `count(1)` with nothing but an alias after it."""
    size = len(_COUNT_CALL)
    if [token.text.upper().replace("1", "*") for token in result[:size]] != _COUNT_CALL:
        return False
    kinds = [token.token_type for token in result[size:]]
    # Without AS, a keyword may also be an operator.
    return (
        not kinds
        or kinds in ([TokenType.VAR], [TokenType.IDENTIFIER])
        or (len(kinds), kinds[0]) == (2, TokenType.ALIAS)
    )


def _get_count_name(node: exp.Expr) -> str | None:
    """Return the name of a result column that counts rows, or None for any other result column."""
    inner = node.this if isinstance(node, exp.Alias) else node
    if not isinstance(inner, exp.Count) or inner.expressions:
        return None
    if not isinstance(inner.this, exp.Star) and inner.this != exp.Literal.number(1):
        return None
    if isinstance(inner.this, exp.Star) and any(inner.this.args.values()):
        return None
    return str(node.alias) if isinstance(node, exp.Alias) else "count(1)"


def _find_limit(tree: exp.Expr, scopes: Scopes) -> int | None:
    """Return the maximum number of rows that a query can need from its only table, or None."""
    if not isinstance(tree, exp.Select) or not is_row_by_row(tree) or _find_only_table(tree, scopes) is None:
        return None
    if not _has_only(tree, "expressions", "from_", "limit", "offset"):
        return None
    limit, offset = _get_number(tree, "limit", None), _get_number(tree, "offset", 0)
    return None if limit is None or offset is None else limit + offset


def _get_number(tree: exp.Select, key: str, missing: int | None) -> int | None:
    clause = tree.args.get(key)
    if clause is None:
        return missing
    value = clause.args.get("expression")
    return int(value.name) if isinstance(value, exp.Literal) and value.name.isdigit() else None


def _find_only_table(tree: exp.Select, scopes: Scopes) -> TableReference | None:
    relations = scopes.relations(tree)
    if len(relations) != 1 or len(scopes.references) != 1 or len(scopes.selects) != 1:
        return None
    unsupported = {"sample", "pivots", "joins", "laterals"}
    reference = None if any(relations[0].node.args.get(key) for key in unsupported) else relations[0].reference
    return None if reference is None or reference.table.fixed_rows else reference


def _is_uncertain(token: Token, following: Token) -> bool:
    """Return True at syntax with tables or columns that the parser misses: pipes, `TABLE t`, `t@v1`, `IDENTIFIER(...)`.

    The parser also skips commas before keywords and other commas, and takes DIV before a keyword for an alias. To
    Spark, such a keyword is a column.
    """
    if token.token_type in {TokenType.IDENTIFIER, TokenType.STRING}:
        return False
    word = token.text.upper()
    if word in {",", "DIV"}:
        return following.token_type is not TokenType.IDENTIFIER and following.text.upper() in _AFTER_SKIPPED_COMMA
    return word in {"|>", "TABLE", "@"} or (word == "IDENTIFIER" and following.token_type is TokenType.L_PAREN)


def _is_random(tokens: Sequence[Token]) -> bool:
    """Return True if skipping rows early could change the values of other rows."""
    return any(
        token.text.upper() in _RANDOM_FUNCTIONS and following.token_type is TokenType.L_PAREN
        for token, following in pairwise(tokens)
    )


def _has_plain_strings(text: str, tokens: Sequence[Token]) -> bool:
    """Return True if no string literal of the query contains an escape."""
    return not any(
        token.token_type is TokenType.STRING and "\\" in text[token.start : token.end + 1] for token in tokens
    )
