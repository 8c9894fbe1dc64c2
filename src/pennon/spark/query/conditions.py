"""Find conditions that can be pushed down to the tables of a query, so that Lance skips rows.

A condition of WHERE or ON is pushed down only if leaving out the rows that fail it cannot change the query's result. It
is not pushed below the nullable side of an outer join, unless nulls fail it too. It is not pushed below LIMIT,
DISTINCT, windows or groups, or into a common table expression that is read twice.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark_types
from sqlglot import exp

from pennon.spark import types
from pennon.spark.query.predicates import LancePredicate, PredicateTranslator, split_conjuncts
from pennon.spark.query.references import TableReference, find_cte
from pennon.spark.quoting import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.spark.query.scopes import Relation, Scopes
    from pennon.spark.query.settings import SessionSettings

_PASSES_FILTERS = {"expressions", "from_", "joins", "where", "with_", "hint", "laterals"}
_ALWAYS = exp.true()
_JOINS = {"this", "on", "using", "side", "kind", "hint", "method"}


@dataclass(frozen=True)
class ColumnTarget:
    """A column of a table, and the relations through which it is visible, from the outermost to the table."""

    reference: TableReference
    path: tuple[str, ...]
    route: tuple[tuple[exp.Select, Relation], ...]


@dataclass(frozen=True)
class JoinItem:
    """One item of FROM or JOIN: its relations, and how it is joined to the items before it.

    `conditions` are those of ON. `is_open` is True if conditions can be pushed below the item.
    """

    relations: tuple[Relation, ...]
    side: str
    kind: str
    conditions: tuple[exp.Expr, ...]
    is_open: bool


class Pushdown:
    """The predicates that each table of a query can be read with."""

    def __init__(self, scopes: Scopes, session: SessionSettings) -> None:
        self._scopes = scopes
        self._session = session
        self._uses = _count_cte_uses(scopes)
        self._merging_joins: dict[int, list[exp.Join]] = {}
        self._targets: dict[tuple[int, int], ColumnTarget | None] = {}
        self.predicates: dict[TableReference, list[LancePredicate]] = defaultdict(list)
        for select in scopes.selects:
            items = self._items_of(select)
            for position in range(len(items)):
                for condition, nullable in _conditions_on(select, items, position):
                    self._push(select, items[position].relations, condition, nullable=nullable)

    def translate_exactly(self, select: exp.Select, reference: TableReference) -> list[LancePredicate] | None:
        """Return the predicates of a SELECT's WHERE if Lance can evaluate all of it exactly, or None."""
        if reference.table.fixed_rows:
            return None
        predicates: list[LancePredicate] = []
        for condition in split_conjuncts(_get_where(select)):
            predicate = self._translate(select, condition, reference)
            if predicate is None or not predicate.exact:
                return None
            predicates.append(predicate)
        return predicates

    def _push(self, select: exp.Select, relations: Sequence[Relation], condition: exp.Expr, *, nullable: bool) -> None:
        """Push a condition down to the tables below some relations of a SELECT.

        With `nullable`, the relations may be missing in rows to which the condition applies.
        """
        targets = [self.resolve_column(select, node) for node in condition.find_all(exp.Column)]
        for target in {one.reference: one for one in targets if one is not None}.values():
            if target.reference.table.fixed_rows or not any(one.node is target.route[0][1].node for one in relations):
                continue
            predicate = self._translate(select, condition, target.reference)
            below = [self._may_be_missing(*one) for one in target.route[1:]]
            if predicate is not None and None not in below and (predicate.rejects_nulls or not any([nullable, *below])):
                self.predicates[target.reference].append(predicate)

    def _may_be_missing(self, select: exp.Select, relation: Relation) -> bool | None:
        """Return True if WHERE of a SELECT may apply to rows without the relation; None if no condition reaches it."""
        items = self._items_of(select)
        for position, item in enumerate(items):
            if any(one.node is relation.node for one in item.relations):
                return dict(_conditions_on(select, items, position, always=_ALWAYS)).get(_ALWAYS)
        return None

    def _translate(self, select: exp.Select, condition: exp.Expr, reference: TableReference) -> LancePredicate | None:
        def path_of(node: exp.Expr) -> tuple[str, ...] | None:
            target = self.resolve_column(select, node)
            return target.path if target is not None and target.reference is reference else None

        schema = reference.table.schema
        translator = PredicateTranslator(schema, path_of, lambda path: find_spark_type(schema, path), self._session)
        return translator.translate(condition)

    # Resolving column names

    def resolve_column(self, select: exp.Select, node: exp.Expr) -> ColumnTarget | None:
        """Return the table's column that a name in a SELECT refers to, or None if that is not certain."""
        key = (id(select), id(node))
        if key not in self._targets:
            names = _get_names(node)
            self._targets[key] = None if names is None else self._resolve_names(select, names)
        return self._targets[key]

    def _resolve_names(self, select: exp.Select, names: Sequence[str]) -> ColumnTarget | None:
        relations = self._scopes.relations(select)
        for length in range(len(names) - 1, 0, -1):
            matching = [one for one in relations if one.matches_qualifier(names[:length])]
            if matching:
                return self._resolve_in_relation(select, matching[0], names[length:]) if len(matching) == 1 else None
        if self._is_join_column(select, names[0]):
            return None
        candidates = [
            target for one in relations if (target := self._resolve_in_relation(select, one, names)) is not None
        ]
        return candidates[0] if len(candidates) == 1 else None

    def _is_join_column(self, select: exp.Select, name: str) -> bool:
        """Return True if a bare name can refer to a column that USING or NATURAL merges from two tables."""
        if id(select) not in self._merging_joins:
            joins = select.find_all(exp.Join)
            self._merging_joins[id(select)] = [one for one in joins if one.args.get("method") or one.args.get("using")]
        return any(
            join.args.get("method") or any(fold_name(one.name) == fold_name(name) for one in join.args["using"])
            for join in self._merging_joins[id(select)]
        )

    def _resolve_in_relation(self, select: exp.Select, relation: Relation, names: Sequence[str]) -> ColumnTarget | None:
        if relation.columns_renamed:
            return None
        if relation.reference is not None:
            path = _find_path(relation.reference.table.schema, names)
            return None if path is None else ColumnTarget(relation.reference, path, ((select, relation),))
        inner = relation.query
        if not isinstance(inner, exp.Select) or not self._passes_filters(inner, relation):
            return None
        target = self._resolve_output(inner, names)
        return None if target is None else replace(target, route=((select, relation), *target.route))

    def _resolve_output(self, select: exp.Select, names: Sequence[str]) -> ColumnTarget | None:
        """Return the table's column that an output column of a subquery is, or None."""
        targets: list[ColumnTarget | None] = []
        for one in select.expressions:
            if isinstance(one, exp.Star):
                if any(one.args.values()):
                    return None
                targets += [
                    target
                    for relation in self._scopes.relations(select)
                    if (target := self._resolve_in_relation(select, relation, names)) is not None
                ]
            elif one.is_star:
                return None
            elif fold_name(one.alias_or_name) == fold_name(names[0]):
                inner = one.this if isinstance(one, exp.Alias) else one
                parts = _get_names(inner)
                targets.append(None if parts is None else self._resolve_names(select, [*parts, *names[1:]]))
        return targets[0] if len(targets) == 1 else None

    def _passes_filters(self, select: exp.Select, relation: Relation) -> bool:
        if any(value and key not in _PASSES_FILTERS for key, value in select.args.items()):
            return False
        if isinstance(relation.node, exp.Table):
            cte = find_cte(relation.node)
            if cte is None or self._uses.get(id(cte), 0) != 1:
                return False
        elif not isinstance(relation.node, exp.Subquery):
            return False
        return is_row_by_row(select)

    def _items_of(self, select: exp.Select) -> list[JoinItem]:
        """Return the items of FROM and JOIN, or nothing if conditions cannot be pushed below them."""
        clause = select.args.get("from_")
        joins = list(select.args.get("joins") or ())
        if clause is None or not all(map(_is_supported, joins)) or _has_pivot(select) or select.args.get("sample"):
            return []
        return [self._build_item(clause.this, None), *(self._build_item(join.this, join) for join in joins)]

    def _build_item(self, node: exp.Expr, join: exp.Join | None) -> JoinItem:
        relations = tuple(self._scopes.relations_at(node))
        open_ = _shows_relations(node) and not any(
            one.node.args.get(key) for one in relations for key in ("sample", "pivots")
        )
        if join is None:
            return JoinItem(relations, "", "", (), open_)
        conditions = split_conjuncts(join.args.get("on")) if len(relations) == 1 else ()
        return JoinItem(relations, _join_word(join, "side"), _join_word(join, "kind"), tuple(conditions), open_)


