"""From V1 to V2: directories `<name>.lance` become rows of the manifest, in one commit, after a look at each table."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.address import Address
from pennon.spark.jobs.asking import opened
from pennon.spark.jobs.outcome import DONE, SKIPPED, Outcome, as_frame, failure
from pennon.spark.jobs.running import DECLARED, Run, Settings, TableWork
from pennon.spark.jobs.spreading import spread
from pennon.spark.jobs.targets import chosen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.jobs.targets import Which
    from pennon.spark.lake import Lake

COLUMNS = (("location", "string"), ("rows", "bigint"), ("columns", "int"))


def migrate(lake: Lake, which: Which = None, *, dry_run: bool = False, progress: bool | None = None) -> DataFrame:
    """Register V1 tables in the manifest, all in one commit; no data is moved, and running it again finds no work.

    Every table is opened on an executor first. One that does not open fails with the reason and is left out: it stays
    as it is, and can be migrated later. Errors: 0 where the catalog is opened without the manifest.
    """
    run = Run.begin(lake, "migrate", Settings(dry_run, progress=progress))
    report = lake.directory.migrate_to_manifest(dry_run=True)
    found = {table.name: table.location for table in report.migrated if chosen((table.name,), which)}
    rest = [_left(name, "the manifest has it already") for name in report.already if chosen((name,), which)]
    rest += [_left(entry.name, entry.reason) for entry in report.skipped if chosen((entry.name,), which)]
    total = len(found) + len(rest)
    outcomes = run.take(_migrated(run, found, rest), total)
    return as_frame(lake.spark, outcomes, COLUMNS)


def _migrated(run: Run, found: dict[str, str], rest: Sequence[Outcome]) -> Iterator[Outcome]:
    yield from rest
    lake = run.lake
    looked: dict[Identifier, Outcome] = {}
    items = [TableWork((name,), location) for name, location in found.items()]
    for answer in spread(lake.spark, _as_directories(lake.address), _looked_at, items, subject=run.subject):
        if answer.value is not None:
            looked[answer.item.identifier] = answer.value
        elif answer.error is not None:
            did = {"location": answer.item.options}
            yield failure(answer.item.table, answer.error, did=did)
    good = {identifier[0] for identifier, one in looked.items() if one.status == DONE}
    begun = time.monotonic()
    # The commit point. A table that was dropped since it was looked at is not in the report.
    done = lake.directory.migrate_to_manifest(dry_run=run.settings.dry_run, names=good)
    migrated = {table.name for table in done.migrated}
    reasons = {entry.name: entry.reason for entry in done.skipped} | dict.fromkeys(
        done.already, "another client was first"
    )
    seconds = time.monotonic() - begun
    for (name,), outcome in looked.items():
        if name in migrated:
            yield replace(outcome, seconds=round(outcome.seconds + seconds / len(looked), 3))
        else:
            yield replace(outcome, status=SKIPPED, message=reasons.get(name, "it is not there any more"))


def _looked_at(address: Address, work: TableWork) -> Outcome:
    """Open a table on an executor, and read its schema and its number of rows."""
    begun = time.monotonic()
    there = opened(address, work.identifier)
    did = {"location": work.options}
    if there is None:
        return Outcome(work.table, DONE, DECLARED, did=did)
    _, dataset = there
    did |= {"rows": dataset.count_rows(), "columns": len(dataset.schema.names)}
    version = dataset.version
    return Outcome(work.table, DONE, None, None, version, version, round(time.monotonic() - begun, 3), did)


def _as_directories(address: Address) -> Address:
    """Look at the catalog as a V1 client does, which sees every such table, whichever way this one is opened."""
    properties = {**dict(address.properties), "manifest_enabled": "false", "dir_listing_enabled": "true"}
    return Address.of(address.impl, properties)


def _left(name: str, reason: str) -> Outcome:
    return Outcome(quote_identifier((name,)), SKIPPED, reason)
