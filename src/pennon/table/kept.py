"""Opening a table by its files, with the help of the tables that are open already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pennon.errors import TableBranchNotFoundError, TableTagNotFoundError, is_not_found
from pennon.table import naming
from pennon.table.handles import Handle

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from lance import LanceDataset

    from pennon.table.handles import Handles, Point


@dataclass(frozen=True)
class Place:
    """Where a table is, and how it is opened at its latest version."""

    key: Hashable
    """Under which it is kept open."""
    location: str
    is_local: bool
    open: Callable[[], LanceDataset]
    shown: str
    """The table's name, for messages."""
    require_branch: Callable[[str], object] = lambda _: None
    """Is told a branch before it is opened, and raises what speaks against that."""


def by_files(handles: Handles, place: Place, point: Point, *, shared: bool) -> LanceDataset:
    """Open a table at a version, tag or branch, as its files show them; errors 8, 22, and Lance's own.

    A shared one is used by others as well, and must not be moved or written through in place.
    """
    kept = handles.find(place.key)
    # The file was looked at before its version is opened: if another one takes its place, the next look sees it.
    stamp = naming.latest_in(place.location) if place.is_local and point.is_latest else None
    if kept is not None:
        if shared and stamp is not None and kept.stamp == stamp:
            return kept.dataset
        try:
            dataset = _at(kept.dataset, place, point if stamp is None else point.at(stamp.version))
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                raise
            # What is there may not be what the handle knows: a new one tells what is really missing.
            handles.forget(place.key)
        else:
            if shared and point.is_latest:
                handles.keep(place.key, _on_disk(dataset, place.location, stamp))
            return dataset
    dataset = place.open()
    handles.keep(place.key, _on_disk(dataset, place.location, stamp))
    return dataset if shared and point.is_latest else _at(dataset, place, point)


def _on_disk(dataset: LanceDataset, location: str, stamp: naming.Stamp | None) -> Handle:
    return Handle(dataset, stamp, partial(naming.committed_after, location, stamp))


def _at(dataset: LanceDataset, place: Place, point: Point) -> LanceDataset:
    """Give a copy at a version, by files; the latest one if none is wanted."""
    if point.tag is not None:
        tag = dataset.tags.list().get(point.tag)
        if tag is None:
            raise TableTagNotFoundError(f"Table {place.shown} has no tag '{point.tag}'")
        if tag["branch"] is not None:
            place.require_branch(tag["branch"])
        return dataset.checkout_version((tag["branch"], int(tag["version"])))
    if point.branch is not None:
        if point.branch not in dataset.branches.list():
            raise TableBranchNotFoundError(f"Table {place.shown} has no branch '{point.branch}'")
        place.require_branch(point.branch)
    return dataset.checkout_version((point.branch, point.version))
