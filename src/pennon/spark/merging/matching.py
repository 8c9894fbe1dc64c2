"""Planning a merge: a join of source and table, which becomes a DataFrame of actions (see `row_changes`).

Names have the scopes of SQL: clauses for matching rows can use columns of the table and of the source, clauses for
other rows only those of their own side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import count
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.spark import types
from pennon.spark.merging import conditions
from pennon.spark.merging.clause_selection import HERE, ClauseSelection, NumberedClause, quoted_column
from pennon.spark.merging.clauses import assignments_of, kind_of
from pennon.spark.merging.rewrite import EXPRESSION_ERRORS, RowActions, expression_error, with_columns
from pennon.spark.merging.row_changes import ADDRESS, COPIED, VALUE, RowChange
from pennon.spark.quoting import find_name
from pennon.spark.reading import scan
from pennon.spark.reading.splits import fragment_sizes
from pennon.spark.session_settings import is_case_sensitive
from pennon.spark.types.extension import plain_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from pennon.spark.merging.clauses import Clause, MergeSpec
    from pennon.spark.merging.rewrite import RewriteBase

# The keys of a source of at most this many rows are sent to all executors, so that the table is not shuffled.
BROADCAST_ROWS = 500_000


@dataclass(frozen=True)
class MergeSource:
    """The source of a merge, from `MergePlanner.select_source`; `rows` is its number of rows, if they were counted."""

    frame: DataFrame
    rows: int | None = None


class MergePlanner:
    """Plans one merge. Raises TableColumnNotFoundError or InvalidInputError before a row is read."""

    def __init__(self, base: RewriteBase, df: DataFrame, spec: MergeSpec) -> None:
        self._base = base
        self._spec = spec
        self._clauses = spec.clauses
        self._spark: SparkSession = df.sparkSession
        self._exact = is_case_sensitive(self._spark)
        self._columns: list[str] = base.schema.names
        self._source_columns: list[str] = df.columns
        self._require_unique()
        self._keys = [(self._find_key(name), self._find_source_key(name)) for name in spec.on]
        self._needed = self._find_needed(self._columns, {ours for ours, _ in self._keys})
        self._source_needed = self._find_needed(self._source_columns, {theirs for _, theirs in self._keys})
        self._copied, self._new_columns = self._match_columns(df)
        self._schema = with_columns(plain_schema(base.schema), self._new_columns)
        self._numbered = self._number_clauses()
        self._check_inserts()

    @property
    def is_small(self) -> bool:
        """Return True if the table is so small that the driver reads it, and Spark knows its size."""
        return sum(one.rows for one in fragment_sizes(self._base.dataset)) <= scan.DRIVER_ROWS

    def select_source(self, df: DataFrame) -> DataFrame:
        """Return the columns of the source that expressions use, and all columns in one struct if they are copied.

        Spark plans, caches and shuffles a struct of a thousand fields much faster than a thousand columns.
        """
        copied = [F.struct("*").alias(COPIED)] if self._copied else []
        return df.select(*map(quoted_column, self._source_needed), *copied)

    def actions(self, source: MergeSource) -> RowActions:
        """Return the actions: a join of the source with the table, with a clause for every row."""
        clauses = [one for kind in self._numbered for one in kind]
        try:
            selection = ClauseSelection(self._join(source), self._spec, self._needed, self._source_needed)
            frame = selection.to_actions(*self._numbered)
            given = {field.name: field.dataType for field in frame.schema}
            computed = [
                self._base.plan_value(self._schema.field(column), given[f"{VALUE}{value}"])
                for one in clauses
                for column, value in one.change.values
                if value in one.computed
            ]
        except EXPRESSION_ERRORS as error:
            raise expression_error(self._base, "merged", error, self._source_columns) from error
        return RowActions(
            frame,
            tuple(one.change for one in clauses),
            (*self._copied, *computed),
            self._new_columns,
            repeatable=self._clauses.only_deletes_matches,
            # All rows of a merge into an empty table are new, so they need not be sorted by address.
            ordered=not self._base.dataset.count_rows(),
        )

    def identifying_columns(self) -> list[str]:
        """Return the columns of the table that identify a row in messages."""
        if self._keys:
            return [target for target, _ in self._keys]
        return conditions.find_mentioned_columns(self._columns, [self._spec.on_condition])

    # --- names ---

    def _require_unique(self) -> None:
        seen: set[str] = set()
        for name in self._source_columns:
            folded = name if self._exact else name.lower()
            if folded in seen:
                raise InvalidInputError(f"The source of a merge has several columns {name!r}")
            seen.add(folded)

    def _find_name(self, name: str, names: Sequence[str]) -> str | None:
        return find_name(name, names, case_sensitive=self._exact)

    def _find_key(self, name: str) -> str:
        found = self._find_name(name, self._columns)
        if found is None:
            raise TableColumnNotFoundError(
                f"Table {self._base.name} has no column {name!r} to merge on; it has {', '.join(self._columns)}"
            )
        return found

    def _find_source_key(self, name: str) -> str:
        found = self._find_name(name, self._source_columns)
        if found is None:
            raise InvalidInputError(f"The source of a merge has no column {name!r} to merge on")
        return found

    def _find_needed(self, columns: Sequence[str], keys: set[str]) -> list[str]:
        """Return the columns of one side that are keys, or that conditions and expressions mention."""
        texts = [self._spec.on_condition]
        for clause in self._clauses.all():
            texts += [clause.condition, *(assignments_of(clause) or {}).values()]
        mentioned = keys.union(conditions.find_mentioned_columns(columns, texts))
        return [name for name in columns if name in mentioned]

    # --- values ---

    def _match_columns(self, df: DataFrame) -> tuple[tuple[types.WriteTarget, ...], tuple[pa.Field, ...]]:
        """Return the column that each column of the source is copied to, in the source's order, and the new columns.

        Both are empty if no clause copies all columns.
        """
        if all(assignments_of(clause) is not None for clause in self._clauses.all()):
            return (), ()
        unknown = [name for name in self._source_columns if self._find_name(name, self._columns) is None]
        if unknown and not self._spec.merge_schema:
            raise InvalidInputError(
                f"Table {self._base.name} has no column {', '.join(map(repr, unknown))}, which a clause copies from "
                f"the source; it has {', '.join(self._columns)}. Name the columns to set, or set merge_schema"
            )
        present = [name for name in self._columns if self._find_name(name, self._source_columns) is not None]
        try:
            plan = types.plan_write(
                df.schema,
                pa.schema([self._base.schema.field(name) for name in present]),
                merge_schema=self._spec.merge_schema,
                fill_missing=False,
                case_sensitive=self._exact,
                into=f"table {self._base.name}",
            )
        except InvalidInputError as error:
            raise InvalidInputError(f"Table {self._base.name} cannot be merged: {error}") from error
        deeper = [field.name for field in plan.new_columns if field.name in self._columns]
        if deeper:
            raise InvalidInputError(f"A merge into table {self._base.name} cannot add fields to column {deeper[0]!r}")
        return tuple(sorted(plan.targets, key=lambda target: target.source or 0)), plan.new_columns

    def _number_clauses(self) -> list[list[NumberedClause]]:
        """Return the clauses of each kind with their numbers, and with the numbers of the values that they set.

        The values of the source's columns have the first numbers, in their order; computed values have the next ones.
        """
        numbers, values = count(), count(len(self._copied))
        kinds = (self._clauses.matched, self._clauses.not_matched, self._clauses.by_source)
        return [[self._number_clause(next(numbers), clause, values) for clause in kind] for kind in kinds]

    def _number_clause(self, number: int, clause: Clause, values: Iterator[int]) -> NumberedClause:
        """Return a clause with a number; its computed values get the next numbers of `values`."""
        places = {name: place for place, name in enumerate(self._schema.names)}
        given = assignments_of(clause)
        if given is None:
            copied = [(places[target.field.name], source) for source, target in enumerate(self._copied)]
            return NumberedClause(number, clause.condition, {}, RowChange(kind_of(clause), tuple(copied)))
        columns = self._base.resolve_columns(given, case_sensitive=self._exact)
        pairs = list(zip((places[name] for name in columns), values, strict=False))
        computed = {value: text for (_, value), text in zip(pairs, given.values(), strict=True)}
        return NumberedClause(number, clause.condition, computed, RowChange(kind_of(clause), tuple(pairs)))

    def _check_inserts(self) -> None:
        _, inserts, _ = self._numbered
        for clause in inserts:
            given = dict(clause.change.values)
            for number, field in enumerate(self._schema):
                if number not in given and not field.nullable:
                    raise InvalidInputError(
                        f"Column {field.name!r} of table {self._base.name} may not be null, and gets no value in rows "
                        "that are inserted"
                    )

    # --- the join ---

    def _join(self, source: MergeSource) -> DataFrame:
        spec, condition = self._spec, self._condition()
        inserts, lost = bool(self._clauses.not_matched), bool(self._clauses.by_source)
        theirs = source.frame.withColumn(HERE, F.lit(True)).alias(spec.source_alias)  # noqa: FBT003 - a value
        ours = self._target().alias(spec.target_alias)
        if not lost and source.rows is not None and source.rows <= BROADCAST_ROWS:
            keys = F.broadcast(self._source_keys(source.frame).alias(spec.source_alias))
            ours = ours.join(keys, condition, "left_semi").alias(spec.target_alias)
        if not self.is_small:
            # Spark underestimates the size of what tasks read, but must not broadcast the whole table.
            ours = ours.hint("merge")
        if inserts:
            return theirs.join(ours, condition, "full" if lost else "left")
        return ours.join(theirs, condition, "left" if lost else "inner")

    def _condition(self) -> Column:
        spec = self._spec
        if spec.on_condition is not None:
            return F.expr(spec.on_condition)
        sides = [
            (quoted_column(spec.target_alias, ours), quoted_column(spec.source_alias, theirs))
            for ours, theirs in self._keys
        ]
        return reduce(and_, [ours.eqNullSafe(theirs) if spec.null_safe else ours == theirs for ours, theirs in sides])

    def _target(self) -> DataFrame:
        spec, base = self._spec, self._base
        where = None
        if spec.on_condition is not None and not self._clauses.by_source:
            where = conditions.find_join_predicate(
                self._spark, base.schema, spec.target_alias, spec.source_alias, spec.on_condition
            )
        wanted = scan.scan_pinned(base.table, base.dataset, columns=self._needed, where=where, row_address=True)
        return scan.to_dataframe(self._spark, wanted).withColumnRenamed(scan.ROW_ADDRESS, ADDRESS)

    def _source_keys(self, frame: DataFrame) -> DataFrame:
        keys = [theirs for _, theirs in self._keys]
        return frame.select(
            *map(quoted_column, keys or conditions.find_mentioned_columns(frame.columns, [self._spec.on_condition]))
        )
