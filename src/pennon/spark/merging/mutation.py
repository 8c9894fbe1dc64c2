"""Updating and deleting rows of a table by SQL, in one commit; other rows are not rewritten.

Expressions are Spark's SQL. Lance evaluates the parts of a predicate that mean the same to it, with its indexes; Spark
evaluates the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.merging import conditions, rewrite
from pennon.spark.merging.attempts import apply_once
from pennon.spark.merging.clauses import DELETE, UPDATE, check_expressions
from pennon.spark.merging.rewrite import RowActions
from pennon.spark.merging.rewrite_operations import stage_rewrite
from pennon.spark.merging.row_changes import ACTION, ADDRESS, VALUE, RowChange
from pennon.spark.reading import scan
from pennon.spark.session_settings import is_case_sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark.address import Address
    from pennon.spark.merging.rewrite import RewriteBase
    from pennon.spark.tables.staged_write import StagedWrite

__all__ = ["MutationResult", "delete", "update"]


@dataclass(frozen=True)
class MutationResult:
    """The result of an update or a delete; `version` is the version after it, unchanged if no row was affected."""

    version: int
    rows: int = 0
    already: bool = False
    """Whether an earlier run of the same job did it; the other numbers are those of that run."""


def update(
    spark: SparkSession,
    address: Address,
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
    check_expressions(f"Update of table {format_identifier(identifier)}", set)
    selection = _RowSelection(spark, address, identifier, where, alias, branch)
    return selection.apply(UPDATE, lambda: selection.stage_update(set), job_id)


def delete(
    spark: SparkSession,
    address: Address,
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
    selection = _RowSelection(spark, address, identifier, where, alias, branch)
    return selection.apply(DELETE, selection.stage_delete, job_id)


@dataclass(frozen=True)
class _RowSelection:
    """The rows that an update or a delete affects."""

    spark: SparkSession
    address: Address
    identifier: Identifier
    where: str | None
    alias: str
    branch: str | None

    def apply(self, kind: str, stage: Callable[[], StagedWrite], job_id: str | None) -> MutationResult:
        done = apply_once(self.address, self.identifier, job_id, self.branch, stage)
        return MutationResult(done.version, done.counts[kind], done.already)

    def stage_update(self, given: Mapping[str, str]) -> StagedWrite:
        base = rewrite.open_base(self.address, self.identifier, self.branch)
        spark, schema = self.spark, base.schema
        columns = base.resolve_columns(given, case_sensitive=is_case_sensitive(spark))
        try:
            values = [F.expr(text).alias(f"{VALUE}{number}") for number, text in enumerate(given.values())]
            frame = self._rows(base, given.values()).select(F.lit(0).alias(ACTION), ADDRESS, *values)
            computed = zip(columns, frame.schema.fields[2:], strict=True)
            targets = [base.plan_value(schema.field(name), value.dataType) for name, value in computed]
        except rewrite.EXPRESSION_ERRORS as error:
            raise rewrite.expression_error(base, "updated", error) from error
        change = RowChange(UPDATE, tuple((schema.names.index(name), number) for number, name in enumerate(columns)))
        actions = RowActions(frame, (change,), tuple(targets))
        return stage_rewrite(base, actions, rewrite.rewrite_rows(spark, base, actions))

    def stage_delete(self) -> StagedWrite:
        base = rewrite.open_base(self.address, self.identifier, self.branch)
        try:
            frame = self._rows(base, ()).select(F.lit(0).alias(ACTION), ADDRESS)
            frame.schema  # noqa: B018 - Spark Connect analyses expressions only when it needs a result
        except rewrite.EXPRESSION_ERRORS as error:
            raise rewrite.expression_error(base, "deleted from", error) from error
        actions = RowActions(frame, (RowChange(DELETE),), ordered=True)
        done = rewrite.rewrite_rows(self.spark, base, actions)
        return stage_rewrite(base, actions, done, predicate=self.where)

    def _rows(self, base: RewriteBase, expressions: Iterable[str]) -> DataFrame:
        """Return the addresses of the rows, and the columns that expressions mention."""
        columns = conditions.find_mentioned_columns(base.schema.names, [self.where, *expressions])
        spark, where = self.spark, self.where
        pushed = None if where is None else conditions.find_predicate(spark, base.schema, self.alias, where)
        wanted = scan.scan_pinned(base.table, base.dataset, columns=columns, where=pushed, row_address=True)
        frame = scan.to_dataframe(spark, wanted).withColumnRenamed(scan.ROW_ADDRESS, ADDRESS).alias(self.alias)
        return frame if where is None else frame.where(F.expr(where))
