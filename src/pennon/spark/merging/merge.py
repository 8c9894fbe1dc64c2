"""Merging a DataFrame into a table: rows that match are updated or deleted, others inserted, all in one commit.

Executors match rows by a join, write changed and new rows as new fragments, and mark the old rows as deleted. Other
rows are not rewritten. docs/guides/spark-merge.md describes the guarantees.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.merging import clauses as given_clauses
from pennon.spark.merging import rewrite, rewrite_operations
from pennon.spark.merging.attempts import apply_once, find_earlier_change
from pennon.spark.merging.clauses import ClauseSpec, Delete, Insert, Update
from pennon.spark.merging.matching import MatchCondition, MergePlanner, MergeSource
from pennon.spark.merging.row_changes import DELETE, INSERT, UPDATE
from pennon.spark.tables import job_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.lake import Lake
    from pennon.spark.merging.attempts import AppliedChange
    from pennon.spark.tables.staged_write import StagedWrite

__all__ = ["Delete", "Insert", "MergeResult", "Update", "merge", "stage_merge"]

_KEPT = "__pennon_kept"


@dataclass(frozen=True)
class MergeResult:
    """The result of a merge; `version` is the version of the table after it, unchanged if there was nothing to do."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    already: bool = False
    """Whether an earlier run of the same job did it; the other numbers are those of that run."""


def merge(
    lake: Lake,
    df: DataFrame,
    identifier: Identifier,
    *,
    on: Sequence[str] = (),
    when_matched: ClauseSpec = "update",
    when_not_matched: ClauseSpec = "insert",
    when_not_matched_by_source: ClauseSpec = None,
    on_condition: str | None = None,
    null_safe: bool = False,
    target_alias: str = "target",
    source_alias: str = "source",
    merge_schema: bool = False,
    job_id: str | None = None,
    branch: str | None = None,
    cache: bool = True,
) -> MergeResult:
    """Merge a DataFrame into a table, in one commit or not at all.

    Rows match if the columns `on` are equal, or if `on_condition` holds: an expression in Spark's SQL in which the
    sides are called `target` and `source`, or by the given aliases. Null keys match nothing unless `null_safe`. Clauses
    are a word (`update`, `delete`, `insert`, `ignore`) or a list of `Update`, `Delete` and `Insert`; the first clause
    whose condition holds applies. If others change the same fragments first, the merge is repeated on their version. A
    second merge with the same `job_id` changes nothing. The source is cached during the merge, unless `cache` is False.

    Raises NamespaceNotFoundError, TableNotFoundError, TableBranchNotFoundError or TableColumnNotFoundError if that does
    not exist, InvalidInputError for bad clauses or if several rows of the source would change the same row, and
    ConcurrentModificationError after repeated conflicts.
    """
    asked = _MergeSpec(
        given_clauses.parse_clauses(when_matched, when_not_matched, when_not_matched_by_source),
        MatchCondition(tuple(on), on_condition, null_safe, target_alias, source_alias),
        merge_schema,
        branch,
    )
    job_commits.require_job_id(job_id)
    done = find_earlier_change(lake, identifier, job_id, branch)
    if done is not None:
        return _to_result(done)
    with _cache_source(df, identifier, cache=cache) as held:
        return _to_result(apply_once(lake, job_id, lambda: _stage(lake, held, identifier, asked)))


def stage_merge(
    lake: Lake,
    df: DataFrame,
    identifier: Identifier,
    *,
    on: Sequence[str] = (),
    when_matched: ClauseSpec = "update",
    when_not_matched: ClauseSpec = "insert",
    when_not_matched_by_source: ClauseSpec = None,
    on_condition: str | None = None,
    null_safe: bool = False,
    target_alias: str = "target",
    source_alias: str = "source",
    merge_schema: bool = False,
    branch: str | None = None,
    cache: bool = True,
    run: str | None = None,
) -> StagedWrite:
    """Write the files of a merge without publishing them; continue with `tables.publish` or `tables.discard`.

    Publishing raises ConcurrentModificationError if others have done more than append since. `run` is the name of the
    notes about the files (see `run_files`).
    """
    asked = _MergeSpec(
        given_clauses.parse_clauses(when_matched, when_not_matched, when_not_matched_by_source),
        MatchCondition(tuple(on), on_condition, null_safe, target_alias, source_alias),
        merge_schema,
        branch,
    )
    with _cache_source(df, identifier, cache=cache) as held:
        return _stage(lake, held, identifier, asked, run)


@dataclass(frozen=True)
class _MergeSpec:
    clauses: given_clauses.Clauses
    joining: MatchCondition
    merge_schema: bool
    branch: str | None


@dataclass
class _CachedSource:
    """The source of a merge, cached and reduced to the needed columns once these are known."""

    df: DataFrame
    cache: bool
    source: MergeSource | None = None
    kept: DataFrame | None = None

    def select_source(self, planner: MergePlanner) -> MergeSource:
        if self.source is None:
            frame = planner.select_needed(self.df)
            if not self.cache or planner.is_small:
                self.source = MergeSource(frame)
            else:
                # Counting fills the cache: the source is computed once, and its size decides about the join.
                level = self.df.storageLevel
                if not level.useMemory and not level.useDisk:
                    # A separate plan, so that unpersisting it does not affect what the caller has cached.
                    self.kept = frame.withColumn(_KEPT, F.lit(1)).persist()
                    frame = self.kept.drop(_KEPT)
                self.source = MergeSource(frame, frame.count())
        return self.source


@contextmanager
def _cache_source(df: DataFrame, identifier: Identifier, *, cache: bool) -> Iterator[_CachedSource]:
    if df.isStreaming:
        raise InvalidInputError(
            f"A stream cannot be merged into table {format_identifier(identifier)}: merge its micro-batches instead"
        )
    held = _CachedSource(df, cache)
    try:
        yield held
    finally:
        if held.kept is not None:
            held.kept.unpersist()


def _stage(
    lake: Lake, held: _CachedSource, identifier: Identifier, asked: _MergeSpec, run: str | None = None
) -> StagedWrite:
    base = rewrite.open_base(lake, identifier, asked.branch)
    planner = MergePlanner(base, held.df, asked.clauses, asked.joining, merge_schema=asked.merge_schema)
    actions = planner.actions(held.select_source(planner))
    try:
        done = rewrite.rewrite_rows(
            lake.spark,
            base,
            actions.frame,
            actions.changes,
            actions.values,
            new_columns=actions.new_columns,
            repeatable=asked.clauses.only_deletes_matches,
            # All rows of a merge into an empty table are new, so they need not be sorted by address.
            ordered=not base.dataset.count_rows(),
            run=run,
        )
    except rewrite.RowChangedTwiceError as error:
        raise InvalidInputError(
            f"Several rows of the source would change the same row of table {format_identifier(identifier)}: "
            f"{_describe_row(base, error.address, planner.identifying_columns())}"
        ) from None
    return rewrite_operations.stage_rewrite(
        base, done, updated_columns=actions.updated_columns, new_columns=actions.new_columns
    )


def _describe_row(base: rewrite.RewriteBase, address: int, columns: Sequence[str]) -> str:
    """Return the values that identify a row of a table."""
    found = base.dataset.to_table(columns=list(columns), filter=f"_rowaddr = {address}").to_pylist()
    return ", ".join(f"{name} = {value!r}" for name, value in (found[0] if found else {}).items())


def _to_result(done: AppliedChange) -> MergeResult:
    return MergeResult(done.version, done.counts[INSERT], done.counts[UPDATE], done.counts[DELETE], done.already)
