"""Which rows of each table a query needs, as far as Lance can tell them.

A condition of WHERE or ON is pushed to a table only where leaving out the rows that do not meet it cannot change the
query's result: not below the side of an outer join that may be filled up with nulls, unless nulls do not meet it
either; not below LIMIT, DISTINCT, windows or groups; not into a common table expression that is read twice.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark_types
from sqlglot import exp

from pennon.spark import types
from pennon.spark.sql.predicates import LancePredicate, PredicateTranslator, split_conjuncts
from pennon.spark.sql.references import TableReference, find_cte, fold_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.spark.sql.constants import SessionSettings
    from pennon.spark.sql.scopes import Relation, Scopes

_PASSES_FILTERS = {"expressions", "from_", "joins", "where", "with_", "hint", "laterals"}
_JOINS = {"this", "on", "using", "side", "kind", "hint", "method"}


@dataclass(frozen=True)
class ColumnTarget:
    """A column of a table, and the relations through which it is seen, from the outside in."""

    reference: TableReference
    path: tuple[str, ...]
    route: tuple[tuple[exp.Select, Relation], ...]


@dataclass(frozen=True)
class JoinStep:
    """One thing in FROM or JOIN: its relations, and how it is joined to what stands before it."""

    relations: tuple[Relation, ...]
    side: str = ""
    kind: str = ""
    on: exp.Expr | None = None
    nested: bool = False


class Pushdown:
    """The conditions that each table of a query can be read with."""

    def __init__(self, scopes: Scopes, session: SessionSettings) -> None:
        self._scopes = scopes
        self._session = session
        self._steps: dict[int, list[JoinStep]] = {}
        self._uses = _cte_uses(scopes)
        self.conditions: dict[TableReference, list[LancePredicate]] = defaultdict(list)
        for select in scopes.selects:
            self._select(select)

    def translate_exactly(self, select: exp.Select, reference: TableReference) -> list[LancePredicate] | None:
        """Give the WHERE of a SELECT from one table if Lance can do exactly all of it."""
        if reference.table.fixed_rows:
            return None
        found: list[LancePredicate] = []
        for condition in split_conjuncts(_where(select)):
            made = self._translated(select, condition, reference)
            if made is None or not made.exact:
                return None
            found.append(made)
        return found

    def _select(self, select: exp.Select) -> None:
        steps = self._steps_of(select)
        if not steps or select.args.get("sample"):
            return
        for condition in split_conjuncts(_where(select)):
            self._push(select, condition, len(steps) - 1)
        for number, step in enumerate(steps):
            for condition in split_conjuncts(step.on):
                self._push_on(select, condition, number, step)

    def _push_on(self, select: exp.Select, condition: exp.Expr, number: int, step: JoinStep) -> None:
        left, right = range(number), range(number, number + 1)
        if step.side == "FULL" or step.nested:
            return
        if step.side == "LEFT" and step.kind not in {"SEMI", "ANTI"}:
            self._push(select, condition, number, right, own=True)
        elif step.side == "RIGHT":
            self._push(select, condition, number - 1, left)
        elif step.kind == "ANTI":
            self._push(select, condition, number, right, own=True)
        else:
            self._push(select, condition, number - 1, left)
            self._push(select, condition, number, right, own=True)

    def _push(
        self,
        select: exp.Select,
        condition: exp.Expr,
        last: int,
        places: range | None = None,
        *,
        own: bool = False,
    ) -> None:
        """Push a condition that holds above the steps up to `last` to the tables among `places`.

        `own` says that it is the condition by which the last step is joined, which decides about that step alone.
        """
        for reference, target in self._targets(select, condition):
            relation = target.route[0][1]
            place = self._place(select, relation)
            if place is None or place > last or (places is not None and place not in places):
                continue
            made = self._translated(select, condition, reference)
            if made is not None and self._reaches(target, last, made, own=own):
                self.conditions[reference].append(made)

    def _targets(self, select: exp.Select, condition: exp.Expr) -> Iterator[tuple[TableReference, ColumnTarget]]:
        """Give the tables that a condition speaks of, each with the way to it."""
        seen: set[TableReference] = set()
        for node in condition.find_all(exp.Column):
            target = self.resolve(select, node)
            if target is not None and target.reference not in seen and not target.reference.table.fixed_rows:
                seen.add(target.reference)
                yield target.reference, target

    def _translated(self, select: exp.Select, condition: exp.Expr, reference: TableReference) -> LancePredicate | None:
        def path_of(node: exp.Expr) -> tuple[str, ...] | None:
            target = self.resolve(select, node)
            return target.path if target is not None and target.reference is reference else None

        schema = reference.table.schema
        return PredicateTranslator(
            schema, path_of, lambda path: find_spark_type(schema, path), self._session
        ).translate(condition)

    def _reaches(self, target: ColumnTarget, last: int, condition: LancePredicate, *, own: bool) -> bool:
        for number, (select, relation) in enumerate(target.route):
            steps = self._steps_of(select)
            place = self._place(select, relation)
            if place is None or relation.node.args.get("sample") or relation.node.args.get("pivots"):
                return False
            highest = last if number == 0 else len(steps) - 1
            if not condition.rejects_nulls and _may_be_filled_up(steps, place, highest, own=own and number == 0):
                return False
            if steps[place].kind in {"SEMI", "ANTI"} and not (own and number == 0):
                return False
        return True

    # What a column's name means

    def resolve(self, select: exp.Select, node: exp.Expr) -> ColumnTarget | None:
        """Find the table's column that a name in a SELECT certainly means."""
        names = _names(node)
        return None if names is None else self._resolved(select, names)

    def _resolved(self, select: exp.Select, names: Sequence[str]) -> ColumnTarget | None:
        relations = self._scopes.relations(select)
        for length in range(len(names) - 1, 0, -1):
            matching = [one for one in relations if one.matches_qualifier(names[:length])]
            if matching:
                found = self._column(select, matching[0], names[length:]) if len(matching) == 1 else None
                return found
        if _joined_by_name(select, names[0]):
            return None
        candidates = [found for one in relations if (found := self._column(select, one, names)) is not None]
        return candidates[0] if len(candidates) == 1 else None

    def _column(self, select: exp.Select, relation: Relation, names: Sequence[str]) -> ColumnTarget | None:
        if relation.columns_renamed:
            return None
        if relation.reference is not None:
            path = _path(relation.reference.table.schema, names)
            return None if path is None else ColumnTarget(relation.reference, path, ((select, relation),))
        inner = relation.query
        if not isinstance(inner, exp.Select) or not self._passes_filters(inner, relation):
            return None
        found = self._output(inner, names)
        return None if found is None else ColumnTarget(found.reference, found.path, ((select, relation), *found.route))

    def _output(self, select: exp.Select, names: Sequence[str]) -> ColumnTarget | None:
        """Find the table's column that a column of a subquery is."""
        found: list[ColumnTarget | None] = []
        for one in select.expressions:
            if isinstance(one, exp.Star):
                if any(one.args.values()):
                    return None
                found += [
                    target
                    for relation in self._scopes.relations(select)
                    if (target := self._column(select, relation, names)) is not None
                ]
            elif one.is_star:
                return None
            elif fold_name(one.alias_or_name) == fold_name(names[0]):
                inner = one.this if isinstance(one, exp.Alias) else one
                parts = _names(inner)
                found.append(None if parts is None else self._resolved(select, [*parts, *names[1:]]))
        return found[0] if len(found) == 1 else None

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

    def _steps_of(self, select: exp.Select) -> list[JoinStep]:
        if id(select) not in self._steps:
            self._steps[id(select)] = list(self._made_steps(select))
        return self._steps[id(select)]

    def _made_steps(self, select: exp.Select) -> Iterator[JoinStep]:
        clause = select.args.get("from_")
        joins = list(select.args.get("joins") or ())
        if clause is None or not all(map(_is_understood, joins)) or _has_pivot(select):
            return
        relations = tuple(self._scopes.relations_at(clause.this))
        yield JoinStep(relations if _is_simple(clause.this) else (), nested=len(relations) > 1)
        for join in joins:
            inside = tuple(self._scopes.relations_at(join.this))
            side, kind = _word(join, "side"), _word(join, "kind")
            simple = inside if _is_simple(join.this) else ()
            yield JoinStep(simple, side, kind, join.args.get("on"), nested=len(inside) > 1)

    def _place(self, select: exp.Select, relation: Relation) -> int | None:
        for number, step in enumerate(self._steps_of(select)):
            if any(one.node is relation.node for one in step.relations):
                return number
        return None


