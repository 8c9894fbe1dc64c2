"""One commit to one table, through the catalog, and at most one for each job.

The properties of a transaction contain the id of its job. Lance names the file of a transaction after the version that
it read and after its uuid, and half of that uuid is derived from the job's id. So one listing shows whether a job ever
tried to commit, and from which version on to search. If it did not, a rerun costs one request, however long the
table's history is.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.catalog_callback import CatalogCallback
from pennon.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableBranchNotFoundError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
    is_commit_conflict,
    is_not_found,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.tables.destination import Destination, locate_table
from pennon.table.history import JOB, read_transaction
from pennon.table.naming import VERSIONS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset, LanceOperation, Transaction

    from pennon.spark.address import Address

_UNDONE = "pennon.undone"
"""The property of a transaction that reverts the commit of a job; it contains the id of that job."""
NOT_COMMITTED = (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableBranchNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
"""Errors after which it is certain that nothing was committed."""
_LONGEST_JOB = 512
_TRANSACTIONS = "_transactions"
_SUFFIX = ".txn"


@dataclass(frozen=True)
class CommittedVersion:
    """A committed version; `already` if an earlier run of the same job committed it."""

    version: int
    already: bool = False
    transaction: Any = None
    """The Lance transaction that created it, if it is known."""


def commit(
    address: Address,
    identifier: Identifier,
    operation: LanceOperation.BaseOperation,
    *,
    read_version: int,
    job_id: str | None = None,
    branch: str | None = None,
    properties: Mapping[str, str] | None = None,
    expected_uri: str | None = None,
    since: int | None = None,
) -> CommittedVersion:
    """Commit one version of a table, rebased on what was committed since `read_version`.

    Raises ConcurrentModificationError if the operation cannot be rebased, or if the table is no longer at
    `expected_uri`, where the operation's files are. The commit point is Lance's. If the job was committed before, also
    by a run at the same moment, nothing changes and that version is returned. If the store fails, the table is read to
    find the outcome. With `since`, the job is searched only in later versions, so the length of the history does not
    matter.
    """
    from lance import LanceDataset

    destination = locate_table(address, identifier, branch)
    if expected_uri is not None and destination.uri != expected_uri:
        raise ConcurrentModificationError(
            f"Table {format_identifier(identifier)} was dropped and created again; nothing was committed"
        )
    transaction = create_transaction(operation, read_version, job_id, properties)
    with translate_errors(f"Committing to table {format_identifier(identifier)}"):
        guard = None
        if job_id is None:
            destination.require_plain_cleanup()
        else:
            latest = destination.latest()
            found = find_job_in(latest, destination, job_id, since)
            if found is not None:
                return found
            guard = _JobGuard(destination, job_id, int(latest.version))
        try:
            committed = LanceDataset.commit(
                destination.uri if branch is None else destination.latest(),
                transaction,
                storage_options=destination.options,
                **_catalog_arguments(destination, guard),
            )
        except (OSError, ValueError, RuntimeError) as error:
            if guard is not None and guard.found is not None:
                guard.clear()
                # It may be this very commit: if its response was lost, Lance has retried it.
                return replace(guard.found, already=guard.found.transaction.uuid != transaction.uuid)
            return _resolve_outcome(destination, transaction, error)
        _revert_if_cast(destination, transaction, committed, job_id)
        return CommittedVersion(int(committed.version), transaction=transaction)


def find_job(
    address: Address, identifier: Identifier, job_id: str, branch: str | None = None
) -> CommittedVersion | None:
    """Return the version that a job committed, or None; raises NamespaceNotFoundError or TableNotFoundError."""
    destination = locate_table(address, identifier, branch)
    if destination.declared:
        return None
    with translate_errors(f"Looking for job {job_id!r} in table {format_identifier(identifier)}"):
        return find_job_in(destination.latest(), destination, job_id)


def find_job_in(
    latest: LanceDataset, destination: Destination, job_id: str, since: int | None = None
) -> CommittedVersion | None:
    """Return the version that a job committed, or None. `latest` is open; only versions after `since` are searched."""
    begun = _find_first_attempt(destination, job_id) if since is None else since
    if begun is None:
        return None
    return _search_versions(latest, job_id, begun, int(latest.version))


def create_transaction(
    operation: LanceOperation.BaseOperation,
    read_version: int,
    job_id: str | None,
    properties: Mapping[str, str] | None = None,
) -> Transaction:
    """Return the transaction of an operation, with the id of its job."""
    import lance

    require_job_id(job_id)
    named = dict(properties or {}) if job_id is None else {**(properties or {}), JOB: job_id}
    return lance.Transaction(
        read_version=read_version, operation=operation, uuid=transaction_uuid(job_id), transaction_properties=named
    )


def require_job_id(job_id: str | None) -> None:
    """Raise InvalidInputError if a job id is not valid."""
    if job_id is not None and (not isinstance(job_id, str) or not job_id or len(job_id) > _LONGEST_JOB):
        raise InvalidInputError(f"A job id must be a text of 1 to {_LONGEST_JOB} characters, got {job_id!r}")


def transaction_uuid(job_id: str | None) -> str:
    """Return the uuid of a new transaction. All transactions of a job have the same first half."""
    fresh = uuid.uuid4().hex
    return str(uuid.UUID(fresh if job_id is None else _job_digits(job_id) + fresh[16:]))


def _job_digits(job_id: str) -> str:
    return hashlib.sha256(job_id.encode()).hexdigest()[:16]


def _find_first_attempt(destination: Destination, job_id: str) -> int | None:
    """Return the first version on which a job tried to commit, or None if it never did."""
    beginning = str(uuid.UUID(_job_digits(job_id).ljust(32, "0")))[:18]
    with destination.files() as files:
        names = files.names(_TRANSACTIONS)
    versions = []
    for name in names:
        version, _, identity = name.removesuffix(_SUFFIX).partition("-")
        if identity.startswith(beginning) and version.isdecimal():
            versions.append(int(version))
    return min(versions, default=None)


def _search_versions(dataset: LanceDataset, job_id: str, after: int, until: int) -> CommittedVersion | None:
    """Return the version of a job after version `after`, the newest first, or None. Deleted versions are skipped."""
    for version in range(until, after, -1):
        try:
            transaction = read_transaction(dataset, version)
        except (OSError, ValueError) as error:
            if is_not_found(error):
                continue
            raise
        properties = {} if transaction is None else transaction.transaction_properties or {}
        if properties.get(_UNDONE) == job_id:
            return None
        if properties.get(JOB) == job_id:
            return CommittedVersion(version, already=True, transaction=transaction)
    return None


def _catalog_arguments(destination: Destination, guard: _JobGuard | None) -> dict[str, Any]:
    if destination.branch is not None:
        # Files decide about branches. If two runs of one job commit at the same moment, both may succeed.
        return {}
    if guard is not None:
        return destination.catalog_arguments(guard)
    return destination.catalog_arguments(destination.address.connect()) if destination.managed else {}


def _resolve_outcome(destination: Destination, transaction: Transaction, error: Exception) -> CommittedVersion:
    """Return the version of a commit that reported an error, if it was created after all; otherwise raise the error."""
    if is_commit_conflict(error) and "unknown" not in str(error).lower():
        raise error
    try:
        latest = destination.latest()
        for version in range(int(latest.version), transaction.read_version, -1):
            other = read_transaction(latest, version)
            if other is not None and other.uuid == transaction.uuid:
                return CommittedVersion(version, transaction=transaction)
    except (OSError, ValueError, RuntimeError) as blind:
        raise OutcomeUnknownError(
            f"It is unknown whether table {format_identifier(destination.identifier)} was written: {error}; "
            f"then {blind}. Run the job again with the same job id: it writes the table once"
        ) from error
    raise error


def _revert_if_cast(
    destination: Destination, transaction: Transaction, committed: LanceDataset, job_id: str | None
) -> None:
    """Revert an append if a column was cast since `read_version`: Lance would read its values as nulls.

    Raises RevertedCommitError then. A crash before the revert leaves the rows with nulls. The reverting version records
    that the job is undone.
    """
    from lance import LanceDataset, LanceOperation

    from pennon.table import casts

    read_version = transaction.read_version
    if not isinstance(transaction.operation, LanceOperation.Append) or committed.version == read_version + 1:
        return
    cast = casts.find_cast_columns(destination.pin_version(read_version).open(), committed)
    if not cast:
        return
    undone = None if job_id is None else {_UNDONE: job_id}
    back = create_transaction(casts.build_removal(committed), int(committed.version), None, undone)
    LanceDataset.commit(
        destination.uri if destination.branch is None else committed,
        back,
        storage_options=destination.options,
        **_catalog_arguments(destination, None),
    )
    raise RevertedCommitError(str(casts.cast_error(cast, destination.identifier)))


class RevertedCommitError(ConcurrentModificationError):
    """Rows were committed and the commit was reverted. Their files belong to a version, so they stay."""


class OutcomeUnknownError(InternalError):
    """A commit failed, and its outcome could not be read: its files may belong to a version."""


class _JobGuard(CatalogCallback):
    """A client between Lance and the catalog that refuses a second version of a job.

    Lance names the version that it is about to create, and creates that version or none. So the versions before it are
    final, and can be searched for the job here.
    """

    def __init__(self, destination: Destination, job_id: str, seen: int) -> None:
        super().__init__(destination.address.connect())
        self._destination = destination
        self._job_id = job_id
        self._seen = seen
        self._refused: list[str] = []
        self.found: CommittedVersion | None = None

    def clear(self) -> None:
        """Delete the manifests that Lance staged for refused versions."""
        with self._destination.files() as files:
            files.delete(*(f"{VERSIONS_FOLDER}/{name}" for name in self._refused))

    def create_table_version(self, request: Any) -> Any:
        """Create the version; raises TableVersionAlreadyExistsError if the job has committed another one."""
        version = int(request["version"] if isinstance(request, dict) else request.version)
        if version - 1 > self._seen:
            self.found = _search_versions(self._destination.latest(), self._job_id, self._seen, version - 1)
            self._seen = version - 1
        if self.found is not None:
            path = str(request["manifest_path"] if isinstance(request, dict) else request.manifest_path)
            self._refused.append(path.rpartition("/")[2])
            raise TableVersionAlreadyExistsError(
                f"Job {self._job_id!r} has already created version {self.found.version} of "
                f"{format_identifier(self._destination.identifier)}"
            )
        return super().create_table_version(request)
