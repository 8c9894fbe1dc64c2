"""Verification: every table opens, its versions' files are all there, and what lies about unused is found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon import durations
from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs.asking import records
from pennon.spark.jobs.checking import DAMAGED, Asked, Looked, judged, looked_at
from pennon.spark.jobs.deep_reading import pieces, read_rows
from pennon.spark.jobs.outcome import FAILED, SKIPPED, Outcome, as_frame, failure
from pennon.spark.jobs.running import Run, Settings, TableWork
from pennon.spark.jobs.spreading import spread
from pennon.spark.jobs.targets import chosen

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.jobs.targets import Which
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
    which: Which = None,
    *,
    deep: bool = False,
    remove_orphans: bool = False,
    orphan_age: str = ORPHAN_AGE,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Check tables against their files; one that has a fault fails with 19, and `findings` says what was found.

    `deep` also reads every row of the latest version. `remove_orphans` deletes files that no version names and that
    are older than `orphan_age` by the store's clock, at least a day. Over the whole catalog, rows whose directory is
    gone and directories that no row names are reported too.
    """
    age = durations.milliseconds(orphan_age, "orphan_age")
    if remove_orphans and age < _LEAST_AGE_MS:
        raise InvalidInputError(f"Files younger than a day may belong to a running writer: orphan_age is {orphan_age}")
    run = Run.begin(lake, "verify", Settings(dry_run, job_id, state, progress))
    tables = run.targets(which)
    beside = _beside(lake.address, which)
    broken = {outcome.table for outcome in beside}
    left = [identifier for identifier in tables if quote_identifier(identifier) not in broken]
    asked = Asked(age / 1000, remove_orphans and not dry_run, deep)
    outcomes = run.take(_verified(run, left, beside, asked), len(left) + len(beside))
    return as_frame(lake.spark, outcomes, COLUMNS)


def _beside(address: Address, which: Which) -> list[Outcome]:
    """Compare the catalog's rows with the directories of its root."""
    from pennon.directory.inspection import inspect

    catalog = records(address)
    if catalog is None:
        return []
    found = inspect(catalog)
    outcomes = []
    for identifier, location in found.without_directory.items():
        if chosen(identifier, which):
            message = f"the catalog has the table, but its directory {location!r} is gone"
            did = {"location": location, "findings": [message]}
            outcomes.append(Outcome(quote_identifier(identifier), FAILED, message, DAMAGED, did=did))
    if which is None:
        message = "no table of the catalog lies in this directory; it is left alone"
        outcomes += [Outcome(None, SKIPPED, message, did={"location": directory}) for directory in found.without_row]
    return outcomes


def _verified(run: Run, tables: Sequence[Identifier], beside: Sequence[Outcome], asked: Asked) -> Iterator[Outcome]:
    yield from beside
    lake = run.lake
    to_read: list[Looked] = []
    items = [TableWork(identifier, asked) for identifier in tables]
    for answer in spread(lake.spark, lake.address, looked_at, items, subject=run.subject):
        if answer.value is None:
            yield failure(answer.item.table, answer.error or InvalidInputError("no answer"))
        elif asked.deep and answer.value.fragments:
            to_read.append(answer.value)
        else:
            yield answer.value.outcome
    yield from _read_deeply(run, to_read)


def _read_deeply(run: Run, looked: Sequence[Looked]) -> Iterator[Outcome]:
    """Read all rows of tables by tasks of their own, each some fragments."""
    lake = run.lake
    work = {one.outcome.table: one for one in looked}
    items = [piece for one in looked if one.pinned is not None for piece in pieces(one.pinned, one.fragments)]
    waiting = {table: sum(item.table == table for item in items) for table in work}
    rows: dict[str | None, int] = dict.fromkeys(work, 0)
    faults: dict[str | None, list[str]] = {table: [] for table in work}
    for answer in spread(lake.spark, lake.address, read_rows, items, subject=run.subject):
        table = answer.item.table
        waiting[table] -= 1
        if answer.value is None:
            faults[table].append(f"rows cannot be read: {answer.error}")
        else:
            rows[table] += answer.value
        if not waiting[table]:
            outcome = work[table].outcome
            did = {**outcome.did, "rows_read": rows[table]}
            yield judged(replace(outcome, did=did), faults[table])
