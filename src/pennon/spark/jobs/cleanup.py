"""Cleanup: remove old versions and the files that only they refer to.

A version stays if it is the latest, if a tag or branch needs it, if it is younger than the limit, or if it is among the
newest versions to retain. Files that no version refers to stay until they are a week old, because a writer may be about
to commit them. If the catalog manages versions, one commit removes the rows of the deleted versions from its manifest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pennon import durations
from pennon.errors import InvalidInputError, LanceNamespaceError
from pennon.spark.jobs.catalog_access import delete_versions, describe_table, list_versions, open_latest
from pennon.spark.jobs.executor_tasks import run_tasks
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, TableTask
from pennon.spark.jobs.outcome import DONE, SKIPPED, TableOutcome, failed_outcome, to_dataframe
from pennon.store import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

DEFAULT_AGE = "14d"
COLUMNS = (
    ("versions_removed", "bigint"),
    ("versions_left", "bigint"),
    ("bytes_removed", "bigint"),
    ("data_files_removed", "bigint"),
    ("deletion_files_removed", "bigint"),
    ("index_files_removed", "bigint"),
    ("transaction_files_removed", "bigint"),
    ("rows_removed", "bigint"),
)
_COUNTED = tuple(name for name, _ in COLUMNS if name.endswith("_removed") and not name.startswith(("versions", "rows")))


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
) -> DataFrame:
    """Remove old versions of tables, and return one row for each table.

    A version is removed if it is older than `older_than` (such as `90s`, `12h`, `14d`) and not among the newest
    `retain_versions`. Without both, versions older than two weeks are removed. Tagged versions, and those that branches
    need, stay. `rows_removed` counts rows of the catalog's manifest. Raises InvalidInputError if an option is invalid.
    """
    options = _CleanupOptions.of(older_than, retain_versions, delete_rate_limit, dry_run=dry_run)
    run = JobRun.start(lake, "cleanup", JobSettings(dry_run, job_id, state, progress))
    tables = run.find_tables(which)
    outcomes = run.collect(_clean_tables(run, tables, options), len(tables))
    return to_dataframe(lake.spark, outcomes, COLUMNS)


@dataclass(frozen=True)
class _CleanupOptions:
    """Which versions to remove, and how fast."""

    older_than: timedelta | None
    retain_versions: int | None
    delete_rate_limit: int | None
    dry_run: bool

    @classmethod
    def of(
        cls, older_than: str | timedelta | None, retain: int | None, rate: int | None, *, dry_run: bool
    ) -> _CleanupOptions:
        if older_than is None and retain is None:
            older_than = DEFAULT_AGE
        if isinstance(older_than, str):
            older_than = timedelta(milliseconds=durations.parse_milliseconds(older_than, "older_than"))
        if older_than is not None and older_than < timedelta(0):
            raise InvalidInputError(f"older_than must not be negative, got {older_than}")
        for name, value in (("retain_versions", retain), ("delete_rate_limit", rate)):
            if value is not None and value < 1:
                raise InvalidInputError(f"{name} must be at least 1, got {value}")
        return cls(older_than, retain, rate, dry_run)


@dataclass(frozen=True)
class _CleanupResult:
    """The outcome of one table."""

    outcome: TableOutcome
    gone: tuple[int, ...] = ()
    """Versions that were removed and still have rows in the catalog's manifest."""


def _clean_tables(run: JobRun, tables: Sequence[Identifier], options: _CleanupOptions) -> Iterator[TableOutcome]:
    items = [TableTask(identifier, options) for identifier in tables]
    for result in run_tasks(run.lake.spark, run.lake.address, _clean_table, items, subject=run.describe_task):
        if result.value is None:
            yield failed_outcome(result.item.table, result.error or InvalidInputError("no result"))
        elif result.value.gone:
            yield _delete_rows(run.lake, result.item.identifier, result.value)
        else:
            yield result.value.outcome


def _clean_table(address: Address, task: TableTask) -> _CleanupResult:
    """Clean one table, on an executor."""
    begun = time.monotonic()
    options: _CleanupOptions = task.options
    # Listing finishes the versions that a dead writer committed, so that none of their files looks unused.
    before = list_versions(address, task.identifier)
    there = open_latest(address, task.identifier)
    if there is None:
        return _CleanupResult(TableOutcome(task.table, SKIPPED, DECLARED))
    _, dataset = there
    # A cleanup would also delete files behind links. This raises if the table has any.
    open_store(str(dataset.uri), {}).resolve("", deeply=True)
    wanted: dict[str, Any] = {
        "older_than": options.older_than,
        "retain_versions": options.retain_versions,
        "error_if_tagged_old_versions": False,
        "delete_rate_limit": options.delete_rate_limit,
    }
    gone: list[int] = []
    if options.dry_run:
        figures = dataset.explain_cleanup_old_versions(**wanted).stats
        left = len(before) - figures.old_versions
    else:
        figures = dataset.cleanup_old_versions(**wanted)
        after = set(list_versions(address, task.identifier))
        left, gone = len(after), [version for version in before if version not in after]
    details = {name: getattr(figures, name) for name in _COUNTED}
    details |= {"versions_removed": figures.old_versions, "versions_left": left, "rows_removed": 0}
    nothing = not figures.old_versions and not any(details[name] for name in _COUNTED)
    status, message = (SKIPPED, "no version is old enough to be removed") if nothing else (DONE, None)
    if getattr(figures, "failed_deletes", 0):
        message = f"{figures.failed_deletes} files could not be deleted; the next cleanup tries again"
    seconds = round(time.monotonic() - begun, 3)
    version = dataset.version
    outcome = TableOutcome(task.table, status, message, None, version, version, seconds, details)
    managed = bool(describe_table(address, task.identifier).managed_versioning)
    return _CleanupResult(outcome, tuple(gone) if managed else ())


def to_ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return numbers as ranges that exclude their end."""
    spans: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number:
            spans[-1] = (spans[-1][0], number + 1)
        else:
            spans.append((number, number + 1))
    return spans


def _delete_rows(lake: Lake, identifier: Identifier, cleaned: _CleanupResult) -> TableOutcome:
    """Delete the rows of removed versions from the manifest.

    If this fails, the next commit to the table deletes them.
    """
    outcome = cleaned.outcome
    try:
        removed = delete_versions(lake.directory, identifier, to_ranges(cleaned.gone))
    except LanceNamespaceError as error:
        return replace(outcome, message=f"the rows of removed versions stay until the next commit: {error}")
    return replace(outcome, details={**outcome.details, "rows_removed": removed})
