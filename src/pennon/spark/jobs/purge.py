"""Purge: permanently delete dropped tables whose retention has expired. It can be repeated if it was interrupted."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, InvalidTableStateError
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs.executor_tasks import run_task, run_tasks
from pennon.spark.jobs.job_run import JobRun, JobSettings
from pennon.spark.jobs.outcome import DONE, FAILED, SKIPPED, TableOutcome, failed_outcome, to_dataframe
from pennon.spark.jobs.table_selection import is_selected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.results import DroppedTable
    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

COLUMNS = (
    ("deletion_id", "string"),
    ("dropped_at", "timestamp"),
    ("files_removed", "bigint"),
    ("bytes_removed", "bigint"),
)
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
) -> DataFrame:
    """Delete the data of dropped tables whose retention has expired, and return one row for each drop.

    `deleted_before` limits this to tables that were dropped before a time. `force` also purges tables whose retention
    has not expired, and protected ones. Tables that are protected, or not due by the store's clock, are skipped with
    the code of InvalidTableStateError.
    """
    run = JobRun.start(lake, "purge", JobSettings(dry_run, progress=progress))
    due = [
        table
        for table in _candidates(lake, deleted_before, force=force, detailed=dry_run)
        if is_selected(tuple(table.id), which)
    ]
    if dry_run:
        outcomes = run.collect((_planned_outcome(table) for table in due), len(due))
    else:
        outcomes = run.collect(_purge_tables(run, due, force=force), len(due))
        if which is None and deleted_before is None:
            # This also removes dropped namespaces, and tables that have become due since.
            lake.directory.purge_tables(force=False)
    return to_dataframe(lake.spark, outcomes, COLUMNS)


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


@dataclass(frozen=True)
class _PurgeBatch:
    """The drops that one task purges."""

    tasks: tuple[_PurgeTask, ...]

    @property
    def table(self) -> str:
        return ", ".join(task.table for task in self.tasks)


def _candidates(lake: Lake, deleted_before: datetime | None, *, force: bool, detailed: bool) -> Iterator[DroppedTable]:
    if force and deleted_before is None:
        deleted_before = datetime.max.replace(tzinfo=timezone.utc)
    now = datetime.now(timezone.utc)
    for table in lake.directory.list_purgable_tables(deleted_before, detailed=detailed):
        if force or table.is_due(now):
            yield table


def _purge_tables(run: JobRun, due: Sequence[DroppedTable], *, force: bool) -> Iterator[TableOutcome]:
    tasks = [_PurgeTask(tuple(table.id), table.deletion_id, table.dropped_at, force) for table in due]
    items = [_PurgeBatch(tuple(tasks[start : start + _SIDE_BY_SIDE])) for start in range(0, len(tasks), _SIDE_BY_SIDE)]
    for result in run_tasks(run.lake.spark, run.lake.address, _purge_batch, items, subject=run.describe_task):
        if result.value is not None:
            yield from result.value
            continue
        error = result.error or InvalidInputError("no result")
        yield from (failed_outcome(task.table, error, details=_drop_details(task)) for task in result.item.tasks)


def _purge_batch(address: Address, work: _PurgeBatch) -> list[TableOutcome]:
    with ThreadPoolExecutor(max_workers=_SIDE_BY_SIDE) as threads:
        return list(threads.map(lambda task: _purge_one(address, task), work.tasks))


def _purge_one(address: Address, task: _PurgeTask) -> TableOutcome:
    begun = time.monotonic()
    value, code, message = run_task(_delete_data, address, task, f"purge of {task.table}")
    seconds = round(time.monotonic() - begun, 3)
    if value is None:
        # It is protected, or not due by the store's clock: that is not a failure.
        status = SKIPPED if code == int(InvalidTableStateError("").code) else FAILED
        return TableOutcome(task.table, status, message, code, seconds=seconds, details=_drop_details(task))
    files, size = value
    return TableOutcome(
        task.table,
        DONE,
        seconds=seconds,
        details={**_drop_details(task), "files_removed": files, "bytes_removed": size},
    )


def _delete_data(address: Address, task: _PurgeTask) -> tuple[int, int]:
    report = address.directory().purge_table(list(task.identifier), task.deletion_id, force=task.force)
    return sum(one.files for one in report.tables), sum(one.bytes for one in report.tables)


def _planned_outcome(table: DroppedTable) -> TableOutcome:
    details = {"deletion_id": table.deletion_id, "dropped_at": table.dropped_at, "bytes_removed": table.bytes}
    return TableOutcome(quote_identifier(tuple(table.id)), DONE, details=details)


def _drop_details(task: _PurgeTask) -> dict[str, object]:
    return {"deletion_id": task.deletion_id, "dropped_at": task.dropped_at}
