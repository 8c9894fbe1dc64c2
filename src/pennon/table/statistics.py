"""Statistics of a table: rows, bytes, fragments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.table import indexes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import LanceDataset

# Fragments are put together up to so many rows when a table is compacted.
_ROWS_OF_A_FULL_FRAGMENT = 1024 * 1024


@dataclass(frozen=True)
class Spread:
    """How a set of numbers is spread; all zero if there are none."""

    min: int
    max: int
    mean: int
    p25: int
    p50: int
    p75: int
    p99: int


@dataclass(frozen=True)
class Statistics:
    """What is in one version of a table. Rows are those that are not deleted, bytes those of its data files."""

    rows: int
    total_bytes: int
    indexes: int
    fragments: int
    small_fragments: int
    lengths: Spread


def statistics(dataset: LanceDataset) -> Statistics:
    """Count what is in the open version; nothing is read but what the version says of its files."""
    fragments = dataset.get_fragments()
    lengths = [int(fragment.metadata.num_rows) for fragment in fragments]
    sizes = [file.file_size_bytes or 0 for fragment in fragments for file in fragment.metadata.files]
    return Statistics(
        rows=sum(lengths),
        total_bytes=sum(sizes) if all(sizes) else _bytes_by_column(dataset),
        indexes=len(indexes.names(dataset)),
        fragments=len(fragments),
        small_fragments=sum(length < _ROWS_OF_A_FULL_FRAGMENT for length in lengths),
        lengths=spread(lengths),
    )


def spread(numbers: Sequence[int]) -> Spread:
    """Describe numbers; a percentile is the smallest number that so many are not above."""
    if not numbers:
        return Spread(0, 0, 0, 0, 0, 0, 0)
    ordered = sorted(numbers)

    def percentile(part: float) -> int:
        return ordered[max(0, math.ceil(part * len(ordered)) - 1)]

    mean = round(sum(ordered) / len(ordered))
    return Spread(ordered[0], ordered[-1], mean, *(percentile(part) for part in (0.25, 0.5, 0.75, 0.99)))


def _bytes_by_column(dataset: LanceDataset) -> int:
    """Sum up what the columns need, for files whose size is not noted: those of old writers."""
    fields: Any = dataset.stats.data_stats().fields
    return sum(int(field.bytes_on_disk) for field in fields)
