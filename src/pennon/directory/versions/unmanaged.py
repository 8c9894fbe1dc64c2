"""Versions of a table that no catalog manages: its files alone say which there are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory.versions import version_files
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    TableVersionAlreadyExistsError,
    TableVersionNotFoundError,
)
from pennon.store import LARGEST_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.directory.versions.record import Record
    from pennon.store import Store


def create(store: Store, location: str, shown: str, record: Record, *, is_branch: bool = False) -> Record:
    """Make a staged manifest the next version; the commit point is the put-if-absent of its file. Error 14 if taken.

    The first version of a branch has the number of the one that it comes from.
    """
    staged = store.get(record.path, max_bytes=LARGEST_MANIFEST)
    there = version_files.records(store, location)
    if staged is None and record.version not in there:
        raise InvalidInputError(f"There is no staged manifest for {shown} at {store.absolute(record.path)!r}")
    newest = max(there, default=0)
    is_next = record.version == newest + 1 or (is_branch and not there)
    if record.version not in there and not is_next:
        raise ConcurrentModificationError(
            f"Version {record.version} of table {shown} cannot be created: the latest is {newest}"
        )
    e_tag = None
    if staged is not None and (record.version not in there or there[record.version].scheme == record.scheme):
        e_tag = version_files.put_in_place(store, location, record, staged.body)
    if staged is None or e_tag is None:
        raise TableVersionAlreadyExistsError(f"Version {record.version} of table {shown} already exists")
    store.delete(record.path)
    return replace(record.finished(location, e_tag), size=len(staged.body))


def describe(store: Store, location: str, shown: str, version: int) -> Record:
    """Look for one version; error 11 if it is not there."""
    found = version_files.find(store, location, version)
    if found is None:
        raise TableVersionNotFoundError(f"Table {shown} has no version {version}")
    return found


def delete(store: Store, location: str, shown: str, chosen: Callable[[list[int]], list[int]]) -> int:
    """Delete the files of the chosen versions; the latest one stays (19)."""
    there = version_files.records(store, location)
    versions = list(there)
    gone = chosen(versions)
    if gone and gone[-1] == versions[-1]:
        raise InvalidTableStateError(
            f"Version {versions[-1]} is the latest of table {shown}, which could not be opened without it"
        )
    if gone:
        store.delete(*(there[version].path for version in gone))
    return len(gone)
