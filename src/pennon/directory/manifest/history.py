"""Versions of the manifest table as its directory shows them."""

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


_FOLDER = layout.inside(layout.MANIFEST, layout.VERSIONS)


@dataclass(frozen=True)
class Latest:
    """The latest version, 0 if there is none, and what tells it from one of the same number in another manifest."""

    version: int
    mark: object = None


def latest(store: Store, dataset: lance.LanceDataset) -> Latest:
    """Find the latest version: one request, or one look into the directory."""
    if store.is_local:
        stamp = _local_stamp(store)
        return Latest(0) if stamp is None else Latest(stamp.version, stamp)
    try:
        # A version whose e-tag is known is not read again.
        newest = dataset.checkout_version((None, None))
    except (OSError, ValueError) as error:
        if is_not_found(error):
            return Latest(0)
        raise
    return Latest(int(newest.version), hash_content(newest))


def mark_of(store: Store, dataset: lance.LanceDataset) -> object:
    """Return the mark of the version that was just opened or committed; None if others have committed since."""
    if not store.is_local:
        return hash_content(dataset)
    stamp = _local_stamp(store)
    return stamp if stamp is not None and stamp.version == dataset.version else None


def listed(store: Store) -> dict[int, float]:
    """List the versions that are there with the time, by the store's clock, at which each was written."""
    return {
        version: entry.modified
        for entry in store.list_level(_FOLDER).files
        if (version := parsed(entry.name)) is not None
    }


def parsed(file_name: str) -> int | None:
    """Read the version from a manifest's file name, in either naming scheme."""
    found = naming.parse_name(file_name)
    return None if found is None else found[0]


def is_absent(store: Store) -> bool:
    """Return True if there is surely no manifest: on a disk a look tells, elsewhere Lance has to ask."""
    return store.is_local and naming.find_newest(store.list_names(_FOLDER)) is None


def _local_stamp(store: Store) -> naming.Stamp | None:
    newest = naming.find_newest(store.list_names(_FOLDER))
    return None if newest is None else naming.read_stamp(store.location(layout.MANIFEST), *newest)
