"""Making what is staged visible, one table or several at once, or removing it; and reading it before."""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableBranchNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
    translated,
)
from pennon.identifiers import Identifier, shown
from pennon.spark import committing
from pennon.spark.committing import Committed
from pennon.spark.destination import located
from pennon.spark.staged import StagedWrite, WriteResult

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lance import LanceDataset

    from pennon import NewTable, TableCommit
    from pennon.spark.destination import Destination
    from pennon.spark.lake import Lake

_ATTEMPTS = 10
_FIRST = 1
_NOT_COMMITTED = (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableBranchNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
_log = logging.getLogger(__name__)


def readable(lake: Lake, staged: StagedWrite) -> StagedWrite:  # noqa: ARG001 - called like its siblings
    """Make what is staged readable by its `preview`, a version that nobody else sees."""
    if staged.preview is not None:
        return staged
    destination = staged.destination
    with translated(f"Staging table {shown(staged.identifier)}"):
        if staged.new:
            _make_first_version(staged, None)
            return replace(staged, preview=destination.pinned(_FIRST))
        if staged.is_empty:
            return replace(staged, preview=destination.pinned(staged.read_version))
        return replace(staged, preview=destination.pinned(_detached(staged)))


def publish(lake: Lake, staged: StagedWrite, *, job_id: str | None = None) -> WriteResult:
    """Make what is staged a version of its table; errors 5 (the table is new, and there by now) and 14.

    If it raises, nothing has changed and the staged files are still there, but for an OutcomeUnknownError.
    """
    if staged.new:
        committed = _adopted(lake, staged, job_id)
    elif staged.is_empty:
        committed = Committed(staged.read_version)
    else:
        committed = _committed(lake, staged, job_id)
    return _finished(lake, staged, committed)


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
                f"{shown(one.identifier)}"
            )
    publication = _Publication(lake, staged, job_id, unchanged)
    return [_finished(lake, one, publication.committed(one)) for one in staged]


def publish_or_discard(lake: Lake, staged: StagedWrite, *, job_id: str | None = None) -> WriteResult:
    """Publish, or remove what is staged if that is impossible.

    After an error that does not say for certain that nothing was committed, the files stay: they may be part of a
    version, and whoever cleans the table finds out.
    """
    try:
        return publish(lake, staged, job_id=job_id)
    except _NOT_COMMITTED:
        discard(lake, staged)
        raise


def discard(lake: Lake, staged: StagedWrite) -> None:  # noqa: ARG001 - called like its siblings
    """Remove what is staged."""
    with staged.destination.files(blobs=staged.blobs) as files:
        if staged.new:
            files.delete_tree()
        else:
            files.settle(staged.run)


def result_of(identifier: Identifier, found: Committed) -> WriteResult:
    """Tell from a transaction what an earlier run wrote."""
    operation = None if found.transaction is None else found.transaction.operation
    fragments = list(getattr(operation, "fragments", None) or ())
    sizes = [file.file_size_bytes or 0 for fragment in fragments for file in fragment.files]
    rows = sum(fragment.physical_rows or 0 for fragment in fragments)
    return WriteResult(identifier, found.version, rows, sum(sizes), len(sizes), already=True)


def _finished(lake: Lake, staged: StagedWrite, committed: Committed) -> WriteResult:
    """Remove the files that belong to no version, and say what was done. The commit stands, whatever fails here."""
    try:
        with translated(f"Removing files of no version of table {shown(staged.identifier)}"):
            _remove_unused(lake, staged, committed)
    except LanceNamespaceError as error:
        _log.warning("files of run %s are left to be cleaned: %s", staged.run, error)
    if committed.already:
        return result_of(staged.identifier, committed)
    return WriteResult(
        staged.identifier, committed.version, staged.rows, staged.bytes, len(staged.files), created=staged.new
    )


def _remove_unused(lake: Lake, staged: StagedWrite, committed: Committed) -> None:
    keep = set(staged.files)
    with staged.destination.files(blobs=staged.blobs) as files:
        if staged.new:
            if committed.already and located(lake.address, staged.identifier).uri != staged.destination.uri:
                files.delete_tree()
            return
        if committed.already:
            # The earlier run may have been this very write, which is published once more.
            keep &= _files_of(staged.destination, committed.version)
        files.settle(staged.run, keep)


def _files_of(destination: Destination, version: int) -> set[str]:
    fragments = destination.pinned(version).open().get_fragments()
    return {f"data/{file.path}" for fragment in fragments for file in fragment.data_files()}


