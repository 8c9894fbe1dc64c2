"""Deletion vectors, which executors write: the deleted rows of each fragment, and the fragments without them."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.spark.merging.row_lookup import FRAGMENT_BITS, open_fragment, split_by_fragment

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from pennon.spark.commits.destination import Destination
    from pennon.spark.reading.pinned import PinnedTable

REPORT = "kind string, fragment bigint, content binary"
"""The schema of reports from tasks to the driver, and of the work that the driver hands out."""
_SCHEMA = pa.schema([("kind", pa.string()), ("fragment", pa.int64()), ("content", pa.binary())])
GONE, SHORTENED, EMPTIED = "gone", "shortened", "emptied"
_OFFSETS = (1 << FRAGMENT_BITS) - 1
_THREADS = 8


class DeletedRows:
    """The rows that one task deletes, by fragment."""

    def __init__(self) -> None:
        self._offsets: dict[int, list[np.ndarray]] = defaultdict(list)

    def add(self, addresses: pa.Array) -> None:
        """Add rows by their ascending addresses."""
        for fragment, rows in split_by_fragment(addresses):
            self._offsets[fragment].append((rows.to_numpy() & _OFFSETS).astype("uint32"))

    def reports(self) -> Iterator[pa.RecordBatch]:
        """Yield the deleted rows, one report for each fragment."""
        for fragment, offsets in self._offsets.items():
            yield _row(GONE, fragment, _pack_offsets(offsets))


def create_report(kind: str, content: str) -> pa.RecordBatch:
    """Return a report that is not about a fragment."""
    return _row(kind, None, content.encode())


def split_reports(reports: pa.Table) -> tuple[list[dict[str, Any]], pa.Table]:
    """Return all other reports, and the reports of deleted rows, merged into one for each fragment."""
    others = []
    gone: dict[int, list[bytes]] = defaultdict(list)
    for row in reports.to_pylist():
        if row["kind"] == GONE:
            gone[row["fragment"]].append(row["content"])
        else:
            others.append(row)
    rows = [_row(GONE, fragment, _join_offsets(contents)) for fragment, contents in sorted(gone.items())]
    return others, pa.Table.from_batches(rows, _SCHEMA)


def write_deletion_vectors(
    table: PinnedTable, destination: Destination, run: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write a deletion vector for each fragment with reported deletions, and yield reports of the results."""
    gone = {row["fragment"]: row["content"] for batch in batches for row in batch.to_pylist()}
    if not gone:
        return
    dataset = table.open()

    def delete(fragment: int) -> tuple[int, str | None, str]:
        left = open_fragment(dataset, fragment).delete_rows(_unpack_offsets(gone[fragment]).tolist())
        if left is None:
            return fragment, None, ""
        return fragment, json.dumps(left.to_json()), left.deletion_file.path(fragment)

    with destination.files() as files, ThreadPoolExecutor(_THREADS) as pool:
        for fragment, left, path in pool.map(delete, gone):
            if left is None:
                yield _row(EMPTIED, fragment, b"")
            else:
                files.note(run, path)
                yield _row(SHORTENED, fragment, left.encode())


def _row(kind: str, fragment: int | None, content: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"kind": kind, "fragment": fragment, "content": content}], _SCHEMA)


def _pack_offsets(offsets: list[np.ndarray]) -> bytes:
    import numpy as np

    together = np.unique(np.concatenate(offsets))
    # Differences between neighbours are small and compress well.
    return zlib.compress(np.diff(together, prepend=np.uint32(0)).tobytes(), 1)


def _unpack_offsets(content: bytes) -> np.ndarray:
    import numpy as np

    return np.cumsum(np.frombuffer(zlib.decompress(content), "uint32"), dtype="uint32")


def _join_offsets(contents: list[bytes]) -> bytes:
    return contents[0] if len(contents) == 1 else _pack_offsets([_unpack_offsets(one) for one in contents])
