"""Dropped tables and namespaces that the manifest knows: rows under `__trash`, each with an id of its own.

Dropping renames a row to `__trash$<deletion id>`; the location stays. Clients that know nothing of this neither list
such rows nor lose them. The row's metadata says what it was, when it was dropped and how long it is kept, in texts
only, because that is all that other clients expect there.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pennon.directory.claims.marker import milliseconds
from pennon.directory.manifest.skipped import REPAIR, shorten_id
from pennon.directory.problems import Problem
from pennon.directory.retention import DELETED_AT, FIX, TTL, parse_retention
from pennon.identifiers import DELIMITER, Identifier, find_name_fault, object_id, split_object_id

if TYPE_CHECKING:
    from pennon.directory.manifest import Draft, Row, Snapshot

FOLDER = "__trash"
DROPPED = "dropped"
PURGING = "purging"


@dataclass(frozen=True)
class Deletion:
    """When something was dropped, for how long it is kept, and what was dropped along with it."""

    deleted_at_ms: int
    ttl_ms: int
    group: str = ""
    fault: str = ""
    """Why the times cannot be read; "" if they can. They are 0 then."""


@dataclass(frozen=True)
class Trashed:
    """A row in the trash, understood."""

    deletion_id: str
    identifier: Identifier
    state: str
    deletion: Deletion
    original: Row
    """The row as it was before it was dropped."""
    stored: dict[str, str] = field(default_factory=dict)
    """What the row in the trash says, as it was found: what is not understood is written back."""

    @property
    def key(self) -> str:
        """Give the id of the row in the trash."""
        return f"{FOLDER}{DELIMITER}{self.deletion_id}"

    def row(self) -> Row:
        """Give the row in the trash."""
        content = {**self.stored, "state": self.state, "object_id": object_id(self.identifier)}
        if not self.deletion.fault:
            content |= {DELETED_AT: str(self.deletion.deleted_at_ms), TTL: str(self.deletion.ttl_ms)}
        if self.deletion.group:
            content["group"] = self.deletion.group
        if self.original.metadata is not None:
            content["metadata"] = self.original.metadata
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return replace(self.original, object_id=self.key, metadata=text)


def put_into(draft: Draft, row: Row, deletion: Deletion) -> Trashed:
    """Move a row to the trash."""
    trashed = Trashed(uuid.uuid4().hex, split_object_id(row.object_id), DROPPED, deletion, row)
    draft.move(row.object_id, trashed.row())
    return trashed


def take_out(draft: Draft, trashed: Trashed, identifier: Identifier) -> Row:
    """Bring a row back under an id, which must be free."""
    row = replace(trashed.original, object_id=object_id(identifier))
    draft.move(trashed.key, row)
    return row


def live_owners(draft: Draft, location: str) -> list[str]:
    """Name the rows of tables that are not dropped and lie at a location."""
    return [key for key in draft.object_ids_at(location) if is_live(key)]


def is_live(key: str) -> bool:
    """Tell from the id of a row whether what it stands for is not dropped."""
    return not key.startswith(FOLDER + DELIMITER)


def is_given_up(rows: Draft | Snapshot, location: str) -> bool:
    """Tell whether nobody can want what is at a location: no row names it, or only rows that are being purged."""
    for key in rows.object_ids_at(location):
        row = rows.get(key)
        trashed = None if row is None or is_live(key) else understood(row)
        if trashed is None or trashed.state != PURGING:
            return False
    return True


def in_draft(draft: Draft) -> list[Trashed]:
    """Give everything in the trash, changes included."""
    return _sorted_out(draft)[0]


def in_snapshot(snapshot: Snapshot) -> list[Trashed]:
    """Give everything in the trash."""
    return _sorted_out(snapshot)[0]


def with_problems(snapshot: Snapshot) -> tuple[list[Trashed], list[Problem]]:
    """Give everything in the trash, and what is wrong with rows that cannot be read, or not completely."""
    entries, others = _sorted_out(snapshot)
    doubtful = [*others, *(entry.row() for entry in entries if entry.deletion.fault)]
    return entries, [problem for problem in map(problem_of, doubtful) if problem is not None]


def _sorted_out(rows: Draft | Snapshot) -> tuple[list[Trashed], list[Row]]:
    """Tell rows of the trash that can be read from those that cannot."""
    entries: list[Trashed] = []
    others: list[Row] = []
    for key in rows.descendants(FOLDER):
        row = rows.get(key)
        trashed = None if row is None else understood(row)
        if trashed is not None:
            entries.append(trashed)
        elif row is not None:
            others.append(row)
    return entries, others


def understood(row: Row) -> Trashed | None:
    """Read a row of the trash; None if it is not one that was written here."""
    content = row.properties()
    return None if _fault(content) else _trashed(row, content)


def fault_of(row: Row) -> str:
    """Say why a row of the trash cannot be used; "" if it can. It is kept, and so is what it names."""
    return row.metadata_fault or _fault(row.properties())


def problem_of(row: Row) -> Problem | None:
    """Return what is wrong with a row of the trash and how to fix it, or None if it can be used."""
    fault = fault_of(row)
    if fault:
        reason = f"what was dropped cannot be read, and its data is kept: {fault}"
        return Problem(shorten_id(row.object_id), reason, REPAIR)
    deletion = _trashed(row, row.properties()).deletion
    if not deletion.fault:
        return None
    reason = f"for how long the dropped object is kept cannot be read: {deletion.fault}"
    return Problem(shorten_id(row.object_id), reason, FIX)


def _fault(content: dict[str, str]) -> str:
    if content.get("state") not in {DROPPED, PURGING}:
        return f"its state is neither '{DROPPED}' nor '{PURGING}'"
    if not content.get("object_id"):
        return "it does not say what was dropped"
    names = split_object_id(content["object_id"])
    faults = (find_name_fault(name, at_root=level == 0) for level, name in enumerate(names))
    fault = next((fault for fault in faults if fault), None)
    return f"what was dropped has a bad name: {fault}" if fault else ""


def _trashed(row: Row, content: dict[str, str]) -> Trashed:
    _, _, deletion_id = row.object_id.partition(DELIMITER)
    original = content["object_id"]
    found = parse_retention(content, milliseconds(), as_text=True)
    deletion = Deletion(found.deleted_at_ms, found.ttl_ms, content.get("group", ""), found.fault)
    before = replace(row, object_id=original, metadata=content.get("metadata"))
    return Trashed(deletion_id, split_object_id(original), content["state"], deletion, before, content)
