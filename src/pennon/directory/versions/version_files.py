"""Versions of a table by its files: which versions its directory shows, and operations where only the files decide."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory.versions.record import VersionRecord
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    TableVersionAlreadyExistsError,
    TableVersionNotFoundError,
)
from pennon.store import LARGEST_MANIFEST
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.store import Store


def list_versions(store: Store, location: str) -> dict[int, VersionRecord]:
    """Return the versions of a table by number, oldest first. Costs one request per 1,000 files."""
    return list_versions_and_staged(store, location)[0]


def list_versions_and_staged(store: Store, location: str) -> tuple[dict[int, VersionRecord], frozenset[str]]:
    """Return the versions of a table by number, oldest first, and the paths of its staged manifests."""
    folder = f"{location}/{naming.VERSIONS_FOLDER}"
    versions: dict[int, VersionRecord] = {}
    staged: set[str] = set()
    for file in store.list_level(folder).files:
        path = f"{folder}/{file.name}"
        parsed = naming.parse_name(file.name)
        if parsed is not None:
            version, scheme = parsed
            versions[version] = VersionRecord(version, path, scheme, file.size, timestamp_ms=int(file.modified * 1000))
        elif naming.parse_staged_name(file.name) is not None:
            staged.add(path)
    return dict(sorted(versions.items())), frozenset(staged)


def find_version(store: Store, location: str, version: int) -> VersionRecord | None:
    """Return a version if it has a file, under the name of either naming scheme."""
    for scheme in (naming.V2, naming.V1):
        record = VersionRecord(version, "", scheme)
        path = record.final_path(location)
        size = store.size(path)
        if size is not None:
            return replace(record, path=path, size=size)
    return None


def put_in_place(store: Store, location: str, record: VersionRecord, body: bytes) -> str | None:
    """Copy a staged manifest to its final name, and return the e-tag. Returns None if another file has that name."""
    path = record.final_path(location)
    e_tag = store.create(path, body)
    if e_tag is not None:
        return e_tag
    existing = store.get(path, max_bytes=LARGEST_MANIFEST)
    return existing.e_tag if existing is not None and existing.body == body else None


def create_version(
    store: Store, location: str, table: str, record: VersionRecord, *, is_branch: bool = False
) -> VersionRecord:
    """Make a staged manifest the next version. `table` names the table in messages.

    The first version of a branch has the number of the version that the branch starts from. Raises
    TableVersionAlreadyExistsError if the version exists, ConcurrentModificationError if it is not the next one, and
    InvalidInputError if nothing is staged. The commit point is the put-if-absent of the version's file.
    """
    staged = store.get(record.path, max_bytes=LARGEST_MANIFEST)
    existing = list_versions(store, location)
    same = existing.get(record.version)
    if staged is None and same is None:
        raise InvalidInputError(f"There is no staged manifest for {table} at {store.absolute(record.path)!r}")
    newest = max(existing, default=0)
    is_next = record.version == newest + 1 or (is_branch and not existing)
    if same is None and not is_next:
        raise ConcurrentModificationError(
            f"Version {record.version} of table {table} cannot be created: the latest is {newest}"
        )
    e_tag = None
    if staged is not None and (same is None or same.scheme == record.scheme):
        e_tag = put_in_place(store, location, record, staged.body)
    if staged is None or e_tag is None:
        raise TableVersionAlreadyExistsError(f"Version {record.version} of table {table} already exists")
    store.delete(record.path)
    return replace(record.with_final_path(location, e_tag), size=len(staged.body))


def describe_version(store: Store, location: str, table: str, version: int) -> VersionRecord:
    """Return one version. Raises TableVersionNotFoundError if it has no file."""
    found = find_version(store, location, version)
    if found is None:
        raise TableVersionNotFoundError(f"Table {table} has no version {version}")
    return found


def delete_versions(store: Store, location: str, table: str, choose: Callable[[list[int]], list[int]]) -> int:
    """Delete the files of the versions that `choose` selects, and return how many.

    Raises InvalidTableStateError if the latest version is among them.
    """
    existing = list_versions(store, location)
    versions = list(existing)
    chosen = choose(versions)
    if chosen and chosen[-1] == versions[-1]:
        raise InvalidTableStateError(
            f"Version {versions[-1]} is the latest of table {table}, which could not be opened without it"
        )
    if chosen:
        store.delete(*(existing[version].path for version in chosen))
    return len(chosen)
