"""The versions of a table for a stream: which exist, and the operation that created each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError, TableVersionNotFoundError, is_not_found
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.reading.pinned import declared_error
from pennon.spark.tables.destination import Destination, locate_table
from pennon.table.version_identity import hash_content

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lance import LanceDataset

    from pennon.spark.address import Address
    from pennon.spark.reading.pinned import PinnedTable
    from pennon.spark.streaming.stream_position import StreamPosition

UNKNOWN = "unknown operation"
# Transactions are small files, which are read concurrently.
_READ_AHEAD = 16


@dataclass(frozen=True)
class VersionOrigin:
    """The operation that created a version."""

    version: int
    operation: str
    """The name of the Lance operation."""
    rows: int = 0
    """The number of rows of an append."""


class StreamHistory:
    """The history of one table, as of the last `refresh`."""

    def __init__(self, address: Address, identifier: Identifier, branch: str | None) -> None:
        self.identifier = identifier
        self._address = address
        self._branch = branch
        self._destination: Destination | None = None
        self._handle: LanceDataset | None = None
        self._origins: dict[int, VersionOrigin] = {}

    def refresh(self) -> int:
        """Find the latest version and return its number; raises TableNotFoundError."""
        found = locate_table(self._address, self.identifier, self._branch)
        if found.declared:
            raise declared_error(self.identifier)
        # A table that was recreated at the same location may have the same latest number, so contents are compared.
        latest = found.latest()
        if self._handle is None or found != self._destination or hash_content(latest) != hash_content(self._handle):
            self._handle, self._destination = latest, found
            self._origins.clear()
        return self.latest

    @property
    def latest(self) -> int:
        """The number of the latest version at the last refresh."""
        return int(self._dataset.version)

    @property
    def oldest(self) -> int:
        """The number of the oldest existing version."""
        return min(int(one["version"]) for one in self._dataset.version_refs())

    def open_version(self, version: int) -> LanceDataset:
        """Open a version; raises TableVersionNotFoundError if it was deleted."""
        try:
            return self._dataset.checkout_version(version if self._branch is None else (self._branch, version))
        except (OSError, ValueError) as error:
            if is_not_found(error):
                raise self._missing_error(version) from error
            raise

    def pin_version(self, version: int) -> PinnedTable:
        """Return a version that any process can open."""
        assert self._destination is not None
        return self._destination.pin_version(version)

    def commit_time(self, version: int) -> datetime:
        """Return when a version was committed."""
        made: Any = self.open_version(version).get_version()
        timestamp: datetime = made["timestamp"]
        return timestamp.astimezone()

    def mark(self, version: int) -> str | None:
        """Return the time of a version's commit, which differs from that of the same version of another table."""
        return None if version == 0 else str(round(self.commit_time(version).timestamp() * 1_000_000))

    def verify(self, position: StreamPosition) -> None:
        """Raise InvalidTableStateError or TableVersionNotFoundError if the position is not of this table."""
        if position.mark is None:
            return
        name = format_identifier(self.identifier)
        if position.marked_version > self.latest:
            raise InvalidTableStateError(
                f"A stream has read table {name} up to version {position.marked_version}, but its latest version is "
                f"{self.latest}: it was created again or put back. {_RESTART}"
            )
        if self.mark(position.marked_version) != position.mark:
            raise InvalidTableStateError(
                f"Version {position.marked_version} of table {name} is not the one that a stream has read: the table "
                f"was dropped and created again, or put back. {_RESTART}"
            )

    def list_origins(self, first: int, last: int) -> Iterator[VersionOrigin]:
        """Yield the origins of versions `first` to `last`; raises TableVersionNotFoundError if one is missing."""
        with ThreadPoolExecutor(_READ_AHEAD) as pool:
            for start in range(first, last + 1, _READ_AHEAD):
                yield from pool.map(self._origin, range(start, min(start + _READ_AHEAD, last + 1)))

    def _origin(self, version: int) -> VersionOrigin:
        if version not in self._origins:
            self._origins[version] = self._read_origin(version)
        return self._origins[version]

    def _read_origin(self, version: int) -> VersionOrigin:
        try:
            # A handle of Lance can be used by one thread at a time; a copy shares its state.
            transaction: Any = copy(self._dataset).read_transaction(version)
        except TypeError as error:
            if "RewrittenIndex" not in str(error):
                raise
            # pylance 14 cannot read a compaction of an indexed table; no other operation has rewritten indexes.
            return VersionOrigin(version, "Rewrite")
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                raise
            transaction = None
        if transaction is None:
            self.open_version(version)  # the version itself must exist
            return VersionOrigin(version, UNKNOWN)
        operation = type(transaction.operation).__name__
        if operation == "Append":
            return VersionOrigin(version, operation, sum(one.physical_rows for one in transaction.operation.fragments))
        return VersionOrigin(version, UNKNOWN if operation == "BaseOperation" else operation)

    def _missing_error(self, version: int) -> TableVersionNotFoundError:
        return TableVersionNotFoundError(
            f"A stream of table {format_identifier(self.identifier)} needs version {version}, which was "
            f"deleted; the oldest existing version is {self.oldest}. {_RESTART}"
        )

    @property
    def _dataset(self) -> LanceDataset:
        assert self._handle is not None, "refresh() comes first"
        return self._handle


_RESTART = "Start the stream again with another checkpoint"
