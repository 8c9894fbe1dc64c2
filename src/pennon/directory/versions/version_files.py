"""Versions of a table as the files in its directory show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.versions.record import Record
from pennon.store import LARGEST_MANIFEST
from pennon.table import naming

if TYPE_CHECKING:
    from pennon.store import Store


def records(store: Store, location: str) -> dict[int, Record]:
    """List the versions of a table, oldest first: one request per 1,000 files."""
    return listed(store, location)[0]


def listed(store: Store, location: str) -> tuple[dict[int, Record], frozenset[str]]:
    """List the versions of a table, oldest first, and the paths of staged manifests, by the same requests."""
    folder = f"{location}/{naming.VERSIONS_FOLDER}"
    found: dict[int, Record] = {}
    staged: set[str] = set()
    for file in store.list_level(folder).files:
        parsed = naming.parse_name(file.name)
        if naming.parse_staged_name(file.name) is not None:
            staged.add(f"{folder}/{file.name}")
        elif parsed is not None:
            version, scheme = parsed
            found[version] = Record(
                version, f"{folder}/{file.name}", scheme, file.size, timestamp_ms=int(file.modified * 1000)
            )
    return dict(sorted(found.items())), frozenset(staged)


def find(store: Store, location: str, version: int) -> Record | None:
    """Look for one version under both of the names that it may have."""
    for scheme in (naming.V2, naming.V1):
        record = Record(version, "", scheme)
        path = record.final_path(location)
        size = store.size(path)
        if size is not None:
            return Record(version, path, scheme, size)
    return None


def put_in_place(store: Store, location: str, record: Record, body: bytes) -> str | None:
    """Copy a staged manifest to its final name unless that is taken; the e-tag, or None if another one is there."""
    path = record.final_path(location)
    e_tag = store.create(path, body)
    if e_tag is not None:
        return e_tag
    there = store.get(path, max_bytes=LARGEST_MANIFEST)
    return there.e_tag if there is not None and there.body == body else None
