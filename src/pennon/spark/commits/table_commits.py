"""One commit to one table, through the catalog, and at most one for each job.

A job's id stands in the properties of its transaction. The name of the file in which Lance keeps a transaction begins
with the version that it was made for and ends with its uuid, and half of that uuid is made from the job's id: a listing
tells whether a job ever came as far as committing, and from which version on one has to look. So a rerun costs one
request where there is nothing to find, however long the table's history is.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
from pennon.spark.commits.destination import Destination, locate_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset, LanceOperation, Transaction

    from pennon.spark.address import Address

JOB = "pennon.job"
"""The property of a transaction that names the job which made it."""
_UNDONE = "pennon.undone"
"""The property of one that takes back what a job has written."""
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
"""Errors that say for certain that nothing was committed."""
_LONGEST_JOB = 512
_TRANSACTIONS = "_transactions"
_VERSIONS = "_versions"
_SUFFIX = ".txn"


@dataclass(frozen=True)
class CommittedVersion:
    """A version that is there now; `already` if it was before, by an earlier run of the same job."""

    version: int
    already: bool = False
    transaction: Any = None
    """The Lance transaction that made it, where it was looked up."""


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
    """Make one version of a table, rebased on what was committed since `read_version`; 14 if that cannot be.

    The commit point is Lance's. A job id that was committed before changes nothing: the version of that time is given
    back, also if two runs of the job commit at the same moment. If the store fails, a look at the table tells what came
    of it. `expected_uri` is where the operation's files are: a table that was replaced meanwhile raises 14. The job is
    looked for in the versions after `since` alone, if that is given: then the length of the history does not matter.
    """
    destination = locate_table(address, identifier, branch)
    if expected_uri is not None and destination.uri != expected_uri:
        raise ConcurrentModificationError(
            f"Table {format_identifier(identifier)} was dropped and made anew; nothing was committed"
        )
    return commit_to(
        destination, operation, read_version=read_version, job_id=job_id, properties=properties, since=since
    )


def commit_to(
    destination: Destination,
    operation: LanceOperation.BaseOperation,
    *,
    read_version: int,
    job_id: str | None = None,
    properties: Mapping[str, str] | None = None,
    dataset: LanceDataset | None = None,
    since: int | None = None,
) -> CommittedVersion:
    """Do the same for a table that was just located; `dataset` is a version of it that is open, if one is."""
    from lance import LanceDataset

    transaction = create_transaction(operation, read_version, job_id, properties)
    with translate_errors(f"Committing to table {format_identifier(destination.identifier)}"):
        guard = None
        if job_id is not None:
            latest = destination.latest()
            found = find_job_in(latest, destination, job_id, since)
            if found is not None:
                return found
            guard = _JobGuard(destination, job_id, int(latest.version))
        else:
            destination.require_plain_cleanup()
        try:
            committed = LanceDataset.commit(
                _commit_base(destination, dataset),
                transaction,
                storage_options=destination.options,
                **_catalog_arguments(destination, guard),
            )
        except (OSError, ValueError, RuntimeError) as error:
            if guard is not None and guard.found is not None:
                guard.clear()
                # It may be this very commit, whose answer was lost and which Lance tried once more.
                return replace(guard.found, already=guard.found.transaction.uuid != transaction.uuid)
            return _resolve_outcome(destination, transaction, error)
        _revert_if_cast(destination, transaction, committed, job_id)
        return CommittedVersion(int(committed.version), transaction=transaction)


def find_job(
    address: Address, identifier: Identifier, job_id: str, branch: str | None = None
) -> CommittedVersion | None:
    """Find the version that a job has made of a table; None if it made none. Errors 1, 4."""
    destination = locate_table(address, identifier, branch)
    if destination.declared:
        return None
    with translate_errors(f"Looking for job {job_id!r} in table {format_identifier(identifier)}"):
        return find_job_in(destination.latest(), destination, job_id)


def find_job_in(
    latest: LanceDataset, destination: Destination, job_id: str, since: int | None = None
) -> CommittedVersion | None:
    """Find a job in the history of a table that is open at its latest version, or in the versions after one."""
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
    """Make the transaction of an operation, which names its job."""
    import lance

    require_job_id(job_id)
    named = dict(properties or {}) if job_id is None else {**(properties or {}), JOB: job_id}
    return lance.Transaction(
        read_version=read_version, operation=operation, uuid=transaction_uuid(job_id), transaction_properties=named
    )


def require_job_id(job_id: str | None) -> None:
    """Raise 13 for a job id that cannot be one."""
    if job_id is not None and (not isinstance(job_id, str) or not job_id or len(job_id) > _LONGEST_JOB):
        raise InvalidInputError(f"A job id is a text of 1 to {_LONGEST_JOB} characters, got {job_id!r}")


def transaction_uuid(job_id: str | None) -> str:
    """Give the uuid of a new transaction; of a job's transactions, all begin alike."""
    fresh = uuid.uuid4().hex
    return str(uuid.UUID(fresh if job_id is None else _job_digits(job_id) + fresh[16:]))


def _job_digits(job_id: str) -> str:
    return hashlib.sha256(job_id.encode()).hexdigest()[:16]


