"""Planning a merge: a join of source and table, which becomes a DataFrame of actions (see `row_changes`).

Names have the scopes of SQL: clauses for matching rows can use columns of the table and of the source, clauses for
other rows only those of their own side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import format_identifier
from pennon.spark import types
from pennon.spark.merging import conditions
from pennon.spark.merging.clause_selection import HERE, ClauseSelection, quoted_column
from pennon.spark.merging.clauses import Clause, Clauses, Delete, Insert, Update
from pennon.spark.merging.rewrite import EXPRESSION_ERRORS, expression_error, with_columns
from pennon.spark.merging.row_changes import ADDRESS, DELETE, INSERT, UPDATE, VALUE, RowChange
from pennon.spark.quoting import find_name
from pennon.spark.reading import scan
from pennon.spark.reading.splits import fragment_sizes
from pennon.spark.session_settings import is_case_sensitive
from pennon.spark.types.extension import plain_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from pennon.spark.merging.rewrite import RewriteBase

# The keys of a source of at most this many rows are sent to all executors, so that the table is not shuffled.
BROADCAST_ROWS = 500_000


@dataclass(frozen=True)
class MatchCondition:
    """The condition under which rows match, and the names of both sides in expressions."""

    on: tuple[str, ...] = ()
    condition: str | None = None
    null_safe: bool = False
    target: str = "target"
    source: str = "source"

    def __post_init__(self) -> None:
        """Raise InvalidInputError if there is not exactly one condition, or if both sides have the same name."""
        if bool(self.on) == (self.condition is not None):
            raise InvalidInputError("A merge has either key columns (`on`) or a condition (`on_condition`)")
        if self.target.lower() == self.source.lower():
            raise InvalidInputError(f"The table and the source of a merge need two names, got {self.target!r} twice")


@dataclass(frozen=True)
class MergeSource:
    """The source of a merge; `rows` is its number of rows, if they were counted."""

    frame: DataFrame
    rows: int | None = None


@dataclass(frozen=True)
class MergeActions:
    """The planned actions, as `rewrite.rewrite_rows` accepts them."""

    frame: DataFrame
    changes: tuple[RowChange, ...]
    values: tuple[types.WritePlan, ...]
    new_columns: tuple[pa.Field, ...]
    updated_columns: tuple[str, ...]


class MergePlanner:
    """Plans one merge. Raises TableColumnNotFoundError or InvalidInputError before a row is read."""

    def __init__(
        self, base: RewriteBase, df: DataFrame, clauses: Clauses, match: MatchCondition, *, merge_schema: bool = False
    ) -> None:
        self._base = base
        self._clauses = clauses
        self._match = match
        self._spark: SparkSession = df.sparkSession
        self._exact = is_case_sensitive(self._spark)
        self._columns: list[str] = base.schema.names
        self._source_columns = self._require_unique(df.columns)
        self._keys = [(self._find_key(name), self._find_source_key(name)) for name in match.on]
        self._passed, self.new_columns = self._match_columns(df, merge_schema=merge_schema)
        self._schema = with_columns(plain_schema(base.schema), self.new_columns)
        self._check_inserts()

    @property
    def is_small(self) -> bool:
        """Return True if the table is so small that the driver reads it, and Spark knows its size."""
        return sum(one.rows for one in fragment_sizes(self._base.dataset)) <= scan.DRIVER_ROWS

    def select_needed(self, df: DataFrame) -> DataFrame:
        """Return the source with only the columns that the merge needs."""
        if self._passed:
            return df
        keys = {source for _, source in self._keys}
        mentioned = set(
            conditions.find_mentioned_columns(self._source_columns, [*self._expressions(), self._match.condition])
        )
        wanted = [name for name in self._source_columns if name in keys or name in mentioned]
        return df.select(*[quoted_column(name) for name in wanted])

    def actions(self, source: MergeSource) -> MergeActions:
        """Return the actions: a join of the source with the table, with a clause for every row."""
        try:
            selection = ClauseSelection(
                self._join(source), self._match, self._target_columns(), list(source.frame.columns)
            )
            changes, assigned = self._choose_clauses(selection)
            frame = selection.to_actions()
            plans = tuple(self._plan(frame, column, number) for number, column in enumerate(assigned))
        except EXPRESSION_ERRORS as error:
            raise expression_error(self._base, "merged", error) from error
        updated = {column for change in changes if change.kind == UPDATE for column, _ in change.values}
        return MergeActions(
            frame,
            changes,
            plans,
            self.new_columns,
            tuple(self._schema.field(number).name for number in sorted(updated)),
        )

    def identifying_columns(self) -> list[str]:
        """Return the columns of the table that identify a row in messages."""
        if self._keys:
            return [target for target, _ in self._keys]
        return conditions.find_mentioned_columns(self._columns, [self._match.condition])

    # --- names ---

    def _require_unique(self, names: Sequence[str]) -> list[str]:
        seen: set[str] = set()
        for name in names:
            folded = name if self._exact else name.lower()
            if folded in seen:
                raise InvalidInputError(f"The source of a merge has several columns {name!r}")
            seen.add(folded)
        return list(names)

    def _find_name(self, name: str, names: Sequence[str]) -> str | None:
        return find_name(name, names, case_sensitive=self._exact)

    def _find_key(self, name: str) -> str:
        found = self._find_name(name, self._columns)
        if found is None:
            raise TableColumnNotFoundError(
                f"Table {format_identifier(self._base.identifier)} has no column {name!r} to merge on; it has "
                f"{', '.join(self._columns)}"
            )
        return found

    def _find_source_key(self, name: str) -> str:
        found = self._find_name(name, self._source_columns)
        if found is None:
            raise InvalidInputError(f"The source of a merge has no column {name!r} to merge on")
        return found

    def _expressions(self) -> list[str | None]:
        texts: list[str | None] = []
        for clause in self._clauses.all():
            texts += [clause.condition, *(_assignments(clause) or {}).values()]
        return texts

    def _target_columns(self) -> list[str]:
        """Return the columns of the table that conditions and expressions need."""
        keys = {target for target, _ in self._keys}
        mentioned = set(conditions.find_mentioned_columns(self._columns, [*self._expressions(), self._match.condition]))
        return [name for name in self._columns if name in keys or name in mentioned]

    # --- columns that are copied from the source ---

    def _match_columns(self, df: DataFrame, *, merge_schema: bool) -> tuple[dict[int, str], tuple[pa.Field, ...]]:
        """Return the source column of each column, for clauses that copy all columns, and the new columns."""
        if all(_assignments(clause) is not None for clause in self._clauses.all()):
            return {}, ()
        present = [name for name in self._columns if self._find_name(name, self._source_columns) is not None]
        own = pa.schema([self._base.schema.field(name) for name in present])
        try:
            plan = types.plan_write(
                df.schema,
                own,
                merge_schema=merge_schema,
                case_sensitive=self._exact,
                into=f"table {format_identifier(self._base.identifier)}",
            )
        except InvalidInputError as error:
            raise InvalidInputError(
                f"Table {format_identifier(self._base.identifier)} cannot be merged: {error}"
            ) from error
        deeper = [field.name for field in plan.new_columns if field.name in self._columns]
        if deeper:
            raise InvalidInputError(
                f"A merge into table {format_identifier(self._base.identifier)} cannot add fields to "
                f"column {deeper[0]!r}"
            )
        passed: dict[int, str] = {}
        for target in plan.targets:
            new = target.field.name not in self._columns
            number = len(passed) - len(present) + len(self._columns) if new else self._columns.index(target.field.name)
            if target.source is not None:
                passed[number] = df.columns[target.source]
        return passed, plan.new_columns

    def _check_inserts(self) -> None:
        for clause in self._clauses.not_matched:
            given = self._assignments_by_number(clause)
            for number, field in enumerate(self._schema):
                if number not in given and not field.nullable:
                    raise InvalidInputError(
                        f"Column {field.name!r} of table {format_identifier(self._base.identifier)} may not "
                        "be null, and gets no "
                        "value in rows that are inserted"
                    )

    def _assignments_by_number(self, clause: Clause) -> dict[int, str | None]:
        """Return the expression for each column that a clause sets, by its number; None is the source's column."""
        given = _assignments(clause)
        if given is None:
            return dict.fromkeys(self._passed)
        assigned: dict[int, str | None] = {}
        for name, text in given.items():
            found = self._find_name(name, self._columns)
            if found is None:
                raise TableColumnNotFoundError(
                    f"Table {format_identifier(self._base.identifier)} has no column {name!r} to set; it has "
                    f"{', '.join(self._columns)}"
                )
            number = self._columns.index(found)
            if number in assigned:
                raise InvalidInputError(
                    f"Column {found!r} of table {format_identifier(self._base.identifier)} is set twice"
                )
            assigned[number] = text
        return assigned

    # --- the join ---

    def _join(self, source: MergeSource) -> DataFrame:
        match, condition = self._match, self._condition()
        inserts, lost = bool(self._clauses.not_matched), bool(self._clauses.by_source)
        theirs = source.frame.withColumn(HERE, F.lit(True)).alias(match.source)  # noqa: FBT003 - a value
        ours = self._target().alias(match.target)
        if not lost and source.rows is not None and source.rows <= BROADCAST_ROWS:
            keys = F.broadcast(self._source_keys(source.frame).alias(match.source))
            ours = ours.join(keys, condition, "left_semi").alias(match.target)
        if not self.is_small:
            # Spark underestimates the size of what tasks read, but must not broadcast the whole table.
            ours = ours.hint("merge")
        if inserts:
            return theirs.join(ours, condition, "full" if lost else "left")
        return ours.join(theirs, condition, "left" if lost else "inner")

    def _condition(self) -> Column:
        match = self._match
        if match.condition is not None:
            return F.expr(match.condition)
        pairs = [
            (quoted_column(match.target, ours), quoted_column(match.source, theirs)) for ours, theirs in self._keys
        ]
        return reduce(and_, [ours.eqNullSafe(theirs) if match.null_safe else ours == theirs for ours, theirs in pairs])

    def _target(self) -> DataFrame:
        match, base = self._match, self._base
        where = None
        if match.condition is not None and not self._clauses.by_source:
            where = conditions.find_join_predicate(
                self._spark, base.schema, match.target, match.source, match.condition
            )
        columns = self._target_columns()
        wanted = scan.scan_pinned(base.table, base.dataset, columns=columns, where=where, row_address=True)
        frame = scan.to_dataframe(self._spark, wanted)
        return frame.withColumnRenamed(scan.ROW_ADDRESS, ADDRESS)

    def _source_keys(self, frame: DataFrame) -> DataFrame:
        if self._keys:
            return frame.select(*[quoted_column(theirs) for _, theirs in self._keys])
        mentioned = conditions.find_mentioned_columns(frame.columns, [self._match.condition])
        return frame.select(*[quoted_column(name) for name in mentioned])

    # --- clauses ---

    def _choose_clauses(self, selection: ClauseSelection) -> tuple[tuple[RowChange, ...], list[int]]:
        """Choose a clause for every row and compute its values; return the changes, and the column of each value."""
        passed = {column: number for number, column in enumerate(sorted(self._passed))}
        values = sorted(self._passed)
        selection.add_source_values({number: self._passed[column] for column, number in passed.items()})
        changes: list[RowChange] = []
        for scope, clauses in (
            (selection.choose_matched, self._clauses.matched),
            (selection.choose_not_matched, self._clauses.not_matched),
            (selection.choose_not_matched_by_source, self._clauses.by_source),
        ):
            if not clauses:
                continue
            computed: dict[int, tuple[int, str]] = {}
            first = len(changes)
            for clause in clauses:
                pairs = []
                for column, text in self._assignments_by_number(clause).items():
                    number = passed[column] if text is None else len(values)
                    if text is not None:
                        values.append(column)
                        computed[number] = (len(changes), text)
                    pairs.append((column, number))
                changes.append(RowChange(_KINDS[type(clause)], tuple(pairs)))
            scope([clause.condition for clause in clauses], first, computed)
        return tuple(changes), values

    def _plan(self, frame: DataFrame, column: int, number: int) -> types.WritePlan:
        from pyspark.sql.types import StructField, StructType

        field = self._schema.field(column)
        given = frame.schema[f"{VALUE}{number}"].dataType
        incoming = StructType([StructField(field.name, given)])
        return types.plan_write(incoming, pa.schema([field]), into=f"table {format_identifier(self._base.identifier)}")


_KINDS: dict[type[Clause], str] = {Update: UPDATE, Delete: DELETE, Insert: INSERT}


def _assignments(clause: Clause) -> Mapping[str, str] | None:
    """Return the assignments of a clause, or None if it copies all columns of the source."""
    if isinstance(clause, Delete):
        return {}
    return clause.set if isinstance(clause, Update) else clause.values
