"""What a commit of a version to a table with managed_by=impl is: requirements, updates, and whether it was made."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableAlreadyExistsError,
    TableVersionAlreadyExistsError,
)
from pennon.iceberg import evolution
from pennon.iceberg.entry import MAIN
from pennon.iceberg.places import check_location
from pennon.iceberg.summaries import STAGED, summary_of
from pennon.identifiers import format_identifier

if TYPE_CHECKING:
    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry
    from pennon.iceberg.files import StagedManifest, VersionFile
    from pennon.store import Store


@dataclass(frozen=True)
class PlacedVersion:
    """The first version of a table that was written at a place of its own before it had a name, and is staged there."""

    location: str
    staged: StagedManifest


@dataclass(frozen=True)
class PreparedVersion:
    """A version that can be committed on top of what the server has; `is_done` if it was committed before."""

    entry: Entry
    store: Store
    staged: VersionFile
    body: bytes | None
    is_done: bool = False
    updates: tuple[dict[str, Any], ...] = ()


def prepare(catalog: Catalog, entry: Entry, wanted: StagedManifest | PlacedVersion) -> PreparedVersion:
    """Return the commit that adds a version to a table.

    Raises ConcurrentModificationError if it is not the next version, TableAlreadyExistsError if a first version exists.
    """
    if isinstance(wanted, PlacedVersion):
        return _placed(catalog, entry, wanted)
    identifier, store = entry.identifier, catalog.store(entry)
    staged = wanted.checked(store, format_identifier(identifier))
    blob = store.get(staged.path)
    body = None if blob is None else blob.body
    newest = entry.version or 0
    if staged.version <= newest:
        if is_made_of(entry, store, staged, body):
            return PreparedVersion(entry, store, staged, body, is_done=True)
        raise TableVersionAlreadyExistsError(
            f"VersionFile {staged.version} of table {format_identifier(identifier)} already exists"
        )
    if body is None:
        raise InvalidInputError(
            f"There is no staged manifest for table {format_identifier(identifier)} at {wanted.path!r}"
        )
    if staged.version != newest + 1:
        raise ConcurrentModificationError(
            f"VersionFile {staged.version} of table {format_identifier(identifier)} cannot be created: the latest "
            f"is {newest}"
        )
    columns = evolution.schema_of(staged, body)
    staged = replace(staged, size=len(body), timestamp_ms=_now(entry))
    updates = (
        *evolution.schema_updates(entry, columns),
        *snapshot_updates(entry, store, staged),
        *_expired(catalog, entry),
    )
    return PreparedVersion(entry, store, staged, body, updates=updates)


def snapshot_updates(entry: Entry, store: Store, version: VersionFile) -> list[dict[str, Any]]:
    """Return the updates that make a version the current snapshot.

    `manifest-list` is the Lance manifest, so that an engine that tries to scan it fails loudly.
    """
    name = version.path.rpartition("/")[2]
    snapshot = {
        "snapshot-id": version.version,
        "sequence-number": version.version,
        "timestamp-ms": version.timestamp_ms or _now(entry),
        "manifest-list": store.uri(version.place()),
        "summary": summary_of(version.version, version.scheme, name, version.size),
    }
    if entry.version is not None:
        snapshot["parent-snapshot-id"] = entry.version
    return [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": version.version},
    ]


def current_is(entry: Entry) -> dict[str, Any]:
    """Return the requirement that no version was committed since the table was loaded."""
    return {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": entry.version}


def _placed(catalog: Catalog, entry: Entry, wanted: PlacedVersion) -> PreparedVersion:
    """Make the place the table's, and what is staged there its first version."""
    is_there = check_location(entry.location, entry.identifier) == check_location(wanted.location, entry.identifier)
    try:
        prepared = prepare(catalog, replace(entry, location=wanted.location), wanted.staged)
    except TableVersionAlreadyExistsError:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(entry.identifier)}") from None
    if is_there or prepared.is_done:
        return prepared
    moving: list[dict[str, Any]] = [{"action": "set-location", "location": wanted.location}]
    metadata_path = catalog.places.metadata_path(wanted.location)
    if metadata_path is not None:
        moving.append({"action": "set-properties", "updates": {"write.metadata.path": metadata_path}})
    return replace(prepared, updates=(*moving, *prepared.updates))


def is_made_of(entry: Entry, store: Store, staged: VersionFile, body: bytes | None) -> bool:
    """Return True if an existing version was created from this staged manifest."""
    if summary(entry, staged.version).get(STAGED) == staged.path.rpartition("/")[2]:
        return True
    there = None if body is None else store.get(staged.place())
    return there is not None and there.body == body


def summary(entry: Entry, number: int) -> dict[str, str]:
    """Return the summary of a snapshot, or an empty one if there is no such snapshot."""
    said = entry.snapshots.get(number, {}).get("summary")
    return {str(key): str(value) for key, value in said.items()} if isinstance(said, dict) else {}


def _expired(catalog: Catalog, entry: Entry) -> list[dict[str, Any]]:
    """Return the update that removes old snapshots. Their versions stay as files."""
    if catalog.shows_files:
        return []
    kept = catalog.settings.max_snapshots - 1
    old = sorted(entry.snapshots)[: -kept or None] if len(entry.snapshots) > kept else []
    gone = [number for number in old if number != entry.version]
    return [{"action": "remove-snapshots", "snapshot-ids": gone}] if gone else []


def _now(entry: Entry) -> int:
    """Return the time, but not before the server's last change: the server would refuse it."""
    return max(int(time.time() * 1000), entry.whole("last-updated-ms"))
