"""Find the columns of each table that a query needs.

A column is needed if its name occurs anywhere in the query where it could refer to this table, or if a star includes it
that no outer query narrows. Names come from the tokens, so nothing that the parser drops is missed. The syntax tree
only excludes tables that a name cannot refer to. At worst, too much is read: no name changes its meaning because a
column was left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import Token, TokenType, exp

from pennon.spark.query.references import TableReference, find_name_chains
from pennon.spark.quoting import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pennon.spark.query.scopes import Relation, Scopes

_LITERAL_TYPES = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "INTERVAL", "X"}
_VARIABLE_WIDTH = 1 << 20
# A SELECT with only these clauses passes rows on one by one and does not compare or sort them.
_PLAIN_CLAUSES = {"expressions", "from_", "joins", "where", "limit", "offset", "with_", "hint", "laterals", "kind"}


def find_needed_columns(
    text: str, tokens: Sequence[Token], scopes: Scopes
) -> dict[TableReference, tuple[str, ...] | None]:
    """Return the columns that each reference must be read with, in the table's order; None means all."""
    fully_read = _FullReads(scopes).tables
    mentions: dict[TableReference, set[str]] = {reference: set() for reference in scopes.references}
    for names, targets in _find_mentions(text, tokens, scopes):
        for target in targets:
            mentions[target].update(names)
    return {
        reference: None if reference in fully_read else _choose_columns(reference.table.schema, mentions[reference])
        for reference in scopes.references
    }


def _choose_columns(schema: pa.Schema, names: Iterable[str]) -> tuple[str, ...] | None:
    """Return the columns with these names, or None for all columns.

    If no column is needed, the narrowest one is read, because its values still count the rows.
    """
    needed = set(names)
    columns = tuple(name for name in schema.names if fold_name(name) in needed)
    if len(columns) == len(schema.names):
        return None
    if columns or not schema.names:
        return columns
    return (min(schema, key=lambda field: _width(field.type)).name,)


def index_identifiers(tree: exp.Expr) -> dict[int, exp.Identifier]:
    """Return the identifiers of a syntax tree by their start in the text."""
    return {one.meta["start"]: one for one in tree.find_all(exp.Identifier) if "start" in one.meta}


