"""A lease on a run, so that only one process works on it: a small object in the store that its owner renews.

An owner is considered dead if it has not renewed the lease for a while, by the store's clock, or if its process on this
machine no longer exists. A process takes over by replacing exactly the object that it read. The previous owner finds
that the lease is lost and stops. Even if it does not check, it can only publish the same staged data under the same job
id, which is done once.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, TypeAdapter

from pennon import background
from pennon.errors import ConcurrentModificationError, LanceNamespaceError
from pennon.process_identity import current_process, is_dead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.store import Store
    from pennon.store.protocol import Blob

SECONDS = 60.0
"""The time after which a lease that is not renewed expires."""
_RENEWALS = 4
_Text = Annotated[str, Field(max_length=1000)]


@dataclass(frozen=True)
class LeaseOwner:
    """The process that holds a lease. `identity` shows on its machine whether it still runs."""

    host: _Text
    process: Annotated[int, Field(gt=0, lt=1 << 31)]
    token: _Text
    identity: _Text = ""

    @classmethod
    def current(cls) -> LeaseOwner:
        """Return the owner that stands for this process."""
        return cls(socket.gethostname(), os.getpid(), uuid.uuid4().hex, current_process())

    def encode(self) -> bytes:
        """Return a new body, unlike any other, so that a late response cannot be mistaken for a newer one."""
        return json.dumps({**asdict(self), "renewal": uuid.uuid4().hex}).encode()

    def __str__(self) -> str:
        """Return the process for messages."""
        return f"process {self.process} on {self.host}"


class Lease:
    """A lease of this process, renewed in a background thread until it is released."""

    def __init__(self, store: Store, path: str, subject: str, owner: LeaseOwner, e_tag: str) -> None:
        self._store = store
        self._path = path
        self._subject = subject
        self._owner = owner
        self._e_tag = e_tag
        self._lost: str | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = background.start(self._renew_regularly, name=f"lease of {subject}", stop=self._over.set)

    def require(self) -> None:
        """Renew the lease now. Raises ConcurrentModificationError if another process has it."""
        with self._lock:
            self._renew()
            if self._lost is not None:
                raise ConcurrentModificationError(f"{self._subject} was taken over by {self._lost}; this process stops")

    @property
    def is_held(self) -> bool:
        """Whether this process still has the lease."""
        try:
            self.require()
        except LanceNamespaceError:
            return False
        return True

    def release(self) -> None:
        """Stop renewing the lease, and delete it."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            if self._lost is None:
                self._store.delete_if(self._path, self._e_tag)

    def _renew_regularly(self) -> None:
        while not self._over.wait(SECONDS / _RENEWALS):
            # The next renewal may succeed; `require` raises the error.
            with self._lock, contextlib.suppress(Exception):
                self._renew()

    def _renew(self) -> None:
        if self._lost is not None:
            return
        e_tag = self._store.swap(self._path, self._owner.encode(), self._e_tag)
        if e_tag is None:
            blob = self._store.get(self._path)
            current = None if blob is None else _parse_owner(blob)
            if blob is None or current is None or current.token != self._owner.token:
                self._lost = str(current or "another process")
                return
            e_tag = blob.e_tag
        self._e_tag = e_tag


@contextlib.contextmanager
def hold_lease(store: Store, path: str, subject: str, *, take_over: bool = False) -> Iterator[Lease]:
    """Hold the lease at `path` for the duration of the block.

    Raises ConcurrentModificationError if a live process has it, unless `take_over` is True.
    """
    lease = _acquire(store, path, subject, take_over=take_over)
    try:
        yield lease
    finally:
        lease.release()


def _acquire(store: Store, path: str, subject: str, *, take_over: bool) -> Lease:
    owner = LeaseOwner.current()
    e_tag = store.create(path, owner.encode())
    while e_tag is None:
        blob = store.get(path)
        if blob is None:
            e_tag = store.create(path, owner.encode())
            continue
        current = _parse_owner(blob)
        silent = store.now() - blob.modified
        if current is not None and not take_over and _is_live(current, silent):
            raise ConcurrentModificationError(
                f"{subject} is being worked on by {current} (last renewed {max(silent, 0):.0f} s ago). It can be taken "
                f"over {SECONDS:.0f} s after the last renewal, or immediately with --take-over"
            )
        e_tag = store.swap(path, owner.encode(), blob.e_tag)
    return Lease(store, path, subject, owner, e_tag)


def find_holder(store: Store, path: str) -> LeaseOwner | None:
    """Return the live process that holds the lease at `path`, or None. Raises UnusableEntryError if it is too large."""
    blob = store.get(path)
    owner = None if blob is None else _parse_owner(blob)
    return owner if blob is not None and owner is not None and _is_live(owner, store.now() - blob.modified) else None


def _is_live(owner: LeaseOwner, silent: float) -> bool:
    return silent < SECONDS and not is_dead(owner.identity)


def _parse_owner(blob: Blob) -> LeaseOwner | None:
    """Return the owner of a lease; None if it was released in a store without conditional deletes, or is damaged."""
    try:
        return TypeAdapter(LeaseOwner).validate_json(blob.body, strict=True)
    except ValueError:
        return None
