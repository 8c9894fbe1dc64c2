"""Updating and deleting rows of a table by SQL, in one commit; rows that do not change stay where they are.

Expressions are Spark's SQL and mean what they mean there. Of a predicate, Lance does as much as it can do in the same
way, with its indexes; Spark does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import types
from pennon.spark.commits import committing
from pennon.spark.merging import narrowing, operations, rewriting
from pennon.spark.merging.attempts import changed_once, done_before
from pennon.spark.merging.changes import ACTION, ADDRESS, DELETE, UPDATE, VALUE, Change
from pennon.spark.merging.mentions import mentioned
from pennon.spark.reading import scan
from pennon.spark.session import is_case_sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame

    from pennon.spark.commits.staged import StagedWrite
    from pennon.spark.lake import Lake
    from pennon.spark.merging.rewriting import Base

__all__ = ["MutationResult", "delete", "update"]


@dataclass(frozen=True)
class MutationResult:
    """What an update or a delete did; `version` is the table's then, the one that was there if no row was meant."""

    version: int
    rows: int = 0
    already: bool = False
    """Whether an earlier run of the same job had done it; the other numbers are those of that run."""


def update(
    lake: Lake,
    identifier: Identifier,
    set: Mapping[str, str],
    *,
    where: str | None = None,
    alias: str = "target",
    job_id: str | None = None,
    branch: str | None = None,
) -> MutationResult:
    """Set columns to expressions of Spark's SQL in the rows for which `where` is true, in all of them without it.

    Other columns keep their values, and rows their ids where those are stable. An update that means no row makes no
    version. A second update of the same `job_id` changes nothing. Errors 1, 4, 12, 13, 14, 22.
    """
    if not set:
        raise InvalidInputError(f"An update of table {format_identifier(identifier)} sets no column")
    wanted = _Wanted(lake, identifier, where, alias, branch)
    return wanted.done(UPDATE, lambda: wanted.updated(set), job_id)


def delete(
    lake: Lake,
    identifier: Identifier,
    where: str,
    *,
    alias: str = "target",
    job_id: str | None = None,
    branch: str | None = None,
) -> MutationResult:
    """Delete the rows for which `where`, an expression of Spark's SQL, is true; `true` deletes all.

    A delete that means no row makes no version. A second delete of the same `job_id` changes nothing. Errors as of
    `update`.
    """
    if not isinstance(where, str) or not where.strip():
        raise InvalidInputError(f"To delete rows of table {format_identifier(identifier)}, say which; 'true' means all")
    wanted = _Wanted(lake, identifier, where, alias, branch)
    return wanted.done(DELETE, wanted.deleted, job_id)


@dataclass(frozen=True)
class _Wanted:
    """The rows that are meant."""

    lake: Lake
    identifier: Identifier
    where: str | None
    alias: str
    branch: str | None

    def done(self, kind: str, stage: Callable[[], StagedWrite], job_id: str | None) -> MutationResult:
        committing.check_job(job_id)
        done = done_before(self.lake, self.identifier, job_id, self.branch) or changed_once(self.lake, job_id, stage)
        return MutationResult(done.version, done.counts[kind], done.already)

    def updated(self, given: Mapping[str, str]) -> StagedWrite:
        base = rewriting.opened(self.lake, self.identifier, self.branch)
        columns = _columns(self.lake, base, given)
        try:
            values = [F.expr(text).alias(f"{VALUE}{number}") for number, text in enumerate(given.values())]
            frame = self._rows(base, given.values()).select(F.lit(0).alias(ACTION), ADDRESS, *values)
            plans = [_plan(base, frame.schema[f"{VALUE}{number}"], name) for number, name in enumerate(columns)]
        except rewriting.EXPRESSION_ERRORS as error:
            raise rewriting.refused(base, "updated", error) from error
        names = base.schema.names
        change = Change(UPDATE, tuple((names.index(name), number) for number, name in enumerate(columns)))
        done = rewriting.rewritten(self.lake.spark, base, frame, [change], plans)
        return operations.staged(base, done, updated_columns=columns)

    def deleted(self) -> StagedWrite:
        base = rewriting.opened(self.lake, self.identifier, self.branch)
        try:
            frame = self._rows(base, ()).select(F.lit(0).alias(ACTION), ADDRESS)
            frame.schema  # noqa: B018 - Spark Connect looks at expressions only when it is asked for something
        except rewriting.EXPRESSION_ERRORS as error:
            raise rewriting.refused(base, "deleted from", error) from error
        done = rewriting.rewritten(self.lake.spark, base, frame, [Change(DELETE)], [], ordered=True)
        return operations.staged(base, done, predicate=self.where)

    def _rows(self, base: Base, expressions: Iterable[str]) -> DataFrame:
        """Give the addresses of rows, and the columns of which expressions speak."""
        columns = mentioned(base.schema.names, [self.where, *expressions])
        spark, where = self.lake.spark, self.where
        pushed = None if where is None else narrowing.of_condition(spark, base.schema, self.alias, where)
        wanted = scan.of_pinned(base.table, base.dataset, columns=columns, where=pushed, row_address=True)
        frame = scan.dataframe(spark, wanted).withColumnRenamed(scan.ROW_ADDRESS, ADDRESS).alias(self.alias)
        return frame if where is None else frame.where(F.expr(where))


def _columns(lake: Lake, base: Base, given: Mapping[str, str]) -> list[str]:
    """Find the columns that are set, each once."""
    exact = is_case_sensitive(lake.spark)
    found: list[str] = []
    for name, text in given.items():
        if not isinstance(text, str) or not text.strip():
            raise InvalidInputError(
                f"Columns of table {format_identifier(base.identifier)} are set to SQL, got {name!r}: {text!r}"
            )
        same = [one for one in base.schema.names if one == name]
        like = same or ([] if exact else [one for one in base.schema.names if one.lower() == name.lower()])
        if len(like) != 1:
            raise TableColumnNotFoundError(
                f"Table {format_identifier(base.identifier)} has no column {name!r} to set; it has "
                f"{', '.join(base.schema.names)}"
            )
        if like[0] in found:
            raise InvalidInputError(f"Column {like[0]!r} of table {format_identifier(base.identifier)} is set twice")
        found.append(like[0])
    return found


def _plan(base: Base, given: StructField, name: str) -> types.WritePlan:
    field = base.schema.field(name)
    incoming = StructType([StructField(name, given.dataType)])
    return types.write_plan(incoming, pa.schema([field]), into=f"table {format_identifier(base.identifier)}")
