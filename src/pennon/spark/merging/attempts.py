"""Changes that are applied once for each job, and retried if others changed the same fragments first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import ConcurrentModificationError
from pennon.spark.merging import rewrite_operations
from pennon.spark.merging.row_changes import DELETE, INSERT, UPDATE
from pennon.spark.tables import job_commits
from pennon.spark.tables.publishing import publish_or_discard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.tables.staged_write import StagedWrite

ATTEMPTS = 5
"""How often a change is tried while others change the same fragments first."""


@dataclass(frozen=True)
class AppliedChange:
    """A committed change: its version, and the number of rows of each kind."""

    version: int
    counts: Mapping[str, int]
    already: bool = False


def find_earlier_change(
    lake: Lake, identifier: Identifier, job_id: str | None, branch: str | None
) -> AppliedChange | None:
    """Return the change that an earlier run of a job committed, or None."""
    if job_id is None:
        return None
    found = job_commits.find_job(lake.address, identifier, job_id, branch)
    return None if found is None else _from_commit(found)


def apply_once(lake: Lake, job_id: str | None, stage: Callable[[], StagedWrite]) -> AppliedChange:
    """Stage and publish a change, and retry if others changed the same fragments first.

    Raises ConcurrentModificationError after ATTEMPTS conflicts.
    """
    for attempt in range(ATTEMPTS):
        staged = stage()
        try:
            published = publish_or_discard(staged, job_id=job_id)
        except ConcurrentModificationError:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        if published.already and job_id is not None:
            found = find_earlier_change(lake, staged.identifier, job_id, staged.destination.branch)
            if found is not None:
                return found
        return AppliedChange(int(published.version or 0), _counts(staged.transaction))
    raise AssertionError


def _from_commit(found: job_commits.CommittedVersion) -> AppliedChange:
    return AppliedChange(found.version, _counts(found.transaction.transaction_properties or {}), already=True)


def _counts(properties: Mapping[str, str]) -> dict[str, int]:
    return {kind: int(properties.get(f"{rewrite_operations.COUNTED}{kind}", "0")) for kind in (INSERT, UPDATE, DELETE)}
