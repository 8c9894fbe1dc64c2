"""The tasks of a micro-batch. Each can be sent to an executor, and opens the versions that it reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pennon.spark.reading.scan import ROW_ADDRESS, Scan, read_split
from pennon.spark.reading.splits import Split
from pennon.spark.streaming.row_comparison import find_differing_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.spark.reading.pinned import PinnedTable
    from pennon.spark.streaming.stream_columns import FeedCommit, StreamColumns

INSERT, DELETE, PREIMAGE, POSTIMAGE = "insert", "delete", "update_preimage", "update_postimage"
# Up to this many rows are read by their addresses; more are filtered out of all rows.
_BY_ADDRESS = 2_000


@dataclass(frozen=True)
class SplitTask:
    """All rows of a split, with the same label."""

    columns: StreamColumns
    commit: FeedCommit
    scan: Scan
    split: Split
    label: str = INSERT

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for batch in read_split(self.scan, self.split, self.scan.read_schema()):
            yield self.columns.complete_batch(batch, self.commit, self.label)


@dataclass(frozen=True)
class MovedRowsTask:
    """Rows in fragments of one version that are not in the same fragments of the other: removed, added, or moved."""

    columns: StreamColumns
    commit: FeedCommit
    scan: Scan
    fragments: tuple[int, ...]
    other: PinnedTable
    """The other version."""
    in_both: tuple[int, ...]
    """The fragments that both versions have."""
    counterparts: tuple[int, ...]
    """The fragments of the other version with the counterparts of moved rows; none if row ids do not identify them."""
    labels: tuple[str, str]
    """The label of rows that moved, and that of others."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their labels."""
        addresses, ids = _find_missing(self.scan.table, self.other, self.fragments, self.in_both)
        if not len(addresses):
            return
        _, others = _find_missing(self.other, self.scan.table, self.counterparts, self.in_both)
        order = np.argsort(addresses)
        addresses, moved = addresses[order], np.isin(ids[order], others)
        wanted = replace(self.scan, row_address=True)
        if len(addresses) <= _BY_ADDRESS:
            condition = f"{ROW_ADDRESS} IN ({', '.join(str(one) for one in addresses)})"
            wanted = replace(wanted, where=condition if wanted.where is None else f"({wanted.where}) AND {condition}")
        for batch in read_split(wanted, Split(self.fragments), wanted.read_schema()):
            here = batch.column(ROW_ADDRESS).to_numpy()
            place = np.minimum(np.searchsorted(addresses, here), len(addresses) - 1)
            found = addresses[place] == here
            kept = batch.filter(pa.array(found))
            if kept.num_rows:
                labels = pa.array(np.where(moved[place[found]], *self.labels), pa.string())
                yield self.columns.complete_batch(kept, self.commit, labels)


@dataclass(frozen=True)
class RewrittenRowsTask:
    """Rows at unchanged addresses whose values differ."""

    columns: StreamColumns
    commit: FeedCommit
    before: Scan
    after: Scan
    split: Split
    images: bool
    """Whether the old values are delivered too."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split that differ between both versions."""
        old, new = (self._read_all(one) for one in (self.before, self.after))
        old_addresses, new_addresses = (one.column(ROW_ADDRESS).to_numpy() for one in (old, new))
        _, in_old, in_new = np.intersect1d(old_addresses, new_addresses, assume_unique=True, return_indices=True)
        old, new = self._complete(old.take(pa.array(in_old))), self._complete(new.take(pa.array(in_new)))
        changed = np.zeros(old.num_rows, dtype=bool)
        for name in self.columns.names:
            changed |= find_differing_rows(old.column(name), new.column(name))
        addresses = old_addresses[in_old]
        if self.images:
            yield from self._keep_rows(old, changed & self._meet_predicate(self.before, addresses), PREIMAGE)
        yield from self._keep_rows(new, changed & self._meet_predicate(self.after, addresses), POSTIMAGE)

    def _read_all(self, wanted: Scan) -> pa.RecordBatch:
        everything = replace(wanted, where=None, row_address=True)
        target = everything.read_schema()
        rows = pa.Table.from_batches(read_split(everything, self.split, target), target).combine_chunks()
        return rows.to_batches()[0] if rows.num_rows else pa.RecordBatch.from_pylist([], target)

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self.columns.complete_batch(batch, self.commit, POSTIMAGE)

    def _meet_predicate(self, wanted: Scan, addresses: np.ndarray) -> np.ndarray:
        if wanted.where is None:
            return np.ones(len(addresses), dtype=bool)
        bare = replace(wanted, columns=(), row_address=True)
        batches = list(read_split(bare, self.split, bare.read_schema()))
        meeting = [batch.column(ROW_ADDRESS).to_numpy() for batch in batches]
        return np.isin(addresses, np.concatenate(meeting) if meeting else [])

    def _keep_rows(self, rows: pa.RecordBatch, keep: np.ndarray, label: str) -> Iterator[pa.RecordBatch]:
        kept = rows.filter(pa.array(keep))
        if kept.num_rows:
            bare = kept.select(list(self.columns.names))
            yield self.columns.complete_batch(bare, self.commit, label)


StreamTask = SplitTask | MovedRowsTask | RewrittenRowsTask


def _find_missing(
    here: PinnedTable, there: PinnedTable, fragments: tuple[int, ...], in_both: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return addresses and ids of rows in these fragments that one version has and the other has not."""
    addresses, ids = _list_rows(here, fragments)
    others, _ = _list_rows(there, tuple(one for one in fragments if one in in_both))
    keep = ~np.isin(addresses, others)
    return addresses[keep], ids[keep]


def _list_rows(table: PinnedTable, fragments: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return addresses and ids of all rows in these fragments, without reading columns."""
    if not fragments:
        return np.array([], dtype=np.int64), np.array([], dtype=np.uint64)
    dataset: Any = table.open()
    rows = dataset.scanner(
        columns=[],
        with_row_id=True,
        with_row_address=True,
        fragments=[dataset.get_fragment(number) for number in fragments],
    ).to_table()
    return rows.column(ROW_ADDRESS).to_numpy().astype(np.int64), rows.column("_rowid").to_numpy()
