"""The history of a table: restoring a version, and the transactions that committed versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TransactionNotFoundError,
    UnsupportedOperationError,
    is_not_found,
)
from pennon.identifiers import format_identifier
from pennon.table.lance_errors import is_race

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset, Transaction
    from lance_namespace_urllib3_client.models.alter_transaction_action import AlterTransactionAction

    from pennon.identifiers import Identifier

JOB = "pennon.job"
"""The property of a transaction that contains the id of the job that committed it."""
SUCCEEDED = "Succeeded"
_UNREADABLE = "RewrittenIndex"
_STATUSES = ("queued", "running", "succeeded", "failed", "canceled")


@dataclass(frozen=True)
class CommittedTransaction:
    """A transaction and the version that it committed."""

    transaction: Transaction
    version: int
    branch: str | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The properties that its writer set, and those that Lance records."""
        transaction = self.transaction
        properties = {str(key): str(value) for key, value in (transaction.transaction_properties or {}).items()}
        properties |= {
            "uuid": transaction.uuid,
            "operation": type(transaction.operation).__name__,
            "read_version": str(transaction.read_version),
            "version": str(self.version),
        }
        return properties if self.branch is None else {**properties, "branch": self.branch}


def restore(dataset: LanceDataset, identifier: Identifier) -> str | None:
    """Commit the open version again as the latest, and return the id of the transaction.

    Raises ConcurrentModificationError if another client commits at the same time.
    """
    try:
        dataset.restore()
    except (OSError, ValueError) as error:
        if is_race(error):
            raise ConcurrentModificationError(f"Restoring table {format_identifier(identifier)}: {error}") from error
        raise
    return read_transaction_id(dataset)


def read_transaction(dataset: LanceDataset, version: int) -> Transaction | None:
    """Return the transaction that committed a version, or None if it has no record or pylance cannot read it.

    pylance 14 cannot read the compaction of an indexed table. Raises OSError or ValueError if the version is gone.
    """
    try:
        return dataset.read_transaction(version)
    except TypeError as error:
        if _UNREADABLE not in str(error):
            raise
        return None


def read_transaction_id(dataset: LanceDataset) -> str | None:
    """Return the id of the transaction that committed the open version, or None if there is no record of it."""
    try:
        transaction = read_transaction(dataset, int(dataset.version))
    except (OSError, ValueError):
        return None
    return None if transaction is None else str(transaction.uuid)


def find_transaction(dataset: LanceDataset, identifier: Identifier, name: str) -> CommittedTransaction:
    """Return the transaction with this uuid, or the one that committed this version of the main branch.

    A uuid is searched from the newest version on, with one read for each. Raises TransactionNotFoundError.
    """
    if name.isascii() and name.isdecimal():
        found = _read_committed(dataset, int(name))
    else:
        found = next((one for one in _list_transactions(dataset) if one.transaction.uuid == name), None)
    if found is None:
        raise TransactionNotFoundError(f"Table {format_identifier(identifier)} has no transaction '{name}'")
    return found


def check_actions(committed: CommittedTransaction, actions: Sequence[AlterTransactionAction]) -> None:
    """Check that actions on a committed transaction change nothing.

    Lance writes a transaction once, with its version. Raises UnsupportedOperationError for another status or property,
    InvalidInputError for an empty action or if the mode `fail` applies.
    """
    for action in actions:
        parts = [action.set_status_action, action.set_property_action, action.unset_property_action]
        if sum(one is not None for one in parts) != 1:
            raise InvalidInputError("An action must set the status, set a property or unset a property: exactly one")
        if action.set_status_action is not None:
            _check_status(committed, action.set_status_action.status)
        elif action.set_property_action is not None:
            one = action.set_property_action
            _check_set(committed, one.key, one.value, _parse_mode(one.mode, "overwrite", ("overwrite", "fail", "skip")))
        elif action.unset_property_action is not None:
            unset = action.unset_property_action
            _check_unset(committed, unset.key, _parse_mode(unset.mode, "skip", ("skip", "fail")))


def _check_status(committed: CommittedTransaction, status: str | None) -> None:
    plain = _normalize(status)
    if plain not in _STATUSES:
        raise InvalidInputError(f"Unknown status {status!r} of a transaction; known: {', '.join(_STATUSES)}")
    if plain != SUCCEEDED.lower():
        raise UnsupportedOperationError(
            f"Transaction '{committed.transaction.uuid}' cannot become {plain}: it is committed as version "
            f"{committed.version}, use restore_table to return to an earlier one"
        )


def _check_set(committed: CommittedTransaction, key: str | None, value: str | None, mode: str) -> None:
    if not key or value is None:
        raise InvalidInputError("Setting a property requires its key and its value")
    current = committed.properties.get(key)
    if current is not None and mode == "fail":
        raise InvalidInputError(f"Transaction '{committed.transaction.uuid}' has a property '{key}' already")
    if current != value and not (current is not None and mode == "skip"):
        raise _immutable_error(committed)


def _check_unset(committed: CommittedTransaction, key: str | None, mode: str) -> None:
    if not key:
        raise InvalidInputError("Unsetting a property requires its key")
    if key in committed.properties:
        raise _immutable_error(committed)
    if mode == "fail":
        raise InvalidInputError(f"Transaction '{committed.transaction.uuid}' has no property '{key}'")


def _immutable_error(committed: CommittedTransaction) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"Transaction '{committed.transaction.uuid}' cannot be changed: Lance writes it once, with its version"
    )


def _parse_mode(mode: str | None, default: str, known: Sequence[str]) -> str:
    plain = _normalize(mode) or default
    if plain not in known:
        raise InvalidInputError(f"Unknown mode {mode!r}; known: {', '.join(known)}")
    return plain


def _normalize(text: str | None) -> str:
    return (text or "").replace("_", "").lower()


def _list_transactions(dataset: LanceDataset) -> Iterator[CommittedTransaction]:
    """Iterate over the transactions of the main branch, the newest first, then over those of other branches."""
    yield from _list_branch(dataset, None)
    for branch in sorted(dataset.branches.list()):
        yield from _list_branch(dataset.checkout_version((branch, None)), branch)


def _list_branch(dataset: LanceDataset, branch: str | None) -> Iterator[CommittedTransaction]:
    for version in sorted((int(ref["version"]) for ref in dataset.version_refs()), reverse=True):
        found = _read_committed(dataset, version, branch)
        if found is not None:
            yield found


def _read_committed(dataset: LanceDataset, version: int, branch: str | None = None) -> CommittedTransaction | None:
    try:
        transaction = read_transaction(dataset, version)
    except OverflowError:
        return None
    except (OSError, ValueError) as error:
        if is_not_found(error) or "not found" in str(error).lower():
            return None
        raise
    return None if transaction is None else CommittedTransaction(transaction, version, branch)
