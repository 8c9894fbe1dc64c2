"""Figures of tables: rows, bytes, fragments, deleted rows, versions, indexes, and how small their files are."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.spark.jobs.asking import opened, versions
from pennon.spark.jobs.outcome import DONE, SKIPPED, Outcome, as_frame
from pennon.spark.jobs.running import DECLARED, Run, Settings, TableWork

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.jobs.targets import Which
    from pennon.spark.lake import Lake

SMALL_FILE_BYTES = 16 * 1024 * 1024
COLUMNS = (
    ("rows", "bigint"),
    ("deleted_rows", "bigint"),
    ("bytes", "bigint"),
    ("fragments", "bigint"),
    ("files", "bigint"),
    ("small_files", "bigint"),
    ("small_file_ratio", "double"),
    ("versions", "bigint"),
    ("indexes", "bigint"),
    ("unindexed_fragments", "bigint"),
    ("columns", "int"),
)


def stats(
    lake: Lake,
    which: Which = None,
    *,
    small_file_bytes: int = SMALL_FILE_BYTES,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Tell the figures of the latest versions of tables; reads metadata only, and changes nothing.

    A file below `small_file_bytes` counts as small; the ratio is of the files that hold the table's columns.
    """
    if small_file_bytes < 1:
        raise InvalidInputError(f"small_file_bytes is at least 1, got {small_file_bytes}")
    run = Run.begin(lake, "stats", Settings(job_id=job_id, state=state, progress=progress))
    tables = run.targets(which)
    outcomes = run.take(run.on_executors(_measured, tables, _Limits(small_file_bytes)), len(tables))
    return as_frame(lake.spark, outcomes, COLUMNS)


@dataclass(frozen=True)
class _Limits:
    small_file_bytes: int


def _measured(address: Address, work: TableWork) -> Outcome:
    begun = time.monotonic()
    there = opened(address, work.identifier)
    if there is None:
        return Outcome(work.table, SKIPPED, DECLARED)
    _, dataset = there
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    sizes = [file.file_size_bytes or 0 for fragment in fragments for file in fragment.data_files()]
    small = sum(size < work.options.small_file_bytes for size in sizes)
    described = [one for one in dataset.describe_indices() if not one.name.startswith("__")]
    indexed = [{number for segment in one.segments for number in segment.fragment_ids} for one in described]
    numbers = {fragment.id for fragment in fragments}
    did = {
        "rows": sum(fragment.num_rows for fragment in fragments),
        "deleted_rows": sum(fragment.num_deletions for fragment in fragments),
        "bytes": sum(sizes),
        "fragments": len(fragments),
        "files": len(sizes),
        "small_files": small,
        "small_file_ratio": round(small / len(sizes), 4) if sizes else 0.0,
        "versions": len(versions(address, work.identifier)),
        "indexes": len(described),
        "unindexed_fragments": len(set().union(*(numbers - covered for covered in indexed))),
        "columns": len(dataset.schema.names),
    }
    version = dataset.version
    return Outcome(work.table, DONE, None, None, version, version, round(time.monotonic() - begun, 3), did)