def _committed(lake: Lake, staged: StagedWrite, job_id: str | None) -> Committed:
    """Commit, and make the operation anew on what others have committed where Lance cannot."""
    current = staged
    for attempt in range(_ATTEMPTS):
        try:
            return committing.commit(
                lake.address,
                staged.identifier,
                current.operation,
                read_version=current.read_version,
                job_id=job_id,
                branch=staged.destination.branch,
                properties=staged.transaction,
                expected_uri=staged.destination.uri,
            )
        except ConcurrentModificationError:
            if staged.evolution is None or attempt == _ATTEMPTS - 1:
                raise
        current = _made_anew(current)
    raise AssertionError


def _made_anew(staged: StagedWrite) -> StagedWrite:
    if staged.evolution is None:
        return staged
    with translated(f"Opening table {shown(staged.identifier)}"):
        latest = staged.destination.latest()
        return replace(staged, operation=staged.evolution.operation(latest), read_version=int(latest.version))


def _adopted(lake: Lake, staged: StagedWrite, job_id: str | None) -> Committed:
    """Bring a new table into the catalog."""
    before = None if job_id is None else _found_again(lake, staged.identifier, job_id)
    if before is not None:
        return before
    identity = _complete(staged, job_id)
    try:
        version = lake.catalog.adopt_table(list(staged.identifier), staged.destination.uri, staged.properties or None)
    except LanceNamespaceError:
        found = None if job_id is None else _found_again(lake, staged.identifier, job_id)
        if found is None:
            raise
        return replace(found, already=found.transaction.uuid != identity)
    return Committed(version)


def _complete(staged: StagedWrite, job_id: str | None) -> str:
    """Make a new table what it is to be, at its own place; gives the uuid of its first transaction."""
    with translated(f"Writing table {shown(staged.identifier)}"):
        identity = _make_first_version(staged, job_id)
        with staged.destination.files(blobs=staged.blobs) as files:
            files.settle(staged.run, keep=staged.files)
    return identity


def _found_again(lake: Lake, identifier: Identifier, job_id: str) -> Committed | None:
    """Find the table that another run of the job has made, or this one, if the answer was lost."""
    with suppress(TableNotFoundError):
        return committing.find(lake.address, identifier, job_id)
    return None


def _make_first_version(staged: StagedWrite, job_id: str | None) -> str:
    """Make what is staged the first version at the place of a new table, unless it is; gives its transaction's uuid."""
    import lance  # noqa: PLC0415 - it must not be imported before a worker forks

    destination = staged.destination
    if staged.preview is not None:
        made = lance.dataset(destination.uri, storage_options=destination.options).read_transaction(_FIRST)
        if made is not None and (made.transaction_properties or {}).get(committing.JOB) == job_id:
            return str(made.uuid)
        with destination.files() as files:
            files.delete_tree("_versions")
    transaction = committing.prepared(staged.operation, 0, job_id, staged.transaction)
    lance.LanceDataset.commit(
        destination.uri, transaction, storage_options=destination.options, enable_v2_manifest_paths=True
    )
    return str(transaction.uuid)


def _detached(staged: StagedWrite) -> int:
    """Commit beside the table's history, and note what has to go afterwards."""
    from lance import LanceDataset  # noqa: PLC0415 - it must not be imported before a worker forks

    destination = staged.destination
    transaction = committing.prepared(staged.operation, staged.read_version, None, staged.transaction)
    base = destination.uri if destination.branch is None else destination.latest()
    with destination.files() as files:
        files.note(staged.run, f"_transactions/{staged.read_version}-{transaction.uuid}.txn")
        made = LanceDataset.commit(base, transaction, storage_options=destination.options, detached=True)
        files.note(staged.run, f"_versions/d{made.version}.manifest")
    return int(made.version)


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
        self._mine = {_complete(one, self._job_id) for one in self._changes if one.new}
        self._commit()

    def committed(self, staged: StagedWrite) -> Committed:
        """Give what became of one of the tables."""
        if staged.is_empty:
            return Committed(staged.read_version)
        found = self._found.get(staged.identifier)
        return Committed(self._versions[staged.identifier]) if found is None else found

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
                changes = [_made_anew(one) for one in changes]
            else:
                return

    def _part(self, one: StagedWrite) -> TableCommit | NewTable:
        from pennon import NewTable, TableCommit  # noqa: PLC0415 - slow

        if one.new:
            return NewTable(one.identifier, one.destination.uri, one.properties or None)
        transaction = committing.prepared(one.operation, one.read_version, self._job_id, one.transaction)
        self._mine.add(transaction.uuid)
        return TableCommit(one.identifier, transaction)

    def _was_done(self) -> bool:
        """Look for the job in all tables: it is in all of them or in none."""
        for one in self._changes:
            with suppress(TableNotFoundError), translated(f"Looking for job {self._job_id!r}"):
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
                    f"Table {shown(identifier)} was changed since a write was staged on its version "
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
