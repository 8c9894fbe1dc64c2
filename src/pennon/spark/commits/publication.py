"""Making several staged writes visible in one commit of the catalog."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.errors import (
    ConcurrentModificationError,
    LanceNamespaceError,
    TableNotFoundError,
    UnsupportedOperationError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.commits import committing, publishing
from pennon.spark.commits.committing import Committed
from pennon.spark.commits.destination import located

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lance import LanceDataset

    from pennon import NewTable, TableCommit
    from pennon.spark.commits.publishing import Lake
    from pennon.spark.commits.staged import StagedWrite, WriteResult

_ATTEMPTS = 10


def publish_together(
    lake: Lake,
    staged: Sequence[StagedWrite],
    *,
    job_id: str | None = None,
    unchanged: Collection[Identifier] = (),
) -> list[WriteResult]:
    """Make several staged writes visible in one commit of the catalog, or none of them; results in the same order.

    Needs a catalog that manages versions (0 if it does not), and no branches. A second time with the same `job_id`
    changes nothing. Tables that must be `unchanged` since they were staged raise 14 if they are not. Errors 0, 1, 4, 5,
    13, 14, and as of `publish`.
    """
    committing.check_job(job_id)
    for one in staged:
        if one.destination.branch is not None:
            raise UnsupportedOperationError(
                f"Tables are published together, but not branches: {one.destination.branch!r} of "
                f"{format_identifier(one.identifier)}"
            )
    publication = _Publication(lake, staged, job_id, unchanged)
    return [publishing.finished(lake, one, publication.committed(one)) for one in staged]


class _Publication:
    """One commit of several tables, at most one for each job.

    Every such commit has a job's name, its own if nobody gave one: so it is found if the answer is lost.
    """

    def __init__(
        self, lake: Lake, staged: Sequence[StagedWrite], job_id: str | None, unchanged: Collection[Identifier]
    ) -> None:
        self._lake = lake
        self._only_after = {one.identifier: one.read_version for one in staged if one.identifier in unchanged}
        self._changes = [one for one in staged if not one.is_empty]
        self._job_id = job_id or uuid.uuid4().hex
        self._is_named = job_id is not None
        self._latest: dict[Identifier, LanceDataset] = {}
        self._found: dict[Identifier, Committed] = {}
        self._versions: dict[Identifier, int] = {}
        self._mine: set[str] = set()
        """The uuids of transactions of this very commit."""
        if self._is_named and self._was_done():
            return
        self._mine = {publishing.complete(one, self._job_id) for one in self._changes if one.new}
        self._commit()

    def committed(self, staged: StagedWrite) -> Committed:
        """Give what became of one of the tables."""
        if staged.is_empty:
            return Committed(staged.read_version)
        if not self._found:
            return Committed(self._versions[staged.identifier])
        # What the earlier run had nothing for is not written now.
        return self._found.get(staged.identifier, Committed(staged.read_version, already=True))

    def _commit(self) -> None:
        changes = self._changes
        for attempt in range(_ATTEMPTS):
            try:
                self._versions = self._lake.catalog.commit_tables([self._part(one) for one in changes], self._check)
            except _FoundDoneError:
                return
            except LanceNamespaceError as error:
                if self._was_done():
                    return
                retried = isinstance(error, ConcurrentModificationError) and any(one.evolution for one in changes)
                if not retried or attempt == _ATTEMPTS - 1:
                    raise
                changes = [publishing.made_anew(one) for one in changes]
            else:
                return

    def _part(self, one: StagedWrite) -> TableCommit | NewTable:
        from pennon import NewTable, TableCommit

        if one.new:
            return NewTable(one.identifier, one.destination.uri, one.properties or None)
        transaction = committing.prepared(one.operation, one.read_version, self._job_id, one.transaction)
        self._mine.add(transaction.uuid)
        return TableCommit(one.identifier, transaction)

    def _was_done(self) -> bool:
        """Look for the job in all tables: it is in all of them or in none."""
        for one in self._changes:
            with suppress(TableNotFoundError), translate_errors(f"Looking for job {self._job_id!r}"):
                destination = located(self._lake.address, one.identifier)
                if destination.declared:
                    continue
                latest = self._latest[one.identifier] = destination.latest()
                found = committing.find_in(latest, destination, self._job_id)
                if found is not None:
                    self._found[one.identifier] = replace(found, already=found.transaction.uuid not in self._mine)
        return bool(self._found)

    def _check(self, versions: Mapping[Identifier, int]) -> None:
        """Stop the commit if another run of the job has come first since it was looked for, or anybody who must not."""
        for identifier, version in versions.items():
            if self._only_after.get(identifier, version - 1) != version - 1 and not self._was_done():
                raise ConcurrentModificationError(
                    f"Table {format_identifier(identifier)} was changed since a write was staged on its version "
                    f"{self._only_after[identifier]}"
                )
        if not self._is_named:
            return
        latest = {identifier: int(dataset.version) for identifier, dataset in self._latest.items()}
        moved = any(version - 1 > latest.get(identifier, version) for identifier, version in versions.items())
        if moved and self._was_done():
            raise _FoundDoneError


class _FoundDoneError(Exception):
    """Another run of the job has committed."""
