"""Deleting dropped tables whose time is over, for good. What is gone is gone: running it again finds what is left."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, InvalidTableStateError
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs.outcome import DONE, FAILED, SKIPPED, Outcome, as_frame, failure
from pennon.spark.jobs.running import Run, Settings
from pennon.spark.jobs.spreading import attempt, spread
from pennon.spark.jobs.targets import chosen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.results import DroppedTable
    from pennon.spark.address import Address
    from pennon.spark.jobs.targets import Which
    from pennon.spark.lake import Lake

COLUMNS = (
    ("deletion_id", "string"),
    ("dropped_at", "timestamp"),
    ("files_removed", "bigint"),
    ("bytes_removed", "bigint"),
)
# Tables that a task purges side by side: their commits to the catalog's manifest are made together.
_SIDE_BY_SIDE = 8


def purge(
    lake: Lake,
    which: Which = None,
    *,
    deleted_before: datetime | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: bool | None = None,
) -> DataFrame:
    """Delete the data of dropped tables whose time is over, of those dropped before a moment if one is given.

    `force` also deletes what is kept still, or protected. A table that was dropped several times has a row for each.
    What is protected, or not due after all, is skipped with code 19.
    """
    run = Run.begin(lake, "purge", Settings(dry_run, progress=progress))
    due = [
        table
        for table in _candidates(lake, deleted_before, force=force, detailed=dry_run)
        if chosen(tuple(table.id), which)
    ]
    if dry_run:
        outcomes = run.take((_would_go(table) for table in due), len(due))
    else:
        outcomes = run.take(_purged(run, due, force=force), len(due))
        if which is None and deleted_before is None:
            # Forgets dropped namespaces too, and finds what fell due meanwhile.
            lake.directory.purge_tables(force=False)
    return as_frame(lake.spark, outcomes, COLUMNS)


@dataclass(frozen=True)
class _Drop:
    """One drop of a table."""

    identifier: Identifier
    deletion_id: str
    dropped_at: datetime
    force: bool

    @property
    def table(self) -> str:
        return quote_identifier(self.identifier)


@dataclass(frozen=True)
class _Drops:
    """What one task purges."""

    drops: tuple[_Drop, ...]

    @property
    def table(self) -> str:
        return ", ".join(drop.table for drop in self.drops)


def _candidates(lake: Lake, deleted_before: datetime | None, *, force: bool, detailed: bool) -> Iterator[DroppedTable]:
    if force and deleted_before is None:
        deleted_before = datetime.max.replace(tzinfo=timezone.utc)
    now = datetime.now(timezone.utc)
    for table in lake.directory.list_purgable_tables(deleted_before, detailed=detailed):
        if force or table.is_due(now):
            yield table


def _purged(run: Run, due: Sequence[DroppedTable], *, force: bool) -> Iterator[Outcome]:
    drops = [_Drop(tuple(table.id), table.deletion_id, table.dropped_at, force) for table in due]
    items = [_Drops(tuple(drops[start : start + _SIDE_BY_SIDE])) for start in range(0, len(drops), _SIDE_BY_SIDE)]
    for answer in spread(run.lake.spark, run.lake.address, _purged_some, items, subject=run.subject):
        if answer.value is not None:
            yield from answer.value
            continue
        error = answer.error or InvalidInputError("no answer")
        yield from (failure(drop.table, error, did=_named(drop)) for drop in answer.item.drops)


def _purged_some(address: Address, work: _Drops) -> list[Outcome]:
    with ThreadPoolExecutor(max_workers=_SIDE_BY_SIDE) as threads:
        return list(threads.map(lambda drop: _purged_one(address, drop), work.drops))


def _purged_one(address: Address, drop: _Drop) -> Outcome:
    begun = time.monotonic()
    value, code, message = attempt(_removed, address, drop, f"purge of {drop.table}")
    seconds = round(time.monotonic() - begun, 3)
    if value is None:
        # Protected, or kept for a while yet by the store's clock: nothing is wrong with it.
        status = SKIPPED if code == int(InvalidTableStateError("").code) else FAILED
        return Outcome(drop.table, status, message, code, seconds=seconds, did=_named(drop))
    files, size = value
    return Outcome(
        drop.table, DONE, seconds=seconds, did={**_named(drop), "files_removed": files, "bytes_removed": size}
    )


def _removed(address: Address, drop: _Drop) -> tuple[int, int]:
    report = address.directory().purge_table(list(drop.identifier), drop.deletion_id, force=drop.force)
    return sum(one.files for one in report.tables), sum(one.bytes for one in report.tables)


def _would_go(table: DroppedTable) -> Outcome:
    did = {"deletion_id": table.deletion_id, "dropped_at": table.dropped_at, "bytes_removed": table.bytes}
    return Outcome(quote_identifier(tuple(table.id)), DONE, did=did)


def _named(drop: _Drop) -> dict[str, object]:
    return {"deletion_id": drop.deletion_id, "dropped_at": drop.dropped_at}
