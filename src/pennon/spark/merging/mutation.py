"""Updating and deleting rows of a table by SQL, in one commit; other rows are not rewritten.

Expressions are Spark's SQL. Lance evaluates the parts of a predicate that mean the same to it, with its indexes; Spark
evaluates the rest.
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
from pennon.spark.commits import job_commits
from pennon.spark.merging import conditions, rewrite, rewrite_operations
from pennon.spark.merging.attempts import apply_once, find_earlier_change
from pennon.spark.merging.row_changes import ACTION, ADDRESS, DELETE, UPDATE, VALUE, RowChange
from pennon.spark.quoting import find_name
from pennon.spark.reading import scan
from pennon.spark.session_settings import is_case_sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame

    from pennon.spark.commits.staged_write import StagedWrite
    from pennon.spark.lake import Lake
    from pennon.spark.merging.rewrite import RewriteBase

__all__ = ["MutationResult", "delete", "update"]


@dataclass(frozen=True)
class MutationResult:
    """The result of an update or a delete; `version` is the version after it, unchanged if no row was affected."""

    version: int
    rows: int = 0
    already: bool = False
    """Whether an earlier run of the same job did it; the other numbers are those of that run."""


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
    """Set columns to expressions in Spark's SQL in the rows for which `where` is true, by default in all rows.

    Other columns keep their values, and rows keep stable row ids. If no row is affected, no version is created. A
    second update with the same `job_id` changes nothing. Raises NamespaceNotFoundError, TableNotFoundError,
    TableBranchNotFoundError or TableColumnNotFoundError if that does not exist, InvalidInputError for a bad expression,
    and ConcurrentModificationError after repeated conflicts.
    """
    if not set:
        raise InvalidInputError(f"An update of table {format_identifier(identifier)} sets no column")
    selection = _RowSelection(lake, identifier, where, alias, branch)
    return selection.apply(UPDATE, lambda: selection.stage_update(set), job_id)


def delete(
    lake: Lake,
    identifier: Identifier,
    where: str,
    *,
    alias: str = "target",
    job_id: str | None = None,
    branch: str | None = None,
) -> MutationResult:
    """Delete the rows for which `where`, an expression in Spark's SQL, is true; `true` deletes all rows.

    If no row is affected, no version is created. A second delete with the same `job_id` changes nothing. Raises the
    errors of `update`.
    """
    if not isinstance(where, str) or not where.strip():
        raise InvalidInputError(
            f"Deleting rows of table {format_identifier(identifier)} needs a condition; use 'true' for all rows"
        )
    selection = _RowSelection(lake, identifier, where, alias, branch)
    return selection.apply(DELETE, selection.stage_delete, job_id)


@dataclass(frozen=True)
class _RowSelection:
    """The rows that an update or a delete affects."""

    lake: Lake
    identifier: Identifier
    where: str | None
    alias: str
    branch: str | None

    def apply(self, kind: str, stage: Callable[[], StagedWrite], job_id: str | None) -> MutationResult:
        job_commits.require_job_id(job_id)
        done = find_earlier_change(self.lake, self.identifier, job_id, self.branch) or apply_once(
            self.lake, job_id, stage
        )
        return MutationResult(done.version, done.counts[kind], done.already)

    def stage_update(self, given: Mapping[str, str]) -> StagedWrite:
        base = rewrite.open_base(self.lake, self.identifier, self.branch)
        columns = _resolve_columns(self.lake, base, given)
        try:
            values = [F.expr(text).alias(f"{VALUE}{number}") for number, text in enumerate(given.values())]
            frame = self._rows(base, given.values()).select(F.lit(0).alias(ACTION), ADDRESS, *values)
            plans = [_plan(base, frame.schema[f"{VALUE}{number}"], name) for number, name in enumerate(columns)]
        except rewrite.EXPRESSION_ERRORS as error:
            raise rewrite.expression_error(base, "updated", error) from error
        names = base.schema.names
        change = RowChange(UPDATE, tuple((names.index(name), number) for number, name in enumerate(columns)))
        done = rewrite.rewrite_rows(self.lake.spark, base, frame, [change], plans)
        return rewrite_operations.stage_rewrite(base, done, updated_columns=columns)

    def stage_delete(self) -> StagedWrite:
        base = rewrite.open_base(self.lake, self.identifier, self.branch)
        try:
            frame = self._rows(base, ()).select(F.lit(0).alias(ACTION), ADDRESS)
            frame.schema  # noqa: B018 - Spark Connect analyses expressions only when it needs a result
        except rewrite.EXPRESSION_ERRORS as error:
            raise rewrite.expression_error(base, "deleted from", error) from error
        done = rewrite.rewrite_rows(self.lake.spark, base, frame, [RowChange(DELETE)], [], ordered=True)
        return rewrite_operations.stage_rewrite(base, done, predicate=self.where)

    def _rows(self, base: RewriteBase, expressions: Iterable[str]) -> DataFrame:
        """Return the addresses of the rows, and the columns that expressions mention."""
        columns = conditions.find_mentioned_columns(base.schema.names, [self.where, *expressions])
        spark, where = self.lake.spark, self.where
        pushed = None if where is None else conditions.find_predicate(spark, base.schema, self.alias, where)
        wanted = scan.scan_pinned(base.table, base.dataset, columns=columns, where=pushed, row_address=True)
        frame = scan.to_dataframe(spark, wanted).withColumnRenamed(scan.ROW_ADDRESS, ADDRESS).alias(self.alias)
        return frame if where is None else frame.where(F.expr(where))


def _resolve_columns(lake: Lake, base: RewriteBase, given: Mapping[str, str]) -> list[str]:
    """Return the columns to set; raises an error if one does not exist or is set twice."""
    exact = is_case_sensitive(lake.spark)
    found: list[str] = []
    for name, text in given.items():
        if not isinstance(text, str) or not text.strip():
            raise InvalidInputError(
                f"Columns of table {format_identifier(base.identifier)} are set to SQL, got {name!r}: {text!r}"
            )
        column = find_name(name, base.schema.names, case_sensitive=exact)
        if column is None:
            raise TableColumnNotFoundError(
                f"Table {format_identifier(base.identifier)} has no column {name!r} to set; it has "
                f"{', '.join(base.schema.names)}"
            )
        if column in found:
            raise InvalidInputError(f"Column {column!r} of table {format_identifier(base.identifier)} is set twice")
        found.append(column)
    return found


def _plan(base: RewriteBase, given: StructField, name: str) -> types.WritePlan:
    field = base.schema.field(name)
    incoming = StructType([StructField(name, given.dataType)])
    return types.plan_write(incoming, pa.schema([field]), into=f"table {format_identifier(base.identifier)}")
