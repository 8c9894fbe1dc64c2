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
from pennon.spark.commits import publish, table_commits
from pennon.spark.commits.destination import locate_table
from pennon.spark.commits.table_commits import CommittedVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lance import LanceDataset

    from pennon import NewTable, TableCommit
    from pennon.spark.commits.publish import CatalogAccess
    from pennon.spark.commits.staged_write import StagedWrite, WriteResult

_ATTEMPTS = 10


def publish_together(
    lake: CatalogAccess,
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
    table_commits.require_job_id(job_id)
    for one in staged:
        if one.destination.branch is not None:
            raise UnsupportedOperationError(
                f"Tables are published together, but not branches: {one.destination.branch!r} of "
                f"{format_identifier(one.identifier)}"
            )
    publication = _Publication(lake, staged, job_id, unchanged)
    return [publish.finish(lake, one, publication.version_of(one)) for one in staged]


class _Publication:
    """One commit of several tables, at most one for each job.

    Every such commit has a job's name, its own if nobody gave one: so it is found if the answer is lost.
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
        """The uuids of transactions of this very commit."""
        if self._is_named and self._find_earlier_run():
            return
        self._mine = {publish.create_table_files(one, self._job_id) for one in self._changes if one.new}
        self._commit()

    def version_of(self, staged: StagedWrite) -> CommittedVersion:
        """Give what became of one of the tables."""
        if staged.is_empty:
            return CommittedVersion(staged.read_version)
        if not self._found:
            return CommittedVersion(self._versions[staged.identifier])
        # What the earlier run had nothing for is not written now.
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
                changes = [publish.rebase_evolution(one) for one in changes]
            else:
                return

    def _create_part(self, one: StagedWrite) -> TableCommit | NewTable:
        from pennon import NewTable, TableCommit

        if one.new:
            return NewTable(one.identifier, one.destination.uri, one.properties or None)
        transaction = table_commits.create_transaction(one.operation, one.read_version, self._job_id, one.transaction)
        self._mine.add(transaction.uuid)
        return TableCommit(one.identifier, transaction)

    def _find_earlier_run(self) -> bool:
        """Look for the job in all tables: it is in all of them or in none."""
        for one in self._changes:
            with suppress(TableNotFoundError), translate_errors(f"Looking for job {self._job_id!r}"):
                destination = locate_table(self._lake.address, one.identifier)
                if destination.declared:
                    continue
                latest = self._latest[one.identifier] = destination.latest()
                found = table_commits.find_job_in(latest, destination, self._job_id)
                if found is not None:
                    self._found[one.identifier] = replace(found, already=found.transaction.uuid not in self._mine)
        return bool(self._found)

    def _check(self, versions: Mapping[Identifier, int]) -> None:
        """Stop the commit if another run of the job has come first since it was looked for, or anybody who must not."""
        for identifier, version in versions.items():
            if self._only_after.get(identifier, version - 1) != version - 1 and not self._find_earlier_run():
                raise ConcurrentModificationError(
                    f"Table {format_identifier(identifier)} was changed since a write was staged on its version "
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
