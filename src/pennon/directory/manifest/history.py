"""Versions of the manifest table, by its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.table import naming

if TYPE_CHECKING:
    from pennon.store import Store


_FOLDER = layout.inside(layout.MANIFEST, naming.VERSIONS_FOLDER)


@dataclass(frozen=True)
class LatestVersion:
    """The latest version, or 0 if there is none, and a mark that differs if a new manifest has the same version."""

    version: int
    mark: object = None
    """In an object store, the e-tag of the manifest file."""


def find_latest(store: Store) -> LatestVersion:
    """Return the latest version, with one request or one listing of a local directory."""
    if store.is_local:
        stamp = _read_local_stamp(store)
        return LatestVersion(0) if stamp is None else LatestVersion(stamp.version, stamp)
    files, complete = store.list_first_files(_FOLDER)
    found = [(parsed, entry) for entry in files if (parsed := naming.parse_name(entry.name)) is not None]
    # The newest version is the first one by name, unless names of the old scheme come first.
    if not complete and any(scheme == naming.V1 for (_, scheme), _ in found):
        level = store.list_level(_FOLDER).files
        found = [(parsed, entry) for entry in level if (parsed := naming.parse_name(entry.name)) is not None]
    if not found:
        return LatestVersion(0)
    (version, _), entry = max(found, key=lambda pair: pair[0])
    return LatestVersion(version, normalise_mark(entry.e_tag) or f"{entry.size}-{entry.modified}")


def read_local_mark(store: Store, version: int) -> object:
    """Return the mark of a version that was just opened or committed, or None if others have committed since."""
    stamp = _read_local_stamp(store)
    return stamp if stamp is not None and stamp.version == version else None


def normalise_mark(e_tag: str) -> str:
    """Return an e-tag without quotes: some stores leave them out of listings."""
    return e_tag.removeprefix("W/").strip('"')


def list_versions(store: Store) -> dict[int, float]:
    """Return the existing versions, and the time at which each was written by the store's clock."""
    return {
        version: entry.modified
        for entry in store.list_level(_FOLDER).files
        if (version := parse_version(entry.name)) is not None
    }


def parse_version(file_name: str) -> int | None:
    """Return the version in the name of a manifest file, in either naming scheme, or None for another file."""
    found = naming.parse_name(file_name)
    return None if found is None else found[0]


def is_absent(store: Store) -> bool:
    """Return True if there is certainly no manifest in a local directory."""
    return naming.find_newest(store.list_names(_FOLDER)) is None


def _read_local_stamp(store: Store) -> naming.Stamp | None:
    newest = naming.find_newest(store.list_names(_FOLDER))
    return None if newest is None else naming.read_stamp(store.location(layout.MANIFEST), *newest)
