"""A write whose files are on storage and which nobody sees yet, and what came of it in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.commits.destination import Destination
    from pennon.spark.reading.pinned import PinnedTable


@dataclass(frozen=True)
class WriteResult:
    """What a write did. `version` is the table's then; None where nothing was to be written to."""

    identifier: Identifier
    version: int | None
    rows: int = 0
    bytes: int = 0
    files: int = 0
    created: bool = False
    """Whether the table is new."""
    already: bool = False
    """Whether an earlier run of the same job had written it; the other numbers are those of that run."""
    skipped: bool = False
    """Whether nothing was written because the table was there (mode `ignore`)."""


@dataclass(frozen=True)
class StagedWrite:
    """A change of a table that is prepared: an operation on one of its versions, whose files are written."""

    identifier: Identifier
    operation: Any
    """A LanceOperation."""
    read_version: int
    """The version that the operation was made for; 0 for a table that is new."""
    rows: int
    bytes: int
    files: tuple[str, ...]
    """The data files that were written for it, below the table's directory (or the branch's)."""
    destination: Destination
    run: str
    """Names the notes of what was written (see `files`)."""
    new: bool = False
    """Whether the table is not in the catalog yet: its files are at a place of their own."""
    blobs: bool = False
    """Whether data files may have directories beside them."""
    evolution: Any = None
    """How to make the operation anew on a later version, where Lance cannot rebase it (see `evolution`)."""
    preview: PinnedTable | None = None
    """The version by which executors can read what is staged, once `readable` made it."""
    properties: dict[str, str] = field(default_factory=dict)
    """Properties of the table, if it is new."""
    since: int | None = None
    """The version before which its job cannot have been committed, where that is known: it need not be looked for."""
    transaction: dict[str, str] = field(default_factory=dict)
    """Properties of the transaction by which it is published."""

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to commit."""
        return self.operation is None
