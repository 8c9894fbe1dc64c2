"""Changes that are made once: by one of several runs of a job, and anew where others changed the same rows first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import ConcurrentModificationError
from pennon.spark.commits import committing
from pennon.spark.commits.publishing import publish_or_discard
from pennon.spark.merging import operations
from pennon.spark.merging.changes import DELETE, INSERT, UPDATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pennon.identifiers import Identifier
    from pennon.spark.commits.staged import StagedWrite
    from pennon.spark.lake import Lake

ATTEMPTS = 5
"""How often a change is made because others changed the same fragments first."""


@dataclass(frozen=True)
class Changed:
    """A version that changes rows of a table, and how many rows of each kind."""

    version: int
    counts: Mapping[str, int]
    already: bool = False


def done_before(lake: Lake, identifier: Identifier, job_id: str | None, branch: str | None) -> Changed | None:
    """Find what an earlier run of a job has changed."""
    if job_id is None:
        return None
    found = committing.find(lake.address, identifier, job_id, branch)
    return None if found is None else _found(found)


def changed_once(lake: Lake, job_id: str | None, stage: Callable[[], StagedWrite]) -> Changed:
    """Stage a change and publish it, anew if others changed the same fragments first; 14 if they always do."""
    for attempt in range(ATTEMPTS):
        staged = stage()
        try:
            published = publish_or_discard(lake, staged, job_id=job_id)
        except ConcurrentModificationError:
            if attempt == ATTEMPTS - 1:
                raise
            continue
        if published.already and job_id is not None:
            found = done_before(lake, staged.identifier, job_id, staged.destination.branch)
            if found is not None:
                return found
        return Changed(int(published.version or 0), _counts(staged.transaction))
    raise AssertionError


def _found(found: committing.Committed) -> Changed:
    return Changed(found.version, _counts(found.transaction.transaction_properties or {}), already=True)


def _counts(properties: Mapping[str, str]) -> dict[str, int]:
    return {kind: int(properties.get(f"{operations.COUNTED}{kind}", "0")) for kind in (INSERT, UPDATE, DELETE)}
