"""The relations that each SELECT reads, the queries around it, and what a name in it can refer to.

All answers err on the side of more: a name may be reported for tables that it does not refer to, never the reverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from pennon.spark.query.references import TableReference, find_cte
from pennon.spark.quoting import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, eq=False)
class Relation:
    """An item of FROM: a table of the catalog (`reference`), a query (`query`), or something only Spark knows."""

    node: exp.Expr
    name: str | None
    reference: TableReference | None = None
    query: exp.Expr | None = None
    columns_renamed: bool = False

    def matches_qualifier(self, qualifier: Sequence[str]) -> bool:
        """Return True if the qualifier can precede columns of the relation: its name, or more of a table's name."""
        if len(qualifier) == 1:
            return self.name is not None and fold_name(self.name) == fold_name(qualifier[0])
        if self.reference is None or self.reference.alias is not None:
            return False
        # The written name may include the name of the lake or omit it.
        names = [fold_name(part) for part in qualifier]
        written = [fold_name(part) for part in self.reference.parts]
        full = [fold_name(part) for part in self.reference.table.identifier]
        lake = self.reference.table.lake
        with_lake = None if lake is None else [fold_name(lake), *full]
        return written[-len(names) :] == names or full[-len(names) :] == names or names == with_lake


class Scopes:
    """The SELECTs of a query and their relations."""

    def __init__(self, tree: exp.Expr, references: Sequence[TableReference]) -> None:
        self.tree = tree
        self.references = list(references)
        self._by_node = {id(one.node): one for one in references}
        self._relations: dict[int, list[Relation]] = {}
        self._reachable: dict[int, frozenset[TableReference]] = {}
        self.selects = list(tree.find_all(exp.Select))

    def relations(self, select: exp.Select) -> list[Relation]:
        """Return the relations of a SELECT, each item of FROM and JOIN once."""
        if id(select) not in self._relations:
            self._relations[id(select)] = list(self._find_relations_of(select))
        return self._relations[id(select)]

    def reachable_tables(self, query: exp.Expr) -> frozenset[TableReference]:
        """Return the tables whose columns can come out of a query or a relation."""
        if id(query) not in self._reachable:
            self._reachable[id(query)] = frozenset(self._find_tables_below(query))
        return self._reachable[id(query)]

    def tables_of(self, relation: Relation) -> frozenset[TableReference]:
        """Return the tables whose columns a relation can have."""
        if relation.reference is not None:
            return frozenset([relation.reference])
        return frozenset() if relation.query is None else self.reachable_tables(relation.query)

    def enclosing_selects(self, select: exp.Select) -> list[exp.Select]:
        """Return the SELECT and those around it whose columns it may use, innermost first."""
        selects = [select]
        node: exp.Expr = select
        # A query in FROM or JOIN sees the columns of the SELECT around it only if it is lateral.
        in_from = is_lateral = False
        while node.parent is not None:
            child, node = node, node.parent
            if isinstance(node, exp.CTE):
                # A CTE may use what its query may use, but not the columns of that query.
                node = _find_query_of(node)
                in_from = is_lateral = False
            elif isinstance(node, exp.Lateral):
                is_lateral = True
            elif isinstance(node, exp.From) or (isinstance(node, exp.Join) and child.arg_key == "this"):
                in_from = in_from or not is_lateral
            elif isinstance(node, exp.Select):
                if not in_from:
                    selects.append(node)
                in_from = is_lateral = False
        return selects

    def visible_tables(self, select: exp.Select) -> frozenset[TableReference]:
        """Return the tables that a bare name in a SELECT can refer to."""
        tables: set[TableReference] = set()
        for one in self.enclosing_selects(select):
            for relation in self.relations(one):
                tables |= self.tables_of(relation)
        return frozenset(tables)

    def find_relations(self, select: exp.Select, qualifier: Sequence[str]) -> list[Relation]:
        """Return the relations that a qualifier can refer to, innermost first."""
        return [
            relation
            for one in self.enclosing_selects(select)
            for relation in self.relations(one)
            if relation.matches_qualifier(qualifier)
        ]

    def relations_at(self, node: exp.Expr) -> Iterator[Relation]:
        """Yield the relations at one position of FROM: one, or those of a join in parentheses."""
        if isinstance(node, exp.Table):
            cte = find_cte(node)
            alias = node.args.get("alias")
            yield Relation(
                node,
                node.alias_or_name or None,
                self._by_node.get(id(node)),
                None if cte is None else cte.this,
                _renames(alias) or (cte is not None and _renames(cte.args.get("alias"))),
            )
        elif isinstance(node, exp.Subquery) and isinstance(node.this, (exp.Table, exp.Subquery)) and not node.alias:
            yield from self.relations_at(node.this)
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            yield Relation(node, node.alias or None, None, node.this.this, _renames(node.args.get("alias")))
        elif isinstance(node, exp.Subquery):
            yield Relation(node, node.alias or None, None, node.this, _renames(node.args.get("alias")))
        else:
            yield Relation(node, node.alias or None)
        for join in node.args.get("joins") or ():
            yield from self.relations_at(join.this)

    def _find_relations_of(self, select: exp.Select) -> Iterator[Relation]:
        clause = select.args.get("from_")
        if clause is not None:
            yield from self.relations_at(clause.this)
        for join in select.args.get("joins") or ():
            yield from self.relations_at(join.this)
        for lateral in select.args.get("laterals") or ():
            yield from self.relations_at(lateral)

    def _find_tables_below(self, query: exp.Expr) -> Iterator[TableReference]:
        waiting = [query]
        seen: set[int] = set()
        while waiting:
            one = waiting.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            for table in one.find_all(exp.Table):
                reference = self._by_node.get(id(table))
                if reference is not None:
                    yield reference
                cte = find_cte(table)
                if cte is not None:
                    waiting.append(cte.this)


def _find_query_of(cte: exp.CTE) -> exp.Expr:
    """Return the query that a common table expression belongs to."""
    clause = cte.parent
    return cte if clause is None or clause.parent is None else clause.parent


def _renames(alias: exp.Expr | None) -> bool:
    """Return True if an alias renames columns by position."""
    return alias is not None and bool(alias.args.get("columns"))
