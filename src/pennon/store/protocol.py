"""The interface of a store: list one level, read and write small objects conditionally, delete a tree.

Paths are relative to the root. Their parts are joined by `/` and not escaped. Every method raises InvalidInputError for
another path. A missing object is None or False, never an exception.

If the response to a conditional write is lost, the retry looks like a conflict. So every body that is written
conditionally contains a token of its own, and `create` and `swap` compare bodies before they report a conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pennon.errors import UnusableEntryError
from pennon.store.root_paths import shorten_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from pennon.store.turns import Turns

T = TypeVar("T")
Item = TypeVar("Item")

LARGEST_OBJECT = 16 << 20
"""The largest size, in bytes, of markers, claims and notes. Pennon writes no larger ones."""
PROBE_PREFIX = ".lance-probe"
"""How the names of files and directories begin with which clients probe a store. No client takes one for a table."""
LARGEST_MANIFEST = 2 << 30
"""The largest size, in bytes, of the manifest of one table version, which lists all its files."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file in a listing."""

    name: str
    size: int
    modified: float
    """When it was written, in seconds by the clock of the store."""
    e_tag: str = ""
    """The e-tag, in listings of object stores."""


@dataclass(frozen=True, slots=True)
class UnusableEntry:
    """An entry of a directory that is neither a file nor a directory, or whose name is not valid UTF-8."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a directory: its files and its subdirectories. On a disk, these may be empty."""

    files: tuple[FileEntry, ...]
    directories: tuple[str, ...]
    unusable: tuple[UnusableEntry, ...] = ()
    """Entries that count as absent: symbolic links, pipes, sockets, devices, names that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A small object with the e-tag that conditional writes compare."""

    body: bytes
    e_tag: str
    modified: float = 0.0
    """When it was written, in seconds by the clock of the store."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of files and their total size in bytes."""

    files: int = 0
    size: int = 0

    def __add__(self, other: Amount) -> Amount:
        """Return the sum of two amounts."""
        return Amount(self.files + other.files, self.size + other.size)


class LeaseExpiredError(Exception):
    """The lease expired before everything was deleted. `removed` is what was deleted; renew the lease to continue."""

    def __init__(self, removed: Amount) -> None:
        super().__init__("the lease has expired")
        self.removed = removed


def too_large_error(path: str, size: int, max_bytes: int) -> UnusableEntryError:
    """Return the error for an object that is larger than anything Pennon writes at its path."""
    return UnusableEntryError(
        f"{shorten_text(path)} in the root has {size} bytes, and what belongs there has {max_bytes} at most: remove it"
    )


