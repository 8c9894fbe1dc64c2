"""Work that processes on one machine offer to each other, as small files beside the lock files of their turns.

A process that waits for its turn posts an offer. The process that has the turn can take it, do the work, and accept it.
The state of an offer is the prefix of its file's name: posted, taken, done. Renames are atomic, so either the offer is
taken, or it is withdrawn by the process that posted it. That process holds a lock on the file. So an offer of a process
that died is recognized, and deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import uuid
from dataclasses import dataclass

from pennon.errors import UnusableEntryError
from pennon.store import root_paths

_UNUSABLE = (OSError, UnusableEntryError)
"""Without files beside the lock files, nothing is offered."""
_POSTED, _TAKEN, _DONE = "offer-", "taken-", "done-"
_NEW = "new-"
_LARGEST_OFFER = 64 << 10
_MOST_OFFERS = 64
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class OfferFile:
    """The file of an offer, in a directory below a root."""

    root: str
    directory: str
    offer_id: str

    def rename(self, before: str, after: str) -> bool:
        """Change the state. Returns False if the offer is not in the state `before`."""
        with contextlib.suppress(*_UNUSABLE), root_paths.hold_directory(self.root, self.directory) as folder:
            os.rename(before + self.offer_id, after + self.offer_id, src_dir_fd=folder, dst_dir_fd=folder)
            return True
        return False

    def delete(self, state: str) -> bool:
        """Delete the file. Returns False if the offer is not in this state."""
        with contextlib.suppress(*_UNUSABLE), root_paths.hold_directory(self.root, self.directory) as folder:
            os.unlink(state + self.offer_id, dir_fd=folder)
            return True
        return False


class PostedOffer:
    """An offer of this process."""

    def __init__(self, file: OfferFile, descriptor: int) -> None:
        self._file = file
        self._descriptor = descriptor
        self.offer_id = file.offer_id
        self.is_accepted = False

    def withdraw(self) -> bool:
        """Withdraw the offer. Returns False if another process has taken it."""
        return self._file.delete(_POSTED)

    def check(self) -> bool:
        """Return True if the process that took the offer has accepted it."""
        self.is_accepted = self.is_accepted or self._file.delete(_DONE)
        return self.is_accepted

    def close(self) -> None:
        """Delete the offer, and release its lock."""
        if not self.is_accepted:
            for state in (_POSTED, _TAKEN, _DONE):
                self._file.delete(state)
        # Closing does not release a lock that a forked child has inherited.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


@dataclass(frozen=True)
class FoundOffer:
    """An offer of another process, which waits."""

    file: OfferFile
    body: bytes

    @property
    def offer_id(self) -> str:
        """The id of the offer."""
        return self.file.offer_id

    def take(self) -> bool:
        """Take the offer. Returns False if it was withdrawn."""
        return self.file.rename(_POSTED, _TAKEN)

    def give_back(self) -> None:
        """Give the offer back: the work is certainly not done."""
        self.file.rename(_TAKEN, _POSTED)

    def accept(self) -> None:
        """Record that the work is done."""
        self.file.rename(_TAKEN, _DONE)


def post_offer(root: str, directory: str, body: bytes) -> PostedOffer | None:
    """Post an offer. Returns None if it is too large, or if the disk does not allow it."""
    if len(body) > _LARGEST_OFFER:
        return None
    file = OfferFile(root, directory, uuid.uuid4().hex)
    temporary = f"{_NEW}{file.offer_id}"
    with contextlib.suppress(*_UNUSABLE), root_paths.hold_directory(root, directory, make=True) as folder:
        descriptor = os.open(temporary, _WRITE_NEW, 0o666, dir_fd=folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            written = os.write(descriptor, body)
        except OSError:
            written = 0
        if written == len(body) and file.rename(_NEW, _POSTED):
            return PostedOffer(file, descriptor)
        os.close(descriptor)
        os.unlink(temporary, dir_fd=folder)
    return None


def find_offers(root: str, directory: str) -> list[FoundOffer]:
    """Return the offers of other processes that wait. Those of dead processes are deleted."""
    found: list[FoundOffer] = []
    with contextlib.suppress(*_UNUSABLE), root_paths.hold_directory(root, directory) as folder:
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - a descriptor has no path
            state = next((state for state in (_POSTED, _TAKEN, _DONE) if name.startswith(state)), None)
            if state is not None and len(found) < _MOST_OFFERS:
                body = _read_offer(folder, name)
                if body is not None and state == _POSTED:
                    found.append(FoundOffer(OfferFile(root, directory, name.removeprefix(state)), body))
    return found


def _read_offer(folder: int, name: str) -> bytes | None:
    """Return the body of an offer, or None if it is not a small file of a process that lives."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_OFFER:
            return None
        if _is_abandoned(descriptor):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            return None
        return os.read(descriptor, _LARGEST_OFFER)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_abandoned(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
