"""Verification: every table can be opened, the files of its versions exist, and unused files are reported."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon import durations
from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs.catalog_access import open_records
from pennon.spark.jobs.executor_tasks import run_tasks
from pennon.spark.jobs.full_scan import read_rows, split_table
from pennon.spark.jobs.job_run import JobRun, JobSettings, TableTask
from pennon.spark.jobs.outcome import FAILED, SKIPPED, TableOutcome, failed_outcome, to_dataframe
from pennon.spark.jobs.table_check import DAMAGED_CODE, TableCheck, VerifyOptions, add_findings, check_table
from pennon.spark.jobs.table_selection import is_selected

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

ORPHAN_AGE = "7d"
_LEAST_AGE_MS = 24 * 3600 * 1000
COLUMNS = (
    ("location", "string"),
    ("versions", "bigint"),
    ("files", "bigint"),
    ("bytes", "bigint"),
    ("rows_read", "bigint"),
    ("unreadable_versions", "bigint"),
    ("missing_files", "bigint"),
    ("wrong_sizes", "bigint"),
    ("orphans", "bigint"),
    ("orphan_bytes", "bigint"),
    ("orphans_removed", "bigint"),
    ("recent_files", "bigint"),
    ("strange_files", "bigint"),
    ("rows_without_file", "bigint"),
    ("files_without_row", "bigint"),
    ("findings", "array<string>"),
)


def verify(
    lake: Lake,
    which: TableSelector = None,
    *,
    deep: bool = False,
    remove_orphans: bool = False,
    orphan_age: str = ORPHAN_AGE,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Check tables against their files, and return one row for each table.

    A table with a fault fails with the code of InvalidTableStateError; `findings` lists the faults. `deep` also reads
    every row of the latest version. `remove_orphans` deletes files that no version refers to and that are older than
    `orphan_age` by the store's clock, at least a day. For the whole catalog, rows without a directory and directories
    without a row are reported too. Raises InvalidInputError if an option is invalid.
    """
    age = durations.parse_milliseconds(orphan_age, "orphan_age")
    if remove_orphans and age < _LEAST_AGE_MS:
        raise InvalidInputError(
            f"orphan_age must be at least one day, got {orphan_age}: younger files may belong to a running writer"
        )
    run = JobRun.start(lake, "verify", JobSettings(dry_run, job_id, state, progress))
    tables = run.find_tables(which)
    beside = _compare_with_directories(lake.address, which)
    broken = {outcome.table for outcome in beside}
    left = [identifier for identifier in tables if quote_identifier(identifier) not in broken]
    options = VerifyOptions(age / 1000, remove_orphans and not dry_run, deep)
    outcomes = run.collect(_verify_tables(run, left, beside, options), len(left) + len(beside))
    return to_dataframe(lake.spark, outcomes, COLUMNS)


def _compare_with_directories(address: Address, which: TableSelector) -> list[TableOutcome]:
    """Compare the catalog's rows with the directories of its root, and return an outcome for each difference."""
    from pennon.directory.inspection import inspect

    catalog = open_records(address)
    if catalog is None:
        return []
    found = inspect(catalog)
    outcomes = []
    for identifier, location in found.without_directory.items():
        if is_selected(identifier, which):
            message = f"the catalog has the table, but its directory {location!r} is gone"
            details = {"location": location, "findings": [message]}
            outcomes.append(TableOutcome(quote_identifier(identifier), FAILED, message, DAMAGED_CODE, details=details))
    if which is None:
        message = "no table of the catalog is in this directory; it is kept"
        outcomes += [
            TableOutcome(None, SKIPPED, message, details={"location": directory}) for directory in found.without_row
        ]
    return outcomes


def _verify_tables(
    run: JobRun, tables: Sequence[Identifier], beside: Sequence[TableOutcome], options: VerifyOptions
) -> Iterator[TableOutcome]:
    yield from beside
    lake = run.lake
    to_read: list[TableCheck] = []
    items = [TableTask(identifier, options) for identifier in tables]
    for result in run_tasks(lake.spark, lake.address, check_table, items, subject=run.describe_task):
        if result.value is None:
            yield failed_outcome(result.item.table, result.error or InvalidInputError("no result"))
        elif options.deep and result.value.fragments:
            to_read.append(result.value)
        else:
            yield result.value.outcome
    yield from _read_all_rows(run, to_read)


def _read_all_rows(run: JobRun, checks: Sequence[TableCheck]) -> Iterator[TableOutcome]:
    """Read all rows of tables; each task reads some fragments."""
    lake = run.lake
    work = {one.outcome.table: one for one in checks}
    items = [piece for one in checks if one.pinned is not None for piece in split_table(one.pinned, one.fragments)]
    waiting = {table: sum(item.table == table for item in items) for table in work}
    rows: dict[str | None, int] = dict.fromkeys(work, 0)
    faults: dict[str | None, list[str]] = {table: [] for table in work}
    for result in run_tasks(lake.spark, lake.address, read_rows, items, subject=run.describe_task):
        table = result.item.table
        waiting[table] -= 1
        if result.value is None:
            faults[table].append(f"rows cannot be read: {result.error}")
        else:
            rows[table] += result.value
        if not waiting[table]:
            outcome = work[table].outcome
            details = {**outcome.details, "rows_read": rows[table]}
            yield add_findings(replace(outcome, details=details), faults[table])
