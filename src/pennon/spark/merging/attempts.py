"""Changes that are applied once for each job, and retried if others changed the same fragments first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import ConcurrentModificationError
from pennon.spark.merging.clauses import DELETE, INSERT, UPDATE
from pennon.spark.merging.rewrite_operations import COUNTED
from pennon.spark.tables import job_commits
from pennon.spark.tables.publishing import publish_or_discard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.tables.staged_write import StagedWrite

ATTEMPTS = 5
"""How often a change is tried while others change the same fragments first."""


@dataclass(frozen=True)
class AppliedChange:
    """A committed change: its version, and the number of rows of each kind."""

    version: int
    counts: Mapping[str, int]
    already: bool = False


def apply_once(
    address: Address, identifier: Identifier, job_id: str | None, branch: str | None, stage: Callable[[], StagedWrite]
) -> AppliedChange:
    """Stage and publish a change, and retry if others changed the same fragments first.

    If an earlier run of the job committed it, nothing is staged. Raises InvalidInputError for a bad job id, and
    ConcurrentModificationError after ATTEMPTS conflicts.
    """
    job_commits.require_job_id(job_id)
    earlier = _find_earlier(address, identifier, job_id, branch)
    if earlier is not None:
        return earlier
    for attempt in range(ATTEMPTS):
        staged = stage()
        try:
            published = publish_or_discard(staged, job_id=job_id)
        except ConcurrentModificationError:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        earlier = _find_earlier(address, identifier, job_id, branch) if published.already else None
        return earlier or AppliedChange(int(published.version or 0), _counts(staged.transaction))
    raise AssertionError


def _find_earlier(
    address: Address, identifier: Identifier, job_id: str | None, branch: str | None
) -> AppliedChange | None:
    found = None if job_id is None else job_commits.find_job(address, identifier, job_id, branch)
    if found is None:
        return None
    return AppliedChange(found.version, _counts(found.transaction.transaction_properties or {}), already=True)


def _counts(properties: Mapping[str, str]) -> dict[str, int]:
    return {kind: int(properties.get(f"{COUNTED}{kind}", "0")) for kind in (INSERT, UPDATE, DELETE)}
