"""Advancing a snapshot to a version of the manifest table by reading only the fragments that changed."""

from __future__ import annotations

from concurrent.futures import Future
from threading import current_thread
from typing import TYPE_CHECKING, Any

from pennon import background
from pennon.directory.manifest.row import COLUMNS, Row, extra_columns, table_to_rows
from pennon.directory.manifest.snapshot import Fragment, Snapshot
from pennon.errors import ConcurrentModificationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import lance
    import pyarrow as pa

_OFFSET_MASK = 0xFFFFFFFF
_FRAGMENT_SHIFT = 32


def advance(
    snapshot: Snapshot,
    dataset: lance.LanceDataset,
    *,
    written: Mapping[str, Sequence[Row]] | None = None,
    deleted: Mapping[int, Sequence[int]] | None = None,
) -> None:
    """Advance `snapshot` to the version that `dataset` has open.

    A writer passes the rows that it wrote, in order, by data file, and the offsets that it deleted, by fragment, so
    that they are not read back. `deleted` must be complete: pass it only if nobody else committed in between.
    """
    fragments = {fragment.fragment_id: fragment for fragment in dataset.get_fragments()}
    metadata = {fragment_id: fragment.metadata for fragment_id, fragment in fragments.items()}
    replaced = [
        fragment_id
        for fragment_id, known in snapshot.fragments.items()
        if fragment_id in metadata and _files(metadata[fragment_id]) != known.files
    ]
    for fragment_id in replaced:
        snapshot.drop_fragment(fragment_id)
    # New fragments are added before old ones are removed, so a row that only moved stays one entry.
    gone = [fragment_id for fragment_id in snapshot.fragments if fragment_id not in metadata]
    kept = [fragment_id for fragment_id in snapshot.fragments if fragment_id in metadata]
    _add_new(snapshot, dataset, {key: value for key, value in metadata.items() if key not in kept}, written or {})
    for fragment_id in gone:
        snapshot.drop_fragment(fragment_id)
    for fragment_id in kept:
        known, deletions = snapshot.fragments[fragment_id], _deletions(metadata[fragment_id])
        if deletions != known.deletions:
            offsets = None if deleted is None else deleted.get(fragment_id)
            if offsets is None:
                offsets = _find_deleted(dataset, fragments[fragment_id], known)
            snapshot.drop_offsets(fragment_id, offsets)
            known.deletions = deletions
    snapshot.version = dataset.version
    snapshot.metadata = dataset.metadata


def _add_new(
    snapshot: Snapshot, dataset: lance.LanceDataset, metadata: Mapping[int, Any], written: Mapping[str, Sequence[Row]]
) -> None:
    """Add new fragments: from memory if this process wrote them, else by reading them."""
    unread = []
    for fragment_id, now in metadata.items():
        rows = written.get(now.files[0].path) if written else None
        if rows is None:
            unread.append(dataset.get_fragment(fragment_id))
        else:
            _add_fragment(snapshot, fragment_id, now, dict(enumerate(rows)))
    for fragment_id, found in _read_rows(dataset, unread).items():
        readable = {offset: row for offset, row in found.items() if row is not None}
        _add_fragment(snapshot, fragment_id, metadata[fragment_id], readable, unreadable=len(found) - len(readable))


def _add_fragment(
    snapshot: Snapshot,
    fragment_id: int,
    metadata: Any,
    rows: Mapping[int, Row],
    *,
    unreadable: int = 0,
) -> None:
    ids: list[str | None] = [None] * metadata.physical_rows
    for offset, row in rows.items():
        ids[offset] = row.object_id
    fragment = Fragment(_files(metadata), _deletions(metadata), ids, len(rows), unreadable)
    snapshot.add_fragment(fragment_id, fragment, rows)


def _files(metadata: Any) -> str:
    return repr(metadata.files)


def _deletions(metadata: Any) -> str | None:
    return None if metadata.deletion_file is None else repr(metadata.deletion_file)


def _find_deleted(dataset: lance.LanceDataset, fragment: Any, known: Fragment) -> list[int]:
    addresses = _scan(dataset, [], [fragment])["_rowaddr"]
    alive = {address & _OFFSET_MASK for address in addresses.to_pylist()}
    return [offset for offset, key in enumerate(known.ids) if key is not None and offset not in alive]


def _read_rows(dataset: lance.LanceDataset, fragments: Sequence[Any]) -> dict[int, dict[int, Row | None]]:
    if not fragments:
        return {}
    extra = extra_columns(dataset.schema)
    table = _scan(dataset, COLUMNS + extra, fragments)
    found: dict[int, dict[int, Row | None]] = {fragment.fragment_id: {} for fragment in fragments}
    for address, row in zip(table["_rowaddr"].to_pylist(), table_to_rows(table, extra), strict=True):
        found[address >> _FRAGMENT_SHIFT][address & _OFFSET_MASK] = row
    return found


def _scan(dataset: lance.LanceDataset, columns: list[str], fragments: Sequence[Any]) -> pa.Table:
    """Return columns of some fragments with the rows' addresses. The scan runs in a thread of its own.

    Lance calls the catalog from its own threads when it commits to a managed table. A scan that reaches its end on such
    a thread aborts the process: "the function must be called with the GIL held".
    """
    scanner = dataset.scanner(columns=columns, fragments=list(fragments), with_row_address=True)
    result: Future[pa.Table] = Future()

    def scan() -> None:
        try:
            result.set_result(scanner.to_table())
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting thread
            result.set_exception(error)

    if background.start(scan, name="pennon-scan") is not None:
        return result.result()
    if current_thread().daemon:
        raise ConcurrentModificationError("The process is ending: the catalog can no longer be read from this thread")
    return scanner.to_table()
