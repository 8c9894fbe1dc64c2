"""Purge: permanently delete dropped tables whose retention has expired. It can be repeated if it was interrupted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs.executor_tasks import run_task
from pennon.spark.jobs.job_run import JobRun, JobSettings
from pennon.spark.jobs.outcome import DONE, SKIPPED, JobResults, TableOutcome, failed_outcome
from pennon.spark.jobs.table_selection import is_selected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.results import DroppedTable
    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

COLUMNS = "deletion_id string, dropped_at timestamp, files_removed bigint, bytes_removed bigint"
# A task purges so many tables at a time: their changes to the manifest then share commits.
_SIDE_BY_SIDE = 8


def purge(
    lake: Lake,
    which: TableSelector = None,
    *,
    deleted_before: datetime | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: bool | None = None,
) -> JobResults:
    """Delete the data of dropped tables whose retention has expired, and return one outcome for each drop.

    `deleted_before` limits this to tables that were dropped before a time. `force` also purges tables whose retention
    has not expired, and protected ones. Tables that are protected, or not due by the store's clock, are skipped with
    the code of InvalidTableStateError.
    """
    run = JobRun(lake, "purge", COLUMNS, JobSettings(dry_run, progress=progress))
    now = datetime.now(timezone.utc)
    before = datetime.max.replace(tzinfo=timezone.utc) if force and deleted_before is None else deleted_before
    due = [
        table
        for table in lake.catalog.list_purgable_tables(before, detailed=dry_run)
        if (force or table.is_due(now)) and is_selected(tuple(table.id), which)
    ]
    if dry_run:
        return run.collect((_planned_outcome(table) for table in due), len(due))
    results = run.collect(_purge_tables(run, due, force=force), len(due))
    if which is None and deleted_before is None:
        # This also removes dropped namespaces, and tables that have become due since.
        lake.catalog.purge_tables(force=False)
    return results


@dataclass(frozen=True)
class _PurgeTask:
    """One drop of a table."""

    identifier: Identifier
    deletion_id: str
    dropped_at: datetime
    force: bool

    @property
    def table(self) -> str:
        return quote_identifier(self.identifier)

    @property
    def details(self) -> dict[str, Any]:
        return {"deletion_id": self.deletion_id, "dropped_at": self.dropped_at}


@dataclass(frozen=True)
class _PurgeBatch:
    """The drops that one task purges."""

    tasks: tuple[_PurgeTask, ...]

    @property
    def table(self) -> str:
        return ", ".join(task.table for task in self.tasks)


def _purge_tables(run: JobRun, due: Sequence[DroppedTable], *, force: bool) -> Iterator[TableOutcome]:
    tasks = [_PurgeTask(tuple(table.id), table.deletion_id, table.dropped_at, force) for table in due]
    batches = [_PurgeBatch(tuple(tasks[at : at + _SIDE_BY_SIDE])) for at in range(0, len(tasks), _SIDE_BY_SIDE)]
    for batch, purged in run.map_tasks(_purge_batch, batches):
        if isinstance(purged, TableOutcome):
            yield from (replace(purged, table=task.table, details=task.details) for task in batch.tasks)
        else:
            yield from purged


def _purge_batch(address: Address, batch: _PurgeBatch) -> list[TableOutcome]:
    with ThreadPoolExecutor(max_workers=_SIDE_BY_SIDE) as threads:
        return list(threads.map(lambda task: _purge_one(address, task), batch.tasks))


def _purge_one(address: Address, task: _PurgeTask) -> TableOutcome:
    result = run_task(_delete_data, address, task, f"purge of {task.table}")
    if result.error is None:
        files, size = result.value
        details = {**task.details, "files_removed": files, "bytes_removed": size}
        return TableOutcome(task.table, DONE, seconds=result.seconds, details=details)
    failed = failed_outcome(task.table, result.error, seconds=result.seconds, details=task.details)
    # It is protected, or not due by the store's clock: that is not a failure.
    return replace(failed, status=SKIPPED) if isinstance(result.error, InvalidTableStateError) else failed


def _delete_data(address: Address, task: _PurgeTask) -> tuple[int, int]:
    report = address.connect().purge_table(list(task.identifier), task.deletion_id, force=task.force)
    return sum(one.files for one in report.tables), sum(one.bytes for one in report.tables)


def _planned_outcome(table: DroppedTable) -> TableOutcome:
    details = {"deletion_id": table.deletion_id, "dropped_at": table.dropped_at, "bytes_removed": table.bytes}
    return TableOutcome(quote_identifier(tuple(table.id)), DONE, details=details)