def _find_first_attempt(destination: Destination, job_id: str) -> int | None:
    """Give the first version on which a job tried to commit; None if it never did."""
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
    """Look through the versions after one, the newest first; those that were cleaned away are not there to be found."""
    for version in range(until, after, -1):
        try:
            transaction = _read_transaction(dataset, version)
        except (OSError, ValueError) as error:
            if is_not_found(error):
                continue
            raise
        said = {} if transaction is None else transaction.transaction_properties or {}
        if said.get(_UNDONE) == job_id:
            return None
        if said.get(JOB) == job_id:
            return CommittedVersion(version, already=True, transaction=transaction)
    return None


def _read_transaction(dataset: LanceDataset, version: int) -> Transaction | None:
    """Read what made a version; None where pylance cannot show it, which is so for compactions of indexed tables."""
    try:
        return dataset.read_transaction(version)
    except TypeError:
        return None


def _commit_base(destination: Destination, dataset: LanceDataset | None) -> Any:
    if destination.branch is None:
        return destination.uri
    return dataset if dataset is not None else destination.latest()


def _catalog_arguments(destination: Destination, guard: _JobGuard | None) -> dict[str, Any]:
    if destination.branch is not None:
        # Files decide about branches. Of two runs of one job, both may commit to it if they do so at one moment.
        return {}
    if guard is not None:
        return destination.catalog_arguments(guard)
    return destination.catalog_arguments(destination.address.connect()) if destination.managed else {}


def _resolve_outcome(destination: Destination, transaction: Transaction, error: Exception) -> CommittedVersion:
    """Find out by looking whether a commit that reported a failure made its version; raises the failure if not."""
    if is_commit_conflict(error) and "unknown" not in str(error).lower():
        raise error
    try:
        latest = destination.latest()
        for version in range(int(latest.version), transaction.read_version, -1):
            made = _read_transaction(latest, version)
            if made is not None and made.uuid == transaction.uuid:
                return CommittedVersion(version, transaction=transaction)
    except (OSError, ValueError, RuntimeError) as blind:
        raise OutcomeUnknownError(
            f"Nobody knows whether table {format_identifier(destination.identifier)} was written: {error}; "
            f"then {blind}. "
            "The same job id, run again, writes it once"
        ) from error
    raise error


def _revert_if_cast(
    destination: Destination, transaction: Transaction, committed: LanceDataset, job_id: str | None
) -> None:
    """Take appended rows back if a column was cast meanwhile: Lance would show them without its values.

    A crash in between leaves them so. The version that takes them back says that the job is undone.
    """
    from lance import LanceDataset, LanceOperation

    from pennon.table import casts

    read_version = transaction.read_version
    if not isinstance(transaction.operation, LanceOperation.Append) or committed.version == read_version + 1:
        return
    cast = casts.cast_columns(destination.pinned(read_version).open(), committed)
    if not cast:
        return
    undone = None if job_id is None else {_UNDONE: job_id}
    back = create_transaction(casts.taking_back(committed), int(committed.version), None, undone)
    LanceDataset.commit(
        _commit_base(destination, committed),
        back,
        storage_options=destination.options,
        **_catalog_arguments(destination, None),
    )
    raise RevertedCommitError(str(casts.refusal(cast, destination.identifier)))


class RevertedCommitError(ConcurrentModificationError):
    """Rows were committed and taken back: their files belong to a version, and stay."""


class OutcomeUnknownError(InternalError):
    """A commit failed, and so did the look at what came of it: its files may belong to a version."""


class _JobGuard:
    """Stands between Lance and the catalog while a job commits, and lets no version pass that would be its second.

    Lance names the version that it is about to make, and makes that one or none: whatever came before it can be
    looked at here for good.
    """

    def __init__(self, destination: Destination, job_id: str, seen: int) -> None:
        self._destination = destination
        self._client = destination.address.connect()
        self._job_id = job_id
        self._seen = seen
        self._refused: list[str] = []
        self.found: CommittedVersion | None = None

    def clear(self) -> None:
        """Delete the manifests that Lance staged for versions which were refused."""
        with self._destination.files() as files:
            files.delete(*(f"{_VERSIONS}/{name}" for name in self._refused))

    def namespace_id(self) -> str:
        """Name the catalog."""
        return self._client.namespace_id()

    def describe_table(self, request: Any) -> Any:
        """Tell where the table is."""
        return self._client.describe_table(request)

    def list_table_versions(self, request: Any) -> Any:
        """List versions."""
        return self._client.list_table_versions(request)

    def describe_table_version(self, request: Any) -> Any:
        """Describe a version."""
        return self._client.describe_table_version(request)

    def create_table_version(self, request: Any) -> Any:
        """Create the version unless the job has made one that nobody had seen."""
        version = int(request["version"] if isinstance(request, dict) else request.version)
        if version - 1 > self._seen:
            self.found = _search_versions(self._destination.latest(), self._job_id, self._seen, version - 1)
            self._seen = version - 1
        if self.found is not None:
            path = str(request["manifest_path"] if isinstance(request, dict) else request.manifest_path)
            self._refused.append(path.rpartition("/")[2])
            raise TableVersionAlreadyExistsError(
                f"Job {self._job_id!r} has made version {self.found.version} of "
                f"{format_identifier(self._destination.identifier)}"
            )
        return self._client.create_table_version(request)
