"""Migration from V1 to V2: directories `<name>.lance` become rows of the manifest."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.address import Address
from pennon.spark.jobs.catalog_access import open_latest
from pennon.spark.jobs.executor_tasks import run_tasks
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, TableTask
from pennon.spark.jobs.outcome import DONE, SKIPPED, TableOutcome, failed_outcome, to_dataframe
from pennon.spark.jobs.table_selection import is_selected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

COLUMNS = (("location", "string"), ("rows", "bigint"), ("columns", "int"))


def migrate(
    lake: Lake, which: TableSelector = None, *, dry_run: bool = False, progress: bool | None = None
) -> DataFrame:
    """Register V1 tables in the manifest, all in one commit, and return one row for each table.

    Executors open each table first. A table that cannot be opened fails, stays as it is, and can be migrated later. No
    data is moved. Running the job again is safe. Raises UnsupportedOperationError if the catalog is opened without the
    manifest.
    """
    run = JobRun.start(lake, "migrate", JobSettings(dry_run, progress=progress))
    report = lake.directory.migrate_to_manifest(dry_run=True)
    found = {table.name: table.location for table in report.migrated if is_selected((table.name,), which)}
    rest = [_skipped(name, "it is in the manifest already") for name in report.already if is_selected((name,), which)]
    rest += [_skipped(entry.name, entry.reason) for entry in report.skipped if is_selected((entry.name,), which)]
    total = len(found) + len(rest)
    outcomes = run.collect(_migrate_tables(run, found, rest), total)
    return to_dataframe(lake.spark, outcomes, COLUMNS)


def _migrate_tables(run: JobRun, found: dict[str, str], rest: Sequence[TableOutcome]) -> Iterator[TableOutcome]:
    yield from rest
    lake = run.lake
    opened: dict[Identifier, TableOutcome] = {}
    items = [TableTask((name,), location) for name, location in found.items()]
    for result in run_tasks(lake.spark, _as_v1(lake.address), _open_table, items, subject=run.describe_task):
        if result.value is not None:
            opened[result.item.identifier] = result.value
        elif result.error is not None:
            details = {"location": result.item.options}
            yield failed_outcome(result.item.table, result.error, details=details)
    good = {identifier[0] for identifier, one in opened.items() if one.status == DONE}
    begun = time.monotonic()
    # The commit point. A table that was dropped since it was opened is not in the report.
    done = lake.directory.migrate_to_manifest(dry_run=run.settings.dry_run, names=good)
    migrated = {table.name for table in done.migrated}
    reasons = {entry.name: entry.reason for entry in done.skipped} | dict.fromkeys(
        done.already, "another client has migrated it"
    )
    seconds = time.monotonic() - begun
    for (name,), outcome in opened.items():
        if name in migrated:
            yield replace(outcome, seconds=round(outcome.seconds + seconds / len(opened), 3))
        else:
            yield replace(outcome, status=SKIPPED, message=reasons.get(name, "it does not exist any more"))


def _open_table(address: Address, task: TableTask) -> TableOutcome:
    """Open a table on an executor, and read its schema and its number of rows."""
    begun = time.monotonic()
    there = open_latest(address, task.identifier)
    details = {"location": task.options}
    if there is None:
        return TableOutcome(task.table, DONE, DECLARED, details=details)
    _, dataset = there
    details |= {"rows": dataset.count_rows(), "columns": len(dataset.schema.names)}
    version = dataset.version
    return TableOutcome(task.table, DONE, None, None, version, version, round(time.monotonic() - begun, 3), details)


def _as_v1(address: Address) -> Address:
    """Return the address of the catalog as a V1 client opens it, which sees every such table."""
    properties = {**dict(address.properties), "manifest_enabled": "false", "dir_listing_enabled": "true"}
    return Address.of(address.impl, properties)


def _skipped(name: str, reason: str) -> TableOutcome:
    return TableOutcome(quote_identifier((name,)), SKIPPED, reason)
