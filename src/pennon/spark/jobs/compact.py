"""Compaction: merge small fragments into larger ones, and remove deleted rows from the files.

A task on an executor opens a table and plans its compaction. It rewrites a small table itself; a large one is rewritten
by one task for each part of the plan. Then the driver commits, once for each table. Nothing changes before that commit.
A run that is killed leaves files that no version refers to, and can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pennon.errors import ConcurrentModificationError, InvalidInputError, translate_errors
from pennon.spark.jobs.catalog_access import discard_files, list_versions, open_for_commit, open_latest
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, PinnedTask, TableTask, retry_conflicts
from pennon.spark.jobs.outcome import DONE, JobResults, TableOutcome, failed_outcome, skipped_outcome
from pennon.spark.jobs.table_files import data_files

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from lance import LanceDataset
    from lance.optimize import CompactionOptions as LanceOptions
    from lance.optimize import CompactionTask, RewriteResult

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

WHOLE_TABLE_BYTES = 256 * 1024 * 1024
"""The most bytes of a table that a single task rewrites; more are divided among several tasks."""
_ROUNDS = 3
COLUMNS = (
    "tasks int, fragments_before bigint, fragments_after bigint, files_removed bigint, files_added bigint, "
    "bytes_rewritten bigint"
)


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
) -> JobResults:
    """Compact tables, with one commit for each, and return one outcome for each table.

    Rows that others append in between stay. If another writer changes the fragments that are being compacted, the table
    is planned again; after three conflicts it fails with ConcurrentModificationError. An option that is None stands for
    the table's own setting, or Lance's default. Raises InvalidInputError if a number is out of range.
    """
    options = {
        "target_rows_per_fragment": target_rows_per_fragment,
        "max_bytes_per_file": max_bytes_per_file,
        "materialize_deletions": materialize_deletions,
        "materialize_deletions_threshold": materialize_deletions_threshold,
        "num_threads": num_threads,
        "batch_size": batch_size,
        "defer_index_remap": defer_index_remap,
    }
    chosen = _check_options(options)
    run = JobRun(lake, "compact", COLUMNS, JobSettings(dry_run, job_id, state, progress))
    tables = run.find_tables(which)
    rounds = retry_conflicts(tables, lambda left: _compact_once(run, left, chosen, whole_table_bytes), _ROUNDS)
    return run.collect(rounds, len(tables))


@dataclass(frozen=True)
class _CompactionPlan(PinnedTask):
    """A table to compact: the parts of its plan and, for a small table, the rewritten fragments."""

    fragments: int
    parts: tuple[CompactionTask, ...]
    bytes: int
    rewrites: tuple[RewriteResult, ...]


@dataclass(frozen=True)
class _CompactionPart(PinnedTask):
    """One part of a large table's plan."""

    part: CompactionTask


def _check_options(options: Mapping[str, Any]) -> LanceOptions:
    """Return the options that are set. Raises InvalidInputError if a number is out of range."""
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in ("target_rows_per_fragment", "max_bytes_per_file", "num_threads", "batch_size"):
        if chosen.get(name, 1) < 1:
            raise InvalidInputError(f"{name} must be at least 1, got {chosen[name]}")
    threshold = chosen.get("materialize_deletions_threshold", 0)
    if not 0 <= threshold <= 1:
        raise InvalidInputError(f"materialize_deletions_threshold must be between 0 and 1, got {threshold}")
    return cast("LanceOptions", chosen)


def _compact_once(
    run: JobRun, tables: Sequence[Identifier], options: LanceOptions, whole_table_bytes: int
) -> Iterator[TableOutcome]:
    large: dict[str, _CompactionPlan] = {}
    for plan in run.map_tables(_plan_table, tables, (options, whole_table_bytes, run.settings.dry_run)):
        if isinstance(plan, TableOutcome):
            yield plan
        elif plan.rewrites:
            yield _commit(run, plan, plan.rewrites, options)
        else:
            large[plan.table] = plan
    parts = [_CompactionPart(plan.pinned, part) for plan in large.values() for part in plan.parts]
    for table, rewrites, failures in run.map_parts(_rewrite_part, parts):
        if failures:
            _discard(run.lake.address, large[table], rewrites)
            yield failures[0]
        else:
            yield _commit(run, large[table], rewrites, options)


