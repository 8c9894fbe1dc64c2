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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pennon import background
from pennon.errors import ConcurrentModificationError, LanceNamespaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.store import Store
    from pennon.store.protocol import Blob

SECONDS = 60.0
"""The time after which a lease that is not renewed expires."""
_RENEWALS = 4
_LONGEST = 1000
_LARGEST_PROCESS = (1 << 31) - 1


@dataclass(frozen=True)
class LeaseOwner:
    """The process that holds a lease."""

    host: str
    machine: str
    process: int
    token: str

    @classmethod
    def current(cls) -> LeaseOwner:
        """Return the owner that stands for this process."""
        return cls(socket.gethostname(), _machine_id(), os.getpid(), uuid.uuid4().hex)

    def is_gone(self) -> bool:
        """Return True if the process ran on this machine and no longer exists."""
        if self.machine != _machine_id():
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


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
        e_tag = self._store.swap(self._path, _encode_owner(self._owner), self._e_tag)
        if e_tag is not None:
            self._e_tag = e_tag
            return
        blob = self._store.get(self._path)
        current = None if blob is None else _parse_owner(blob)
        if current is not None and current.token == self._owner.token and blob is not None:
            self._e_tag = blob.e_tag
        else:
            self._lost = "another process" if current is None else f"process {current.process} on {current.host}"


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
    body = _encode_owner(owner)
    e_tag = store.create(path, body)
    while e_tag is None:
        blob = store.get(path)
        if blob is None:
            e_tag = store.create(path, body)
            continue
        current = _parse_owner(blob)
        silent = store.now() - blob.modified
        if current is not None and not take_over and silent < SECONDS and not current.is_gone():
            raise ConcurrentModificationError(
                f"{subject} is being worked on by process {current.process} on {current.host} (last renewed "
                f"{max(silent, 0):.0f} s ago). It can be taken over {SECONDS:.0f} s after the last renewal, or "
                "immediately with --take-over"
            )
        e_tag = store.swap(path, body, blob.e_tag)
    return Lease(store, path, subject, owner, e_tag)


def _encode_owner(owner: LeaseOwner) -> bytes:
    # Each renewal is unique, so that a late response cannot be mistaken for a newer one.
    content = {
        "host": owner.host,
        "machine": owner.machine,
        "process": owner.process,
        "token": owner.token,
        "renewal": uuid.uuid4().hex,
    }
    return json.dumps(content).encode()


def _parse_owner(blob: Blob) -> LeaseOwner | None:
    try:
        content: Any = json.loads(blob.body)
    except (ValueError, RecursionError):
        # The lease was released in a store without conditional deletes.
        return None
    found = content if isinstance(content, dict) else {}
    texts = [found.get(key) for key in ("host", "machine", "token")]
    process = found.get("process")
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts):
        return None
    if type(process) is not int or not 0 < process <= _LARGEST_PROCESS:
        return None
    return LeaseOwner(str(texts[0]), str(texts[1]), process, str(texts[2]))


def _machine_id() -> str:
    """Return an id of the boot and of the PID namespace, in which a process id is unique."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode()}"
    return f"{boot} {space}"
