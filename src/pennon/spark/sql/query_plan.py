"""The plan of a query: what is read of each table, and the text that Spark gets.

It can be made and looked at without Spark. The text is the query as it was written, with the names of tables replaced;
nothing else in it is touched, so Spark evaluates all of it.
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

from pennon.spark.sql.aggregation import PartialAggregation, split_aggregates
from pennon.spark.sql.constants import SessionSettings
from pennon.spark.sql.cursor import tokenize
from pennon.spark.sql.predicates import join_predicates
from pennon.spark.sql.pruning import find_needed_columns
from pennon.spark.sql.pushdown import Pushdown, is_row_by_row
from pennon.spark.sql.references import (
    TableFinder,
    TableReference,
    TimeTravel,
    find_references,
    fold_name,
    scan_references,
)
from pennon.spark.sql.scopes import Scopes
from pennon.spark.sql.text_edits import TextEdit, edit_names, edit_tables
from pennon.table.expression_limits import find_excess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pennon.identifiers import Identifier
    from pennon.spark.reading.partial_aggregates import PartialAggregates

_log = logging.getLogger(__name__)

_QUERIES = {"SELECT", "WITH", "FROM", "VALUES", "("}
_RANDOM = {
    *("RAND", "RANDN", "RANDOM", "UUID", "SHUFFLE", "RANDSTR", "UNIFORM", "MONOTONICALLY_INCREASING_ID"),
    *("SPARK_PARTITION_ID", "INPUT_FILE_NAME", "INPUT_FILE_BLOCK_START", "INPUT_FILE_BLOCK_LENGTH"),
}


@dataclass(frozen=True)
class TableRead:
    """What a query reads of a table: columns (None: all) of the rows that meet `where`, at most `limit` of them.

    With `partials`, these aggregates of the rows take their place.
    """

    name: str
    identifier: Identifier
    travel: TimeTravel | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    limit: int | None = None
    partials: PartialAggregates | None = None


@dataclass(frozen=True)
class CountQuery:
    """A query that only counts the rows of a table that meet `where`; `names` are those of its columns."""

    identifier: Identifier
    travel: TimeTravel | None
    where: str | None
    names: tuple[str, ...]


@dataclass(frozen=True)
class QueryPlan:
    """The reads of a query, and its text with `{name}` where each of them belongs and other braces doubled.

    Without reads, the text is the query itself.
    """

    text: str
    reads: tuple[TableRead, ...] = ()
    count: CountQuery | None = None
    direct_read: TableRead | None = None
    """A read that gives the result as it is, if there is one; its name is that by which columns are qualified."""


def plan_query(
    text: str, find: TableFinder, session: SessionSettings | None = None, *, analyse: bool = True
) -> QueryPlan:
    """Plan a query. What cannot be analysed is read whole; what names no table of the catalog stays as it is."""
    try:
        made = _plan(text, find, session, analyse=analyse)
    except RecursionError:
        if not analyse:
            raise
        made = _plan(text, find, session, analyse=False)
    pushed = [one.where for one in (*made.reads, made.count) if one is not None and one.where is not None]
    # Spark has no such limits: it filters by what is too long or too deep for Lance.
    return _plan(text, find, session, analyse=False) if any(map(find_excess, pushed)) else made


def _plan(text: str, find: TableFinder, session: SessionSettings | None, *, analyse: bool) -> QueryPlan:
    tokens = tokenize(text)
    if not tokens:
        return QueryPlan(text)
    tree = None if _has_odd_tables(tokens) else _parsed(text, tokens)
    if tree is None:
        inner = _begin_of_query(tokens)
        if inner:
            made = plan_query(text[inner:], find, session, analyse=analyse)
            if made.reads and made.count is None:
                return QueryPlan(_escaped(text[:inner]) + made.text, made.reads)
        references = scan_references(text, tokens, find)
        return _planned(text, references, edit_tables(references))
    references = find_references(text, tokens, tree, find)
    if not references:
        return QueryPlan(text)
    scopes = Scopes(tree, references)
    edits = edit_names(tokens, scopes)
    if not analyse or _names_columns_in_texts(tokens):
        return _planned(text, references, edits)
    columns = find_needed_columns(text, tokens, scopes)
    if _is_random(tokens):
        return _planned(text, references, edits, columns=columns)
    strings = _has_plain_strings(text, tokens)
    pushdown = Pushdown(scopes, SessionSettings((session or SessionSettings()).zone, strings))
    small = _summary(text, tokens, edits, scopes, pushdown)
    if small is not None:
        return small
    where = {reference: join_predicates(conditions) for reference, conditions in pushdown.conditions.items()}
    made = _planned(text, references, edits, columns=columns, where=where, limit=_limited(tree, scopes))
    return replace(made, direct_read=_direct_read(scopes, pushdown))


def _planned(
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
    return QueryPlan(_written(text, edits, names), tuple(reads.values())) if references else QueryPlan(text)


def _summary(
    text: str, tokens: Sequence[Token], edits: Sequence[TextEdit], scopes: Scopes, pushdown: Pushdown
) -> QueryPlan | None:
    """Plan a query of one table that needs no rows of it, only numbers that tell of them; None for any other query."""
    tree = scopes.tree
    reference = _only_table(tree, scopes) if isinstance(tree, exp.Select) else None
    if reference is None or not isinstance(tree, exp.Select):
        return None
    counting = _counting(tree, reference, pushdown)
    if counting is not None:
        return QueryPlan(text, (), counting)
    split = split_aggregates(tokens, tree, reference, pushdown)
    return None if split is None else _aggregated(text, reference, edits, split)


def _aggregated(
    text: str, reference: TableReference, edits: Sequence[TextEdit], split: PartialAggregation
) -> QueryPlan:
    def stays(edit: TextEdit) -> bool:
        return not any(one.start <= edit.start and edit.end <= one.end for one in split.edits)

    read = TableRead(
        "t0", reference.table.identifier, reference.travel, split.columns, split.where, None, split.partials
    )
    changed = [*split.edits, *filter(stays, edits)]
    return QueryPlan(_written(text, changed, {reference.number: read.name}), (read,))


def _written(text: str, edits: Sequence[TextEdit], names: dict[int, str]) -> str:
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda one: one.start):
        pieces.append(_escaped(text[at : edit.start]))
        pieces.append(f"{{{names[edit.table]}}}" if edit.table is not None else _escaped(edit.text))
        at = edit.end
    return "".join([*pieces, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _parsed(text: str, tokens: Sequence[Token]) -> exp.Expr | None:
    if tokens[0].text.upper() not in _QUERIES:
        return None  # sqlglot would complain aloud about statements that it does not know
    for dialect in ("spark", "databricks"):
        try:
            trees = sqlglot.parse(text[: tokens[-1].end + 1], dialect=dialect)
        except (SqlglotError, RecursionError) as error:
            _log.debug("Not understood as %s: %s", dialect, error)
            continue
        tree = trees[0] if len(trees) == 1 else None
        if isinstance(tree, exp.Query):
            return tree
    return None


def _begin_of_query(tokens: Sequence[Token]) -> int | None:
    """Tell where the query begins in a statement that has something before it, such as EXPLAIN."""
    depth = 0
    for token in tokens[1:]:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type in {TokenType.SELECT, TokenType.WITH}:
            return token.start
    return None


def _direct_read(scopes: Scopes, pushdown: Pushdown) -> TableRead | None:
    """Answer a query that names columns of one table, and rows that Lance finds exactly; None for any other query."""
    tree = scopes.tree
    if not isinstance(tree, exp.Select) or not _has_only(tree, "expressions", "from_", "where"):
        return None
    reference = _only_table(tree, scopes)
    if reference is None or scopes.relations(tree)[0].columns_renamed:
        return None
    conditions, names = pushdown.translate_exactly(tree, reference), _bare_names(tree)
    if conditions is None or (names is not None and not _are_clear(names, reference.table.schema.names)):
        return None
    return TableRead(reference.name, reference.table.identifier, reference.travel, names, join_predicates(conditions))


def _bare_names(tree: exp.Select) -> tuple[str, ...] | None:
    """Give the names of the columns of a SELECT, no name at all if one is more than a name; None for a star."""
    shown = tree.expressions
    if len(shown) == 1 and isinstance(shown[0], exp.Star) and not any(shown[0].args.values()):
        return None
    if not all(isinstance(one, exp.Column) and len(one.parts) == 1 and not one.is_star for one in shown):
        return ()
    return tuple(str(one.name) for one in shown)


def _are_clear(names: tuple[str, ...], columns: Sequence[str]) -> bool:
    """Tell whether names are those of columns to the letter, each once, with none beside it that differs in case."""
    known = Counter(map(fold_name, columns))
    once = len(set(names)) == len(names) > 0
    return once and all(name in columns and known[fold_name(name)] == 1 for name in names)


def _has_only(tree: exp.Select, *clauses: str) -> bool:
    return not any(value and key not in clauses for key, value in tree.args.items())


def _counting(tree: exp.Select, reference: TableReference, pushdown: Pushdown) -> CountQuery | None:
    if not _has_only(tree, "expressions", "from_", "where"):
        return None
    names = [_count_name(one) for one in tree.expressions]
    if not names or None in names:
        return None
    conditions = pushdown.translate_exactly(tree, reference)
    if conditions is None:
        return None
    shown = tuple(str(name) for name in names)
    return CountQuery(reference.table.identifier, reference.travel, join_predicates(conditions), shown)


def _count_name(node: exp.Expr) -> str | None:
    """Give the name of a column that counts rows; None for any other column."""
    inner = node.this if isinstance(node, exp.Alias) else node
    if not isinstance(inner, exp.Count) or inner.expressions:
        return None
    if not isinstance(inner.this, exp.Star) and inner.this != exp.Literal.number(1):
        return None
    if isinstance(inner.this, exp.Star) and any(inner.this.args.values()):
        return None
    return str(node.alias) if isinstance(node, exp.Alias) else "count(1)"


def _limited(tree: exp.Expr, scopes: Scopes) -> int | None:
    """Give the most rows that a query can need of its only table; None if there is no such number."""
    if not isinstance(tree, exp.Select) or not is_row_by_row(tree) or _only_table(tree, scopes) is None:
        return None
    if not _has_only(tree, "expressions", "from_", "limit", "offset"):
        return None
    limit, offset = _number(tree, "limit", None), _number(tree, "offset", 0)
    return None if limit is None or offset is None else limit + offset


def _number(tree: exp.Select, key: str, missing: int | None) -> int | None:
    clause = tree.args.get(key)
    if clause is None:
        return missing
    value = clause.args.get("expression")
    return int(value.name) if isinstance(value, exp.Literal) and value.name.isdigit() else None


def _only_table(tree: exp.Select, scopes: Scopes) -> TableReference | None:
    relations = scopes.relations(tree)
    if len(relations) != 1 or len(scopes.references) != 1 or len(scopes.selects) != 1:
        return None
    odd = {"sample", "pivots", "joins", "laterals"}
    found = None if any(relations[0].node.args.get(key) for key in odd) else relations[0].reference
    return None if found is None or found.table.fixed_rows else found


def _has_odd_tables(tokens: Sequence[Token]) -> bool:
    """Tell whether tables are named where the parser does not see them: `TABLE t`, `f(TABLE(t))`, `FROM t |> ...`."""
    return any(
        token.text == "|>" or (token.text.upper() == "TABLE" and token.token_type is TokenType.TABLE)
        for token in tokens
    )


def _names_columns_in_texts(tokens: Sequence[Token]) -> bool:
    """Tell whether IDENTIFIER('...') may name any column."""
    return any(
        token.text.upper() == "IDENTIFIER" and following.token_type is TokenType.L_PAREN
        for token, following in pairwise(tokens)
    )


def _is_random(tokens: Sequence[Token]) -> bool:
    """Tell whether rows that are left out early could change what the others get."""
    return any(
        token.text.upper() in _RANDOM and following.token_type is TokenType.L_PAREN
        for token, following in pairwise(tokens)
    )


def _has_plain_strings(text: str, tokens: Sequence[Token]) -> bool:
    """Tell whether all texts in the query stand for themselves: none has an escape."""
    return not any(
        token.token_type is TokenType.STRING and "\\" in text[token.start : token.end + 1] for token in tokens
    )
