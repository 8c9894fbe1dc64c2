"""Reading every row of a table, to verify that it can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidTableStateError
from pennon.identifiers import quote_identifier
from pennon.spark import types

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.spark.address import Address
    from pennon.spark.reading.pinned import PinnedTable
    from pennon.spark.reading.splits import FragmentSize

_PIECE_BYTES = 256 * 1024 * 1024
_BLOB_ROWS = 16


@dataclass(frozen=True)
class ScanPiece:
    """Some fragments of a table."""

    pinned: PinnedTable
    fragments: tuple[int, ...]

    @property
    def table(self) -> str:
        """The table's name, quoted where needed."""
        return quote_identifier(self.pinned.identifier)


def split_table(pinned: PinnedTable, fragments: Sequence[FragmentSize]) -> Iterator[ScanPiece]:
    """Yield pieces of a table of about equal size."""
    gathered: list[int] = []
    held = 0
    for fragment in fragments:
        if gathered and held + fragment.bytes > _PIECE_BYTES:
            yield ScanPiece(pinned, tuple(gathered))
            gathered, held = [], 0
        gathered.append(fragment.id)
        held += fragment.bytes
    if gathered:
        yield ScanPiece(pinned, tuple(gathered))


def read_rows(_: Address, task: ScanPiece) -> int:
    """Return the number of rows, after reading all of their columns, blobs included.

    Raises InvalidTableStateError if it differs from the number in the table's metadata.
    """
    dataset = task.pinned.open()
    fragments = [fragment for fragment in dataset.get_fragments() if fragment.fragment_id in task.fragments]
    blobs = types.has_blobs(dataset.schema)
    scanner = dataset.scanner(
        fragments=fragments,
        batch_size=_BLOB_ROWS if blobs else None,
        blob_handling="all_binary" if blobs else None,
    )
    rows = sum(int(batch.num_rows) for batch in scanner.to_batches())
    expected = sum(int(fragment.metadata.num_rows) for fragment in fragments)
    if rows != expected:
        raise InvalidTableStateError(f"Table '{task.table}' has {rows} readable rows instead of {expected}")
    return rows
