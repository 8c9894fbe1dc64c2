"""Branches: lines of versions of their own. The files of a branch decide which versions it has, in every catalog."""

from __future__ import annotations

import re
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
from pennon.table.lance_errors import bad_input_told
from pennon.table.tags import LARGEST_VERSION, require_branch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance import LanceDataset

    from pennon.identifiers import Identifier

MAIN = "main"
_PART = re.compile(r"[\w.-]+")


def named_branch(branch: str | None) -> str | None:
    """Give the branch that a request names; None is the main one, under its name as well."""
    return None if branch == MAIN else branch


def list_branches(dataset: LanceDataset) -> dict[str, Any]:
    """Give all branches by name, sorted, each as Lance describes it; the main one is not among them."""
    return dict(sorted(dataset.branches.list().items()))


def require_name(name: str) -> None:
    """Raise 13 unless a branch can have the name: parts of letters, digits, `.`, `-` and `_`, joined by slashes."""
    if name == MAIN or ".." in name or not all(_PART.fullmatch(part) for part in name.split("/")):
        raise InvalidInputError(f"No branch can have the name {name!r}")


def create(
    dataset: LanceDataset,
    identifier: Identifier,
    name: str,
    from_branch: str | None,
    from_version: int | None,
    *,
    clear: Callable[[], None] = lambda: None,
) -> None:
    """Begin a branch at a version of another, its latest by default; errors 11, 13, 14, 22 (source), 23.

    The commit point is the put-if-absent of the branch's file. `clear` takes away what was left of one that was begun
    and never came about.
    """
    require_name(name)
    if name in dataset.branches.list():
        raise _exists(identifier, name)
    require_branch(dataset, identifier, from_branch)
    if from_version is not None:
        _require_version(dataset, identifier, from_branch, from_version)
    clear()
    subject = f"Branch '{name}' of table {format_identifier(identifier)}"
    try:
        with bad_input_told(subject):
            dataset.create_branch(name, (from_branch, from_version))
    except (OSError, ValueError, ConcurrentModificationError) as error:
        if name in dataset.branches.list():
            raise _exists(identifier, name) from error
        # The source was there a moment ago: somebody who begins the same branch took away what was written.
        if is_not_found(error) or "ref conflict" in str(error).lower():
            raise ConcurrentModificationError(f"{subject}: another client is creating it: {error}") from error
        raise


def ref_path(branch: str) -> str:
    """Return the path, below the table's directory, of the file that makes a branch exist."""
    return f"_refs/branches/{branch.replace('/', '%2F')}.json"


def delete(dataset: LanceDataset, identifier: Identifier, name: str) -> bool:
    """Delete a branch with its versions; errors 19 (a branch or a tag comes from it), 22.

    Return True if Lance left the files of its versions, which it does while there is a branch below this one.
    """
    there = dataset.branches.list()
    if name not in there:
        raise TableBranchNotFoundError(f"Table {format_identifier(identifier)} has no branch '{name}'")
    try:
        with bad_input_told(f"Branch '{name}' of table {format_identifier(identifier)}"):
            dataset.branches.delete(name)
    except (OSError, ValueError) as error:
        text = str(error).lower()
        if "referenced by" in text:
            raise InvalidTableStateError(
                f"Branch '{name}' of table {format_identifier(identifier)} is in use: {error}"
            ) from error
        if "ref not found" in text:
            raise TableBranchNotFoundError(f"Table {format_identifier(identifier)} has no branch '{name}'") from error
        raise
    return any(other.startswith(f"{name}/") for other in there)


def _require_version(dataset: LanceDataset, identifier: Identifier, branch: str | None, version: int) -> None:
    missing = f"Table {format_identifier(identifier)} has no version {version}"
    if branch is not None:
        missing += f" in its branch '{branch}'"
    if not 0 < version <= LARGEST_VERSION:
        raise TableVersionNotFoundError(missing)
    try:
        dataset.checkout_version((branch, version))
    except (OSError, ValueError) as error:
        if is_not_found(error) or "version not found" in str(error).lower():
            raise TableVersionNotFoundError(missing) from error
        raise


def _exists(identifier: Identifier, name: str) -> TableBranchAlreadyExistsError:
    return TableBranchAlreadyExistsError(f"Table {format_identifier(identifier)} has a branch '{name}' already")
