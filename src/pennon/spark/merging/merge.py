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
from pennon.spark.merging import rewrite
from pennon.spark.merging.attempts import apply_once
from pennon.spark.merging.clauses import DELETE, INSERT, UPDATE
from pennon.spark.merging.matching import MergePlanner, MergeSource
from pennon.spark.merging.rewrite_operations import stage_rewrite
from pennon.spark.merging.row_changes import RowChangedTwiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.merging.clauses import MergeSpec
    from pennon.spark.tables.staged_write import StagedWrite

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
    address: Address,
    df: DataFrame,
    identifier: Identifier,
    spec: MergeSpec,
    *,
    job_id: str | None = None,
    branch: str | None = None,
    cache: bool = True,
) -> MergeResult:
    """Merge a DataFrame into a table, in one commit or not at all.

    If others change the same fragments first, the merge is repeated on their version. A second merge with the same
    `job_id` changes nothing. The source is cached during the merge, unless `cache` is False.

    Raises NamespaceNotFoundError, TableNotFoundError, TableBranchNotFoundError or TableColumnNotFoundError if that does
    not exist, InvalidInputError for bad clauses or if several rows of the source would change the same row, and
    ConcurrentModificationError after repeated conflicts.
    """
    with _hold_source(df, identifier, cache=cache) as source:
        done = apply_once(
            address, identifier, job_id, branch, lambda: _stage(address, source, identifier, spec, branch=branch)
        )
    return MergeResult(done.version, done.counts[INSERT], done.counts[UPDATE], done.counts[DELETE], done.already)


def stage_merge(
    address: Address,
    df: DataFrame,
    identifier: Identifier,
    spec: MergeSpec,
    *,
    branch: str | None = None,
    cache: bool = True,
    run: str | None = None,
) -> StagedWrite:
    """Write the files of a merge without publishing them; continue with `tables.publish` or `tables.discard`.

    Publishing raises ConcurrentModificationError if others have done more than append since. `run` is the name of the
    notes about the files (see `run_files`).
    """
    with _hold_source(df, identifier, cache=cache) as source:
        return _stage(address, source, identifier, spec, branch=branch, run=run)


@dataclass
class _HeldSource:
    """The source of a merge, cached and reduced to the needed columns once these are known."""

    df: DataFrame
    cache: bool
    selected: MergeSource | None = None
    kept: DataFrame | None = None

    def select(self, planner: MergePlanner) -> MergeSource:
        if self.selected is None:
            frame = planner.select_source(self.df)
            if not self.cache or planner.is_small:
                self.selected = MergeSource(frame)
            else:
                # Counting fills the cache: the source is computed once, and its size decides about the join.
                level = self.df.storageLevel
                if not level.useMemory and not level.useDisk:
                    # A separate plan, so that unpersisting it does not affect what the caller has cached.
                    self.kept = frame.withColumn(_KEPT, F.lit(1)).persist()
                    frame = self.kept.drop(_KEPT)
                self.selected = MergeSource(frame, frame.count())
        return self.selected


@contextmanager
def _hold_source(df: DataFrame, identifier: Identifier, *, cache: bool) -> Iterator[_HeldSource]:
    if df.isStreaming:
        raise InvalidInputError(
            f"A stream cannot be merged into table {format_identifier(identifier)}: merge its micro-batches instead"
        )
    held = _HeldSource(df, cache)
    try:
        yield held
    finally:
        if held.kept is not None:
            held.kept.unpersist()


def _stage(
    address: Address,
    source: _HeldSource,
    identifier: Identifier,
    spec: MergeSpec,
    *,
    branch: str | None,
    run: str | None = None,
) -> StagedWrite:
    base = rewrite.open_base(address, identifier, branch)
    planner = MergePlanner(base, source.df, spec)
    actions = planner.actions(source.select(planner))
    try:
        done = rewrite.rewrite_rows(source.df.sparkSession, base, actions, run)
    except RowChangedTwiceError as error:
        raise InvalidInputError(
            f"Several rows of the source would change the same row of table {base.name}: "
            f"{_describe_row(base, error.address, planner.identifying_columns())}"
        ) from None
    return stage_rewrite(base, actions, done)


def _describe_row(base: rewrite.RewriteBase, address: int, columns: Sequence[str]) -> str:
    """Return the values that identify a row of a table."""
    found = base.dataset.to_table(columns=list(columns), filter=f"_rowaddr = {address}").to_pylist()
    return ", ".join(f"{name} = {value!r}" for name, value in (found[0] if found else {}).items())
