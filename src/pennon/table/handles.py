"""Tables that stay open between operations, and how to open a table by its files with their help."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from pennon import counters
from pennon.errors import is_not_found
from pennon.table import naming
from pennon.table.version_selector import check_out

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from lance import LanceDataset

    from pennon.table.version_selector import VersionSelector

_MOST_HANDLES = 100


@dataclass(frozen=True)
class Handle:
    """An open table that many threads may use at once. It is never moved, and never written to in place."""

    dataset: LanceDataset
    stamp: object = None
    """Identifies the open version, also among versions with the same number. None if it is unknown."""
    stamp_after: Callable[[int], object] = lambda _: None
    """Returns the stamp of a version that was committed through this handle, or None if it is unknown."""


class HandleCache:
    """A bounded number of open tables. The least recently used handle is dropped first.

    A handle does not show which version is the latest. Callers check out a version, which returns a copy, or compare
    the handle's stamp with that of the version they need. A stamp is read before its version is opened, so that any
    commit in between makes it differ.
    """

    def __init__(self, most: int = _MOST_HANDLES) -> None:
        self._most = most
        self._lock = Lock()
        self._handles: OrderedDict[Hashable, Handle] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of open tables."""
        return len(self._handles)

    def find(self, key: Hashable) -> Handle | None:
        """Return the handle with this key, or None."""
        with self._lock:
            handle = self._handles.get(key)
            if handle is not None:
                self._handles.move_to_end(key)
        counters.OPEN_TABLES.add(counters.MISS if handle is None else counters.HIT)
        return handle

    def keep(self, key: Hashable, handle: Handle) -> None:
        """Store a handle. It replaces an earlier one with the same key."""
        with self._lock:
            self._handles[key] = handle
            self._handles.move_to_end(key)
            while len(self._handles) > self._most:
                self._handles.popitem(last=False)

    def replace_dataset(self, before: LanceDataset, after: LanceDataset) -> None:
        """Replace the handle of `before`, if it is still stored, by the version that was committed through it."""
        with self._lock:
            for key, handle in self._handles.items():
                if handle.dataset is before:
                    self._handles[key] = replace(handle, dataset=after, stamp=handle.stamp_after(int(after.version)))
                    return

    def stamp_of(self, dataset: LanceDataset) -> object:
        """Return the stamp of a dataset that is stored here. None if it is not, or if its stamp is unknown."""
        with self._lock:
            return next((handle.stamp for handle in self._handles.values() if handle.dataset is dataset), None)

    def forget(self, key: Hashable) -> None:
        """Drop a handle."""
        with self._lock:
            self._handles.pop(key, None)

    def clear(self) -> None:
        """Drop all handles."""
        with self._lock:
            self._handles.clear()


@dataclass(frozen=True)
class TableFiles:
    """Where the files of a table are, and how to open its latest version."""

    key: Hashable
    """The key of its handle."""
    location: str
    is_local: bool
    open: Callable[[], LanceDataset]
    table: str
    """The table's name in messages."""
    check_branch: Callable[[str], object] = lambda _: None
    """Called with the name of a branch before it is opened; raises to refuse it."""


def open_by_files(handles: HandleCache, files: TableFiles, selector: VersionSelector, *, shared: bool) -> LanceDataset:
    """Open a table at a version, tag or branch, as its files define them.

    A shared dataset is used by others too. It must not be moved or written to in place. Raises TableTagNotFoundError,
    TableBranchNotFoundError, and the errors of Lance.
    """
    handle = handles.find(files.key)
    # The stamp is read before the version is opened: if another file replaces this one, the next stamp differs.
    stamp = naming.read_latest_stamp(files.location) if files.is_local and selector.is_latest else None
    if handle is not None:
        if shared and stamp is not None and handle.stamp == stamp:
            return handle.dataset
        try:
            exact = selector if stamp is None else selector.at_version(stamp.version)
            dataset = check_out(handle.dataset, exact, files.table, files.check_branch)
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                raise
            # The table may not be the one that the handle knows. Opening it again shows what is really missing.
            handles.forget(files.key)
        else:
            if shared and selector.is_latest:
                handles.keep(files.key, _stamped_handle(dataset, files.location, stamp))
            return dataset
    dataset = files.open()
    handles.keep(files.key, _stamped_handle(dataset, files.location, stamp))
    if shared and selector.is_latest:
        return dataset
    return check_out(dataset, selector, files.table, files.check_branch)


def _stamped_handle(dataset: LanceDataset, location: str, stamp: naming.Stamp | None) -> Handle:
    return Handle(dataset, stamp, partial(naming.read_stamp_after, location, stamp))
