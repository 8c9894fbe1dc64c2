"""Which tables a query needs with all of their columns, because a star or something like it says so.

A star in a subquery passes columns on to the query around it, which may need only some of them by name: then the star
itself needs none. It does where order or equality of whole rows matters: at the top, in set operations, under DISTINCT,
in an IN, where columns are renamed by their order, in PIVOT, and in natural joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.spark.sql.references import TableReference
    from pennon.spark.sql.scopes import Relation, Scopes

# A SELECT of nothing but these gives rows one by one, whatever columns they have.
_PLAIN = {"expressions", "from_", "joins", "where", "limit", "offset", "with_", "hint", "laterals", "kind"}


def find_fully_read_tables(scopes: Scopes) -> frozenset[TableReference]:
    """Give the references that must be read with all columns."""
    return frozenset(_Demand(scopes).found)


def projected_stars(select: exp.Select) -> list[exp.Expr]:
    """Give the stars among the columns of a SELECT: `*` and `t.*`."""
    return [one for one in select.expressions if one.is_star and not isinstance(one, exp.Count)]


def is_plain(select: exp.Select) -> bool:
    """Tell whether a SELECT passes rows on one by one."""
    return all(key in _PLAIN for key, value in select.args.items() if value)


class _Demand:
    def __init__(self, scopes: Scopes) -> None:
        self.found: set[TableReference] = set()
        self._scopes = scopes
        self._seen: set[int] = set()
        for query in scopes.tree.find_all(exp.Select, exp.SetOperation):
            if _is_wholly_used(query):
                self._query(query)
        for select in scopes.selects:
            self._select(select)

    def _select(self, select: exp.Select) -> None:
        stars = projected_stars(select)
        if stars and not is_plain(select):
            for star in stars:
                self._star(star, select)
        for star in _hidden_stars(select):
            self._star(star, select)
        if any(str(join.args.get("method") or "").upper() == "NATURAL" for join in select.find_all(exp.Join)):
            self._all(select)
        for relation in self._scopes.relations(select):
            if relation.columns_renamed:
                self._relation(relation)
        if any(one.find_ancestor(exp.Select) is select for one in select.find_all(exp.Pivot, exp.MatchRecognize)):
            self._all(select)

    def _query(self, query: exp.Expr) -> None:
        """Note that all columns of a query are needed."""
        if id(query) in self._seen:
            return
        self._seen.add(id(query))
        if isinstance(query, exp.Select):
            for star in projected_stars(query):
                self._star(star, query)
        elif isinstance(query, exp.SetOperation):
            self._query(query.this)
            self._query(query.expression)
        elif isinstance(query, exp.Subquery):
            self._query(query.this)
            for relation in self._scopes.relations_at(query):
                self._relation(relation)
        elif isinstance(query, exp.Table):
            for relation in self._scopes.relations_at(query):
                self._relation(relation)

    def _star(self, star: exp.Expr, select: exp.Select) -> None:
        qualifier = _qualifier(star)
        if qualifier is None:
            self._all(select)
            return
        matching = self._scopes.find_relations(select, qualifier) if qualifier else []
        for relation in matching:
            self._relation(relation)
        if not matching and len(qualifier) > 1:
            self._all(select)

    def _all(self, select: exp.Select) -> None:
        for relation in self._scopes.relations(select):
            self._relation(relation)

    def _relation(self, relation: Relation) -> None:
        if relation.reference is not None:
            self.found.add(relation.reference)
        elif relation.query is not None:
            self._query(relation.query)


def _qualifier(star: exp.Expr) -> list[str] | None:
    """Give what stands before a star; None if nothing does."""
    if isinstance(star, exp.Column):
        return [part.name for part in star.parts if not isinstance(part, exp.Star)]
    if isinstance(star, exp.Dot):
        return [part.name for part in star.parts if not isinstance(part, exp.Star)]
    return None


def _hidden_stars(select: exp.Select) -> Iterator[exp.Expr]:
    """Find stars inside of expressions, such as struct(*), that are not those of count(*)."""
    projected = {id(one) for one in projected_stars(select)}
    for star in select.find_all(exp.Star):
        whole = star.parent if isinstance(star.parent, (exp.Column, exp.Dot)) else star
        if id(whole) in projected or star.find_ancestor(exp.Select) is not select:
            continue
        if isinstance(whole.parent, exp.Count) and whole is star:
            continue
        yield whole


def _is_wholly_used(query: exp.Expr) -> bool:
    """Tell whether a query stands where all of its columns count."""
    child = query
    parent = query.parent
    while isinstance(parent, exp.Subquery):
        child, parent = parent, parent.parent
    if isinstance(parent, (exp.From, exp.CTE, exp.Exists)):
        return False
    return not (isinstance(parent, exp.Join) and child.arg_key == "this")
