"""Claims on root tables: a client may change a table while its own marker stands.

A claim is acquired and changed by conditional writes of the marker, so exactly one client wins. A lease alone never
decides about data. A creator whose lease has expired finds that the marker is no longer its own, or loses the strict
commit of its version. A purger whose lease has expired is fenced (`Store.purge_tree`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.directory import layout, retention
from pennon.directory.clock import now_ms
from pennon.directory.markers.marker import DELETED, LEASE_SECONDS, UNREADABLE, Marker, parse_marker, unreadable_marker
from pennon.directory.problems import warn_once
from pennon.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    LanceNamespaceError,
    UnusableEntryError,
)
from pennon.results import Problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from pennon.store import Store

_ATTEMPTS = 8


@dataclass(frozen=True)
class StoredMarker:
    """A marker as it was last read or written."""

    name: str
    marker: Marker
    e_tag: str
    written: float = 0.0
    """When it was written, in seconds, by the store's clock; 0 if unknown."""

    @property
    def deletion_id(self) -> str:
        """The id of the drop that the marker records."""
        return self.marker.deletion_id


@dataclass(frozen=True)
class _Tombstone:
    """A body that counts as no marker. Stores that cannot delete conditionally leave it."""

    e_tag: str


class Claim:
    """The right of this process to change a root table.

    As a context manager, a claim that is neither completed nor ended is released at the end of the block.
    """

    def __init__(self, store: Store, held: StoredMarker) -> None:
        self._store = store
        self._held = held
        self._ended = False

    def __enter__(self) -> Self:
        """Hold the claim for a block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the claim unless it has ended."""
        self.release()

    @property
    def name(self) -> str:
        """The name of the root table."""
        return self._held.name

    @property
    def marker(self) -> Marker:
        """The state that was last written."""
        return self._held.marker

    @property
    def prior(self) -> Marker | None:
        """The dropped table under this name when it was claimed, or None if the name was free."""
        return self._held.marker.prior

    def is_held(self) -> bool:
        """Return True if the marker in the store is still this claim's own."""
        current = read_marker(self._store, self.name)
        return current is not None and current.marker.nonce == self.marker.nonce

    def seconds_left(self) -> float:
        """Return how long the claim can be relied on without reading the marker again."""
        return min(max((self.marker.lease_until_ms - now_ms()) / 1000, 0.0), LEASE_SECONDS)

    def update(self, to: Marker) -> None:
        """Write the next state of the claim. Raises ConcurrentModificationError if another client took it over."""
        written = replace_marker(self._store, self._held, to)
        if written is None:
            raise held_by_another(self.name)
        self._held = written

    def renew(self) -> None:
        """Write the same state once more, which proves that the claim is held."""
        self.update(self.marker)

    def end(self, as_marker: Marker) -> StoredMarker | None:
        """End the claim with a marker that claims nothing; None if another client took it over."""
        self._ended = True
        return replace_marker(self._store, self._held, as_marker)

    def complete(self) -> bool:
        """End the claim by deleting the marker, which shows the table; False if another client took it over.

        A marker that is gone counts as taken over: another client may have purged the table.
        """
        self._ended = True
        return self._store.delete_if(layout.deleted_marker(self.name), self._held.e_tag)

    def remove(self) -> None:
        """End the claim by deleting the marker, unless another client took it over."""
        self._ended = True
        remove_marker(self._store, self._held)

    def hand_over(self) -> StoredMarker:
        """End the claim without a write and return its marker, which stays in the store."""
        self._ended = True
        return self._held

    def release(self) -> None:
        """End the claim and leave what was there before: the dropped table, or a free name."""
        if self._ended:
            return
        if self.prior is None:
            self.remove()
        else:
            self.end(self.prior)


def acquire(store: Store, name: str, wanted: Marker, settle: Callable[[StoredMarker], None]) -> Claim:
    """Claim a name that is free or dropped. The marker of a dropped table becomes `prior`.

    `settle` completes or undoes what a client left whose claim has expired. The commit point is one conditional write.
    A crash after it hides the name until the lease expires.

    Raises ConcurrentModificationError if another client holds the name, InvalidTableStateError if its marker cannot be
    read.
    """
    for _ in range(_ATTEMPTS):
        current = write_if_free(store, name, wanted)
        if isinstance(current, Claim):
            return current
        if current is None:
            continue
        if current.marker.state != DELETED:
            if not current.marker.is_expired:
                raise unavailable_error(current)
            settle(current)
            continue
        claim = try_take_over(store, current, replace(wanted, prior=current.marker))
        if claim is not None:
            return claim
    raise held_by_another(name)


