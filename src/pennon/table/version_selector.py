"""Which version of a table to open: a version number, a tag or a branch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, TableBranchNotFoundError, TableTagNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lance import LanceDataset

MAIN = "main"


def normalize_branch(branch: str | None) -> str | None:
    """Return the branch that a request names, or None for the main branch."""
    return None if branch == MAIN else branch


@dataclass(frozen=True)
class VersionSelector:
    """A version number on the main branch or another one, or a tag. Without any of them, the latest version."""

    version: int | None = None
    tag: str | None = None
    branch: str | None = None

    @classmethod
    def of(cls, table: str, version: int | None, tag: str | None, branch: str | None) -> VersionSelector:
        """Return the selector for the fields of a request.

        Raises InvalidInputError if a tag is combined with a version or a branch. `table` is the table's name in
        messages.
        """
        if tag is not None and (version is not None or branch is not None):
            raise InvalidInputError(f"Open table {table} at a tag or at a version or branch, not both")
        return cls(version, tag, normalize_branch(branch))

    @property
    def is_latest(self) -> bool:
        """True if it selects the latest version of the main branch."""
        return self.version is None and self.tag is None and self.branch is None

    def at_version(self, version: int) -> VersionSelector:
        """Return the selector for a version on the same branch."""
        return replace(self, version=version, tag=None)

    def resolve_tag(self, dataset: LanceDataset, table: str) -> VersionSelector:
        """Return the version and branch that the tag names, or this selector if it has no tag.

        Raises TableTagNotFoundError if the table has no such tag.
        """
        if self.tag is None:
            return self
        tag = find_tag(dataset, table, self.tag)
        return VersionSelector(int(tag["version"]), None, tag["branch"])


def find_tag(dataset: LanceDataset, table: str, name: str) -> Mapping[str, Any]:
    """Return a tag as Lance describes it. Raises TableTagNotFoundError."""
    tag = dataset.tags.list().get(name)
    if tag is None:
        raise TableTagNotFoundError(f"Table {table} has no tag '{name}'")
    return tag


def require_branch(dataset: LanceDataset, table: str, branch: str | None) -> None:
    """Raise TableBranchNotFoundError unless the table has the branch. None is the main branch."""
    if branch is not None and branch not in dataset.branches.list():
        raise TableBranchNotFoundError(f"Table {table} has no branch '{branch}'")


def check_out(
    dataset: LanceDataset,
    selector: VersionSelector,
    table: str,
    check_branch: Callable[[str], object] = lambda _: None,
) -> LanceDataset:
    """Return a copy of the dataset at the selected version, as the table's files define it.

    `check_branch` is called with the name of a branch before it is opened, and raises to refuse it. Raises
    TableTagNotFoundError, TableBranchNotFoundError, and the errors of Lance if the version does not exist.
    """
    target = selector.resolve_tag(dataset, table)
    require_branch(dataset, table, selector.branch)
    if target.branch is not None:
        check_branch(target.branch)
    return dataset.checkout_version((target.branch, target.version))
