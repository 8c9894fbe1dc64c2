"""The figures of a version, from its manifest alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance import LanceDataset


@dataclass(frozen=True)
class VersionSummary:
    """Numbers from the manifest of an open version; no other file is read."""

    version: int
    rows: int
    fragments: int
    deleted_rows: int
    data_bytes: int
    changed: datetime


def summarize_version(dataset: LanceDataset) -> VersionSummary:
    """Return the numbers of the open version."""
    state = dataset.get_version()
    numbers = state["metadata"]
    when = state["timestamp"]
    # Lance returns local time without a time zone.
    changed = when.astimezone(timezone.utc) if isinstance(when, datetime) else datetime.fromtimestamp(0, timezone.utc)
    return VersionSummary(
        int(dataset.version),
        int(numbers["total_rows"]),
        int(numbers["total_fragments"]),
        int(numbers["total_deletion_file_rows"]),
        int(numbers["total_files_size"]),
        changed,
    )
