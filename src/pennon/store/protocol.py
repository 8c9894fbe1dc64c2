"""What Pennon asks of a store: list one level, small reads and conditional writes, deletion of a tree.

Paths are relative to the root, with `/` between segments and names as they are (no escaping); any other is
InvalidInputError (13), whoever gives it. A missing object is
None or False, never an exception. Outcomes of conditional writes are known by looking: a lost answer that was retried
looks like a conflict, so every body that is written conditionally carries a token of its own, and `create` and `swap`
compare bodies before they report a conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from pennon.errors import UnusableEntryError
from pennon.store.root_paths import shorten_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

T = TypeVar("T")
Item = TypeVar("Item")

LARGEST_OBJECT = 16 << 20
"""Small objects are no larger: markers, claims, notes. What is larger was not written by Pennon."""
LARGEST_MANIFEST = 2 << 30
"""The manifest of one version of a table, which lists all its files, is no larger."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file found by a listing."""

    name: str
    size: int
    modified: float
    """When it was written, in seconds, by the store's clock."""


@dataclass(frozen=True, slots=True)
class UnusableEntry:
    """An entry of a directory that is neither a file nor a directory, or whose name is no text."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a directory: the files in it, and its sub-directories, which may be empty on a disk."""

    files: tuple[FileEntry, ...]
    directories: tuple[str, ...]
    unusable: tuple[UnusableEntry, ...] = ()
    """What counts as absent: symbolic links, pipes, sockets, devices, names that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A small object with the token that conditional writes compare."""

    body: bytes
    e_tag: str
    modified: float = 0.0
    """When it was written, in seconds, by the store's clock."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much something is: what is there, or what a deletion took away."""

    files: int = 0
    size: int = 0

    def __add__(self, other: Amount) -> Amount:
        """Add up two amounts."""
        return Amount(self.files + other.files, self.size + other.size)


class LeaseExpiredError(Exception):
    """There was no time left to go on deleting; `removed` is what is gone."""

    def __init__(self, removed: Amount) -> None:
        super().__init__("the lease is over")
        self.removed = removed


def too_large(path: str, size: int, max_bytes: int) -> UnusableEntryError:
    """Say that an object is larger than anything that is written in its place."""
    return UnusableEntryError(
        f"{shorten_text(path)} in the root has {size} bytes, and what belongs there has {max_bytes} at most: remove it"
    )


class Store(Protocol):
    """A root directory on a disk or in a bucket."""

    is_local: bool
    storage_options: dict[str, str]

    def identity(self) -> str:
        """Name the root for people and for equality."""

    def location(self, path: str) -> str:
        """Give the address of `path` as Lance writes it; nothing is looked at."""

    def resolve(self, path: str, *, deeply: bool = False) -> str:
        """Give the address of a table's directory that Lance may open, read and write now.

        Lance follows symbolic links. Raises UnusableEntryError (19) if a part of the path is one, or a directory in
        it that Lance knows; `deeply` also if one is anywhere below it, for what deletes files that it finds.
        """

    def uri(self, path: str) -> str:
        """Give the address of `path` as a complete, valid URI."""

    def relative(self, location: str) -> str | None:
        """Give the path of a location of this root, whichever way it is written, or None if it lies elsewhere."""

    def absolute(self, path: str) -> str:
        """Give a path from the top of the disk or bucket, without a leading slash: so Lance gives paths."""

    def from_absolute(self, absolute: str) -> str | None:
        """Give the path below the root of such a path, or None if it lies elsewhere."""

    def list_level(self, path: str = "") -> Level:
        """List one level; an absent directory is empty."""

    def find_empty_tables(self, names: Sequence[str]) -> frozenset[str]:
        """Tell which of these table directories of the root hold nothing; object stores have no such thing."""

    def list_names(self, path: str) -> set[str]:
        """Name the entries of one level, files and directories alike; an absent directory has none."""

    def now(self) -> float:
        """Tell the time by the store's clock, in seconds; by this machine's own if the store does not tell."""

    def measure(self, path: str) -> Amount:
        """Count the files below `path` and their bytes."""

    def has_files(self, path: str) -> bool:
        """Tell whether there is at least one file somewhere below `path`."""

    def get(self, path: str, *, max_bytes: int = LARGEST_OBJECT) -> Blob | None:
        """Read an object; raises UnusableEntryError (19) if it has more than `max_bytes` bytes."""

    def size(self, path: str) -> int | None:
        """Give an object's size, or None if it is absent."""

    def stamp(self, path: str) -> str | None:
        """Give a text that changes whenever the object is written anew, or None if it is absent."""

    def put(self, path: str, body: bytes) -> None:
        """Write an object, whatever was there."""

    def create(self, path: str, body: bytes) -> str | None:
        """Write an object that is absent and return its e-tag; None if another one is there."""

    def swap(self, path: str, body: bytes, e_tag: str) -> str | None:
        """Replace the object that has `e_tag` and return the new e-tag; None if it is not the same any more."""

    def delete(self, *paths: str) -> None:
        """Delete objects, in one request where that is possible; absent ones are fine."""

    def delete_if(self, path: str, e_tag: str) -> bool:
        """Delete the object that has `e_tag`, or leave a body so short that it counts as absent; False if not."""

    def delete_tree(self, path: str, *, first: str | None = None, also: Sequence[str] = ()) -> Amount:
        """Delete everything below `path`, its sub-directory `first` before the rest, and the objects `also` with it."""

    def copy_tree(self, source: str, target: str) -> list[str]:
        """Copy everything below `source` to the same names below `target`, without its bytes passing through here.

        On a disk files are linked: for what is never changed once it is written. Returns the paths of the copies.
        """

    def purge_tree(self, path: str, *, also: Sequence[str], seconds: float, still_mine: Callable[[], bool]) -> Amount:
        """Delete everything below `path` so that it harms nothing that is written there later, also if this is late.

        The caller holds a claim for so many seconds and tells whether it still stands. Raises
        ConcurrentModificationError (14) if something was written by somebody else, LeaseExpiredError when time is up.
        """

    def require_conditional_writes(self) -> None:
        """Raise UnsupportedOperationError (0) unless the store can do what `purge_tree` and claims need."""

    def prune(self, path: str) -> None:
        """Remove a directory if it is empty; object stores have no empty ones."""

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """Hold the root's lock for `name` where the store has locks (local disk); elsewhere do nothing."""

    def map(self, function: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        """Return the function's results for all items, in order; calls run in parallel where that saves time.

        Raises what the first failing call raises.
        """

    def close(self) -> None:
        """Let go of connections and threads."""
