"""The schema, metadata and statistics of a table version."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance

from pennon.errors import TableVersionNotFoundError, is_not_found
from pennon.table import indexes
from pennon.table.version_selector import check_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lance_namespace_urllib3_client.models.json_arrow_schema import JsonArrowSchema
    from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats

    from pennon.table.version_selector import VersionSelector


# Compaction merges fragments up to this number of rows.
_FULL_FRAGMENT_ROWS = 1024 * 1024


@dataclass(frozen=True)
class TableDescription:
    """The schema, basic statistics and metadata of one version of a table."""

    version: int
    schema: JsonArrowSchema
    stats: TableBasicStats
    metadata: dict[str, str]


def open_table(
    location: str,
    storage_options: Mapping[str, str],
    selector: VersionSelector,
    *,
    table: str,
    session: Any = None,
    check_branch: Callable[[str], object] = lambda _: None,
) -> lance.LanceDataset:
    """Open a table at a version, tag or branch, as its files define them.

    A session caches what was read of a version by the e-tag of its manifest. `check_branch` is called with the name of
    a branch before it is opened, and raises to refuse it. Raises TableVersionNotFoundError, TableTagNotFoundError or
    TableBranchNotFoundError if the version does not exist.
    """
    dataset = lance.dataset(location, storage_options=dict(storage_options) or None, session=session)
    target = selector.resolve_tag(dataset, table)
    if target.branch is None and target.version in {None, dataset.version}:
        return dataset
    try:
        return check_out(dataset, target, table, check_branch)
    except (OSError, ValueError, OverflowError) as error:
        if is_not_found(error) or isinstance(error, OverflowError):
            raise TableVersionNotFoundError(f"Table {table} has no version {target.version}") from error
        raise


def count_rows(location: str, storage_options: Mapping[str, str]) -> int | None:
    """Return the number of rows of the latest version, or None if it cannot be read."""
    try:
        return int(lance.dataset(location, storage_options=dict(storage_options) or None).count_rows())
    except (OSError, ValueError):
        return None


def describe_version(dataset: lance.LanceDataset) -> TableDescription:
    """Return the description of the open version."""
    # Imported here: opening a table does not need the SDK's models (docs/adr/0010).
    from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats  # noqa: PLC0415

    from pennon.table.json_arrow import to_json_schema  # noqa: PLC0415

    numbers = dataset.stats.dataset_stats()
    return TableDescription(
        version=int(dataset.version),
        schema=to_json_schema(dataset.schema),
        stats=TableBasicStats(
            num_deleted_rows=int(numbers["num_deleted_rows"]), num_fragments=int(numbers["num_fragments"])
        ),
        metadata={str(key): str(value) for key, value in dataset.metadata.items()},
    )


@dataclass(frozen=True)
class NumberSummary:
    """The distribution of some numbers. All fields are zero if there are no numbers."""

    min: int
    max: int
    mean: int
    p25: int
    p50: int
    p75: int
    p99: int


@dataclass(frozen=True)
class TableStatistics:
    """Statistics of one version: rows without deleted ones, and the bytes of its data files."""

    rows: int
    total_bytes: int
    indexes: int
    fragments: int
    small_fragments: int
    lengths: NumberSummary


def collect_statistics(dataset: lance.LanceDataset) -> TableStatistics:
    """Return the statistics of the open version. Only its manifest is read."""
    fragments = dataset.get_fragments()
    lengths = [int(fragment.metadata.num_rows) for fragment in fragments]
    sizes = [file.file_size_bytes or 0 for fragment in fragments for file in fragment.metadata.files]
    return TableStatistics(
        rows=sum(lengths),
        total_bytes=sum(sizes) if all(sizes) else _sum_column_bytes(dataset),
        indexes=len(indexes.list_names(dataset)),
        fragments=len(fragments),
        small_fragments=sum(length < _FULL_FRAGMENT_ROWS for length in lengths),
        lengths=summarize_numbers(lengths),
    )


def summarize_numbers(numbers: Sequence[int]) -> NumberSummary:
    """Return the distribution of some numbers. A percentile is the smallest number with that share at or below it."""
    if not numbers:
        return NumberSummary(0, 0, 0, 0, 0, 0, 0)
    ordered = sorted(numbers)
    percentiles = (ordered[max(0, math.ceil(part * len(ordered)) - 1)] for part in (0.25, 0.5, 0.75, 0.99))
    return NumberSummary(ordered[0], ordered[-1], round(sum(ordered) / len(ordered)), *percentiles)


def _sum_column_bytes(dataset: lance.LanceDataset) -> int:
    """Return the bytes of all columns. Old writers did not record the sizes of data files."""
    fields: Any = dataset.stats.data_stats().fields
    return sum(int(field.bytes_on_disk) for field in fields)
