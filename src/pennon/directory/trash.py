"""Dropped tables and namespaces that the manifest knows: rows under `__trash`, each with an id of its own.

Dropping renames a row to `__trash$<deletion id>`; the location stays. Clients that know nothing of this neither list
such rows nor lose them. The row's metadata says what it was, when it was dropped and how long it is kept, in texts
only, because that is all that other clients expect there.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.identifiers import DELIMITER, Identifier, object_id, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


@dataclass(frozen=True)
class Trashed:
    """A row in the trash, understood."""

    deletion_id: str
    identifier: Identifier
    state: str
    deletion: Deletion
    original: Row
    """The row as it was before it was dropped."""

    @property
    def key(self) -> str:
        """Give the id of the row in the trash."""
        return f"{FOLDER}{DELIMITER}{self.deletion_id}"

    def row(self) -> Row:
        """Give the row in the trash."""
        content = {
            "state": self.state,
            "object_id": object_id(self.identifier),
            "deleted_at_ms": str(self.deletion.deleted_at_ms),
            "ttl_ms": str(self.deletion.ttl_ms),
        }
        if self.deletion.group:
            content["group"] = self.deletion.group
        if self.original.metadata is not None:
            content["metadata"] = self.original.metadata
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return replace(self.original, object_id=self.key, metadata=text)


def put_into(draft: Draft, row: Row, deletion: Deletion) -> Trashed:
    """Move a row to the trash."""
    trashed = Trashed(uuid.uuid4().hex, split(row.object_id), DROPPED, deletion, row)
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
    return list(_understood(draft.get(key) for key in draft.descendants(FOLDER)))


def in_snapshot(snapshot: Snapshot) -> list[Trashed]:
    """Give everything in the trash."""
    return list(_understood(snapshot.get(key) for key in snapshot.descendants(FOLDER)))


def _understood(rows: Iterable[Row | None]) -> Iterator[Trashed]:
    for row in rows:
        trashed = None if row is None else understood(row)
        if trashed is not None:
            yield trashed


def understood(row: Row) -> Trashed | None:
    """Read a row of the trash; None if it is not one that was written here."""
    content = row.properties()
    _, _, deletion_id = row.object_id.partition(DELIMITER)
    original = content.get("object_id")
    if not original or content.get("state") not in {DROPPED, PURGING}:
        return None
    deletion = Deletion(_number(content, "deleted_at_ms"), _number(content, "ttl_ms"), content.get("group", ""))
    before = replace(row, object_id=original, metadata=content.get("metadata"))
    return Trashed(deletion_id, split(original), content["state"], deletion, before)


def _number(content: dict[str, str], key: str) -> int:
    text = content.get(key, "")
    return int(text) if text.isdecimal() else 0