def _conditions_on(
    select: exp.Select, items: Sequence[JoinItem], position: int, *, always: exp.Expr | None = None
) -> Iterator[tuple[exp.Expr, bool]]:
    """Yield the conditions that rows of an item must meet to matter, each with whether the item may be missing there.

    `always` takes the place of WHERE if it is given.
    """
    own = items[position]
    if not own.is_open:
        return
    if own.side in {"", "LEFT"}:
        yield from ((condition, False) for condition in own.conditions)
    if own.kind in {"SEMI", "ANTI"}:
        return  # its columns are not visible after the join
    missing = len(own.relations) > 1 or own.side in {"LEFT", "FULL"}
    for item in items[position + 1 :]:
        # ON decides about the rows before an inner or semi join, and about those before a right join, which lose.
        if item.kind == "SEMI" or (item.side in {"", "RIGHT"} and item.kind != "ANTI"):
            yield from ((condition, missing) for condition in item.conditions)
        missing = missing or item.side in {"RIGHT", "FULL"}
    where = split_conjuncts(_get_where(select)) if always is None else [always]
    yield from ((condition, missing) for condition in where)


def is_row_by_row(select: exp.Select) -> bool:
    """Return True if a SELECT returns one row for each input row, and computes it from that row alone."""
    excluded = (exp.AggFunc, exp.Window, exp.UDTF, exp.Explode, exp.Anonymous, exp.Query, exp.QueryTransform)
    return not any(one.find(*excluded) is not None for one in select.expressions)


