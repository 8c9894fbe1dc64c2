"""One commit to the manifest table: a compare-and-swap on its version.

Every mutation is planned on a snapshot of version n and must become valid on top of exactly that version. Lance's
`Merge` operation conflicts with every concurrent change of rows, whoever makes it, so it is what inserts and partial
deletions use. It may not take fragments away; a commit that does (a fragment emptied, small fragments joined) is an
`Update` that names all fragments, which conflicts with every other commit of this kind. Only metadata and index
commits slip in between, and those change no row. See docs/adr/0002.

The commit point is the put-if-absent of the next version's manifest file. A crash before it leaves files that nothing
refers to; a crash after it leaves the change in place.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from pennon.directory.manifest.row import SCHEMA, Row, rows_table
from pennon.errors import is_commit_conflict, is_not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.directory.manifest.draft import Draft
    from pennon.directory.manifest.snapshot import Snapshot

_FRAGMENT_SHIFT = 32
_MAX_FRAGMENT_ID = 11
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_STORAGE_VERSION = "2.2"
_TIMEOUT = timedelta(seconds=60)
_FEW_FRAGMENTS = 16
_TIERS = (1 << 10, 1 << 15, 1 << 20)
_MANY_DELETIONS = 256
COMMITTED_BY = "pennon.commit"
"""Transaction property that marks Pennon's own commits; `upkeep` tells other writers by its absence."""


