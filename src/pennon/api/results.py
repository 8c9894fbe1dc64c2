"""What the methods of the Python API return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class RowChanges:
    """The version that a change committed, and how many rows it changed."""

    version: int | None
    inserted: int | None = 0
    updated: int | None = 0
    deleted: int | None = 0
    """None if the number is not known."""


@dataclass(frozen=True)
class TableVersionInfo:
    """A version of a table."""

    version: int
    committed_at: datetime | None
    """When it was committed, in UTC."""
    tags: tuple[str, ...] = ()
    operation: str | None = None
    """What its transaction did, such as `Append`. Set only if it was asked for."""


@dataclass(frozen=True)
class TagInfo:
    """A tag: a name for a version."""

    name: str
    version: int
    branch: str | None = None


@dataclass(frozen=True)
class BranchInfo:
    """A branch of a table, and the version that it started from."""

    name: str
    parent_branch: str | None
    parent_version: int | None


@dataclass(frozen=True)
class IndexInfo:
    """An index of a table."""

    name: str
    columns: tuple[str, ...]
    type: str | None
    status: str
    indexed_rows: int | None = None
    unindexed_rows: int | None = None


@dataclass(frozen=True)
class TableSummary:
    """The figures of a version of a table."""

    version: int
    committed_at: datetime | None
    rows: int
    columns: int
    fragments: int | None = None
    bytes: int | None = None
    """The size of the data files of this version."""
    deleted_rows: int | None = None
    """How many rows in the fragments are deleted. None, as the fields above, if a server does not say it."""
