"""Publishing and discarding staged writes, of one table or of several, and making them readable before."""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pennon.errors import (
    ConcurrentModificationError,
    LanceNamespaceError,
    TableNotFoundError,
    UnsupportedOperationError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.tables import job_commits
from pennon.spark.tables.destination import locate_table
from pennon.spark.tables.job_commits import NOT_COMMITTED, CommittedVersion
from pennon.spark.tables.staged_write import StagedWrite, WriteResult
from pennon.table.history import JOB
from pennon.table.naming import VERSIONS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pennon import NewTable, TableCommit
    from pennon.spark.tables.destination import Destination

_ATTEMPTS = 10
_FIRST = 1
_log = logging.getLogger(__name__)


def make_readable(staged: StagedWrite) -> StagedWrite:
    """Return the staged write with a `preview`, a version that others do not see."""
    if staged.preview is not None:
        return staged
    with translate_errors(f"Staging table {format_identifier(staged.identifier)}"):
        if staged.new:
            _create_first_version(staged, None)
            version = _FIRST
        else:
            version = staged.read_version if staged.is_empty else _commit_detached(staged)
        return replace(staged, preview=staged.destination.pin_version(version))


def publish(staged: StagedWrite, *, job_id: str | None = None) -> WriteResult:
    """Commit a staged write as a version of its table.

    Raises TableAlreadyExistsError if a new table exists by now, and ConcurrentModificationError if the write conflicts
    with other commits. After an error, nothing has changed and the staged files still exist, except after an
    OutcomeUnknownError.
    """
    if staged.new:
        return _finish(staged, _adopt(staged, job_id))
    if staged.is_empty:
        return _finish(staged, CommittedVersion(staged.read_version))
    return _finish(staged, _commit(staged, job_id))


def publish_or_discard(staged: StagedWrite, *, job_id: str | None = None) -> WriteResult:
    """Publish a staged write, and discard it if it certainly was not committed.

    After any other error the files stay, because they may belong to a version. The cleanup of the table decides.
    """
    try:
        return publish(staged, job_id=job_id)
    except job_commits.RevertedCommitError:
        with staged.open_directory() as files:
            files.settle(staged.run, staged.files)
        raise
    except NOT_COMMITTED:
        discard(staged)
        raise


def publish_together(
    staged: Sequence[StagedWrite], *, job_id: str | None = None, unchanged: Collection[Identifier] = ()
) -> list[WriteResult]:
    """Publish staged writes of one catalog in one commit, all or none; results are in the same order.

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
    changes = [one for one in staged if not one.is_empty]
    # Without a job id, the commit gets one of its own, so that it can be found if the response is lost.
    joint = _JointCommit(changes, job_id or uuid.uuid4().hex, unchanged)
    earlier = {} if job_id is None else joint.find()
    committed = earlier or (joint.commit() if changes else {})
    results = []
    for one in staged:
        # A table that the earlier run did not write is not written now either.
        untouched = CommittedVersion(one.read_version, already=bool(committed) and not one.is_empty)
        results.append(_finish(one, committed.get(one.identifier, untouched)))
    return results


def discard(staged: StagedWrite) -> None:
    """Delete the files of a staged write."""
    with staged.open_directory() as files:
        if staged.new:
            files.delete_tree()
        else:
            files.settle(staged.run)


def summarize_commit(identifier: Identifier, found: CommittedVersion) -> WriteResult:
    """Return the result of an earlier run, from its transaction."""
    operation = None if found.transaction is None else found.transaction.operation
    fragments = list(getattr(operation, "fragments", None) or ())
    sizes = [file.file_size_bytes or 0 for fragment in fragments for file in fragment.files]
    rows = sum(fragment.physical_rows or 0 for fragment in fragments)
    return WriteResult(identifier, found.version, rows, sum(sizes), len(sizes), already=True)


# After a commit


def _finish(staged: StagedWrite, committed: CommittedVersion) -> WriteResult:
    """Delete the files that belong to no version, and return the result. An error here does not undo the commit."""
    try:
        with translate_errors(f"Deleting unused files of table {format_identifier(staged.identifier)}"):
            _remove_unused(staged, committed)
    except LanceNamespaceError as error:
        _log.warning("files of run %s remain for the cleanup: %s", staged.run, error)
    if committed.already:
        return summarize_commit(staged.identifier, committed)
    return WriteResult(
        staged.identifier, committed.version, staged.rows, staged.bytes, len(staged.files), created=staged.new
    )


def _remove_unused(staged: StagedWrite, committed: CommittedVersion) -> None:
    keep = set(staged.files)
    with staged.open_directory() as files:
        if staged.new:
            if committed.already and not _is_live(staged):
                files.delete_tree()
            return
        # If it is already committed, the earlier run may have been this same write, published a second time.
        if committed.already or staged.drops_fragments:
            keep &= _list_version_files(staged.destination, committed.version)
        files.settle(staged.run, keep)


def _is_live(staged: StagedWrite) -> bool:
    """Return True if a new table is in the catalog, at the location where it was staged."""
    try:
        return locate_table(staged.address, staged.identifier).uri == staged.destination.uri
    except TableNotFoundError:
        return False


def _list_version_files(destination: Destination, version: int) -> set[str]:
    fragments = [one.metadata for one in destination.pin_version(version).open().get_fragments()]
    data = {f"data/{file.path}" for fragment in fragments for file in fragment.files}
    return data | {one.deletion_file.path(one.id) for one in fragments if one.deletion_file is not None}


# One table


def _commit(staged: StagedWrite, job_id: str | None) -> CommittedVersion:
    """Commit a staged write to an existing table, and rebase it where Lance cannot."""
    current = staged
    for attempt in range(_ATTEMPTS):
        try:
            return job_commits.commit(
                staged.address,
                staged.identifier,
                current.operation,
                read_version=current.read_version,
                job_id=job_id,
                branch=staged.destination.branch,
                properties=staged.transaction,
                expected_uri=staged.destination.uri,
                since=staged.since,
            )
        except job_commits.RevertedCommitError:
            raise
        except ConcurrentModificationError:
            if staged.evolution is None or attempt == _ATTEMPTS - 1:
                raise
        current = _rebase_evolution(current)
    raise AssertionError


def _rebase_evolution(staged: StagedWrite) -> StagedWrite:
    """Return a staged write with new columns, which Lance cannot rebase, on the latest version; others unchanged."""
    if staged.evolution is None:
        return staged
    with translate_errors(f"Opening table {format_identifier(staged.identifier)}"):
        latest = staged.destination.latest()
        return replace(staged, operation=staged.evolution.build_operation(latest), read_version=int(latest.version))


def _adopt(staged: StagedWrite, job_id: str | None) -> CommittedVersion:
    """Add a new table to the catalog."""
    before = _find_job(staged, job_id)
    if before is not None:
        return before
    identity = _create_table_files(staged, job_id)
    try:
        version = staged.address.connect().adopt_table(
            list(staged.identifier), staged.destination.uri, staged.properties or None
        )
    except LanceNamespaceError:
        found = _find_job(staged, job_id)
        if found is None:
            raise
        return replace(found, already=found.transaction.uuid != identity)
    return CommittedVersion(version)


def _find_job(staged: StagedWrite, job_id: str | None) -> CommittedVersion | None:
    """Return the version of a table that another run of the job created, or this one if the response was lost."""
    if job_id is not None:
        with suppress(TableNotFoundError):
            return job_commits.find_job(staged.address, staged.identifier, job_id)
    return None


def _create_table_files(staged: StagedWrite, job_id: str | None) -> str:
    """Create the first version of a new table at its location; return the uuid of its transaction."""
    with translate_errors(f"Writing table {format_identifier(staged.identifier)}"):
        identity = _create_first_version(staged, job_id)
        with staged.open_directory() as files:
            files.settle(staged.run, keep=staged.files)
    return identity


def _create_first_version(staged: StagedWrite, job_id: str | None) -> str:
    """Create the first version of a new table unless it exists; return the uuid of its transaction."""
    import lance

    destination = staged.destination
    if staged.preview is not None:
        made = lance.dataset(destination.uri, storage_options=destination.options).read_transaction(_FIRST)
        if made is not None and (made.transaction_properties or {}).get(JOB) == job_id:
            return str(made.uuid)
        with destination.files() as files:
            files.delete_tree(VERSIONS_FOLDER)
    transaction = job_commits.create_transaction(staged.operation, 0, job_id, staged.transaction)
    lance.LanceDataset.commit(
        destination.uri, transaction, storage_options=destination.options, enable_v2_manifest_paths=True
    )
    return str(transaction.uuid)


def _commit_detached(staged: StagedWrite) -> int:
    """Commit a detached version, note its files for removal, and return its number."""
    from lance import LanceDataset

    destination = staged.destination
    transaction = job_commits.create_transaction(staged.operation, staged.read_version, None, staged.transaction)
    base = destination.uri if destination.branch is None else destination.latest()
    with destination.files() as files:
        files.note(staged.run, f"_transactions/{staged.read_version}-{transaction.uuid}.txn")
        made = LanceDataset.commit(base, transaction, storage_options=destination.options, detached=True)
        files.note(staged.run, f"_versions/d{made.version}.manifest")
    return int(made.version)


# Several tables


@dataclass
class _JointCommit:
    """One commit of several tables, at most one for each job."""

    changes: Sequence[StagedWrite]
    job_id: str
    unchanged: Collection[Identifier]
    searched: dict[Identifier, int] = field(default_factory=dict)
    """The latest version of each table when it was last searched for the job."""
    own: set[str] = field(default_factory=set)
    """The uuids of the transactions of this commit."""

    def find(self) -> dict[Identifier, CommittedVersion]:
        """Return the versions that the job has committed: of all tables, or of none."""
        found = {}
        for one in self.changes:
            with suppress(TableNotFoundError), translate_errors(f"Looking for job {self.job_id!r}"):
                destination = locate_table(one.address, one.identifier)
                if destination.declared:
                    continue
                latest = destination.latest()
                self.searched[one.identifier] = int(latest.version)
                earlier = job_commits.find_job_in(latest, destination, self.job_id)
                if earlier is not None:
                    found[one.identifier] = replace(earlier, already=earlier.transaction.uuid not in self.own)
        return found

    def commit(self) -> dict[Identifier, CommittedVersion]:
        """Commit all changes, and return their versions, which another run of the job may have committed."""
        self.own = {_create_table_files(one, self.job_id) for one in self.changes if one.new}
        client = self.changes[0].address.connect()
        changes = self.changes
        for attempt in range(_ATTEMPTS):
            try:
                versions = client.commit_tables([self._create_part(one) for one in changes], self._require_first)
                return {identifier: CommittedVersion(version) for identifier, version in versions.items()}
            except _JobIsCommittedError as error:
                return error.found
            except LanceNamespaceError as error:
                found = self.find()
                if found:
                    return found
                can_rebase = isinstance(error, ConcurrentModificationError) and any(one.evolution for one in changes)
                if not can_rebase or attempt == _ATTEMPTS - 1:
                    raise
                changes = [_rebase_evolution(one) for one in changes]
        raise AssertionError

    def _create_part(self, one: StagedWrite) -> TableCommit | NewTable:
        from pennon import NewTable, TableCommit

        if one.new:
            return NewTable(one.identifier, one.destination.uri, one.properties or None)
        transaction = job_commits.create_transaction(one.operation, one.read_version, self.job_id, one.transaction)
        self.own.add(transaction.uuid)
        return TableCommit(one.identifier, transaction)

    def _require_first(self, versions: Mapping[Identifier, int]) -> None:
        """Stop the commit if the job, or a change to an `unchanged` table, was committed before these versions."""
        before = {identifier: version - 1 for identifier, version in versions.items()}
        fixed = [one for one in self.changes if one.identifier in self.unchanged and one.identifier in before]
        changed = next((one for one in fixed if before[one.identifier] != one.read_version), None)
        unsearched = [one for one, version in before.items() if version > self.searched.get(one, version)]
        # Another run of the job may have committed the versions in between.
        found = self.find() if unsearched or changed is not None else {}
        if found:
            raise _JobIsCommittedError(found)
        if changed is not None:
            raise ConcurrentModificationError(
                f"Table {format_identifier(changed.identifier)} was changed after a write was staged on its version "
                f"{changed.read_version}"
            )


class _JobIsCommittedError(Exception):
    """Another run of the job has committed; `found` has its versions."""

    def __init__(self, found: dict[Identifier, CommittedVersion]) -> None:
        super().__init__()
        self.found = found
