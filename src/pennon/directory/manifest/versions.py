"""Versions of the manifest table as its directory shows them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.errors import is_not_found

if TYPE_CHECKING:
    import lance

    from pennon.store import Store

_NEWEST_FIRST_DIGITS = 20
_LARGEST = (1 << 64) - 1


def latest(store: Store, location: str, dataset: lance.LanceDataset) -> int:
    """Give the latest version, 0 if there is none: one request, or one look into the directory."""
    if store.is_local:
        return max(local(location), default=0)
    try:
        return int(dataset.latest_version)
    except (OSError, ValueError) as error:
        if is_not_found(error):
            return 0
        raise


def listed(store: Store) -> dict[int, float]:
    """List the versions that are there with the time, by the store's clock, at which each was written."""
    return {
        version: entry.modified
        for entry in store.list_level(layout.inside(layout.MANIFEST, layout.VERSIONS)).files
        if (version := parsed(entry.name)) is not None
    }


def parsed(file_name: str) -> int | None:
    """Read the version from a manifest's file name, in either naming scheme."""
    stem = file_name.removesuffix(layout.VERSION_SUFFIX)
    if stem == file_name or not stem.isdecimal():
        return None
    return _LARGEST - int(stem) if len(stem) == _NEWEST_FIRST_DIGITS else int(stem)


def newest_first_name(version: int) -> str:
    """Name the file of a version so that a listing shows the newest first."""
    return f"{_LARGEST - version:0{_NEWEST_FIRST_DIGITS}}{layout.VERSION_SUFFIX}"


def local(location: str) -> list[int]:
    """List the versions of a manifest on local disk."""
    try:
        names = os.listdir(f"{location}/{layout.VERSIONS}")  # noqa: PTH208 - three times as fast as Path.iterdir
    except FileNotFoundError:
        return []
    return [version for name in names if (version := parsed(name)) is not None]