def find_column_chains(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield each name in a query that may be a column's, as the tokens of its parts, without a star at the end."""
    for first, last in find_name_chains(tokens):
        chain = list(tokens[first : last + 1 : 2])
        if not _is_not_column(chain, tokens[last + 1] if last + 1 < len(tokens) else None):
            yield chain


def _find_mentions(
    text: str, tokens: Sequence[Token], scopes: Scopes
) -> Iterator[tuple[set[str], Iterable[TableReference]]]:
    """Yield names, each with the tables in which it makes columns needed."""
    identifiers = index_identifiers(scopes.tree)
    for chain in find_column_chains(tokens):
        node = identifiers.get(chain[0].start)
        if node is None or not _is_definition(node):
            select = None if node is None else node.find_ancestor(exp.Select)
            yield from _find_possible_columns([token.text for token in chain], select, scopes)
    for token in tokens:
        # Spark has a setting that makes these identifiers.
        if token.token_type is TokenType.STRING and text[token.start : token.start + 1] == '"':
            yield {fold_name(token.text)}, scopes.references


def _find_possible_columns(
    names: Sequence[str], select: exp.Select | None, scopes: Scopes
) -> Iterator[tuple[set[str], Iterable[TableReference]]]:
    """Yield the parts of a name in a SELECT that may be a column, each with the tables that may have it."""
    folded = [fold_name(name) for name in names]
    if select is None:
        yield set(folded), scopes.references
        return
    anywhere = set(folded)
    for length in range(1, len(names)):
        relations = scopes.find_relations(select, names[:length])
        for relation in relations:
            yield {folded[length]}, scopes.tables_of(relation)
        if relations:
            # A qualifier may also be a struct column, but only if the relation lacks the column after it.
            anywhere = set() if _has_column(relations[0], folded[length]) else anywhere & {folded[0]}
    yield anywhere, scopes.visible_tables(select)


def _has_column(relation: Relation, name: str) -> bool:
    reference = relation.reference
    return reference is not None and any(fold_name(one) == name for one in reference.table.schema.names)


def _is_not_column(chain: Sequence[Token], following: Token | None) -> bool:
    """Return True for the name of a function, or of the type of a literal."""
    if following is None or len(chain) != 1:
        return False
    if following.token_type is TokenType.L_PAREN:
        return True
    return following.token_type is TokenType.STRING and chain[0].text.upper() in _LITERAL_TYPES


def _is_definition(node: exp.Identifier) -> bool:
    """Return True if a name defines an alias or names a table, rather than a column."""
    parent = node.parent
    if isinstance(parent, exp.Alias):
        return node.arg_key == "alias"
    while isinstance(parent, exp.Dot) and parent.parent is not None:
        parent = parent.parent
    return isinstance(parent, (exp.TableAlias, exp.Table))


def _width(kind: pa.DataType) -> int:
    try:
        return int(kind.bit_width)
    except ValueError:
        return _VARIABLE_WIDTH + (kind.num_fields if pa.types.is_nested(kind) else 0)


def _projected_stars(select: exp.Select) -> list[exp.Expr]:
    """Return the stars among the columns of a SELECT: `*` and `t.*`."""
    return [one for one in select.expressions if one.is_star and not isinstance(one, exp.Count)]


def _has_plain_clauses(select: exp.Select) -> bool:
    """Return True if a SELECT passes rows on one by one."""
    return all(key in _PLAIN_CLAUSES for key, value in select.args.items() if value)


class _FullReads:
    """The tables that a query needs with all of their columns, because of a star or a similar construct.

    A star in a subquery passes columns on to the outer query, which may need only some of them by name; then the star
    itself needs none. A star needs all columns where whole rows or their order matter: at the top, in set operations,
    under DISTINCT, in IN, where an alias renames columns by position, in PIVOT, and in natural joins.
    """

    def __init__(self, scopes: Scopes) -> None:
        self.tables: set[TableReference] = set()
        self._scopes = scopes
        self._seen: set[int] = set()
        for query in scopes.tree.find_all(exp.Select, exp.SetOperation):
            if _uses_all_columns(query):
                self._add_query(query)
        for select in scopes.selects:
            self._add_select(select)

    def _add_select(self, select: exp.Select) -> None:
        stars = _projected_stars(select)
        if stars and not _has_plain_clauses(select):
            for star in stars:
                self._add_star(star, select)
        for star in _hidden_stars(select):
            self._add_star(star, select)
        if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in select.find_all(exp.Join)):
            self._add_relations(select)
        for relation in self._scopes.relations(select):
            if relation.columns_renamed:
                self._add_relation(relation)
        if any(one.find_ancestor(exp.Select) is select for one in select.find_all(exp.Pivot, exp.MatchRecognize)):
            self._add_relations(select)

    def _add_query(self, query: exp.Expr) -> None:
        """Record that all columns of a query are needed."""
        if id(query) in self._seen:
            return
        self._seen.add(id(query))
        if isinstance(query, exp.Select):
            for star in _projected_stars(query):
                self._add_star(star, query)
        elif isinstance(query, exp.SetOperation):
            self._add_query(query.this)
            self._add_query(query.expression)
        elif isinstance(query, (exp.Subquery, exp.Table)):
            for relation in self._scopes.relations_at(query):
                self._add_relation(relation)

    def _add_star(self, star: exp.Expr, select: exp.Select) -> None:
        qualifier = _get_qualifier(star)
        if qualifier is None:
            self._add_relations(select)
            return
        matching = self._scopes.find_relations(select, qualifier) if qualifier else []
        for relation in matching:
            self._add_relation(relation)
        if not matching and len(qualifier) > 1:
            self._add_relations(select)

    def _add_relations(self, select: exp.Select) -> None:
        for relation in self._scopes.relations(select):
            self._add_relation(relation)

    def _add_relation(self, relation: Relation) -> None:
        if relation.reference is not None:
            self.tables.add(relation.reference)
        elif relation.query is not None:
            self._add_query(relation.query)


def _get_qualifier(star: exp.Expr) -> list[str] | None:
    """Return the names before a star, or None if there are none."""
    if isinstance(star, (exp.Column, exp.Dot)):
        return [part.name for part in star.parts if not isinstance(part, exp.Star)]
    return None


def _hidden_stars(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the stars within expressions, such as struct(*), except those of count(*)."""
    projected = {id(one) for one in _projected_stars(select)}
    for star in select.find_all(exp.Star):
        whole = star.parent if isinstance(star.parent, (exp.Column, exp.Dot)) else star
        if id(whole) in projected or star.find_ancestor(exp.Select) is not select:
            continue
        if isinstance(whole.parent, exp.Count) and whole is star:
            continue
        yield whole


def _uses_all_columns(query: exp.Expr) -> bool:
    """Return True if all columns of a query matter where it occurs."""
    child = query
    parent = query.parent
    while isinstance(parent, exp.Subquery):
        child, parent = parent, parent.parent
    if isinstance(parent, (exp.From, exp.CTE, exp.Exists)):
        return False
    return not (isinstance(parent, exp.Join) and child.arg_key == "this")
