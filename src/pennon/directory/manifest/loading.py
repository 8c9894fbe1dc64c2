"""Loading a snapshot, and advancing it to a later version by reading only the fragments that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pennon.directory.manifest.columns import OFFSET_MASK, RowColumns, iterate_rows
from pennon.directory.manifest.row import COLUMNS, Row, extra_columns
from pennon.directory.manifest.scan import ADDRESS, scan
from pennon.directory.manifest.snapshot import Fragment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import lance

    from pennon.directory.manifest.loaded_snapshot import LoadedSnapshot

_MANY_ROWS = 100_000
"""A larger table is read column by column, which takes less memory and more requests."""
LARGE_CHANGE = 20_000
"""If fragments with more rows than this are new or gone, all rows are read again: that is faster."""


def advance(
    snapshot: LoadedSnapshot,
    dataset: lance.LanceDataset,
    *,
    written: Mapping[str, Sequence[Row]] | None = None,
    deleted: Mapping[int, Sequence[int]] | None = None,
) -> None:
    """Advance `snapshot` to the version that `dataset` has open.

    A writer passes the rows that it wrote, in order, by data file, and the offsets that it deleted, by fragment, so
    that they are not read back. `deleted` must be complete: pass it only if nobody else committed in between.
    """
    metadata = {fragment.fragment_id: fragment.metadata for fragment in dataset.get_fragments()}
    known = snapshot.fragments
    kept = {number for number in metadata if number in known and _files(metadata[number]) == known[number].files}
    gone = [number for number in known if number not in kept]
    new = [number for number in metadata if number not in kept]
    read = [number for number in new if not written or metadata[number].files[0].path not in written]
    if read and (not len(snapshot) or sum(metadata[number].physical_rows for number in read) > LARGE_CHANGE):
        _load(snapshot, dataset, metadata)
    else:
        stale = set(snapshot.keys_in(gone))
        # A row that only moved stays one entry.
        stale -= _add_fragments(snapshot, dataset, {number: metadata[number] for number in new}, read, written or {})
        for key in stale:
            snapshot.remove(key)
        for number in gone:
            if number not in metadata:
                del snapshot.fragments[number]
        for number in kept:
            _apply_deletions(snapshot, dataset, number, metadata[number], deleted)
        if snapshot.needs_merge:
            snapshot.merge(dataset.schema)
    snapshot.highest_fragment = max([snapshot.highest_fragment, *metadata])
    snapshot.version = dataset.version
    snapshot.metadata = dataset.metadata


def describe_fragment(metadata: Any, unreadable: int = 0) -> Fragment:
    """Return what a snapshot keeps about a fragment of the table."""
    return Fragment(_files(metadata), _deletions(metadata), metadata.num_rows, unreadable)


def _load(snapshot: LoadedSnapshot, dataset: lance.LanceDataset, metadata: Mapping[int, Any]) -> None:
    """Replace everything in the snapshot by the rows of the table."""
    extra = extra_columns(dataset.schema)
    if sum(found.physical_rows for found in metadata.values()) > _MANY_ROWS:
        columns = RowColumns(lambda names: scan(dataset, names), extra)
    else:
        columns = RowColumns(scan(dataset, [*COLUMNS, *extra, ADDRESS]).select, extra)
    snapshot.load(columns)
    snapshot.fragments = {
        number: describe_fragment(found, columns.unreadable.get(number, 0)) for number, found in metadata.items()
    }
    pa.default_memory_pool().release_unused()


def _add_fragments(
    snapshot: LoadedSnapshot,
    dataset: lance.LanceDataset,
    new: Mapping[int, Any],
    read: Collection[int],
    written: Mapping[str, Sequence[Row]],
) -> set[str]:
    """Add new fragments, from memory if this process wrote them, and return the keys of their rows."""
    keys: set[str] = set()
    for number, metadata in new.items():
        if number not in read:
            for offset, row in enumerate(written[metadata.files[0].path]):
                snapshot.put(row, (number, offset))
                keys.add(row.object_id)
            snapshot.fragments[number] = describe_fragment(metadata)
    if read:
        extra = extra_columns(dataset.schema)
        fragments = [dataset.get_fragment(number) for number in read]
        unreadable = dict.fromkeys(read, 0)
        for found, place in iterate_rows(scan(dataset, [*COLUMNS, *extra, ADDRESS], fragments=fragments), extra):
            if found is None:
                unreadable[place[0]] += 1
                continue
            snapshot.put(found, place)
            keys.add(found.object_id)
        for number in read:
            snapshot.fragments[number] = describe_fragment(new[number], unreadable[number])
    return keys


def _apply_deletions(
    snapshot: LoadedSnapshot,
    dataset: lance.LanceDataset,
    number: int,
    metadata: Any,
    deleted: Mapping[int, Sequence[int]] | None,
) -> None:
    """Remove the rows that were deleted from a fragment since the snapshot."""
    known = snapshot.fragments[number]
    if _deletions(metadata) == known.deletions:
        return
    offsets = None if deleted is None else deleted.get(number)
    keys = _find_deleted(snapshot, dataset, number, metadata) if offsets is None else snapshot.keys_at(number, offsets)
    for key in keys:
        if snapshot.place(key)[0] == number:
            snapshot.remove(key)
    snapshot.fragments[number] = describe_fragment(metadata, known.unreadable)


def _find_deleted(snapshot: LoadedSnapshot, dataset: lance.LanceDataset, number: int, metadata: Any) -> list[str]:
    addresses = scan(dataset, [ADDRESS], fragments=[dataset.get_fragment(number)])[ADDRESS]
    alive = np.zeros(metadata.physical_rows, dtype=bool)
    alive[np.asarray(addresses, dtype=np.uint64) & np.uint64(OFFSET_MASK)] = True
    keys = snapshot.keys_in([number])
    return [key for key in keys if not alive[snapshot.place(key)[1]]]


def _files(metadata: Any) -> str:
    return repr(metadata.files)


def _deletions(metadata: Any) -> str | None:
    return None if metadata.deletion_file is None else repr(metadata.deletion_file)
