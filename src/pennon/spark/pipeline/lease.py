"""Only one process works on a run: a small object in the store that its owner renews.

An owner that has not renewed it for a while, by the store's clock, is taken to be dead, and so is one of this machine
whose process is gone. Whoever takes over replaces exactly the object that it saw. An owner that comes back late finds
that the lease is not its own any more and stops; even if it does not look, it can only publish the very same staged
data under the very same job id, which is done once.
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
"""How long an owner may be silent."""
_RENEWALS = 4
_LONGEST = 1000
_LARGEST_PROCESS = (1 << 31) - 1


@dataclass(frozen=True)
class Owner:
    """Who holds a lease, as far as others can tell."""

    host: str
    machine: str
    process: int
    token: str

    @classmethod
    def here(cls) -> Owner:
        """Describe this process."""
        return cls(socket.gethostname(), _machine(), os.getpid(), uuid.uuid4().hex)

    def is_gone(self) -> bool:
        """Tell whether the process ran on this machine and is not there any more."""
        if self.machine != _machine():
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


class Lease:
    """A lease that this process holds, and renews in the background until it is released."""

    def __init__(self, store: Store, path: str, subject: str, owner: Owner, e_tag: str) -> None:
        self._store = store
        self._path = path
        self._subject = subject
        self._owner = owner
        self._e_tag = e_tag
        self._lost: str | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = background.start(self._keep, name=f"lease of {subject}", stop=self._over.set)

    def require(self) -> None:
        """Renew the lease now; error 14 if somebody else has it."""
        with self._lock:
            self._renew()
            if self._lost is not None:
                raise ConcurrentModificationError(
                    f"{self._subject} was taken over by {self._lost}; nothing more is done here"
                )

    @property
    def is_held(self) -> bool:
        """Tell whether the lease is still this process's."""
        try:
            self.require()
        except LanceNamespaceError:
            return False
        return True

    def release(self) -> None:
        """Stop renewing, and let others have it."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            if self._lost is None:
                self._store.delete_if(self._path, self._e_tag)

    def _keep(self) -> None:
        while not self._over.wait(SECONDS / _RENEWALS):
            # The store may answer next time; `require` raises what it says.
            with self._lock, contextlib.suppress(Exception):
                self._renew()

    def _renew(self) -> None:
        if self._lost is not None:
            return
        e_tag = self._store.swap(self._path, _body(self._owner), self._e_tag)
        if e_tag is not None:
            self._e_tag = e_tag
            return
        blob = self._store.get(self._path)
        current = None if blob is None else _owner(blob)
        if current is not None and current.token == self._owner.token and blob is not None:
            self._e_tag = blob.e_tag
        else:
            self._lost = "somebody else" if current is None else f"process {current.process} on {current.host}"


@contextlib.contextmanager
def held(store: Store, path: str, subject: str, *, take_over: bool = False) -> Iterator[Lease]:
    """Hold the lease at `path`; error 14 if a living process has it and `take_over` is not asked for."""
    lease = _taken(store, path, subject, take_over=take_over)
    try:
        yield lease
    finally:
        lease.release()


def _taken(store: Store, path: str, subject: str, *, take_over: bool) -> Lease:
    owner = Owner.here()
    body = _body(owner)
    e_tag = store.create(path, body)
    while e_tag is None:
        blob = store.get(path)
        if blob is None:
            e_tag = store.create(path, body)
            continue
        current = _owner(blob)
        silent = store.now() - blob.modified
        if current is not None and not take_over and silent < SECONDS and not current.is_gone():
            raise ConcurrentModificationError(
                f"{subject} is being worked on by process {current.process} on {current.host} (heard of "
                f"{max(silent, 0):.0f} s ago). It can be taken over when it has been silent for {SECONDS:.0f} s, or at "
                "once with --take-over"
            )
        e_tag = store.swap(path, body, blob.e_tag)
    return Lease(store, path, subject, owner, e_tag)


def _body(owner: Owner) -> bytes:
    # Each renewal differs from the one before, so that a late answer cannot be taken for a new one.
    content = {
        "host": owner.host,
        "machine": owner.machine,
        "process": owner.process,
        "token": owner.token,
        "renewal": uuid.uuid4().hex,
    }
    return json.dumps(content).encode()


def _owner(blob: Blob) -> Owner | None:
    try:
        content: Any = json.loads(blob.body)
    except (ValueError, RecursionError):
        # Released in a store that cannot delete conditionally.
        return None
    found = content if isinstance(content, dict) else {}
    texts = [found.get(key) for key in ("host", "machine", "token")]
    process = found.get("process")
    if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts):
        return None
    if type(process) is not int or not 0 < process <= _LARGEST_PROCESS:
        return None
    return Owner(str(texts[0]), str(texts[1]), process, str(texts[2]))


def _machine() -> str:
    """Name what a process number belongs to: this start of this machine, and its space of process numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode()}"
    return f"{boot} {space}"
