"""Compaction: small fragments become larger ones, and deleted rows leave the files.

A task on an executor opens a table and plans. What is small it rewrites right there; what is large is rewritten by a
task for each part of the plan. Then the driver commits, once per table. Until that commit nothing has changed, and
after it everything has: a run that is killed leaves files that no version names, and can simply be run again.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

from pennon.errors import ConcurrentModificationError, InvalidInputError, translate_errors
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs.asking import opened, through, versions
from pennon.spark.jobs.leftovers import discard
from pennon.spark.jobs.outcome import DONE, SKIPPED, Outcome, as_frame, failure
from pennon.spark.jobs.running import DECLARED, Run, Settings, TableWork
from pennon.spark.jobs.spreading import spread
from pennon.spark.jobs.table_files import data_files

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset
    from lance.optimize import CompactionOptions as LanceOptions
    from lance.optimize import CompactionTask, RewriteResult
    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.jobs.targets import Which
    from pennon.spark.lake import Lake
    from pennon.spark.reading.pinned import PinnedTable

WHOLE_TABLE_BYTES = 256 * 1024 * 1024
"""What a single task rewrites of a table; more is spread over several."""
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
    """What Lance is told; None leaves it to the table's own settings, and to Lance's."""

    target_rows_per_fragment: int | None = None
    max_bytes_per_file: int | None = None
    materialize_deletions: bool | None = None
    materialize_deletions_threshold: float | None = None
    num_threads: int | None = 1
    batch_size: int | None = None
    defer_index_remap: bool | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that make no sense (13)."""
        for name in ("target_rows_per_fragment", "max_bytes_per_file", "num_threads", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInputError(f"{name} is at least 1, got {value}")
        threshold = self.materialize_deletions_threshold
        if threshold is not None and not 0 <= threshold <= 1:
            raise InvalidInputError(f"materialize_deletions_threshold is between 0 and 1, got {threshold}")

    def for_lance(self) -> LanceOptions:
        """Give what is set."""
        return cast("LanceOptions", {name: value for name, value in asdict(self).items() if value is not None})


def compact(
    lake: Lake,
    which: Which = None,
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
    """Compact tables, one commit each; rows that others append meanwhile stay.

    If a table's own fragments are changed meanwhile, it is planned anew, and fails with 14 after the third time.
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
    run = Run.begin(lake, "compact", Settings(dry_run, job_id, state, progress))
    tables = run.targets(which)
    asked = _Asked(options, dry_run, whole_table_bytes)
    outcomes = run.take(_compacted(run, tables, asked), len(tables))
    return as_frame(lake.spark, outcomes, COLUMNS)


@dataclass(frozen=True)
class _Asked:
    options: CompactionOptions
    dry_run: bool
    whole_table_bytes: int


@dataclass(frozen=True)
class _Planned:
    """A table with something to do: the parts of the plan, or, of a small one, what came of them."""

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
class _Part:
    identifier: Identifier
    pinned: PinnedTable
    part: CompactionTask

    @property
    def table(self) -> str:
        return quote_identifier(self.identifier)


def _compacted(run: Run, tables: Sequence[Identifier], asked: _Asked) -> Iterator[Outcome]:
    """Go over the tables, and once more over those at which another writer was first."""
    left = list(tables)
    for attempt in range(_ROUNDS):
        again: list[Identifier] = []
        for identifier, outcome in _one_round(run, left, asked):
            if outcome.code == ConcurrentModificationError("").code and attempt < _ROUNDS - 1:
                again.append(identifier)
            else:
                yield outcome
        left = again
        if not left:
            return


def _one_round(run: Run, tables: Sequence[Identifier], asked: _Asked) -> Iterator[tuple[Identifier, Outcome]]:
    lake = run.lake
    large: list[_Planned] = []
    items = [TableWork(identifier, asked) for identifier in tables]
    for answer in spread(lake.spark, lake.address, _planned, items, subject=run.subject):
        identifier, value = answer.item.identifier, answer.value
        if value is None:
            yield identifier, failure(answer.item.table, answer.error or InvalidInputError("no answer"))
        elif isinstance(value, Outcome):
            yield identifier, value
        elif value.rewrites is None:
            large.append(value)
        else:
            yield identifier, _committed(lake.address, value, value.rewrites, value.seconds, asked)
    yield from _large(run, large, asked)


def _large(run: Run, tables: Sequence[_Planned], asked: _Asked) -> Iterator[tuple[Identifier, Outcome]]:
    """Rewrite the parts of large tables by tasks of their own; each table is committed when its last part is there."""
    planned = {one.identifier: one for one in tables}
    rewrites: dict[Identifier, list[RewriteResult]] = {one.identifier: [] for one in tables}
    waiting = {one.identifier: len(one.parts) for one in tables}
    seconds = {one.identifier: one.seconds for one in tables}
    failed: dict[Identifier, Outcome] = {}
    parts = [_Part(one.identifier, one.pinned, part) for one in tables for part in one.parts]
    lake = run.lake
    for answer in spread(lake.spark, lake.address, _rewritten, parts, subject=run.subject):
        identifier = answer.item.identifier
        waiting[identifier] -= 1
        if answer.value is None:
            failed[identifier] = failure(answer.item.table, answer.error or InvalidInputError("no answer"))
        else:
            rewrite, took = answer.value
            rewrites[identifier].append(rewrite)
            seconds[identifier] += took
        if waiting[identifier]:
            continue
        if identifier in failed:
            _discard(lake.address, planned[identifier], rewrites[identifier])
            yield identifier, failed[identifier]
        else:
            one = planned[identifier]
            yield identifier, _committed(lake.address, one, rewrites[identifier], seconds[identifier], asked)


def _planned(address: Address, work: TableWork) -> Outcome | _Planned:
    """Plan a table's compaction on an executor, and do it at once if it is small."""
    from lance.optimize import Compaction

    begun = time.monotonic()
    asked: _Asked = work.options
    there = opened(address, work.identifier)
    if there is None:
        return Outcome(work.table, SKIPPED, DECLARED)
    pinned, dataset = there
    plan = Compaction.plan(dataset, asked.options.for_lance())
    fragments = len(dataset.get_fragments())
    version = dataset.version
    tasks = plan.tasks
    size = sum(
        file.file_size_bytes or 0 for task in tasks for fragment in task.fragments for file in fragment.data_files()
    )
    if not tasks or asked.dry_run:
        source = sum(len(task.fragments) for task in tasks)
        did = {"tasks": len(tasks), "fragments_before": fragments, "bytes_rewritten": size}
        seconds = round(time.monotonic() - begun, 3)
        if not tasks:
            did["fragments_after"] = fragments
            return Outcome(work.table, SKIPPED, "nothing to compact", None, version, version, seconds, did)
        return Outcome(work.table, DONE, f"{source} fragments would be rewritten", None, version, None, seconds, did)
    rewrites = None
    if size <= asked.whole_table_bytes or len(tasks) == 1:
        rewrites = tuple(task.execute(dataset) for task in tasks)
    seconds = time.monotonic() - begun
    return _Planned(work.identifier, pinned, fragments, tuple(tasks), size, rewrites, seconds)


def _rewritten(_: Address, work: _Part) -> tuple[RewriteResult, float]:
    """Rewrite one part of a large table on an executor."""
    begun = time.monotonic()
    rewrite = work.part.execute(work.pinned.open())
    return rewrite, time.monotonic() - begun


def _committed(
    address: Address, planned: _Planned, rewrites: Sequence[RewriteResult], seconds: float, asked: _Asked
) -> Outcome:
    """Commit what was rewritten of a table: the commit point. What cannot be committed is deleted."""
    from lance.optimize import Compaction

    begun = time.monotonic()
    before = planned.pinned.version
    try:
        with translate_errors(f"compact of {planned.table}"):
            dataset = through(address, planned.identifier, before)
            _require_same(dataset, planned)
            Compaction.commit(dataset, list(rewrites), asked.options.for_lance())
            version = dataset.version
    except Exception as error:  # noqa: BLE001 - it is this table's result
        if not _discard(address, planned, rewrites):
            return failure(planned.table, error, version_before=before, seconds=round(seconds, 3))
        # The commit was made, and its answer was lost.
        version = max(versions(address, planned.identifier))
    old = [fragment for part in planned.parts for fragment in part.fragments]
    new = [fragment for one in rewrites for fragment in one.new_fragments]
    did = {
        "tasks": len(planned.parts),
        "fragments_before": planned.fragments,
        "fragments_after": planned.fragments - len(old) + len(new),
        "files_removed": sum(len(fragment.files) for fragment in old),
        "files_added": sum(len(fragment.files) for fragment in new),
        "bytes_rewritten": planned.bytes,
    }
    took = round(seconds + time.monotonic() - begun, 3)
    return Outcome(planned.table, DONE, None, None, before, version, took, did)


def _discard(address: Address, planned: _Planned, rewrites: Sequence[RewriteResult]) -> bool:
    files = [file for one in rewrites for fragment in one.new_fragments for file in fragment.files]
    return discard(address, planned.pinned, [f"data/{file.path}" for file in files])


def _require_same(dataset: LanceDataset, planned: _Planned) -> None:
    """Raise 14 unless the fragments are those that were planned: another table may lie in the directory by now."""
    there = {fragment.fragment_id: data_files(fragment.metadata) for fragment in dataset.get_fragments()}
    for part in planned.parts:
        for fragment in part.fragments:
            if there.get(fragment.id) != data_files(fragment):
                raise ConcurrentModificationError(f"Table '{planned.table}' was replaced while it was compacted")
