"""Publishing and discarding staged writes, and making them readable before."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pennon.errors import (
    ConcurrentModificationError,
    LanceNamespaceError,
    TableNotFoundError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.tables import job_commits
from pennon.spark.tables.destination import locate_table
from pennon.spark.tables.job_commits import NOT_COMMITTED, CommittedVersion
from pennon.spark.tables.staged_write import StagedWrite, WriteResult
from pennon.table.naming import VERSIONS_FOLDER

if TYPE_CHECKING:
    from pennon.spark.address import Address, Client
    from pennon.spark.tables.destination import Destination


class CatalogAccess(Protocol):
    """The part of a lake that publishing needs."""

    @property
    def address(self) -> Address:
        """The address of the catalog."""

    @property
    def catalog(self) -> Client:
        """The client of the catalog in this process."""


_ATTEMPTS = 10
_FIRST = 1
_log = logging.getLogger(__name__)


def make_readable(lake: CatalogAccess, staged: StagedWrite) -> StagedWrite:  # noqa: ARG001 - called like its siblings
    """Return the staged write with a `preview`, a version that others do not see."""
    if staged.preview is not None:
        return staged
    destination = staged.destination
    with translate_errors(f"Staging table {format_identifier(staged.identifier)}"):
        if staged.new:
            _create_first_version(staged, None)
            return replace(staged, preview=destination.pin_version(_FIRST))
        if staged.is_empty:
            return replace(staged, preview=destination.pin_version(staged.read_version))
        return replace(staged, preview=destination.pin_version(_commit_detached(staged)))


def publish(lake: CatalogAccess, staged: StagedWrite, *, job_id: str | None = None) -> WriteResult:
    """Commit a staged write as a version of its table.

    Raises TableAlreadyExistsError if a new table exists by now, and ConcurrentModificationError if the write conflicts
    with other commits. After an error, nothing has changed and the staged files still exist, except after an
    OutcomeUnknownError.
    """
    if staged.new:
        committed = _adopt(lake, staged, job_id)
    elif staged.is_empty:
        committed = CommittedVersion(staged.read_version)
    else:
        committed = _commit(lake, staged, job_id)
    return finish(lake, staged, committed)


def publish_or_discard(lake: CatalogAccess, staged: StagedWrite, *, job_id: str | None = None) -> WriteResult:
    """Publish a staged write, and discard it if it certainly was not committed.

    After any other error the files stay, because they may belong to a version. The cleanup of the table decides.
    """
    try:
        return publish(lake, staged, job_id=job_id)
    except job_commits.RevertedCommitError:
        with staged.destination.files(blobs=staged.blobs) as files:
            files.settle(staged.run, staged.files)
        raise
    except NOT_COMMITTED:
        discard(lake, staged)
        raise


def discard(lake: CatalogAccess, staged: StagedWrite) -> None:  # noqa: ARG001 - called like its siblings
    """Delete the files of a staged write."""
    with staged.destination.files(blobs=staged.blobs) as files:
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


def finish(lake: CatalogAccess, staged: StagedWrite, committed: CommittedVersion) -> WriteResult:
    """Delete the files that belong to no version, and return the result. An error here does not undo the commit."""
    try:
        with translate_errors(f"Deleting unused files of table {format_identifier(staged.identifier)}"):
            _remove_unused(lake, staged, committed)
    except LanceNamespaceError as error:
        _log.warning("files of run %s remain for the cleanup: %s", staged.run, error)
    if committed.already:
        return summarize_commit(staged.identifier, committed)
    return WriteResult(
        staged.identifier, committed.version, staged.rows, staged.bytes, len(staged.files), created=staged.new
    )


def _remove_unused(lake: CatalogAccess, staged: StagedWrite, committed: CommittedVersion) -> None:
    keep = set(staged.files)
    with staged.destination.files(blobs=staged.blobs) as files:
        if staged.new:
            if committed.already and not _is_live(lake, staged):
                files.delete_tree()
            return
        if committed.already:
            # The earlier run may have been this same write, published a second time.
            keep &= _list_version_files(staged.destination, committed.version)
        files.settle(staged.run, keep)


def _is_live(lake: CatalogAccess, staged: StagedWrite) -> bool:
    """Return True if a new table is in the catalog, at the location where it was staged."""
    try:
        return locate_table(lake.address, staged.identifier).uri == staged.destination.uri
    except TableNotFoundError:
        return False


def _list_version_files(destination: Destination, version: int) -> set[str]:
    fragments = [one.metadata for one in destination.pin_version(version).open().get_fragments()]
    data = {f"data/{file.path}" for fragment in fragments for file in fragment.files}
    return data | {one.deletion_file.path(one.id) for one in fragments if one.deletion_file is not None}


def _commit(lake: CatalogAccess, staged: StagedWrite, job_id: str | None) -> CommittedVersion:
    """Commit a staged write to an existing table, and rebase it where Lance cannot."""
    current = staged
    for attempt in range(_ATTEMPTS):
        try:
            return job_commits.commit(
                lake.address,
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
        current = rebase_evolution(current)
    raise AssertionError


def rebase_evolution(staged: StagedWrite) -> StagedWrite:
    """Return a staged write with new columns, which Lance cannot rebase, on the latest version; others unchanged."""
    if staged.evolution is None:
        return staged
    with translate_errors(f"Opening table {format_identifier(staged.identifier)}"):
        latest = staged.destination.latest()
        return replace(staged, operation=staged.evolution.build_operation(latest), read_version=int(latest.version))


def _adopt(lake: CatalogAccess, staged: StagedWrite, job_id: str | None) -> CommittedVersion:
    """Add a new table to the catalog."""
    before = None if job_id is None else _find_job(lake, staged.identifier, job_id)
    if before is not None:
        return before
    identity = create_table_files(staged, job_id)
    try:
        version = lake.catalog.adopt_table(list(staged.identifier), staged.destination.uri, staged.properties or None)
    except LanceNamespaceError:
        found = None if job_id is None else _find_job(lake, staged.identifier, job_id)
        if found is None:
            raise
        return replace(found, already=found.transaction.uuid != identity)
    return CommittedVersion(version)


def create_table_files(staged: StagedWrite, job_id: str | None) -> str:
    """Create the first version of a new table at its location; return the uuid of its transaction."""
    with translate_errors(f"Writing table {format_identifier(staged.identifier)}"):
        identity = _create_first_version(staged, job_id)
        with staged.destination.files(blobs=staged.blobs) as files:
            files.settle(staged.run, keep=staged.files)
    return identity


def _find_job(lake: CatalogAccess, identifier: Identifier, job_id: str) -> CommittedVersion | None:
    """Return the version of a table that another run of the job created, or this one if the response was lost."""
    with suppress(TableNotFoundError):
        return job_commits.find_job(lake.address, identifier, job_id)
    return None


def _create_first_version(staged: StagedWrite, job_id: str | None) -> str:
    """Create the first version of a new table unless it exists; return the uuid of its transaction."""
    import lance

    destination = staged.destination
    if staged.preview is not None:
        made = lance.dataset(destination.uri, storage_options=destination.options).read_transaction(_FIRST)
        if made is not None and (made.transaction_properties or {}).get(job_commits.JOB) == job_id:
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
