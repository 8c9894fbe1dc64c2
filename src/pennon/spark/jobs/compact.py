"""Compaction: merge small fragments into larger ones, and remove deleted rows from the files.

A task on an executor opens a table and plans its compaction. It rewrites a small table itself; a large one is rewritten
by one task for each part of the plan. Then the driver commits, once for each table. Nothing changes before that commit.
A run that is killed leaves files that no version refers to, and can be repeated.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from pennon.errors import ConcurrentModificationError, InvalidInputError, translate_errors
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs.catalog_access import list_versions, open_for_commit, open_latest
from pennon.spark.jobs.executor_tasks import run_tasks
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, TableTask
from pennon.spark.jobs.leftovers import discard_files
from pennon.spark.jobs.outcome import DONE, SKIPPED, TableOutcome, failed_outcome, to_dataframe
from pennon.spark.jobs.table_files import data_files

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset
    from lance.optimize import CompactionOptions as LanceOptions
    from lance.optimize import CompactionTask, RewriteResult
    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake
    from pennon.spark.reading.pinned import PinnedTable

WHOLE_TABLE_BYTES = 256 * 1024 * 1024
"""The most bytes of a table that a single task rewrites; more are divided among several tasks."""
_ROUNDS = 3
COLUMNS = (
    ("tasks", "int"),
    ("fragments_before", "bigint"),
    ("fragments_after", "bigint"),
    ("files_removed", "bigint"),
    ("files_added", "bigint"),
    ("bytes_rewritten", "bigint"),
)


@dataclass(frozen=True)
class CompactionOptions:
    """Options for Lance; None stands for the table's own setting, or Lance's default."""

    target_rows_per_fragment: int | None = None
    max_bytes_per_file: int | None = None
    materialize_deletions: bool | None = None
    materialize_deletions_threshold: float | None = None
    num_threads: int | None = 1
    batch_size: int | None = None
    defer_index_remap: bool | None = None

    def __post_init__(self) -> None:
        """Raises InvalidInputError if a number is out of range."""
        for name in ("target_rows_per_fragment", "max_bytes_per_file", "num_threads", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(f"{name} must be at least 1, got {value}")
        threshold = self.materialize_deletions_threshold
        if threshold is not None and not 0 <= threshold <= 1:
            raise InvalidInputError(f"materialize_deletions_threshold must be between 0 and 1, got {threshold}")

    def for_lance(self) -> LanceOptions:
        """Return the options that are set, as Lance takes them."""
        return cast("LanceOptions", {name: value for name, value in asdict(self).items() if value is not None})


def compact(
    lake: Lake,
    which: TableSelector = None,
    *,
    target_rows_per_fragment: int | None = None,
    max_bytes_per_file: int | None = None,
    materialize_deletions: bool | None = None,
    materialize_deletions_threshold: float | None = None,
    num_threads: int | None = 1,
    batch_size: int | None = None,
    defer_index_remap: bool | None = None,
    whole_table_bytes: int = WHOLE_TABLE_BYTES,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Compact tables, with one commit for each, and return one row for each table.

    Rows that others append in between stay. If another writer changes the fragments that are being compacted, the table
    is planned again; after three conflicts it fails with ConcurrentModificationError.
    """
    options = CompactionOptions(
        target_rows_per_fragment,
        max_bytes_per_file,
        materialize_deletions,
        materialize_deletions_threshold,
        num_threads,
        batch_size,
        defer_index_remap,
    )
    run = JobRun.start(lake, "compact", JobSettings(dry_run, job_id, state, progress))
    tables = run.find_tables(which)
    request = _CompactionRequest(options, dry_run, whole_table_bytes)
    outcomes = run.collect(
        run.retry_conflicts(tables, lambda left: _compact_once(run, left, request), _ROUNDS), len(tables)
    )
    return to_dataframe(lake.spark, outcomes, COLUMNS)


@dataclass(frozen=True)
class _CompactionRequest:
    """What all tasks of one job need."""

    options: CompactionOptions
    dry_run: bool
    whole_table_bytes: int


@dataclass(frozen=True)
class _CompactionPlan:
    """A table to compact: the parts of its plan and, for a small table, the rewritten fragments."""

    identifier: Identifier
    pinned: PinnedTable
    fragments: int
    parts: tuple[CompactionTask, ...]
    bytes: int
    rewrites: tuple[RewriteResult, ...] | None
    seconds: float

    @property
    def table(self) -> str:
        return quote_identifier(self.identifier)


@dataclass(frozen=True)
class _CompactionPart:
    """One part of a large table's plan."""

    identifier: Identifier
    pinned: PinnedTable
    part: CompactionTask

    @property
    def table(self) -> str:
        return quote_identifier(self.identifier)


def _compact_once(
    run: JobRun, tables: Sequence[Identifier], request: _CompactionRequest
) -> Iterator[tuple[Identifier, TableOutcome]]:
    lake = run.lake
    large: list[_CompactionPlan] = []
    items = [TableTask(identifier, request) for identifier in tables]
    for result in run_tasks(lake.spark, lake.address, _plan_table, items, subject=run.describe_task):
        identifier, value = result.item.identifier, result.value
        if value is None:
            yield identifier, failed_outcome(result.item.table, result.error or InvalidInputError("no result"))
        elif isinstance(value, TableOutcome):
            yield identifier, value
        elif value.rewrites is None:
            large.append(value)
        else:
            yield identifier, _commit(lake.address, value, value.rewrites, value.seconds, request)
    yield from _compact_large_tables(run, large, request)


