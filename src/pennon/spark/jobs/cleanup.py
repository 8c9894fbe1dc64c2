"""Removing old versions and the files that only they name.

A version stays if it is the latest, if a tag or a branch needs it, if it is younger than asked for, or among the newest
that are to stay. Files that no version names are left alone until they are a week old: a writer may be about to commit
them. Where the catalog manages versions, the rows of what is gone are taken out of its manifest, by one commit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pennon import durations
from pennon.errors import InvalidInputError, LanceNamespaceError
from pennon.spark.jobs.asking import delete_versions, described, opened, versions
from pennon.spark.jobs.outcome import DONE, SKIPPED, Outcome, as_frame, failure
from pennon.spark.jobs.running import DECLARED, Run, Settings, TableWork
from pennon.spark.jobs.spreading import spread
from pennon.store import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.jobs.targets import Which
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
    which: Which = None,
    *,
    older_than: str | timedelta | None = None,
    retain_versions: int | None = None,
    delete_rate_limit: int | None = None,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Remove versions that are older than a time (`90s`, `12h`, `14d`) and not among the newest `retain_versions`.

    With neither, versions older than two weeks go. Tagged versions, and those that branches need, stay. In the result,
    `rows_removed` are the rows of the catalog's manifest.
    """
    asked = _Asked.of(older_than, retain_versions, delete_rate_limit, dry_run=dry_run)
    run = Run.begin(lake, "cleanup", Settings(dry_run, job_id, state, progress))
    tables = run.targets(which)
    outcomes = run.take(_cleaned(run, tables, asked), len(tables))
    return as_frame(lake.spark, outcomes, COLUMNS)


@dataclass(frozen=True)
class _Asked:
    older_than: timedelta | None
    retain_versions: int | None
    delete_rate_limit: int | None
    dry_run: bool

    @classmethod
    def of(cls, older_than: str | timedelta | None, retain: int | None, rate: int | None, *, dry_run: bool) -> _Asked:
        if older_than is None and retain is None:
            older_than = DEFAULT_AGE
        if isinstance(older_than, str):
            older_than = timedelta(milliseconds=durations.milliseconds(older_than, "older_than"))
        if older_than is not None and older_than < timedelta(0):
            raise InvalidInputError(f"older_than is not negative, got {older_than}")
        for name, value in (("retain_versions", retain), ("delete_rate_limit", rate)):
            if value is not None and value < 1:
                raise InvalidInputError(f"{name} is at least 1, got {value}")
        return cls(older_than, retain, rate, dry_run)


@dataclass(frozen=True)
class _Cleaned:
    outcome: Outcome
    gone: tuple[int, ...] = ()
    """Versions that are not there any more, and have rows in the catalog's manifest."""


def _cleaned(run: Run, tables: Sequence[Identifier], asked: _Asked) -> Iterator[Outcome]:
    items = [TableWork(identifier, asked) for identifier in tables]
    for answer in spread(run.lake.spark, run.lake.address, _cleaned_one, items, subject=run.subject):
        if answer.value is None:
            yield failure(answer.item.table, answer.error or InvalidInputError("no answer"))
        elif answer.value.gone:
            yield _without_rows(run.lake, answer.item.identifier, answer.value)
        else:
            yield answer.value.outcome


def _cleaned_one(address: Address, work: TableWork) -> _Cleaned:
    """Clean one table on an executor."""
    begun = time.monotonic()
    asked: _Asked = work.options
    # Whoever lists versions finishes those that a dead writer committed: none of their files looks unused then.
    before = versions(address, work.identifier)
    there = opened(address, work.identifier)
    if there is None:
        return _Cleaned(Outcome(work.table, SKIPPED, DECLARED))
    _, dataset = there
    # Cleaning deletes files that it finds, also behind links; this raises if there are any.
    open_store(str(dataset.uri), {}).resolve("", deeply=True)
    wanted: dict[str, Any] = {
        "older_than": asked.older_than,
        "retain_versions": asked.retain_versions,
        "error_if_tagged_old_versions": False,
        "delete_rate_limit": asked.delete_rate_limit,
    }
    gone: list[int] = []
    if asked.dry_run:
        figures = dataset.explain_cleanup_old_versions(**wanted).stats
        left = len(before) - figures.old_versions
    else:
        figures = dataset.cleanup_old_versions(**wanted)
        after = set(versions(address, work.identifier))
        left, gone = len(after), [version for version in before if version not in after]
    did = {name: getattr(figures, name) for name in _COUNTED}
    did |= {"versions_removed": figures.old_versions, "versions_left": left, "rows_removed": 0}
    nothing = not figures.old_versions and not any(did[name] for name in _COUNTED)
    status, message = (SKIPPED, "no version is old enough") if nothing else (DONE, None)
    if getattr(figures, "failed_deletes", 0):
        message = f"{figures.failed_deletes} files could not be deleted; the next cleanup tries again"
    seconds = round(time.monotonic() - begun, 3)
    version = dataset.version
    outcome = Outcome(work.table, status, message, None, version, version, seconds, did)
    managed = bool(described(address, work.identifier).managed_versioning)
    return _Cleaned(outcome, tuple(gone) if managed else ())


def ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Give numbers as ranges, the end not included."""
    spans: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number:
            spans[-1] = (spans[-1][0], number + 1)
        else:
            spans.append((number, number + 1))
    return spans


def _without_rows(lake: Lake, identifier: Identifier, cleaned: _Cleaned) -> Outcome:
    """Take the rows of versions that are gone out of the manifest; if that fails, the next commit to the table does."""
    outcome = cleaned.outcome
    try:
        removed = delete_versions(lake.directory, identifier, ranges(cleaned.gone))
    except LanceNamespaceError as error:
        return replace(outcome, message=f"the rows of removed versions go with the next commit: {error}")
    return replace(outcome, did={**outcome.did, "rows_removed": removed})
