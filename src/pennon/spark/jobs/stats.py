"""Statistics of tables: rows, bytes, fragments, deleted rows, versions, indexes and small files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.spark.jobs.catalog_access import list_versions, open_latest
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, TableTask
from pennon.spark.jobs.outcome import DONE, JobResults, TableOutcome, skipped_outcome

if TYPE_CHECKING:
    import os

    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

SMALL_FILE_BYTES = 16 * 1024 * 1024
COLUMNS = (
    "rows bigint, deleted_rows bigint, bytes bigint, fragments bigint, files bigint, small_files bigint, "
    "small_file_ratio double, versions bigint, indexes bigint, unindexed_fragments bigint, columns int"
)


def stats(
    lake: Lake,
    which: TableSelector = None,
    *,
    small_file_bytes: int = SMALL_FILE_BYTES,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> JobResults:
    """Return statistics of the latest version of each table, from metadata only.

    A file below `small_file_bytes` counts as small. The ratio counts the data files only. Raises InvalidInputError if
    `small_file_bytes` is less than 1.
    """
    if small_file_bytes < 1:
        raise InvalidInputError(f"small_file_bytes must be at least 1, got {small_file_bytes}")
    run = JobRun(lake, "stats", COLUMNS, JobSettings(job_id=job_id, state=state, progress=progress))
    tables = run.find_tables(which)
    return run.collect(run.map_tables(_measure_table, tables, small_file_bytes), len(tables))


def _measure_table(address: Address, task: TableTask) -> TableOutcome:
    there = open_latest(address, task.identifier)
    if there is None:
        return skipped_outcome(task.table, DECLARED)
    pinned, dataset = there
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    sizes = [file.file_size_bytes or 0 for fragment in fragments for file in fragment.data_files()]
    small = sum(size < task.options for size in sizes)
    described = [one for one in dataset.describe_indices() if not one.name.startswith("__")]
    indexed = [{number for segment in one.segments for number in segment.fragment_ids} for one in described]
    numbers = {fragment.id for fragment in fragments}
    details = {
        "rows": sum(fragment.num_rows for fragment in fragments),
        "deleted_rows": sum(fragment.num_deletions for fragment in fragments),
        "bytes": sum(sizes),
        "fragments": len(fragments),
        "files": len(sizes),
        "small_files": small,
        "small_file_ratio": round(small / len(sizes), 4) if sizes else 0.0,
        "versions": len(list_versions(address, task.identifier)),
        "indexes": len(described),
        "unindexed_fragments": len(set().union(*(numbers - covered for covered in indexed))),
        "columns": len(dataset.schema.names),
    }
    return TableOutcome(task.table, DONE, None, None, pinned.version, pinned.version, details=details)
