"""Cleanup: remove old versions and the files that only they refer to.

A version stays if it is the latest, if a tag or branch needs it, if it is younger than the limit, or if it is among the
newest versions to retain. Files that no version refers to stay until they are a week old, because a writer may be about
to commit them. If the catalog manages versions, one commit removes the rows of the deleted versions from its manifest.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pennon import durations
from pennon.errors import InvalidInputError, LanceNamespaceError
from pennon.spark.jobs.catalog_access import delete_versions, list_versions, open_latest
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, TableTask
from pennon.spark.jobs.outcome import DONE, SKIPPED, JobResults, TableOutcome, skipped_outcome
from pennon.spark.tables.destination import is_on_disk, locate_table
from pennon.store import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

DEFAULT_AGE = "14d"
_DELETED = ("bytes", "data_files", "deletion_files", "index_files", "transaction_files")
COLUMNS = (
    "versions_removed bigint, versions_left bigint, "
    + ", ".join(f"{name}_removed bigint" for name in _DELETED)
    + ", rows_removed bigint"
)


def cleanup(
    lake: Lake,
    which: TableSelector = None,
    *,
    older_than: str | timedelta | None = None,
    retain_versions: int | None = None,
    delete_rate_limit: int | None = None,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> JobResults:
    """Remove old versions of tables, and return one outcome for each table.

    A version is removed if it is older than `older_than` (such as `90s`, `12h`, `14d`) and not among the newest
    `retain_versions`. Without both, versions older than two weeks are removed. Tagged versions, and those that branches
    need, stay. `rows_removed` counts rows of the catalog's manifest. Raises InvalidInputError if an option is invalid.
    """
    options = (_check_options(older_than, retain_versions, delete_rate_limit), dry_run)
    run = JobRun(lake, "cleanup", COLUMNS, JobSettings(dry_run, job_id, state, progress))
    tables = run.find_tables(which)
    return run.collect(run.map_tables(_clean_table, tables, options), len(tables))


def _check_options(older_than: str | timedelta | None, retain: int | None, rate: int | None) -> dict[str, Any]:
    """Return the options of Lance's cleanup. Raises InvalidInputError if one is invalid."""
    if older_than is None and retain is None:
        older_than = DEFAULT_AGE
    if isinstance(older_than, str):
        older_than = timedelta(milliseconds=durations.parse_milliseconds(older_than, "older_than"))
    if older_than is not None and older_than < timedelta(0):
        raise InvalidInputError(f"older_than must not be negative, got {older_than}")
    options = {"retain_versions": retain, "delete_rate_limit": rate}
    for name, value in options.items():
        if value is not None and value < 1:
            raise InvalidInputError(f"{name} must be at least 1, got {value}")
    return {"older_than": older_than, "error_if_tagged_old_versions": False, **options}


def _clean_table(address: Address, task: TableTask) -> TableOutcome:
    """Clean one table, on an executor."""
    options, dry_run = task.options
    # Listing finishes the versions that a dead writer committed, so that none of their files looks unused.
    before = {one.version for one in list_versions(address, task.identifier)}
    there = open_latest(address, task.identifier)
    if there is None:
        return skipped_outcome(task.table, DECLARED)
    pinned, dataset = there
    if is_on_disk(pinned.uri):
        # A cleanup would also delete files behind links. This raises if the table has any.
        open_store(pinned.uri, {}).resolve("", deeply=True)
    rows, trouble = 0, None
    if dry_run:
        figures = dataset.explain_cleanup_old_versions(**options).stats
        left = len(before) - figures.old_versions
    else:
        figures = dataset.cleanup_old_versions(**options)
        after = {one.version for one in list_versions(address, task.identifier)}
        left = len(after)
        if before - after and locate_table(address, task.identifier).managed:
            rows, trouble = _delete_rows(address, task, before - after)
    deleted = {f"{name}_removed": getattr(figures, f"{name}_removed") for name in _DELETED}
    details = {"versions_removed": figures.old_versions, "versions_left": left, **deleted, "rows_removed": rows}
    nothing = not figures.old_versions and not any(deleted.values())
    status, message = (SKIPPED, "no version is old enough to be removed") if nothing else (DONE, trouble)
    if getattr(figures, "failed_deletes", 0):
        message = f"{figures.failed_deletes} files could not be deleted; the next cleanup tries again"
    return TableOutcome(task.table, status, message, None, pinned.version, pinned.version, details=details)


def _delete_rows(address: Address, task: TableTask, versions: Iterable[int]) -> tuple[int, str | None]:
    """Delete the rows of removed versions from the manifest; return their number, or 0 and the reason.

    If this fails, the next commit to the table deletes them.
    """
    try:
        return delete_versions(address, task.identifier, to_ranges(versions)), None
    except LanceNamespaceError as error:
        return 0, f"the rows of removed versions stay until the next commit: {error}"


def to_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as ranges that exclude their end."""
    spans: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number:
            spans[-1] = (spans[-1][0], number + 1)
        else:
            spans.append((number, number + 1))
    return spans
