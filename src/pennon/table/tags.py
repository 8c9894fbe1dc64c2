"""Tags: names for versions of a table. They are files of the table, also where a catalog manages its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import (
    InvalidInputError,
    TableBranchNotFoundError,
    TableTagAlreadyExistsError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)
from pennon.identifiers import format_identifier
from pennon.table.lance_errors import bad_input_told

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance import LanceDataset

    from pennon.identifiers import Identifier

LARGEST_VERSION = (1 << 63) - 1


def list_tags(dataset: LanceDataset) -> dict[str, Any]:
    """Give all tags by name, sorted, each as Lance describes it: `version`, `branch`, `manifest_size`."""
    return dict(sorted(dataset.tags.list().items()))


def get(dataset: LanceDataset, identifier: Identifier, tag: str) -> Any:
    """Give one tag; error 8."""
    there = dataset.tags.list().get(tag)
    if there is None:
        raise TableTagNotFoundError(f"Table {format_identifier(identifier)} has no tag '{tag}'")
    return there


def create(dataset: LanceDataset, identifier: Identifier, tag: str, version: int, branch: str | None) -> None:
    """Name a version; of several callers with one name, one succeeds. Errors 9, 11, 13, 22.

    The commit point is the put-if-absent of the tag's file.
    """
    _require_version(dataset, identifier, version, branch)
    _done(lambda: dataset.tags.create(tag, (branch, version)), identifier, tag, version)


def update(dataset: LanceDataset, identifier: Identifier, tag: str, version: int, branch: str | None) -> None:
    """Let a tag name another version; errors 8, 11, 13, 22."""
    _require_version(dataset, identifier, version, branch)
    _done(lambda: dataset.tags.update(tag, (branch, version)), identifier, tag, version)


def delete(dataset: LanceDataset, identifier: Identifier, tag: str) -> None:
    """Take a tag away, the version stays; error 8."""
    _done(lambda: dataset.tags.delete(tag), identifier, tag, None)


def require_branch(dataset: LanceDataset, identifier: Identifier, branch: str | None) -> None:
    """Raise 22 unless the branch is there; None is the main one."""
    if branch is not None and branch not in dataset.branches.list():
        raise TableBranchNotFoundError(f"Table {format_identifier(identifier)} has no branch '{branch}'")


def _require_version(dataset: LanceDataset, identifier: Identifier, version: int, branch: str | None) -> None:
    require_branch(dataset, identifier, branch)
    if not 0 < version <= LARGEST_VERSION:
        raise TableVersionNotFoundError(f"Table {format_identifier(identifier)} has no version {version}")


def _done(change: Callable[[], None], identifier: Identifier, tag: str, version: int | None) -> None:
    try:
        with bad_input_told(f"Tag '{tag}' of table {format_identifier(identifier)}"):
            change()
    except (OSError, ValueError) as error:
        text = str(error).lower()
        if "version not found" in text:
            raise TableVersionNotFoundError(
                f"Table {format_identifier(identifier)} has no version {version}"
            ) from error
        if "already exists" in text:
            raise TableTagAlreadyExistsError(
                f"Table {format_identifier(identifier)} has a tag '{tag}' already"
            ) from error
        if "not found" in text:
            raise TableTagNotFoundError(f"Table {format_identifier(identifier)} has no tag '{tag}'") from error
        if not tag:
            raise InvalidInputError("A tag needs a name") from error
        raise
