"""Versions of the manifest table, by its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.errors import is_not_found
from pennon.table import naming
from pennon.table.version_identity import hash_content

if TYPE_CHECKING:
    import lance

    from pennon.store import Store


_FOLDER = layout.inside(layout.MANIFEST, naming.VERSIONS_FOLDER)


@dataclass(frozen=True)
class LatestVersion:
    """The latest version, or 0 if there is none, and a mark that differs if a new manifest has the same version."""

    version: int
    mark: object = None


def find_latest(store: Store, dataset: lance.LanceDataset) -> LatestVersion:
    """Return the latest version, with one request or one listing of a local directory."""
    if store.is_local:
        stamp = _read_local_stamp(store)
        return LatestVersion(0) if stamp is None else LatestVersion(stamp.version, stamp)
    try:
        # Lance does not read a version again if its e-tag is unchanged.
        newest = dataset.checkout_version((None, None))
    except (OSError, ValueError) as error:
        if is_not_found(error):
            return LatestVersion(0)
        raise
    return LatestVersion(int(newest.version), hash_content(newest))


def read_mark(store: Store, dataset: lance.LanceDataset) -> object:
    """Return the mark of a version that was just opened or committed, or None if others have committed since."""
    if not store.is_local:
        return hash_content(dataset)
    stamp = _read_local_stamp(store)
    return stamp if stamp is not None and stamp.version == dataset.version else None


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
    """Return True if there is certainly no manifest. Only a local directory is checked; elsewhere Lance finds out."""
    return store.is_local and naming.find_newest(store.list_names(_FOLDER)) is None


def _read_local_stamp(store: Store) -> naming.Stamp | None:
    newest = naming.find_newest(store.list_names(_FOLDER))
    return None if newest is None else naming.read_stamp(store.location(layout.MANIFEST), *newest)
