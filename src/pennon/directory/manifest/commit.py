"""One commit to the manifest table: a compare-and-swap on its version.

Every mutation is planned on a snapshot of version n and must be committed on top of exactly that version. Inserts and
partial deletions use Lance's `Merge` operation, because it conflicts with every concurrent change of rows.
`Merge` cannot remove fragments. A commit that does (a fragment is emptied, small fragments are joined) is an `Update`
that names all fragments, which conflicts with every other commit of rows. Only commits of metadata and indexes can come
in between, and those change no row. See docs/adr/0002.

The commit point is the put-if-absent of the next version's manifest file. A crash before it leaves files that nothing
refers to; a crash after it leaves the change in place.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import lance
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from pennon.directory.manifest.row import SCHEMA, Row, rows_to_table
from pennon.errors import is_commit_conflict, is_not_found
from pennon.table.history import read_transaction

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
"""Transaction property of Pennon's own commits. `upkeep` recognizes other writers by its absence."""

OFFERS = "pennon.offers"
"""Transaction property with the ids of the offers of other processes that a commit contains, separated by spaces."""


class CommitConflict(Exception):
    """Another client committed first, and nothing was changed. `leftovers` are the files that were written."""

    def __init__(self, message: str = "", leftovers: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.leftovers = leftovers


@dataclass
class ManifestChange:
    """The files that were written for a commit, and the rows that they add to and delete from a snapshot."""

    written: dict[str, list[Row]] = field(default_factory=dict)
    deleted: dict[int, list[int]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CommitPlan:
    """What a commit changes. It is independent of the snapshot that it was made from, which may change afterwards."""

    added: list[Row]
    removed: list[str]
    """Keys whose stored rows are removed or replaced."""
    rows: list[Row]
    """Rows to be written: those that are added, and those of rewritten fragments."""
    deleted_offsets: dict[int, list[int]]
    """The offsets of deleted rows, by fragment."""
    removed_fragments: frozenset[int]
    """Fragments that are removed as a whole."""
    highest_fragment: int
    offers: tuple[str, ...] = ()
    """The ids of the changes of other processes that are part of the commit."""

    @property
    def changes_nothing(self) -> bool:
        """True if there is nothing to commit."""
        return not (self.added or self.removed)

    @classmethod
    def from_draft(cls, snapshot: Snapshot, draft: Draft) -> CommitPlan:
        """Return the changes of fragments that put a draft on top of its snapshot into effect."""
        added, removed = draft.added(), draft.removed()
        deleted_offsets = _group_by_fragment(snapshot, removed)
        rewritten = _choose_rewritten(snapshot, deleted_offsets, inserting=bool(added))
        moved = [
            row
            for fragment_id in rewritten
            for row in snapshot.live_rows(fragment_id)
            if snapshot.place(row.object_id)[1] not in deleted_offsets.get(fragment_id, ())
        ]
        emptied = {key for key, offsets in deleted_offsets.items() if len(offsets) == snapshot.fragments[key].live}
        whole = frozenset(rewritten | emptied)
        return cls(added, removed, moved + added, deleted_offsets, whole, snapshot.highest_fragment)

    def with_offers(self, snapshot: Snapshot, draft: Draft, offers: tuple[str, ...]) -> CommitPlan:
        """Return this plan with what offers of other processes have added to its draft.

        `added` and `removed` remain: they tell whether the own changes took effect.
        """
        whole = CommitPlan.from_draft(snapshot, draft)
        return replace(whole, added=self.added, removed=self.removed, offers=offers)


def create_table(uri: str, storage_options: dict[str, str], rows: list[Row]) -> tuple[LanceDataset, ManifestChange]:
    """Create the manifest table with the given rows. Raises CommitConflict if it already exists."""
    change = ManifestChange()
    try:
        fragments = write_fragments(
            rows_to_table(rows),
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
    _record_written(change, fragments, rows)
    transaction = _create_transaction(0, LanceOperation.Overwrite(SCHEMA, fragments))
    dataset = _commit_or_find(
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


def commit(dataset: LanceDataset, plan: CommitPlan) -> tuple[LanceDataset, ManifestChange]:
    """Commit on top of the version that `dataset` has open, which the plan is based on. May raise CommitConflict."""
    change = ManifestChange()
    kept = []
    for fragment in dataset.get_fragments():
        fragment_id = fragment.fragment_id
        if fragment_id in plan.removed_fragments:
            continue
        if fragment_id in plan.deleted_offsets:
            kept.append(_delete_rows(fragment, plan.deleted_offsets[fragment_id], change))
        else:
            kept.append(fragment.metadata)
    new = _write_rows(dataset, plan.rows, change)
    operation = _choose_operation(dataset, kept, sorted(plan.removed_fragments), new, above=plan.highest_fragment)
    transaction = _create_transaction(dataset.version, operation, plan.offers)
    committed = _commit_or_find(
        lambda: LanceDataset.commit(dataset, transaction, max_retries=0, commit_timeout=_TIMEOUT),
        lambda: lance.dataset(dataset.uri, storage_options=dataset.latest_storage_options() or None),
        transaction,
        change,
    )
    return committed, change


def _choose_rewritten(snapshot: Snapshot, deleted_offsets: dict[int, list[int]], *, inserting: bool) -> set[int]:
    """Return the fragments to rewrite into the new one: small ones if there are many, and those that lose many rows."""
    chosen = {key for key, offsets in deleted_offsets.items() if len(offsets) >= _MANY_DELETIONS}
    if inserting:
        # Many fragments of one tier are a reason to rewrite them, and all smaller ones; never a larger one.
        for lowest, tier in pairwise((0, *_TIERS)):
            sizes = {key: fragment.live for key, fragment in snapshot.fragments.items() if fragment.live < tier}
            if sum(size >= lowest for size in sizes.values()) >= _FEW_FRAGMENTS:
                chosen |= sizes.keys()
    # Rows that cannot be read cannot be rewritten.
    return {key for key in chosen if not snapshot.unreadable_in(key)}


def _group_by_fragment(snapshot: Snapshot, object_ids: list[str]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for object_id in object_ids:
        fragment_id, offset = snapshot.place(object_id)
        places.setdefault(fragment_id, []).append(offset)
    return places


def _delete_rows(fragment: Any, offsets: list[int], change: ManifestChange) -> Any:
    """Write the deletion file that removes rows from a fragment, and return the fragment's metadata."""
    fragment_id = fragment.fragment_id
    addresses = ", ".join(str((fragment_id << _FRAGMENT_SHIFT) | offset) for offset in offsets)
    smaller = fragment.delete(f"_rowaddr IN ({addresses})")
    change.deleted[fragment_id] = offsets
    deletions = smaller.deletion_file
    change.files.append(f"_deletions/{fragment_id}-{deletions.read_version}-{deletions.id}.arrow")
    return smaller


def _write_rows(dataset: LanceDataset, rows: list[Row], change: ManifestChange) -> list[Any]:
    if not rows:
        return []
    fragments = write_fragments(rows_to_table(rows, dataset.schema), dataset, mode="append")
    _record_written(change, fragments, rows)
    return list(fragments)


def _record_written(change: ManifestChange, fragments: list[Any], rows: list[Row]) -> None:
    start = 0
    for fragment in fragments:
        path = fragment.files[0].path
        change.files.append(f"data/{path}")
        change.written[path] = rows[start : start + fragment.physical_rows]
        start += fragment.physical_rows


def _choose_operation(
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
            # With every field named, Lance does not treat the new fragments as indexed.
            fields_for_preserving_frag_bitmap=list(range(dataset.max_field_id + 1)),
        )
    next_id = _next_fragment_id(dataset, above)
    for number, fragment in enumerate(new):
        fragment.id = next_id + number
    return LanceOperation.Merge(kept + new, dataset.lance_schema)


def _next_fragment_id(dataset: LanceDataset, above: int) -> int:
    # An index keeps the ids of removed fragments, so a new fragment with such an id would count as indexed. New ids
    # therefore start after the highest that the table ever had, which its manifest file stores.
    return max(above, _read_protobuf_number(dataset._ds.serialized_manifest(), _MAX_FRAGMENT_ID)) + 1  # noqa: SLF001


def _read_protobuf_number(message: bytes, field_number: int) -> int:
    """Return a number field of a protobuf message, or -1 if it is not set."""
    position, found = 0, -1
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _read_varint(message, position)
            if tag >> 3 == field_number:
                found = value
        elif kind == _BYTES:
            length, position = _read_varint(message, position)
            position += length
        else:
            position += 8 if kind == _FIXED64 else 4
    return found


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a number has no high bit
            return value, position
        shift += 7


def has_offer(dataset: LanceDataset, version: int, offer_id: str) -> bool:
    """Return True if the commit of a version contains an offer. Raises OSError or ValueError if the version is gone."""
    transaction = read_transaction(dataset, version)
    properties = None if transaction is None else transaction.transaction_properties
    return offer_id in (properties or {}).get(OFFERS, "").split()


def _create_transaction(
    read_version: int, operation: LanceOperation.BaseOperation, offers: tuple[str, ...] = ()
) -> lance.Transaction:
    properties = {COMMITTED_BY: "1", OFFERS: " ".join(offers)} if offers else {COMMITTED_BY: "1"}
    return lance.Transaction(
        read_version=read_version,
        operation=operation,
        uuid=str(uuid.uuid4()),
        transaction_properties=properties,
    )


def _commit_or_find(
    attempt: Callable[[], LanceDataset],
    reopen: Callable[[], LanceDataset],
    transaction: lance.Transaction,
    change: ManifestChange,
) -> LanceDataset:
    """Run a commit and return the dataset. After an error, look for the transaction: only the response may be lost."""
    try:
        return attempt()
    except (OSError, ValueError, RuntimeError) as error:
        latest = reopen()
        for version in range(transaction.read_version + 1, latest.version + 1):
            if _read_transaction_uuid(latest, version) == transaction.uuid:
                return latest
        if latest.version > transaction.read_version or is_commit_conflict(error):
            raise CommitConflict(str(error), tuple(change.files)) from error
        raise


def _read_transaction_uuid(dataset: LanceDataset, version: int) -> str | None:
    try:
        found = read_transaction(dataset, version)
    except (OSError, ValueError) as error:
        if is_not_found(error):
            return None
        raise
    return None if found is None else found.uuid