def write_if_free(store: Store, name: str, wanted: Marker) -> Claim | StoredMarker | None:
    """Write a marker where there is none, and return the claim.

    Returns the marker that is in the way otherwise, or None if that changed at the same time.
    """
    path = layout.deleted_marker(name)
    written = wanted.with_new_nonce()
    e_tag = store.create(path, written.body())
    if e_tag is None:
        current = _read_file(store, name)
        if not isinstance(current, _Tombstone):
            return current
        e_tag = store.swap(path, written.body(), current.e_tag)
    return None if e_tag is None else Claim(store, StoredMarker(name, written, e_tag))


def take_over(store: Store, current: StoredMarker, wanted: Marker) -> Claim:
    """Claim a table whose marker was just read. Raises ConcurrentModificationError if another client was first."""
    claim = try_take_over(store, current, wanted)
    if claim is None:
        raise held_by_another(current.name)
    return claim


def try_take_over(store: Store, current: StoredMarker, wanted: Marker) -> Claim | None:
    """Claim a table whose marker was just read, or return None if another client was first."""
    written = replace_marker(store, current, wanted)
    return None if written is None else Claim(store, written)


def replace_marker(store: Store, current: StoredMarker, to: Marker) -> StoredMarker | None:
    """Write the next state of a marker, or return None if another client changed it first."""
    written = to.with_new_nonce()
    e_tag = store.swap(layout.deleted_marker(current.name), written.body(), current.e_tag)
    return None if e_tag is None else StoredMarker(current.name, written, e_tag)


def remove_marker(store: Store, current: StoredMarker) -> bool:
    """Delete a marker; False if another client has written another one."""
    path = layout.deleted_marker(current.name)
    return store.delete_if(path, current.e_tag) or store.get(path) is None


def read_marker(store: Store, name: str) -> StoredMarker | None:
    """Return the marker of a root table, or None if it has none.

    A marker that cannot be read is logged once. It has the state UNREADABLE, or a `fault` in its retention.
    """
    found = _read_file(store, name)
    return None if isinstance(found, _Tombstone) else found


def _read_file(store: Store, name: str) -> StoredMarker | _Tombstone | None:
    try:
        blob = store.get(layout.deleted_marker(name))
    except UnusableEntryError as error:
        found = StoredMarker(name, unreadable_marker(str(error)), "")
    else:
        if blob is None:
            return None
        marker = parse_marker(blob.body)
        if marker is None:
            return _Tombstone(blob.e_tag)
        found = StoredMarker(name, marker, blob.e_tag, blob.modified)
    problem = problem_of_marker(found)
    if problem is not None:
        warn_once(problem, store.identity())
    return found


def problem_of_marker(stored: StoredMarker) -> Problem | None:
    """Return what is wrong with a marker and how to fix it, or None if it can be read."""
    marker = stored.marker
    dropped = marker if marker.state in {DELETED, UNREADABLE} else marker.prior
    if dropped is None or not dropped.fault:
        return None
    entry = layout.deleted_marker(stored.name)
    if dropped.state == UNREADABLE:
        return Problem(
            entry,
            f"the marker cannot be read: {dropped.fault}",
            f"upgrade Pennon if a newer version wrote it, or delete '{entry}' to show the table again",
        )
    return Problem(entry, f"the retention of the dropped table cannot be read: {dropped.fault}", retention.FIX)


def hides(size: int | None) -> bool:
    """Return True if a marker of this size hides its table."""
    return size is not None and size >= layout.SHORTEST_CLAIM


def unavailable_error(current: StoredMarker) -> LanceNamespaceError:
    """Return the error for a table whose marker is in the way: another client holds it, or it cannot be read."""
    problem = problem_of_marker(current)
    if current.marker.state == UNREADABLE and problem is not None:
        return InvalidTableStateError(
            f"Table '{current.name}' is hidden by '{problem.entry}', and kept: {problem.reason}; {problem.fix}"
        )
    return held_by_another(current.name)


def held_by_another(name: str) -> ConcurrentModificationError:
    """Return the error for a table that another client holds."""
    return ConcurrentModificationError(
        f"Table '{name}' is being created, dropped, restored or purged by another client; try again later"
    )