def is_row_by_row(select: exp.Select) -> bool:
    """Tell whether a SELECT makes one row of each, looking at nothing but that row."""
    unfit = (exp.AggFunc, exp.Window, exp.UDTF, exp.Explode, exp.Anonymous, exp.Query, exp.QueryTransform)
    return not any(one.find(*unfit) is not None for one in select.expressions)


def find_spark_type(schema: pa.Schema, path: Sequence[str]) -> spark_types.DataType | None:
    """Give the type that Spark sees of a column, or of a field inside of it; None if it sees none."""
    try:
        kind: spark_types.DataType = types.spark_schema(pa.schema([schema.field(path[0])])).fields[0].dataType
    except ValueError:
        return None
    for name in path[1:]:
        if not isinstance(kind, spark_types.StructType) or name not in kind.fieldNames():
            return None
        kind = kind[name].dataType
    return kind


def _may_be_filled_up(steps: Sequence[JoinStep], place: int, last: int, *, own: bool) -> bool:
    """Tell whether rows with nulls instead of the relation's columns can come out of the steps up to `last`."""
    if steps[place].nested:
        return True
    if steps[place].side in {"LEFT", "FULL"} and steps[place].kind not in {"SEMI", "ANTI"} and not own:
        return True
    return any(steps[number].side in {"RIGHT", "FULL"} for number in range(place + 1, last + 1))


