"""Migration from V1 to V2: directories `<name>.lance` become rows of the manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.identifiers import quote_identifier
from pennon.spark.address import Address
from pennon.spark.jobs.catalog_access import open_latest
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, TableTask
from pennon.spark.jobs.outcome import DONE, JobResults, TableOutcome, skipped_outcome
from pennon.spark.jobs.table_selection import is_selected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

COLUMNS = "location string, rows bigint, columns int"


def migrate(
    lake: Lake, which: TableSelector = None, *, dry_run: bool = False, progress: bool | None = None
) -> JobResults:
    """Register V1 tables in the manifest, all in one commit, and return one outcome for each table.

    Executors open each table first. A table that cannot be opened fails, stays as it is, and can be migrated later. No
    data is moved. Running the job again is safe. Raises UnsupportedOperationError if the catalog is not a directory
    catalog, or is opened without the manifest.
    """
    run = JobRun(lake, "migrate", COLUMNS, JobSettings(dry_run, progress=progress))
    report = lake.directory.migrate_to_manifest(dry_run=True)
    found = {table.name: table.location for table in report.migrated if is_selected((table.name,), which)}
    reasons = dict.fromkeys(report.already, "it is in the manifest already")
    reasons |= {entry.name: entry.reason for entry in report.skipped}
    for name, reason in reasons.items():
        if is_selected((name,), which):
            run.outcomes.append(skipped_outcome(quote_identifier((name,)), reason))
    return run.collect(_migrate_tables(run, found), len(found))


def _migrate_tables(run: JobRun, found: Mapping[str, str]) -> Iterator[TableOutcome]:
    opened: dict[str, TableOutcome] = {}
    tasks = [TableTask((name,), location) for name, location in found.items()]
    for task, outcome in run.map_tasks(_open_table, tasks, _as_v1(run.lake.address)):
        one = replace(outcome, details={**outcome.details, "location": task.options})
        if one.status == DONE:
            opened[task.identifier[0]] = one
        else:
            yield one
    # The commit point. A table that was dropped since it was opened is not in the report.
    done = run.lake.directory.migrate_to_manifest(dry_run=run.settings.dry_run, names=set(opened))
    migrated = {table.name for table in done.migrated}
    reasons = dict.fromkeys(done.already, "another client has migrated it")
    reasons |= {entry.name: entry.reason for entry in done.skipped}
    for name, one in opened.items():
        reason = reasons.get(name, "it does not exist any more")
        yield one if name in migrated else skipped_outcome(one.table, reason, one.version_before, details=one.details)


def _open_table(address: Address, task: TableTask) -> TableOutcome:
    """Open a table on an executor, and read its schema and its number of rows."""
    there = open_latest(address, task.identifier)
    if there is None:
        return TableOutcome(task.table, DONE, DECLARED)
    pinned, dataset = there
    details = {"rows": dataset.count_rows(), "columns": len(dataset.schema.names)}
    return TableOutcome(task.table, DONE, None, None, pinned.version, pinned.version, details=details)


def _as_v1(address: Address) -> Address:
    """Return the address of the catalog as a V1 client opens it, which sees every such table."""
    properties = {**dict(address.properties), "manifest_enabled": "false", "dir_listing_enabled": "true"}
    return Address.of(address.impl, properties)