class Store(Protocol):
    """A root directory on a disk or in a bucket."""

    is_local: bool
    storage_options: dict[str, str]
    turns: Turns
    """The queue of processes on this machine."""

    def identity(self) -> str:
        """Return a name of the root for messages and for comparison."""

    def location(self, path: str) -> str:
        """Return the address of `path` as Lance writes it. No request is made."""

    def resolve(self, path: str, *, deeply: bool = False) -> str:
        """Return the address of a table's directory after checking that Lance may use it.

        Lance follows symbolic links. Raises UnusableEntryError if a part of the path, or a directory in it that Lance
        uses, is a link. With `deeply`, everything below it is checked too: for operations that delete what they list.
        """

    def uri(self, path: str) -> str:
        """Return the address of `path` as a complete, valid URI."""

    def relative(self, location: str) -> str | None:
        """Return the path of a location below this root, in any notation, or None if it is elsewhere."""

    def absolute(self, path: str) -> str:
        """Return the path from the top of the disk or bucket, without a leading slash, as Lance writes paths."""

    def from_absolute(self, absolute: str) -> str | None:
        """Return the path below the root for a path from `absolute`, or None if it is elsewhere."""

    def list_level(self, path: str = "") -> Level:
        """Return one level of a directory. A missing directory is empty."""

    def find_empty_tables(self, names: Sequence[str], *, subdirectories: int) -> frozenset[str]:
        """Return those of these table directories in the root that contain no file. Object stores have none.

        `subdirectories` is the number of all directories in the root, which shows whether a disk counts links.
        """

    def list_first_files(self, path: str) -> tuple[list[FileEntry], bool]:
        """Return the first 1,000 files of a directory by name, with one request, and whether these are all files."""

    def list_names(self, path: str) -> set[str]:
        """Return the names of the files and directories in a directory. A missing directory has none."""

    def now(self) -> float:
        """Return the time in seconds by the store's clock, or by this machine's if the store reports none."""

    def measure(self, path: str) -> Amount:
        """Return the number and the total size of the files below `path`."""

    def has_files(self, path: str) -> bool:
        """Return True if there is at least one file below `path`, at any depth."""

    def get(self, path: str, *, max_bytes: int = LARGEST_OBJECT) -> Blob | None:
        """Return an object, or None. Raises UnusableEntryError if it has more than `max_bytes` bytes."""

    def size(self, path: str) -> int | None:
        """Return the size of an object, or None if it does not exist."""

    def stamp(self, path: str) -> str | None:
        """Return a text that changes each time the object is written, or None if it does not exist."""

    def put(self, path: str, body: bytes) -> None:
        """Write an object unconditionally."""

    def create(self, path: str, body: bytes) -> str | None:
        """Write an object that does not exist and return its e-tag, or None if it exists."""

    def swap(self, path: str, body: bytes, e_tag: str) -> str | None:
        """Replace the object that has `e_tag` and return the new e-tag, or None if it has changed."""

    def delete(self, *paths: str) -> None:
        """Delete objects, in one request where that is possible. Missing ones are ignored."""

    def delete_if(self, path: str, e_tag: str) -> bool:
        """Delete the object that has `e_tag`, or leave a body so short that it counts as absent.

        Returns False if the object has changed.
        """

    def delete_tree(self, path: str, *, first: str | None = None, also: Sequence[str] = ()) -> Amount:
        """Delete everything below `path`, its subdirectory `first` before the rest, then the objects in `also`."""

    def list_leftovers(self) -> list[str]:
        """Return the paths of what killed processes left half written or half deleted. Object stores have none."""

    def remove_leftovers(self) -> None:
        """Delete what killed processes left half written or half deleted."""

    def copy_tree(self, source: str, target: str) -> list[str]:
        """Copy everything below `source` to the same names below `target`, and return the paths of the copies.

        The store copies the data itself. A local disk creates hard links, so the files must never be changed.
        """

    def purge_tree(self, path: str, *, also: Sequence[str], seconds: float, still_mine: Callable[[], bool]) -> Amount:
        """Delete everything below `path` without harm to what others write there later, even if this client is slow.

        The caller holds a claim for `seconds`; `still_mine` returns True while it is valid. Raises
        ConcurrentModificationError if another client has written a file, LeaseExpiredError when time is up.
        """

    def require_conditional_writes(self) -> None:
        """Raise UnsupportedOperationError unless the store supports what `purge_tree` and claims need."""

    def prune(self, path: str) -> None:
        """Remove a directory if it is empty. Object stores have no empty directories."""

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """Hold the root's lock for `name`. Only a local disk has locks; elsewhere this does nothing."""

    def map(self, function: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        """Return the results of the function for all items, in order. Object stores run the calls in parallel.

        Raises the error of the first call that fails. No call is running then.
        """

    def close(self) -> None:
        """Close connections and stop threads."""


def call_together(store: Store, *calls: Callable[[], Any]) -> list[Any]:
    """Return the results of calls that do not depend on each other, in order. Object stores run them in parallel.

    On a disk they run one after the other, in this order, and the first error ends them. An object store raises the
    first error when all calls have ended. There, the last call may run calls together itself.
    """
    return store.map(lambda call: call(), calls)