def _word(join: exp.Join, key: str) -> str:
    return str(join.args.get(key) or "").upper()


def _is_understood(join: exp.Join) -> bool:
    return (
        all(key in _JOINS for key, value in join.args.items() if value)
        and _word(join, "method") in {"", "NATURAL"}
        and _word(join, "side") in {"", "LEFT", "RIGHT", "FULL"}
        and _word(join, "kind") in {"", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"}
    )


def _is_simple(node: exp.Expr) -> bool:
    """Tell whether all that stands here can be seen from outside: it holds no semi or anti join in parentheses."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query) and not isinstance(node.this, exp.Subquery):
        return not node.args.get("joins")
    nested = list(node.find_all(exp.Join)) if isinstance(node, (exp.Table, exp.Subquery)) else []
    return all(_is_understood(join) and _word(join, "kind") not in {"SEMI", "ANTI"} for join in nested)


def _has_pivot(select: exp.Select) -> bool:
    return any(one.find_ancestor(exp.Select) is select for one in select.find_all(exp.Pivot))


def _where(select: exp.Select) -> exp.Expr | None:
    clause = select.args.get("where")
    return None if clause is None else clause.this


def _names(node: exp.Expr) -> list[str] | None:
    """Give the parts of a column's name; None for what is no name."""
    if isinstance(node, exp.Paren):
        return _names(node.this)
    if isinstance(node, exp.Column):
        parts = node.parts
        return [part.name for part in parts] if all(isinstance(part, exp.Identifier) for part in parts) else None
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = _names(node.this)
        return None if before is None else [*before, node.expression.name]
    return None


def _path(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...] | None:
    """Find a column or a field inside of one, without regard to case; None if there is none, or more than one."""
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


def _joined_by_name(select: exp.Select, name: str) -> bool:
    """Tell whether a bare name can mean a column of two tables that are joined by it."""
    for join in select.find_all(exp.Join):
        if join.args.get("method") or any(
            fold_name(one.name) == fold_name(name) for one in join.args.get("using") or ()
        ):
            return True
    return False


def _cte_uses(scopes: Scopes) -> dict[int, int]:
    uses: dict[int, int] = defaultdict(int)
    for table in scopes.tree.find_all(exp.Table):
        cte = find_cte(table)
        if cte is not None:
            uses[id(cte)] += 1
    return uses
