"""Changes that a process offers to the one that commits next on the same machine.

A process that waits for its turn runs its plans on the version in memory. It records what the plans asked and what
they changed. The process that has the turn asks the same of its own draft. If all answers are equal, the plans would
make the same changes there, so it adds them to its commit. Otherwise it leaves the offer, and the other process plans
again in its own turn.

An offer names data files of the version in memory, whose names are random. Only a process that knows one of them
accepts it: two buckets of one name can be on different servers.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from pennon.directory import layout
from pennon.directory.manifest.row import NAMESPACE, Row
from pennon.stored_json import UnreadableJsonError, parse_stored_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pennon.directory.manifest.draft import Draft, StoredRows
    from pennon.directory.manifest.snapshot import Snapshot

_FORMAT = 1
_MOST_VERSIONS = 100
_MOST_FILES = 32


class RecordedRows:
    """The rows of a version, with a record of what a draft asked."""

    def __init__(self, rows: StoredRows) -> None:
        self._rows = rows
        self.questions: list[list[Any]] = []
        self.is_complete = True
        """False if a question was asked that is not recorded."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata map of the manifest."""
        self.questions.append(["metadata", "", dict(self._rows.metadata)])
        return self._rows.metadata

    def expect(self, *object_ids: str) -> None:
        """Prepare for questions about some rows."""
        self._rows.expect(*object_ids)

    def get(self, object_id: str) -> Row | None:
        """Return a row by its key, or None."""
        row = self._rows.get(object_id)
        self.is_complete = self.is_complete and (row is None or _is_plain(row))
        self.questions.append(["row", object_id, _encode_row(row)])
        return row

    def versions_of(self, table: str) -> Sequence[int]:
        """Return the versions of a table that have rows, sorted."""
        versions = self._rows.versions_of(table)
        self.is_complete = self.is_complete and len(versions) <= _MOST_VERSIONS
        self.questions.append(["versions", table, list(versions)])
        return versions

    def versioned_tables(self) -> list[str]:
        """Return the keys of everything that has version rows. The answer is too long to be recorded."""
        self.is_complete = False
        return self._rows.versioned_tables()

    def object_ids_at(self, location: str) -> tuple[str, ...]:
        """Return the keys of the rows with this location. The answer is not recorded."""
        self.is_complete = False
        return self._rows.object_ids_at(location)

    def locations_below(self, location: str) -> Sequence[str]:
        """Return the locations of tables that are inside this one. The answer is not recorded."""
        self.is_complete = False
        return self._rows.locations_below(location)

    def descendants(self, parent: str) -> Iterator[str]:
        """Iterate over the ids of everything below a namespace. The answer is too long to be recorded."""
        self.is_complete = False
        return self._rows.descendants(parent)


def list_files(snapshot: Snapshot) -> list[str]:
    """Return what identifies the data files of the latest fragments of a version."""
    latest = sorted(snapshot.fragments)[-_MOST_FILES:]
    return [hashlib.sha256(snapshot.fragments[number].files.encode()).hexdigest() for number in latest]


def encode_offer(recorded: RecordedRows, draft: Draft, files: Sequence[str]) -> bytes | None:
    """Return the changes of a draft of recorded rows, or None if they cannot be offered: not all is recorded.

    Only rows of namespaces are offered. Another process can commit an offer after this one has died, and other rows
    belong to files that are cleaned up then.
    """
    questions, changes = list(recorded.questions), dict(draft.changes)
    if not recorded.is_complete or not all(_is_namespace(questions, key, row) for key, row in changes.items()):
        return None
    content = {
        "format": _FORMAT,
        "files": list(files),
        "questions": questions,
        "rows": {key: _encode_row(row) for key, row in changes.items()},
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def apply_offer(draft: Draft, body: bytes, files: Sequence[str]) -> bool:
    """Make the changes of an offer to a draft. Returns False, and changes nothing, if the offer does not fit."""
    try:
        content = parse_stored_object(body)
        questions, rows = content["questions"], content["rows"]
        is_same_catalog = not set(files).isdisjoint(content["files"])
        if (
            content["format"] != _FORMAT
            or not is_same_catalog
            or not all(_ask(draft, *question) for question in questions)
        ):
            return False
        decoded = {key: _decode_row(key, row) for key, row in rows.items()}
    except (UnreadableJsonError, KeyError, TypeError, ValueError, AttributeError):
        return False
    if any((row := draft.get(key)) is not None and row.object_type != NAMESPACE for key in decoded):
        return False
    for key, row in decoded.items():
        if row is not None:
            draft.put(row)
        elif draft.get(key) is not None:
            draft.remove(key)
    return True


def _ask(draft: Draft, kind: str, about: str, answer: object) -> bool:
    """Return True if the draft answers a question in the same way."""
    if kind == "row":
        row = draft.get(about)
        return (row is None or _is_plain(row)) and _encode_row(row) == answer
    answers: dict[str, Callable[[], object]] = {
        "metadata": lambda: dict(draft.metadata),
        "versions": lambda: draft.versions_of(about),
    }
    return answers[kind]() == answer


def _is_namespace(questions: Sequence[Sequence[Any]], key: str, row: Row | None) -> bool:
    """Return True if a change concerns a namespace, before and after, and keeps unknown columns."""
    if row is not None and (row.object_type != NAMESPACE or not _is_plain(row)):
        return False
    before = next((answer for kind, about, answer in questions if kind == "row" and about == key), None)
    return before is None or before[1] == NAMESPACE


def _is_plain(row: Row) -> bool:
    """Return True if a row has no value in unknown columns."""
    return not row.extra


def _encode_row(row: Row | None) -> list[Any] | None:
    if row is None:
        return None
    bases = None if row.base_objects is None else list(row.base_objects)
    return [row.object_id, row.object_type, row.location, row.metadata, bases]


def _decode_row(key: str, content: list[Any] | None) -> Row | None:
    """Return the row of a namespace. Raises ValueError if it is something else."""
    if content is None:
        return None
    object_id, object_type, location, metadata, bases = content
    is_text = isinstance(metadata, str | None) and isinstance(location, str | None)
    if object_id != key or not key or object_type != NAMESPACE or not is_text or bases is not None:
        raise ValueError(key)
    if location is not None and layout.find_location_fault(location) is not None:
        raise ValueError(location)
    return Row(object_id, object_type, location, metadata)
