"""Selection of the clause for each row of a merge, and of the values it sets, as columns added to a join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from pennon.spark.merging.row_changes import ACTION, ADDRESS, VALUE
from pennon.spark.quoting import quote_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

HERE = "__pennon_here"
"""A column of the source that is null in rows of the table without a match."""
_TARGET = "__pennon_target_"


class SideNames(Protocol):
    """The names of the two sides in expressions."""

    @property
    def target(self) -> str:
        """The table."""

    @property
    def source(self) -> str:
        """The source."""


def quoted_column(*path: str) -> Column:
    """Return a column with a quoted name."""
    return F.col(quote_name(*path))


class ClauseSelection:
    """A join of source and table, in which every row gets its clause and the values that the clause sets.

    For each kind of row, only the names that its clauses may use are visible.
    """

    def __init__(self, frame: DataFrame, names: SideNames, target: Sequence[str], source: Sequence[str]) -> None:
        self._frame = frame.withColumn(ACTION, F.lit(None).cast("int"))
        self._names = names
        self._target = {name: quoted_column(names.target, name) for name in target}
        self._source = {name: quoted_column(names.source, name) for name in source}
        self._values: list[str] = []

    def add_source_values(self, columns: Mapping[int, str]) -> None:
        """Add columns of the source as values."""
        self._compute({number: self._source[name] for number, name in columns.items()})

    def choose_matched(
        self, conditions: Iterable[str | None], first: int, computed: Mapping[int, tuple[int, str]]
    ) -> None:
        """Choose clauses for rows that match."""
        self._choose(quoted_column(ADDRESS).isNotNull() & quoted_column(HERE).isNotNull(), conditions, first, computed)

    def choose_not_matched(
        self, conditions: Iterable[str | None], first: int, computed: Mapping[int, tuple[int, str]]
    ) -> None:
        """Choose clauses for rows of the source without a match; the table's columns are hidden."""
        hidden = {name: f"{_TARGET}{number}" for number, name in enumerate(self._target)}
        self._see(
            [column.alias(name) for name, column in self._source.items()]
            + [column.alias(hidden[name]) for name, column in self._target.items()],
            self._names.source,
        )
        self._target = {name: quoted_column(hidden[name]) for name in self._target}
        self._choose(quoted_column(ADDRESS).isNull(), conditions, first, computed)

    def choose_not_matched_by_source(
        self, conditions: Iterable[str | None], first: int, computed: Mapping[int, tuple[int, str]]
    ) -> None:
        """Choose clauses for rows of the table without a match; the source's columns are dropped."""
        self._see([column.alias(name) for name, column in self._target.items()], self._names.target)
        self._choose(quoted_column(HERE).isNull(), conditions, first, computed)

    def to_actions(self) -> DataFrame:
        """Return the rows for which a clause was chosen."""
        frame = self._frame.select(ACTION, ADDRESS, *self._values)
        return frame.where(quoted_column(ACTION).isNotNull())

    def _see(self, columns: list[Column], name: str) -> None:
        self._frame = self._frame.select(ACTION, ADDRESS, HERE, *self._values, *columns).alias(name)

    def _choose(
        self,
        applies: Column,
        conditions: Iterable[str | None],
        first: int,
        computed: Mapping[int, tuple[int, str]],
    ) -> None:
        chosen = F.lit(None).cast("int")
        for number, condition in reversed(list(enumerate(conditions, first))):
            number_column = F.lit(number)
            chosen = number_column if condition is None else F.when(F.expr(condition), number_column).otherwise(chosen)
        self._frame = self._frame.withColumn(ACTION, F.when(applies, chosen).otherwise(quoted_column(ACTION)))
        # An expression is evaluated only for the rows of its clause: it may fail for others.
        self._compute(
            {
                number: F.when(quoted_column(ACTION) == clause, F.expr(text))
                for number, (clause, text) in computed.items()
            }
        )

    def _compute(self, values: Mapping[int, Column]) -> None:
        if values:
            named = {f"{VALUE}{number}": column for number, column in values.items()}
            self._frame = self._frame.withColumns(named)
            self._values += named