def _compact_large_tables(
    run: JobRun, tables: Sequence[_CompactionPlan], request: _CompactionRequest
) -> Iterator[tuple[Identifier, TableOutcome]]:
    """Rewrite large tables, with one task for each part, and commit each table when its last part is done."""
    planned = {one.identifier: one for one in tables}
    rewrites: dict[Identifier, list[RewriteResult]] = {one.identifier: [] for one in tables}
    waiting = {one.identifier: len(one.parts) for one in tables}
    seconds = {one.identifier: one.seconds for one in tables}
    failed: dict[Identifier, TableOutcome] = {}
    parts = [_CompactionPart(one.identifier, one.pinned, part) for one in tables for part in one.parts]
    lake = run.lake
    for result in run_tasks(lake.spark, lake.address, _rewrite_part, parts, subject=run.describe_task):
        identifier = result.item.identifier
        waiting[identifier] -= 1
        if result.value is None:
            failed[identifier] = failed_outcome(result.item.table, result.error or InvalidInputError("no result"))
        else:
            rewrite, took = result.value
            rewrites[identifier].append(rewrite)
            seconds[identifier] += took
        if waiting[identifier]:
            continue
        if identifier in failed:
            _discard(lake.address, planned[identifier], rewrites[identifier])
            yield identifier, failed[identifier]
        else:
            one = planned[identifier]
            yield identifier, _commit(lake.address, one, rewrites[identifier], seconds[identifier], request)


def _plan_table(address: Address, task: TableTask) -> TableOutcome | _CompactionPlan:
    """Plan a table's compaction on an executor, and rewrite the table if it is small."""
    from lance.optimize import Compaction

    begun = time.monotonic()
    request: _CompactionRequest = task.options
    there = open_latest(address, task.identifier)
    if there is None:
        return TableOutcome(task.table, SKIPPED, DECLARED)
    pinned, dataset = there
    plan = Compaction.plan(dataset, request.options.for_lance())
    fragments = len(dataset.get_fragments())
    version = dataset.version
    parts = plan.tasks
    size = sum(
        file.file_size_bytes or 0 for part in parts for fragment in part.fragments for file in fragment.data_files()
    )
    if not parts or request.dry_run:
        source = sum(len(part.fragments) for part in parts)
        details = {"tasks": len(parts), "fragments_before": fragments, "bytes_rewritten": size}
        seconds = round(time.monotonic() - begun, 3)
        if not parts:
            details["fragments_after"] = fragments
            return TableOutcome(task.table, SKIPPED, "nothing to compact", None, version, version, seconds, details)
        return TableOutcome(
            task.table, DONE, f"{source} fragments would be rewritten", None, version, None, seconds, details
        )
    rewrites = None
    if size <= request.whole_table_bytes or len(parts) == 1:
        rewrites = tuple(part.execute(dataset) for part in parts)
    seconds = time.monotonic() - begun
    return _CompactionPlan(task.identifier, pinned, fragments, tuple(parts), size, rewrites, seconds)


def _rewrite_part(_: Address, task: _CompactionPart) -> tuple[RewriteResult, float]:
    """Rewrite one part of a large table, on an executor."""
    begun = time.monotonic()
    rewrite = task.part.execute(task.pinned.open())
    return rewrite, time.monotonic() - begun


def _commit(
    address: Address,
    planned: _CompactionPlan,
    rewrites: Sequence[RewriteResult],
    seconds: float,
    request: _CompactionRequest,
) -> TableOutcome:
    """Commit the rewritten fragments of a table: the commit point. Delete them if the commit fails."""
    from lance.optimize import Compaction

    begun = time.monotonic()
    before = planned.pinned.version
    try:
        with translate_errors(f"compact of {planned.table}"):
            dataset = open_for_commit(address, planned.identifier, before)
            _require_unchanged(dataset, planned)
            Compaction.commit(dataset, list(rewrites), request.options.for_lance())
            version = dataset.version
    except Exception as error:  # noqa: BLE001 - it is this table's result
        if not _discard(address, planned, rewrites):
            return failed_outcome(planned.table, error, version_before=before, seconds=round(seconds, 3))
        # The commit succeeded, but its response was lost.
        version = max(list_versions(address, planned.identifier))
    old = [fragment for part in planned.parts for fragment in part.fragments]
    new = [fragment for one in rewrites for fragment in one.new_fragments]
    details = {
        "tasks": len(planned.parts),
        "fragments_before": planned.fragments,
        "fragments_after": planned.fragments - len(old) + len(new),
        "files_removed": sum(len(fragment.files) for fragment in old),
        "files_added": sum(len(fragment.files) for fragment in new),
        "bytes_rewritten": planned.bytes,
    }
    took = round(seconds + time.monotonic() - begun, 3)
    return TableOutcome(planned.table, DONE, None, None, before, version, took, details)


def _discard(address: Address, planned: _CompactionPlan, rewrites: Sequence[RewriteResult]) -> bool:
    files = [file for one in rewrites for fragment in one.new_fragments for file in fragment.files]
    return discard_files(address, planned.pinned, [f"data/{file.path}" for file in files])


def _require_unchanged(dataset: LanceDataset, planned: _CompactionPlan) -> None:
    """Raise ConcurrentModificationError unless the table still has the planned fragments.

    The directory may contain another table by now.
    """
    there = {fragment.fragment_id: data_files(fragment.metadata) for fragment in dataset.get_fragments()}
    for part in planned.parts:
        for fragment in part.fragments:
            if there.get(fragment.id) != data_files(fragment):
                raise ConcurrentModificationError(f"Table '{planned.table}' was replaced while it was compacted")
