"""Selection of the clause for each row of a merge, and of the values it sets, as columns added to a join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pennon.spark.merging.row_changes import ACTION, ADDRESS, COPIED, VALUE
from pennon.spark.quoting import quote_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pennon.spark.merging.clauses import MergeSpec
    from pennon.spark.merging.row_changes import RowChange

HERE = "__pennon_here"
"""A column of the source that is null in rows of the table without a match."""
_HIDDEN = "__pennon_target_"


@dataclass(frozen=True)
class NumberedClause:
    """A clause with its number, the expressions of the values that it computes by their numbers, and its change."""

    number: int
    condition: str | None
    computed: Mapping[int, str]
    change: RowChange


def quoted_column(*path: str) -> Column:
    """Return a column with a quoted name."""
    return F.col(quote_name(*path))


class ClauseSelection:
    """A join of source and table, in which every row gets the number of its clause and the values that it sets.

    For each kind of row, only the names that its clauses may use are visible.
    """

    def __init__(self, joined: DataFrame, spec: MergeSpec, target: Sequence[str], source: Sequence[str]) -> None:
        """Begin with a join; `target` and `source` are the columns of both sides that expressions may use."""
        self._values = [name for name in joined.columns if name == COPIED]
        self._frame = joined.withColumn(ACTION, F.lit(None).cast("int"))
        self._spec = spec
        self._target = {name: quoted_column(spec.target_alias, name) for name in target}
        self._source = {name: quoted_column(spec.source_alias, name) for name in source}

    def to_actions(
        self,
        matched: Sequence[NumberedClause],
        not_matched: Sequence[NumberedClause],
        by_source: Sequence[NumberedClause],
    ) -> DataFrame:
        """Return the rows for which one of the clauses for its kind of row was chosen."""
        address, here = quoted_column(ADDRESS), quoted_column(HERE)
        if matched:
            self._choose(address.isNotNull() & here.isNotNull(), matched)
        if not_matched:
            self._show_source()
            self._choose(address.isNull(), not_matched)
        if by_source:
            self._show(self._spec.target_alias, self._target)
            self._choose(here.isNull(), by_source)
        return self._frame.select(ACTION, ADDRESS, *self._values).where(quoted_column(ACTION).isNotNull())

    def _show_source(self) -> None:
        """Make only the columns of the source visible; those of the table are kept under other names."""
        hidden = {name: f"{_HIDDEN}{number}" for number, name in enumerate(self._target)}
        self._show(self._spec.source_alias, self._source, [self._target[name].alias(hidden[name]) for name in hidden])
        self._target = {name: quoted_column(other) for name, other in hidden.items()}

    def _show(self, alias: str, columns: Mapping[str, Column], others: Sequence[Column] = ()) -> None:
        shown = [column.alias(name) for name, column in columns.items()]
        self._frame = self._frame.select(ACTION, ADDRESS, HERE, *self._values, *shown, *others).alias(alias)

    def _choose(self, applies: Column, clauses: Sequence[NumberedClause]) -> None:
        """Choose the first clause whose condition holds, in the rows to which these clauses apply."""
        first = F.coalesce(*[F.when(F.expr(one.condition or "true"), F.lit(one.number)) for one in clauses])
        self._frame = self._frame.withColumn(ACTION, F.when(applies, first).otherwise(quoted_column(ACTION)))
        # An expression is evaluated only for the rows of its clause: it may fail for others.
        computed = {
            f"{VALUE}{value}": F.when(quoted_column(ACTION) == one.number, F.expr(text))
            for one in clauses
            for value, text in one.computed.items()
        }
        if computed:
            self._frame = self._frame.withColumns(computed)
            self._values += computed
