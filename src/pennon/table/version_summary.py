"""The figures of a version, from its manifest alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance import LanceDataset

FULL_FRAGMENT_ROWS = 1 << 20
"""The rows of a fragment that compaction leaves alone, by Lance's default."""
MANY_SMALL_FRAGMENTS = 10
MANY_DELETED_ROWS = 0.1
"""The share of deleted rows from which on compaction rewrites a fragment, by Lance's default."""


@dataclass(frozen=True)
class VersionSummary:
    """Numbers from the manifest of an open version; no other file is read."""

    version: int
    rows: int
    fragments: int
    small_fragments: int
    """Fragments with fewer rows than a full one."""
    deleted_rows: int
    data_bytes: int
    changed: datetime

    def list_compaction_reasons(self) -> list[str]:
        """Return why the table needs compaction; nothing if it does not."""
        reasons = []
        if self.small_fragments >= MANY_SMALL_FRAGMENTS:
            reasons.append(f"{self.small_fragments:,} small fragments")
        stored = self.rows + self.deleted_rows
        if stored and self.deleted_rows / stored > MANY_DELETED_ROWS:
            reasons.append(f"{self.deleted_rows / stored:.0%} of the stored rows are deleted")
        return reasons


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
        int(dataset.stats.dataset_stats(FULL_FRAGMENT_ROWS)["num_small_files"]),
        int(numbers["total_deletion_file_rows"]),
        int(numbers["total_files_size"]),
        changed,
    )