def _plan_table(address: Address, task: TableTask) -> TableOutcome | _CompactionPlan:
    """Plan a table's compaction on an executor, and rewrite the table if it is small."""
    from lance.optimize import Compaction

    options, whole_table_bytes, dry_run = task.options
    there = open_latest(address, task.identifier)
    if there is None:
        return skipped_outcome(task.table, DECLARED)
    pinned, dataset = there
    parts = tuple(Compaction.plan(dataset, options).tasks)
    fragments = len(dataset.get_fragments())
    sources = [fragment for part in parts for fragment in part.fragments]
    size = sum(file.file_size_bytes or 0 for fragment in sources for file in fragment.data_files())
    details = {"tasks": len(parts), "fragments_before": fragments, "bytes_rewritten": size}
    if not parts:
        details["fragments_after"] = fragments
        return skipped_outcome(task.table, "nothing to compact", pinned.version, details=details)
    if dry_run:
        message = f"{len(sources)} fragments would be rewritten"
        return TableOutcome(task.table, DONE, message, None, pinned.version, details=details)
    is_small = size <= whole_table_bytes or len(parts) == 1
    rewrites = tuple(part.execute(dataset) for part in parts) if is_small else ()
    return _CompactionPlan(pinned, fragments, parts, size, rewrites)


def _rewrite_part(_: Address, task: _CompactionPart) -> RewriteResult:
    """Rewrite one part of a large table, on an executor."""
    return task.part.execute(task.pinned.open())


def _commit(
    run: JobRun, plan: _CompactionPlan, rewrites: Sequence[RewriteResult], options: LanceOptions
) -> TableOutcome:
    """Commit the rewritten fragments of a table: the commit point. Delete them if the commit fails."""
    from lance.optimize import Compaction

    address, identifier, before = run.lake.address, plan.pinned.identifier, plan.pinned.version
    with run.timed(plan.table):
        try:
            with translate_errors(f"compact of {plan.table}"):
                dataset = open_for_commit(address, identifier, before)
                _require_unchanged(dataset, plan)
                Compaction.commit(dataset, list(rewrites), options)
                version = dataset.version
        except Exception as error:  # noqa: BLE001 - it is this table's result
            if not _discard(address, plan, rewrites):
                return failed_outcome(plan.table, error, version_before=before)
            # The commit succeeded, but its response was lost.
            version = max(one.version for one in list_versions(address, identifier))
    old = [fragment for part in plan.parts for fragment in part.fragments]
    new = [fragment for one in rewrites for fragment in one.new_fragments]
    details = {
        "tasks": len(plan.parts),
        "fragments_before": plan.fragments,
        "fragments_after": plan.fragments - len(old) + len(new),
        "files_removed": sum(len(fragment.files) for fragment in old),
        "files_added": sum(len(fragment.files) for fragment in new),
        "bytes_rewritten": plan.bytes,
    }
    return TableOutcome(plan.table, DONE, None, None, before, version, details=details)


def _discard(address: Address, plan: _CompactionPlan, rewrites: Sequence[RewriteResult]) -> bool:
    files = [file for one in rewrites for fragment in one.new_fragments for file in fragment.files]
    return discard_files(address, plan.pinned, [f"data/{file.path}" for file in files])


def _require_unchanged(dataset: LanceDataset, plan: _CompactionPlan) -> None:
    """Raise ConcurrentModificationError unless the table still has the planned fragments.

    The directory may contain another table by now.
    """
    there = {fragment.fragment_id: data_files(fragment.metadata) for fragment in dataset.get_fragments()}
    planned = [fragment for part in plan.parts for fragment in part.fragments]
    if any(there.get(fragment.id) != data_files(fragment) for fragment in planned):
        raise ConcurrentModificationError(f"Table '{plan.table}' was replaced while it was compacted")
