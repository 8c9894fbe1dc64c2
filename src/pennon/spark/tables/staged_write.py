"""A staged write, whose files are written but not yet visible, and the result of a write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.reading.pinned import PinnedTable
    from pennon.spark.tables.destination import Destination
    from pennon.spark.tables.run_files import RunDirectory


@dataclass(frozen=True)
class WriteResult:
    """The result of a write. `version` is the version of the table after it, or None if there is no table."""

    identifier: Identifier
    version: int | None
    rows: int = 0
    bytes: int = 0
    files: int = 0
    created: bool = False
    """Whether the write created the table."""
    already: bool = False
    """Whether an earlier run of the same job wrote it; the other numbers are those of that run."""
    skipped: bool = False
    """Whether nothing was written because the table exists (mode `ignore`)."""


@dataclass(frozen=True)
class StagedWrite:
    """A prepared change to a table: an operation on one of its versions, whose files are written."""

    identifier: Identifier
    operation: Any
    """A LanceOperation."""
    read_version: int
    """The version that the operation is based on; 0 for a new table."""
    rows: int
    bytes: int
    files: tuple[str, ...]
    """The data files of the operation, relative to the directory of the table or of the branch."""
    destination: Destination
    run: str
    """The name of the notes about its files (see `run_files`)."""
    new: bool = False
    """Whether the table is not in the catalog yet; its files are at a new location."""
    blobs: bool = False
    """Whether data files may have directories beside them."""
    drops_fragments: bool = False
    """Whether Lance leaves fragments without rows out of the version, so that it does not need all of the files."""
    evolution: Any = None
    """How to build the operation for a later version if Lance cannot rebase it (see `schema_evolution`)."""
    preview: PinnedTable | None = None
    """The version through which executors read the staged rows, after `make_readable`."""
    properties: dict[str, str] = field(default_factory=dict)
    """Properties of the table, if it is new."""
    since: int | None = None
    """The version before which its job cannot have been committed, if known: earlier ones are not searched."""
    transaction: dict[str, str] = field(default_factory=dict)
    """Properties of the transaction that publishes it."""

    @property
    def is_empty(self) -> bool:
        """Return True if there is nothing to commit."""
        return self.operation is None

    @property
    def address(self) -> Address:
        """The catalog of the table."""
        return self.destination.address

    def open_directory(self) -> RunDirectory:
        """Open the directory of the table, or of the branch."""
        return self.destination.files(blobs=self.blobs)
