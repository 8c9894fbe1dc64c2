"""The history of a table: going back to a version, and the transactions by which versions came about."""

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

SUCCEEDED = "Succeeded"
_STATUSES = ("queued", "running", "succeeded", "failed", "canceled")


@dataclass(frozen=True)
class Committed:
    """A transaction, and the version that it made."""

    transaction: Transaction
    version: int
    branch: str | None = None

    @property
    def properties(self) -> dict[str, str]:
        """Give what is known of it: the properties that its writer gave, and what it did to which version."""
        done = self.transaction
        told = {str(key): str(value) for key, value in (done.transaction_properties or {}).items()}
        told |= {
            "uuid": done.uuid,
            "operation": type(done.operation).__name__,
            "read_version": str(done.read_version),
            "version": str(self.version),
        }
        return told if self.branch is None else {**told, "branch": self.branch}


def restore(dataset: LanceDataset, identifier: Identifier) -> str | None:
    """Make the open version the latest again, by a new version; gives its transaction. Error 14."""
    try:
        dataset.restore()
    except (OSError, ValueError) as error:
        if is_race(error):
            raise ConcurrentModificationError(f"Restoring table {format_identifier(identifier)}: {error}") from error
        raise
    return transaction_id(dataset)


def transaction_id(dataset: LanceDataset) -> str | None:
    """Name the transaction that made the open version; None if Lance has no note of it."""
    try:
        made = dataset.read_transaction(dataset.version)
    except (OSError, ValueError):
        return None
    return None if made is None else str(made.uuid)


def find(dataset: LanceDataset, identifier: Identifier, wanted: str) -> Committed:
    """Find a transaction by its uuid, or by the version of the main branch that it made; error 10.

    By its uuid, it is looked for from the newest version on, one read for each.
    """
    if wanted.isascii() and wanted.isdecimal():
        found = _at(dataset, int(wanted))
    else:
        found = next((one for one in _all(dataset) if one.transaction.uuid == wanted), None)
    if found is None:
        raise TransactionNotFoundError(f"Table {format_identifier(identifier)} has no transaction '{wanted}'")
    return found


def alter(committed: Committed, actions: Sequence[AlterTransactionAction]) -> None:
    """Apply actions to a transaction that is committed: only those that ask for what is so already can be.

    A transaction of a Lance table is written once, with the version that it makes. Another status or property raises
    0; a mode `fail` that is not met, or an action that says nothing, 13.
    """
    for action in actions:
        asked = [action.set_status_action, action.set_property_action, action.unset_property_action]
        if sum(one is not None for one in asked) != 1:
            raise InvalidInputError("An action sets the status, or sets a property, or unsets a property: one of them")
        if action.set_status_action is not None:
            _check_status(committed, action.set_status_action.status)
        elif action.set_property_action is not None:
            one = action.set_property_action
            _check_set(committed, one.key, one.value, _mode(one.mode, "overwrite", ("overwrite", "fail", "skip")))
        elif action.unset_property_action is not None:
            unset = action.unset_property_action
            _check_unset(committed, unset.key, _mode(unset.mode, "skip", ("skip", "fail")))


def _check_status(committed: Committed, status: str | None) -> None:
    plain = _plain(status)
    if plain not in _STATUSES:
        raise InvalidInputError(f"Unknown status {status!r} of a transaction; known: {', '.join(_STATUSES)}")
    if plain != SUCCEEDED.lower():
        raise UnsupportedOperationError(
            f"Transaction '{committed.transaction.uuid}' cannot become {plain}: it is committed as version "
            f"{committed.version}, and restore_table brings an earlier one back"
        )


def _check_set(committed: Committed, key: str | None, value: str | None, mode: str) -> None:
    if not key or value is None:
        raise InvalidInputError("Setting a property needs its key and its value")
    there = committed.properties.get(key)
    if there is not None and mode == "fail":
        raise InvalidInputError(f"Transaction '{committed.transaction.uuid}' has a property '{key}' already")
    if there != value and not (there is not None and mode == "skip"):
        raise _written_once(committed)


def _check_unset(committed: Committed, key: str | None, mode: str) -> None:
    if not key:
        raise InvalidInputError("Unsetting a property needs its key")
    if key in committed.properties:
        raise _written_once(committed)
    if mode == "fail":
        raise InvalidInputError(f"Transaction '{committed.transaction.uuid}' has no property '{key}'")


def _written_once(committed: Committed) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"Transaction '{committed.transaction.uuid}' cannot be changed: Lance writes it once, with its version"
    )


def _mode(mode: str | None, default: str, known: Sequence[str]) -> str:
    plain = _plain(mode) or default
    if plain not in known:
        raise InvalidInputError(f"Unknown mode {mode!r}; known: {', '.join(known)}")
    return plain


def _plain(text: str | None) -> str:
    return (text or "").replace("_", "").lower()


def _all(dataset: LanceDataset) -> Iterator[Committed]:
    """Give the transactions of the main branch, the newest first, then those of the other ones."""
    yield from _of_branch(dataset, None)
    for branch in sorted(dataset.branches.list()):
        yield from _of_branch(dataset.checkout_version((branch, None)), branch)


def _of_branch(dataset: LanceDataset, branch: str | None) -> Iterator[Committed]:
    for version in sorted((int(ref["version"]) for ref in dataset.version_refs()), reverse=True):
        found = _at(dataset, version, branch)
        if found is not None:
            yield found


def _at(dataset: LanceDataset, version: int, branch: str | None = None) -> Committed | None:
    try:
        made = dataset.read_transaction(version)
    except OverflowError:
        return None
    except (OSError, ValueError) as error:
        if is_not_found(error) or "not found" in str(error).lower():
            return None
        raise
    return None if made is None else Committed(made, version, branch)