class CommitConflict(Exception):
    """Somebody else committed first; nothing was changed. `leftovers` are the files written in vain."""

    def __init__(self, message: str = "", leftovers: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.leftovers = leftovers


@dataclass
class Change:
    """Files that were written for a commit, and what they mean for the snapshot."""

    written: dict[str, list[Row]] = field(default_factory=dict)
    deleted: dict[int, list[int]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """What a commit has to do, taken from the snapshot at the moment of planning; the snapshot may move on then."""

    added: list[Row]
    removed: list[str]
    """Keys whose stored rows go, because they are removed or replaced."""
    rows: list[Row]
    """Rows to be written: those that are added, and those of fragments that are rewritten."""
    gone: dict[int, list[int]]
    """Offsets that are deleted, by fragment."""
    dropped: frozenset[int]
    """Fragments that go as a whole."""
    highest_fragment: int

    @classmethod
    def of(cls, snapshot: Snapshot, draft: Draft) -> Work:
        """Work out what a draft on top of a snapshot means for fragments."""
        added, removed = draft.added(), draft.removed()
        gone = _by_fragment(snapshot, removed)
        absorbed = _absorbed(snapshot, gone, inserting=bool(added))
        moved = [
            row
            for fragment_id in absorbed
            for row in snapshot.live_rows(fragment_id)
            if snapshot.place(row.object_id)[1] not in gone.get(fragment_id, ())
        ]
        emptied = {
            key
            for key, offsets in gone.items()
            if len(offsets) == snapshot.fragments[key].live and not snapshot.fragments[key].unreadable
        }
        return cls(added, removed, moved + added, gone, frozenset(absorbed | emptied), snapshot.highest_fragment)


def create_table(uri: str, storage_options: dict[str, str], rows: list[Row]) -> tuple[LanceDataset, Change]:
    """Create the manifest table with these rows in it; loses with CommitConflict if it is there already."""
    change = Change()
    try:
        fragments = write_fragments(
            rows_table(rows),
            uri,
            schema=SCHEMA,
            mode="create",
            data_storage_version=_STORAGE_VERSION,
            storage_options=storage_options,
        )
    except (OSError, ValueError) as error:
        if "already exists" in str(error).lower():
            raise CommitConflict from error
        raise
    _note_written(change, fragments, rows)
    transaction = _transaction(0, LanceOperation.Overwrite(SCHEMA, fragments))
    dataset = _committed(
        lambda: LanceDataset.commit(
            uri,
            transaction,
            storage_options=storage_options,
            enable_v2_manifest_paths=True,
            max_retries=0,
            commit_timeout=_TIMEOUT,
        ),
        lambda: lance.dataset(uri, storage_options=storage_options),
        transaction,
        change,
    )
    return dataset, change


def commit(dataset: LanceDataset, work: Work) -> tuple[LanceDataset, Change]:
    """Commit on top of the version that was planned on, which `dataset` has open, or raise CommitConflict."""
    change = Change()
    kept = []
    for fragment in dataset.get_fragments():
        fragment_id = fragment.fragment_id
        if fragment_id in work.dropped:
            continue
        if fragment_id in work.gone:
            kept.append(_without(fragment, work.gone[fragment_id], change))
        else:
            kept.append(fragment.metadata)
    new = _write(dataset, work.rows, change)
    operation = _operation(dataset, kept, sorted(work.dropped), new, above=work.highest_fragment)
    transaction = _transaction(dataset.version, operation)
    landed = _committed(
        lambda: LanceDataset.commit(dataset, transaction, max_retries=0, commit_timeout=_TIMEOUT),
        lambda: lance.dataset(dataset.uri, storage_options=dataset.latest_storage_options() or None),
        transaction,
        change,
    )
    return landed, change


def _absorbed(snapshot: Snapshot, gone: dict[int, list[int]], *, inserting: bool) -> set[int]:
    """Choose fragments to rewrite into the new one: small ones once there are many, and those that lose many rows."""
    chosen = {key for key, offsets in gone.items() if len(offsets) >= _MANY_DELETIONS}
    if inserting:
        for tier in _TIERS:
            small = {key for key, fragment in snapshot.fragments.items() if fragment.live < tier}
            if len(small) >= _FEW_FRAGMENTS:
                chosen |= small
    # Rows that cannot be read cannot be written again either.
    return {key for key in chosen if not snapshot.fragments[key].unreadable}


def _by_fragment(snapshot: Snapshot, object_ids: list[str]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for object_id in object_ids:
        fragment_id, offset = snapshot.place(object_id)
        places.setdefault(fragment_id, []).append(offset)
    return places


def _without(fragment: Any, offsets: list[int], change: Change) -> Any:
    """Write the deletion file that takes rows out of a fragment."""
    fragment_id = fragment.fragment_id
    addresses = ", ".join(str((fragment_id << _FRAGMENT_SHIFT) | offset) for offset in offsets)
    smaller = fragment.delete(f"_rowaddr IN ({addresses})")
    change.deleted[fragment_id] = offsets
    deletions = smaller.deletion_file
    change.files.append(f"_deletions/{fragment_id}-{deletions.read_version}-{deletions.id}.arrow")
    return smaller


def _write(dataset: LanceDataset, rows: list[Row], change: Change) -> list[Any]:
    if not rows:
        return []
    fragments = write_fragments(rows_table(rows, dataset.schema), dataset, mode="append")
    _note_written(change, fragments, rows)
    return list(fragments)


def _note_written(change: Change, fragments: list[Any], rows: list[Row]) -> None:
    start = 0
    for fragment in fragments:
        path = fragment.files[0].path
        change.files.append(f"data/{path}")
        change.written[path] = rows[start : start + fragment.physical_rows]
        start += fragment.physical_rows


def _operation(
    dataset: LanceDataset, kept: list[Any], removed: list[int], new: list[Any], *, above: int
) -> LanceOperation.BaseOperation:
    if not kept and not removed:
        return LanceOperation.Overwrite(dataset.schema, new)
    if removed:
        return LanceOperation.Update(
            removed_fragment_ids=removed,
            updated_fragments=kept,
            new_fragments=new,
            fields_modified=[],
            # Naming every field keeps Lance from counting the new fragments as covered by the indexes.
            fields_for_preserving_frag_bitmap=list(range(dataset.max_field_id + 1)),
        )
    next_id = _next_fragment_id(dataset, above)
    for number, fragment in enumerate(new):
        fragment.id = next_id + number
    return LanceOperation.Merge(kept + new, dataset.lance_schema)


def _next_fragment_id(dataset: LanceDataset, above: int) -> int:
    # An index goes on naming fragments that were removed: a new fragment with such an id would count as indexed. So ids
    # go on from the highest that the table ever had, which its manifest file says.
    return max(above, _protobuf_number(dataset._ds.serialized_manifest(), _MAX_FRAGMENT_ID)) + 1  # noqa: SLF001


def _protobuf_number(message: bytes, wanted: int) -> int:
    """Read a number field of a protobuf message; -1 if it is not set."""
    position, found = 0, -1
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            if tag >> 3 == wanted:
                found = value
        elif kind == _BYTES:
            length, position = _varint(message, position)
            position += length
        else:
            position += 8 if kind == _FIXED64 else 4
    return found


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number has no high bit
            return value, position
        shift += 7


def _transaction(read_version: int, operation: LanceOperation.BaseOperation) -> lance.Transaction:
    return lance.Transaction(
        read_version=read_version,
        operation=operation,
        uuid=str(uuid.uuid4()),
        transaction_properties={COMMITTED_BY: "1"},
    )


def _committed(
    attempt: Callable[[], LanceDataset],
    reopen: Callable[[], LanceDataset],
    transaction: lance.Transaction,
    change: Change,
) -> LanceDataset:
    """Run a commit whose failure may be a lost answer: look for the transaction before calling it lost."""
    try:
        return attempt()
    except (OSError, ValueError, RuntimeError) as error:
        latest = reopen()
        for version in range(transaction.read_version + 1, latest.version + 1):
            if _transaction_uuid(latest, version) == transaction.uuid:
                return latest
        if latest.version > transaction.read_version or is_commit_conflict(error):
            raise CommitConflict(str(error), tuple(change.files)) from error
        raise


def _transaction_uuid(dataset: LanceDataset, version: int) -> str | None:
    try:
        found = dataset.read_transaction(version)
    except (OSError, ValueError) as error:
        if is_not_found(error):
            return None
        raise
    return None if found is None else found.uuid
