"""Tags: names for versions of a table. They are files of the table, also where a catalog manages its versions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    InvalidInputError,
    TableTagAlreadyExistsError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)
from pennon.identifiers import format_identifier
from pennon.table.branches import LARGEST_VERSION
from pennon.table.lance_errors import translate_errors
from pennon.table.version_selector import require_branch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance import LanceDataset

    from pennon.identifiers import Identifier


def list_tags(dataset: LanceDataset) -> dict[str, Any]:
    """Return all tags by name, sorted, each as Lance describes it: `version`, `branch`, `manifest_size`."""
    return dict(sorted(dataset.tags.list().items()))


def create(dataset: LanceDataset, identifier: Identifier, tag: str, version: int, branch: str | None) -> None:
    """Create a tag for a version. If several clients create the same tag, one succeeds.

    The commit point is the put-if-absent of the tag's file. Raises TableTagAlreadyExistsError,
    TableVersionNotFoundError, TableBranchNotFoundError, and InvalidInputError for a bad name.
    """
    _require_version(dataset, identifier, version, branch)
    with _translate_errors(identifier, tag, version):
        dataset.tags.create(tag, (branch, version))


def update(dataset: LanceDataset, identifier: Identifier, tag: str, version: int, branch: str | None) -> None:
    """Move a tag to another version.

    Raises TableTagNotFoundError, TableVersionNotFoundError and TableBranchNotFoundError.
    """
    _require_version(dataset, identifier, version, branch)
    with _translate_errors(identifier, tag, version):
        dataset.tags.update(tag, (branch, version))


def delete(dataset: LanceDataset, identifier: Identifier, tag: str) -> None:
    """Delete a tag. The version stays. Raises TableTagNotFoundError."""
    with _translate_errors(identifier, tag, None):
        dataset.tags.delete(tag)


def _require_version(dataset: LanceDataset, identifier: Identifier, version: int, branch: str | None) -> None:
    require_branch(dataset, format_identifier(identifier), branch)
    if not 0 < version <= LARGEST_VERSION:
        raise TableVersionNotFoundError(f"Table {format_identifier(identifier)} has no version {version}")


@contextmanager
def _translate_errors(identifier: Identifier, tag: str, version: int | None) -> Iterator[None]:
    table = format_identifier(identifier)
    try:
        with translate_errors(f"Tag '{tag}' of table {table}"):
            yield
    except (OSError, ValueError) as error:
        text = str(error).lower()
        if "version not found" in text:
            raise TableVersionNotFoundError(f"Table {table} has no version {version}") from error
        if "already exists" in text:
            raise TableTagAlreadyExistsError(f"Table {table} has a tag '{tag}' already") from error
        if "not found" in text:
            raise TableTagNotFoundError(f"Table {table} has no tag '{tag}'") from error
        if not tag:
            raise InvalidInputError("A tag needs a name") from error
        raise
