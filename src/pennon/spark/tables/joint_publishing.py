"""Publishing several staged writes in one commit of the catalog."""

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
from pennon.spark.tables import job_commits, publishing
from pennon.spark.tables.destination import locate_table
from pennon.spark.tables.job_commits import CommittedVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lance import LanceDataset

    from pennon import NewTable, TableCommit
    from pennon.spark.tables.publishing import CatalogAccess
    from pennon.spark.tables.staged_write import StagedWrite, WriteResult

_ATTEMPTS = 10


def publish_together(
    lake: CatalogAccess,
    staged: Sequence[StagedWrite],
    *,
    job_id: str | None = None,
    unchanged: Collection[Identifier] = (),
) -> list[WriteResult]:
    """Publish several staged writes in one commit of the catalog, all or none; results are in the same order.

    Raises UnsupportedOperationError if the catalog does not manage versions or a write is to a branch, and
    ConcurrentModificationError if a table in `unchanged` has changed since it was staged. Other errors are those of
    `publish`. A second call with the same `job_id` changes nothing.
    """
    job_commits.require_job_id(job_id)
    for one in staged:
        if one.destination.branch is not None:
            raise UnsupportedOperationError(
                f"Branches cannot be published together with other tables: {one.destination.branch!r} of "
                f"{format_identifier(one.identifier)}"
            )
    publication = _Publication(lake, staged, job_id, unchanged)
    publication.run()
    return [publishing.finish(lake, one, publication.version_of(one)) for one in staged]


class _Publication:
    """One commit of several tables, at most one for each job.

    Without a job id, the commit gets one of its own, so that it can be found if the response is lost.
    """

    def __init__(
        self, lake: CatalogAccess, staged: Sequence[StagedWrite], job_id: str | None, unchanged: Collection[Identifier]
    ) -> None:
        self._lake = lake
        self._only_after = {one.identifier: one.read_version for one in staged if one.identifier in unchanged}
        self._changes = [one for one in staged if not one.is_empty]
        self._job_id = job_id or uuid.uuid4().hex
        self._is_named = job_id is not None
        self._latest: dict[Identifier, LanceDataset] = {}
        self._found: dict[Identifier, CommittedVersion] = {}
        self._versions: dict[Identifier, int] = {}
        self._mine: set[str] = set()
        """The uuids of the transactions of this commit."""

    def run(self) -> None:
        """Commit all changes, unless an earlier run of the job has committed them."""
        if self._is_named and self._find_earlier_run():
            return
        self._mine = {publishing.create_table_files(one, self._job_id) for one in self._changes if one.new}
        self._commit()

    def version_of(self, staged: StagedWrite) -> CommittedVersion:
        """Return the committed version of one of the tables."""
        if staged.is_empty:
            return CommittedVersion(staged.read_version)
        if not self._found:
            return CommittedVersion(self._versions[staged.identifier])
        # A table that the earlier run did not write is not written now either.
        return self._found.get(staged.identifier, CommittedVersion(staged.read_version, already=True))

    def _commit(self) -> None:
        changes = self._changes
        for attempt in range(_ATTEMPTS):
            try:
                self._versions = self._lake.catalog.commit_tables(
                    [self._create_part(one) for one in changes], self._check
                )
            except _FoundDoneError:
                return
            except LanceNamespaceError as error:
                if self._find_earlier_run():
                    return
                retried = isinstance(error, ConcurrentModificationError) and any(one.evolution for one in changes)
                if not retried or attempt == _ATTEMPTS - 1:
                    raise
                changes = [publishing.rebase_evolution(one) for one in changes]
            else:
                return

    def _create_part(self, one: StagedWrite) -> TableCommit | NewTable:
        from pennon import NewTable, TableCommit

        if one.new:
            return NewTable(one.identifier, one.destination.uri, one.properties or None)
        transaction = job_commits.create_transaction(one.operation, one.read_version, self._job_id, one.transaction)
        self._mine.add(transaction.uuid)
        return TableCommit(one.identifier, transaction)

    def _find_earlier_run(self) -> bool:
        """Return True if an earlier run has committed the job, which is in all tables or in none."""
        for one in self._changes:
            with suppress(TableNotFoundError), translate_errors(f"Looking for job {self._job_id!r}"):
                destination = locate_table(self._lake.address, one.identifier)
                if destination.declared:
                    continue
                latest = self._latest[one.identifier] = destination.latest()
                found = job_commits.find_job_in(latest, destination, self._job_id)
                if found is not None:
                    self._found[one.identifier] = replace(found, already=found.transaction.uuid not in self._mine)
        return bool(self._found)

    def _check(self, versions: Mapping[Identifier, int]) -> None:
        """Stop the commit if another run of the job, or a change to an `unchanged` table, was committed first."""
        for identifier, version in versions.items():
            if self._only_after.get(identifier, version - 1) != version - 1 and not self._find_earlier_run():
                raise ConcurrentModificationError(
                    f"Table {format_identifier(identifier)} was changed after a write was staged on its version "
                    f"{self._only_after[identifier]}"
                )
        if not self._is_named:
            return
        latest = {identifier: int(dataset.version) for identifier, dataset in self._latest.items()}
        moved = any(version - 1 > latest.get(identifier, version) for identifier, version in versions.items())
        if moved and self._find_earlier_run():
            raise _FoundDoneError


class _FoundDoneError(Exception):
    """Another run of the job has committed."""