def find_spark_type(schema: pa.Schema, path: Sequence[str]) -> spark_types.DataType | None:
    """Return the Spark type of a column or struct field, or None if Spark cannot read it."""
    try:
        kind: spark_types.DataType = types.spark_schema(pa.schema([schema.field(path[0])])).fields[0].dataType
    except ValueError:
        return None
    for name in path[1:]:
        if not isinstance(kind, spark_types.StructType) or name not in kind.fieldNames():
            return None
        kind = kind[name].dataType
    return kind


def _join_word(join: exp.Join, key: str) -> str:
    return str(join.args.get(key) or "").upper()


def _is_supported(join: exp.Join) -> bool:
    return (
        all(key in _JOINS for key, value in join.args.items() if value)
        and _join_word(join, "method") in {"", "NATURAL"}
        and _join_word(join, "side") in {"", "LEFT", "RIGHT", "FULL"}
        and _join_word(join, "kind") in {"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"}
    )


def _shows_relations(node: exp.Expr) -> bool:
    """Return True if all relations of an item are visible outside: no semi or anti join in parentheses."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, (exp.Select, exp.SetOperation)):
        return not node.args.get("joins")
    joins = list(node.find_all(exp.Join)) if isinstance(node, (exp.Table, exp.Subquery)) else []
    return all(_is_supported(join) and _join_word(join, "kind") not in {"SEMI", "ANTI"} for join in joins)


def _has_pivot(select: exp.Select) -> bool:
    return any(one.find_ancestor(exp.Select) is select for one in select.find_all(exp.Pivot))


def _get_where(select: exp.Select) -> exp.Expr | None:
    clause = select.args.get("where")
    return None if clause is None else clause.this


def _get_names(node: exp.Expr) -> list[str] | None:
    """Return the parts of a column's name, or None if the node is not a name."""
    if isinstance(node, exp.Paren):
        return _get_names(node.this)
    if isinstance(node, exp.Column):
        parts = node.parts
        return [part.name for part in parts] if all(isinstance(part, exp.Identifier) for part in parts) else None
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = _get_names(node.this)
        return None if before is None else [*before, node.expression.name]
    return None


def _find_path(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the path of a column or struct field, ignoring case, or None if there is not exactly one."""
    fields: list[pa.Field] = list(schema)
    path: list[str] = []
    for name in names:
        matching = [field for field in fields if fold_name(field.name) == fold_name(name)]
        if len(matching) != 1:
            return None
        path.append(matching[0].name)
        kind = matching[0].type
        fields = [kind.field(number) for number in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    return tuple(path)


def _count_cte_uses(scopes: Scopes) -> dict[int, int]:
    uses: dict[int, int] = defaultdict(int)
    for table in scopes.tree.find_all(exp.Table):
        cte = find_cte(table)
        if cte is not None:
            uses[id(cte)] += 1
    return uses
