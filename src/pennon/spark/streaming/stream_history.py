"""The versions of a table as a stream goes through them: which there are, and what made each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError, TableNotFoundError, TableVersionNotFoundError, is_not_found
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.commits.destination import Destination, locate_table
from pennon.table.version_identity import hash_content

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lance import LanceDataset

    from pennon.spark.address import Address
    from pennon.spark.reading.pinned import PinnedTable
    from pennon.spark.streaming.stream_position import StreamPosition

UNKNOWN = "unknown operation"
# Transactions are small reads that a bucket answers side by side.
_READ_AHEAD = 16


@dataclass(frozen=True)
class VersionOrigin:
    """What made a version."""

    version: int
    operation: str
    """The name of Lance's operation."""
    rows: int = 0
    """The rows of an append."""


class StreamHistory:
    """The history of one table; `refresh` looks for what is new, all else speaks of what it saw."""

    def __init__(self, address: Address, identifier: Identifier, branch: str | None) -> None:
        self.identifier = identifier
        self._address = address
        self._branch = branch
        self._destination: Destination | None = None
        self._handle: LanceDataset | None = None
        self._origins: dict[int, VersionOrigin] = {}

    def refresh(self) -> int:
        """Look for the latest version, and give its number; a table that is gone raises 4."""
        found = locate_table(self._address, self.identifier, self._branch)
        if found.declared:
            raise TableNotFoundError(
                f"Table {format_identifier(self.identifier)} is declared, but nothing has been written to it yet"
            )
        # A table that was created again in the same place may have the same latest number: only its content differs.
        latest = found.latest()
        if self._handle is None or found != self._destination or hash_content(latest) != hash_content(self._handle):
            self._handle, self._destination = latest, found
            self._origins.clear()
        return self.latest

    @property
    def latest(self) -> int:
        """Give the number of the latest version that was seen."""
        return int(self._dataset.version)

    @property
    def oldest(self) -> int:
        """Give the number of the oldest version that is still there."""
        return min(int(one["version"]) for one in self._dataset.version_refs())

    def open_version(self, version: int) -> LanceDataset:
        """Open a version; one that is not there any more raises 11."""
        try:
            return self._dataset.checkout_version(version if self._branch is None else (self._branch, version))
        except (OSError, ValueError) as error:
            if is_not_found(error):
                raise self._missing_error(version) from error
            raise

    def pinned(self, version: int) -> PinnedTable:
        """Name a version so that any process can open it."""
        assert self._destination is not None
        return self._destination.pinned(version)

    def commit_time(self, version: int) -> datetime:
        """Tell when a version was made."""
        made: Any = self.open_version(version).get_version()
        timestamp: datetime = made["timestamp"]
        return timestamp.astimezone()

    def mark(self, version: int) -> str | None:
        """Give what tells this version from one of the same number in another table: the moment of its commit."""
        return None if version == 0 else str(round(self.commit_time(version).timestamp() * 1_000_000))

    def verify(self, position: StreamPosition) -> None:
        """Raise unless the table is the one in which the position was reached: 11 or 19."""
        if position.mark is None:
            return
        name = format_identifier(self.identifier)
        if position.marked_version > self.latest:
            raise InvalidTableStateError(
                f"A stream has read table {name} up to version {position.marked_version}, but its latest version is "
                f"{self.latest}: it was made anew or put back. {_ANEW}"
            )
        if self.mark(position.marked_version) != position.mark:
            raise InvalidTableStateError(
                f"Version {position.marked_version} of table {name} is not the one that a stream has read: the table "
                f"was dropped and made anew, or put back. {_ANEW}"
            )

    def list_origins(self, first: int, last: int) -> Iterator[VersionOrigin]:
        """Go through what made the versions from `first` to `last`, in order; one that is not there raises 11."""
        with ThreadPoolExecutor(_READ_AHEAD) as pool:
            for start in range(first, last + 1, _READ_AHEAD):
                yield from pool.map(self._origin, range(start, min(start + _READ_AHEAD, last + 1)))

    def _origin(self, version: int) -> VersionOrigin:
        if version not in self._origins:
            self._origins[version] = self._read_origin(version)
        return self._origins[version]

    def _read_origin(self, version: int) -> VersionOrigin:
        try:
            # Lance lets a handle be used by one thread at a time; a copy shares all that is open.
            transaction: Any = copy(self._dataset).read_transaction(version)
        except TypeError as error:
            if "RewrittenIndex" not in str(error):
                raise
            # pylance 14 cannot show a compaction that took indexes along; nothing else has rewritten indexes.
            return VersionOrigin(version, "Rewrite")
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                raise
            transaction = None
        if transaction is None:
            self.open_version(version)  # the version itself must be there
            return VersionOrigin(version, UNKNOWN)
        operation = type(transaction.operation).__name__
        if operation == "Append":
            return VersionOrigin(version, operation, sum(one.physical_rows for one in transaction.operation.fragments))
        return VersionOrigin(version, UNKNOWN if operation == "BaseOperation" else operation)

    def _missing_error(self, version: int) -> TableVersionNotFoundError:
        return TableVersionNotFoundError(
            f"A stream of table {format_identifier(self.identifier)} needs version {version}, which was "
            "cleaned away; the oldest "
            f"that is left is {self.oldest}. {_ANEW}"
        )

    @property
    def _dataset(self) -> LanceDataset:
        assert self._handle is not None, "refresh() comes first"
        return self._handle


_ANEW = "Start the stream anew, with another checkpoint"
