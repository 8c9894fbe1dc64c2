"""Splitting a scan into tasks: by fragment, and large fragments by rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lance import LanceDataset

MAX_SPLIT_BYTES = 128 * 1024 * 1024
# Starting a task takes some milliseconds, in which this many rows can be read.
_MIN_SPLIT_ROWS = 32_768
_ASSUMED_ROW_BYTES = 64


@dataclass(frozen=True)
class FragmentSize:
    """The size of a fragment."""

    id: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class Split:
    """Whole fragments, or the physical rows from `start` to `stop` of a single one."""

    fragments: tuple[int, ...]
    start: int | None = None
    stop: int | None = None

    def condition(self) -> str | None:
        """Return the predicate for the rows of this split, or None for whole fragments."""
        if self.start is None or self.stop is None:
            return None
        first = self.fragments[0] << 32
        return f"_rowaddr >= {first + self.start} AND _rowaddr < {first + self.stop}"


def fragment_sizes(dataset: LanceDataset) -> tuple[FragmentSize, ...]:
    """Return the sizes of the fragments from the manifest, without opening files."""
    return tuple(_measure(fragment.metadata) for fragment in dataset.get_fragments())


def plan_splits(
    fragments: Sequence[FragmentSize], *, parallelism: int, share: float = 1.0, max_bytes: int = MAX_SPLIT_BYTES
) -> list[Split]:
    """Return splits of about equal size: one for each core if there are enough rows, more if they would be too large.

    `share` is the share of the projected columns in the bytes of a row.
    """
    rows = sum(fragment.rows for fragment in fragments)
    if not rows:
        return []
    row_bytes = sum(fragment.bytes for fragment in fragments) / rows * share
    by_size = math.ceil(rows * row_bytes / max_bytes)
    count = max(by_size, min(max(parallelism, 1), math.ceil(rows / _MIN_SPLIT_ROWS)))
    wanted = math.ceil(rows / count)
    return list(_cut(fragments, wanted))


def group_fragments(
    fragments: Iterable[FragmentSize], limit: int, size: Callable[[FragmentSize], int]
) -> list[tuple[int, ...]]:
    """Return groups of fragments, each at most as large as `limit`; a larger fragment is a group of its own."""
    groups: list[list[int]] = []
    held = 0
    for fragment in fragments:
        if not groups or held + size(fragment) > limit:
            groups.append([])
            held = 0
        groups[-1].append(fragment.id)
        held += size(fragment)
    return [tuple(group) for group in groups]


def _cut(fragments: Iterable[FragmentSize], wanted: int) -> Iterable[Split]:
    gathered: list[int] = []
    held = 0
    for fragment in fragments:
        if not fragment.rows:
            continue
        if fragment.rows >= wanted * 1.5:
            pieces = math.ceil(fragment.rows / wanted)
            size = math.ceil(fragment.rows / pieces)
            for start in range(0, fragment.rows, size):
                yield Split((fragment.id,), start, min(start + size, fragment.rows))
            continue
        if gathered and held + fragment.rows > wanted * 1.25:
            yield Split(tuple(gathered))
            gathered, held = [], 0
        gathered.append(fragment.id)
        held += fragment.rows
    if gathered:
        yield Split(tuple(gathered))


def _measure(metadata: object) -> FragmentSize:
    rows = metadata.physical_rows  # type: ignore[attr-defined]  # lance.fragment.FragmentMetadata
    sizes = [file.file_size_bytes for file in metadata.files]  # type: ignore[attr-defined]
    known = sum(size for size in sizes if size)
    return FragmentSize(metadata.id, rows, known or rows * _ASSUMED_ROW_BYTES)  # type: ignore[attr-defined]
