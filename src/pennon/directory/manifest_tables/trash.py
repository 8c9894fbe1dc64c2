"""The trash: rows of dropped tables and namespaces.

A drop renames a row to `__trash$<deletion id>` and keeps its location. Other clients neither list such rows nor lose
them. The row's metadata records what was dropped, when, and how long it is kept, as texts only, because other clients
expect nothing else there.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pennon.directory.clock import now_ms
from pennon.directory.manifest import TRASH, is_live
from pennon.directory.manifest.skipped import REPAIR, shorten_id
from pennon.directory.retention import DELETED_AT, FIX, TTL, parse_retention
from pennon.identifiers import DELIMITER, Identifier, find_name_fault, object_id, split_object_id
from pennon.results import Problem

if TYPE_CHECKING:
    from pennon.directory.manifest import Draft, Row, Snapshot

DROPPED = "dropped"
PURGING = "purging"


@dataclass(frozen=True)
class Deletion:
    """When an object was dropped, how long it is kept, and the group that was dropped together."""

    deleted_at_ms: int
    ttl_ms: int
    group: str = ""
    fault: str = ""
    """Why the times cannot be read, in which case they are 0; "" if they can."""


@dataclass(frozen=True)
class TrashEntry:
    """A dropped table or namespace."""

    deletion_id: str
    identifier: Identifier
    state: str
    deletion: Deletion
    original: Row
    """The row as it was before it was dropped."""
    stored: dict[str, str] = field(default_factory=dict)
    """The metadata of the row as it was found: unknown entries are written back."""

    @property
    def key(self) -> str:
        """The id of the row in the trash."""
        return f"{TRASH}{DELIMITER}{self.deletion_id}"

    def row(self) -> Row:
        """Return the row in the trash."""
        content = {**self.stored, "state": self.state, "object_id": object_id(self.identifier)}
        if not self.deletion.fault:
            content |= {DELETED_AT: str(self.deletion.deleted_at_ms), TTL: str(self.deletion.ttl_ms)}
        if self.deletion.group:
            content["group"] = self.deletion.group
        if self.original.metadata is not None:
            content["metadata"] = self.original.metadata
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return replace(self.original, object_id=self.key, metadata=text)


def move_to_trash(draft: Draft, row: Row, deletion: Deletion) -> TrashEntry:
    """Move a row to the trash."""
    entry = TrashEntry(uuid.uuid4().hex, split_object_id(row.object_id), DROPPED, deletion, row)
    draft.move(row.object_id, entry.row())
    return entry


def restore_row(draft: Draft, entry: TrashEntry, identifier: Identifier) -> Row:
    """Move a row out of the trash to an id, which must be free."""
    row = replace(entry.original, object_id=object_id(identifier))
    draft.move(entry.key, row)
    return row


def live_owners(draft: Draft, location: str) -> list[str]:
    """Return the ids of the rows at a location that are not in the trash."""
    return [key for key in draft.object_ids_at(location) if is_live(key)]


def is_abandoned(rows: Draft | Snapshot, location: str) -> bool:
    """Return True if no row names a location, or only rows that are being purged."""
    for key in rows.object_ids_at(location):
        row = rows.get(key)
        entry = None if row is None or is_live(key) else parse_entry(row)
        if entry is None or entry.state != PURGING:
            return False
    return True


def list_entries(rows: Draft | Snapshot) -> list[TrashEntry]:
    """Return all objects in the trash whose rows can be read."""
    return [entry for entry in map(parse_entry, _rows(rows)) if entry is not None]


def list_entries_and_problems(snapshot: Snapshot) -> tuple[list[TrashEntry], list[Problem]]:
    """Return all objects in the trash, and the problems of rows that cannot be read completely."""
    return list_entries(snapshot), [problem for problem in map(find_problem, _rows(snapshot)) if problem is not None]


def _rows(rows: Draft | Snapshot) -> list[Row]:
    keys = list(rows.descendants(TRASH))
    rows.expect(*keys)
    return [row for key in keys if (row := rows.get(key)) is not None]


def parse_entry(row: Row) -> TrashEntry | None:
    """Return the dropped object of a row in the trash, or None if the row cannot be read."""
    content = row.properties()
    return None if _find_fault(content) else _parse(row, content)


def find_problem(row: Row) -> Problem | None:
    """Return what is wrong with a row of the trash and how to fix it, or None if it can be used."""
    fault = row.metadata_fault or _find_fault(row.properties())
    if fault:
        reason = f"what was dropped cannot be read, and its data is kept: {fault}"
        return Problem(shorten_id(row.object_id), reason, REPAIR)
    deletion = _parse(row, row.properties()).deletion
    if not deletion.fault:
        return None
    reason = f"the retention of the dropped object cannot be read: {deletion.fault}"
    return Problem(shorten_id(row.object_id), reason, FIX)


def _find_fault(content: dict[str, str]) -> str:
    if content.get("state") not in {DROPPED, PURGING}:
        return f"its state is neither '{DROPPED}' nor '{PURGING}'"
    if not content.get("object_id"):
        return "it does not name what was dropped"
    names = split_object_id(content["object_id"])
    faults = (find_name_fault(name, at_root=level == 0) for level, name in enumerate(names))
    fault = next((fault for fault in faults if fault), None)
    return f"what was dropped has a bad name: {fault}" if fault else ""


def _parse(row: Row, content: dict[str, str]) -> TrashEntry:
    _, _, deletion_id = row.object_id.partition(DELIMITER)
    original = content["object_id"]
    retention = parse_retention(content, now_ms(), as_text=True)
    deletion = Deletion(retention.deleted_at_ms, retention.ttl_ms, content.get("group", ""), retention.fault)
    before = replace(row, object_id=original, metadata=content.get("metadata"))
    return TrashEntry(deletion_id, split_object_id(original), content["state"], deletion, before, content)
