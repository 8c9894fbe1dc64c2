"""Tables that stay open between operations: as many as fit, those used last."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from lance import LanceDataset

_MOST = 100


@dataclass(frozen=True)
class Point:
    """Where in a table's history something is asked for: a version, of the main branch or another, or a tag."""

    version: int | None = None
    tag: str | None = None
    branch: str | None = None

    @property
    def is_latest(self) -> bool:
        """Tell whether the latest version of the main branch is meant."""
        return self.version is None and self.tag is None and self.branch is None

    def on_main(self) -> Point:
        """Give the same point of the main branch."""
        return replace(self, branch=None)

    def at(self, version: int) -> Point:
        """Give the point at a version that a tag stands for."""
        return replace(self, version=version, tag=None)


def _unknown(_version: int) -> None:
    return None


@dataclass(frozen=True)
class Handle:
    """An open table, which many threads may use at once: it is never moved and never written through in place."""

    dataset: LanceDataset
    stamp: object = None
    """What tells the version that is open from any other, also from one of the same number; None if unknown."""
    made: Callable[[int], object] = _unknown
    """Gives the stamp of a version that was committed through this handle, if it can be told."""


class Handles:
    """A bounded number of open tables.

    A handle says nothing about what is the latest version: whoever takes one asks Lance to check out a version of it,
    which gives a copy, or compares its stamp with that of the version that is wanted. A stamp is taken before the
    version is opened, so that whatever comes in between makes it differ.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, Handle] = OrderedDict()

    def __len__(self) -> int:
        """Count the tables that are open."""
        return len(self._kept)

    def find(self, key: Hashable) -> Handle | None:
        """Give the handle that is kept under a key."""
        with self._lock:
            handle = self._kept.get(key)
            if handle is not None:
                self._kept.move_to_end(key)
            return handle

    def keep(self, key: Hashable, handle: Handle) -> None:
        """Keep a handle in place of the one that was there; of too many, the one that was used longest ago goes."""
        with self._lock:
            self._kept[key] = handle
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def moved(self, before: LanceDataset, after: LanceDataset) -> None:
        """Go on from what was committed through a handle, if that one is still kept."""
        with self._lock:
            for key, handle in self._kept.items():
                if handle.dataset is before:
                    self._kept[key] = replace(handle, dataset=after, stamp=handle.made(int(after.version)))
                    return

    def stamp_of(self, dataset: LanceDataset) -> object:
        """Give the stamp of the version that is open in a handle which is kept; None if it is not, or is unknown."""
        with self._lock:
            return next((handle.stamp for handle in self._kept.values() if handle.dataset is dataset), None)

    def forget(self, key: Hashable) -> None:
        """Let go of a handle."""
        with self._lock:
            self._kept.pop(key, None)

    def clear(self) -> None:
        """Let go of all handles."""
        with self._lock:
            self._kept.clear()
