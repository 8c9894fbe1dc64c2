"""Branches: lines of versions of their own. The files of a branch decide which versions it has, in every catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import (
    InvalidTableStateError,
    TableBranchAlreadyExistsError,
    TableBranchNotFoundError,
    TableVersionNotFoundError,
    is_not_found,
)
from pennon.identifiers import shown
from pennon.table.failures import bad_input_told
from pennon.table.tags import LARGEST_VERSION, require_branch

if TYPE_CHECKING:
    from lance import LanceDataset

    from pennon.identifiers import Identifier

MAIN = "main"


def list_branches(dataset: LanceDataset) -> dict[str, Any]:
    """Give all branches by name, sorted, each as Lance describes it; the main one is not among them."""
    return dict(sorted(dataset.branches.list().items()))


def create(
    dataset: LanceDataset, identifier: Identifier, name: str, from_branch: str | None, from_version: int | None
) -> None:
    """Begin a branch at a version of another, its latest by default; errors 11, 13, 22 (source), 23.

    The commit point is the put-if-absent of the branch's file.
    """
    if name in dataset.branches.list():
        raise _exists(identifier, name)
    require_branch(dataset, identifier, from_branch)
    if from_version is not None and not 0 < from_version <= LARGEST_VERSION:
        raise TableVersionNotFoundError(f"Table {shown(identifier)} has no version {from_version}")
    try:
        with bad_input_told(f"Branch '{name}' of table {shown(identifier)}"):
            dataset.create_branch(name, (from_branch, from_version))
    except (OSError, ValueError) as error:
        text = str(error).lower()
        if "ref conflict" in text or "already exists" in text:
            raise _exists(identifier, name) from error
        if is_not_found(error) or "version not found" in text:
            at = "" if from_branch is None else f" in its branch '{from_branch}'"
            raise TableVersionNotFoundError(f"Table {shown(identifier)} has no version {from_version}{at}") from error
        raise


def delete(dataset: LanceDataset, identifier: Identifier, name: str) -> None:
    """Delete a branch with its versions; errors 19 (a branch or a tag comes from it), 22."""
    require_branch(dataset, identifier, name)
    try:
        with bad_input_told(f"Branch '{name}' of table {shown(identifier)}"):
            dataset.branches.delete(name)
    except (OSError, ValueError) as error:
        text = str(error).lower()
        if "referenced by" in text:
            raise InvalidTableStateError(f"Branch '{name}' of table {shown(identifier)} is in use: {error}") from error
        if "ref not found" in text:
            raise TableBranchNotFoundError(f"Table {shown(identifier)} has no branch '{name}'") from error
        raise


def _exists(identifier: Identifier, name: str) -> TableBranchAlreadyExistsError:
    return TableBranchAlreadyExistsError(f"Table {shown(identifier)} has a branch '{name}' already")
