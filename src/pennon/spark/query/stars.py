"""Find the tables that a query needs with all of their columns, because of a star or a similar construct.

A star in a subquery passes columns on to the outer query, which may need only some of them by name; then the star
itself needs none. A star needs all columns where whole rows or their order matter: at the top, in set operations, under
DISTINCT, in IN, where an alias renames columns by position, in PIVOT, and in natural joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.spark.query.references import TableReference
    from pennon.spark.query.scopes import Relation, Scopes

# A SELECT with only these clauses passes rows on one by one and does not compare or sort them.
_PLAIN_CLAUSES = {"expressions", "from_", "joins", "where", "limit", "offset", "with_", "hint", "laterals", "kind"}


def find_fully_read_tables(scopes: Scopes) -> frozenset[TableReference]:
    """Return the references that must be read with all columns."""
    return frozenset(_FullReads(scopes).tables)


def _projected_stars(select: exp.Select) -> list[exp.Expr]:
    """Return the stars among the columns of a SELECT: `*` and `t.*`."""
    return [one for one in select.expressions if one.is_star and not isinstance(one, exp.Count)]


def _has_plain_clauses(select: exp.Select) -> bool:
    """Return True if a SELECT passes rows on one by one."""
    return all(key in _PLAIN_CLAUSES for key, value in select.args.items() if value)


class _FullReads:
    """Collects the tables that a query needs with all of their columns."""

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
        elif isinstance(query, exp.Subquery):
            self._add_query(query.this)
            for relation in self._scopes.relations_at(query):
                self._add_relation(relation)
        elif isinstance(query, exp.Table):
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
