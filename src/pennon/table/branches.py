"""Branches of a table. The files of a branch decide which versions it has, in every catalog.

Lance creates a branch in two steps: it writes the branch's first version, then the file that names the branch. If two
clients create the same branch from different versions, one of them fails at the second step. Its version remains, and
is the branch's latest if it has the larger number. So a client claims the name of a branch first, and deletes what a
client that died between the two steps left behind.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    TableBranchAlreadyExistsError,
    TableBranchNotFoundError,
    TableVersionNotFoundError,
    is_not_found,
)
from pennon.identifiers import format_identifier
from pennon.table.lance_errors import translate_errors
from pennon.table.naming import VERSIONS_FOLDER
from pennon.table.version_selector import MAIN, require_branch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance import LanceDataset

    from pennon.identifiers import Identifier
    from pennon.store import Store

LEASE_SECONDS = 60.0
"""A client that holds a claim, or has written a first version, for longer than this counts as dead."""
LARGEST_VERSION = (1 << 63) - 1
_SHORTEST_CLAIM = 32
_NAME_PART = re.compile(r"[\w.-]+")


def list_branches(dataset: LanceDataset) -> dict[str, Any]:
    """Return all branches but the main one by name, sorted, each as Lance describes it."""
    return dict(sorted(dataset.branches.list().items()))


def require_name(name: str) -> None:
    """Raise InvalidInputError unless a branch can have the name.

    A name consists of parts of letters, digits, `.`, `-` and `_`, joined by slashes.
    """
    if name == MAIN or ".." in name or not all(_NAME_PART.fullmatch(part) for part in name.split("/")):
        raise InvalidInputError(f"No branch can have the name {name!r}")


def ref_path(branch: str) -> str:
    """Return the path, below the table's directory, of the file that makes a branch exist."""
    return f"_refs/branches/{branch.replace('/', '%2F')}.json"


@dataclass(frozen=True)
class BranchClaim:
    """The right to create a branch, or to delete what is left of it."""

    store: Store
    folder: str
    """The directory of the branch's versions."""
    table: str
    branch: str

    def delete_leftovers(self, *, branch_deleted: bool = False) -> None:
        """Delete the version files of a branch that does not exist.

        They are from a client that died, or from a deleted branch: Lance leaves them if another branch is below it.
        Raises ConcurrentModificationError if they may be from a client that is alive, unless the caller has just
        deleted the branch.
        """
        files = self.store.list_level(self.folder).files
        if not files:
            return
        if not branch_deleted and self.store.now() - max(file.modified for file in files) <= LEASE_SECONDS:
            raise _claimed_error(self.table, self.branch)
        self.store.delete(*(f"{self.folder}/{file.name}" for file in files))


@contextmanager
def claim_branch(store: Store, location: str, branch: str, table: str) -> Iterator[BranchClaim]:
    """Hold the claim on the name of a branch, which must be valid.

    `location` is the table's directory in the store, "" for the store's root. Raises ConcurrentModificationError if
    another client holds the claim. The claim is a file in the table's `_refs` directory. A crash leaves it there until
    its lease has expired.
    """
    folder = f"{location}/" if location else ""
    path = f"{folder}_refs/{hashlib.sha256(branch.encode()).hexdigest()[:32]}.claim"
    e_tag = _write_claim(store, path)
    if e_tag is None:
        raise _claimed_error(table, branch)
    try:
        yield BranchClaim(store, f"{folder}tree/{branch}/{VERSIONS_FOLDER}", table, branch)
    finally:
        store.delete_if(path, e_tag)


def create(
    dataset: LanceDataset,
    identifier: Identifier,
    name: str,
    from_branch: str | None,
    from_version: int | None,
    *,
    claim: BranchClaim | None = None,
) -> None:
    """Create a branch from a version of another one, by default its latest.

    The commit point is the put-if-absent of the branch's file. Raises TableBranchAlreadyExistsError,
    TableBranchNotFoundError and TableVersionNotFoundError for the source, InvalidInputError for the name, and
    ConcurrentModificationError if another client creates it.
    """
    table = format_identifier(identifier)
    require_name(name)
    if name in dataset.branches.list():
        raise _exists_error(table, name)
    require_branch(dataset, table, from_branch)
    if from_version is not None:
        _require_version(dataset, table, from_branch, from_version)
    if claim is not None:
        claim.delete_leftovers()
    subject = f"Branch '{name}' of table {table}"
    try:
        with translate_errors(subject):
            dataset.create_branch(name, (from_branch, from_version))
    except (OSError, ValueError, ConcurrentModificationError) as error:
        if name in dataset.branches.list():
            raise _exists_error(table, name) from error
        # The source existed a moment ago: another client that creates the same branch deleted what was written.
        if is_not_found(error) or "ref conflict" in str(error).lower():
            raise ConcurrentModificationError(f"{subject}: another client is creating it: {error}") from error
        raise


def delete(dataset: LanceDataset, identifier: Identifier, name: str) -> bool:
    """Delete a branch with its versions.

    Returns True if Lance left the files of the versions, which it does while another branch is below this one. Raises
    TableBranchNotFoundError, or InvalidTableStateError if a branch or a tag refers to this branch.
    """
    table = format_identifier(identifier)
    existing = dataset.branches.list()
    missing = TableBranchNotFoundError(f"Table {table} has no branch '{name}'")
    if name not in existing:
        raise missing
    try:
        with translate_errors(f"Branch '{name}' of table {table}"):
            dataset.branches.delete(name)
    except (OSError, ValueError) as error:
        text = str(error).lower()
        if "referenced by" in text:
            raise InvalidTableStateError(f"Branch '{name}' of table {table} is in use: {error}") from error
        if "ref not found" in text:
            raise missing from error
        raise
    return any(other.startswith(f"{name}/") for other in existing)


def _write_claim(store: Store, path: str) -> str | None:
    """Write the claim and return its e-tag, or None if another client holds a claim that has not expired."""
    body = f"branch {uuid.uuid4()}".encode().ljust(_SHORTEST_CLAIM)
    e_tag = store.create(path, body)
    if e_tag is not None:
        return e_tag
    existing = store.get(path)
    if existing is None:
        return store.create(path, body)
    is_expired = len(existing.body) < _SHORTEST_CLAIM or store.now() - existing.modified > LEASE_SECONDS
    return store.swap(path, body, existing.e_tag) if is_expired else None


def _require_version(dataset: LanceDataset, table: str, branch: str | None, version: int) -> None:
    where = "" if branch is None else f" in its branch '{branch}'"
    missing = TableVersionNotFoundError(f"Table {table} has no version {version}{where}")
    if not 0 < version <= LARGEST_VERSION:
        raise missing
    try:
        dataset.checkout_version((branch, version))
    except (OSError, ValueError) as error:
        if is_not_found(error) or "version not found" in str(error).lower():
            raise missing from error
        raise


def _claimed_error(table: str, branch: str) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"Branch '{branch}' of table {table} is being created by another client; try again later"
    )


def _exists_error(table: str, name: str) -> TableBranchAlreadyExistsError:
    return TableBranchAlreadyExistsError(f"Table {table} has a branch '{name}' already")
