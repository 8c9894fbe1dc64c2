"""Turns: processes of one machine that change one catalog queue, instead of colliding.

A process queues at one lock file and has its turn while it holds the other. Nothing depends on a turn: it only saves
attempts that would conflict. The kernel releases both locks when a process dies. A process that waits can offer its
work to the one that has the turn (see `turn_offers`).
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pennon.errors import UnusableEntryError
from pennon.store import root_paths, turn_offers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pennon.store.turn_offers import FoundOffer, PostedOffer

_IMPATIENCE = 10
_POLL_SECONDS = 0.001
_MOST_WAITS = 20
_POLLED_REMOTELY_SECONDS = 0.5
_IN_MEMORY = "/dev/shm"  # noqa: S108 - the directory in it is checked to be only for this user
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class _Turn:
    """Two lock files: a process queues at the first one, and has its turn while it holds the second."""

    def __init__(self, queue: int, turn: int) -> None:
        self._queue = queue
        self._turn = turn
        self._guard = threading.Lock()
        self._acquired = threading.Event()
        self._blocks = False
        self._ended = False

    def acquire(self, seconds: float, offer: Callable[[], PostedOffer | None], polled_seconds: float) -> bool:
        """Wait for the turn. Returns False if that takes longer than `seconds`, or if the offer was accepted."""
        if self._try():
            return True
        if not seconds:
            return False
        posted = offer()
        started = time.monotonic()
        # The process that has its turn does what is offered, as a rule, so the queue would only take time.
        while posted is not None and time.monotonic() < started + polled_seconds:
            time.sleep(_POLL_SECONDS)
            if posted.check():
                return False
            if self._try():
                return True
        # Only a blocking call queues in order, and only a thread of its own can be abandoned in it.
        thread = threading.Thread(target=self._block, name="pennon-turn", daemon=True)
        self._blocks = True
        try:
            thread.start()
        except RuntimeError:
            # The process is ending, and starts no more threads.
            self._blocks = False
            return False
        # On a busy machine, many turns can take long. Only a process that is stopped lets nobody have one.
        begun = self._read_beginning()
        while not self._acquired.wait(seconds):
            before, begun = begun, self._read_beginning()
            if begun == before or time.monotonic() > started + _MOST_WAITS * seconds:
                return False
        return True

    def _read_beginning(self) -> int:
        """Return when the last turn began."""
        return os.fstat(self._turn).st_mtime_ns

    def _try(self) -> bool:
        """Take the turn if nobody has it or is next."""
        try:
            fcntl.flock(self._queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(self._turn)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def end(self) -> None:
        """End the turn, or stop waiting for it."""
        with self._guard:
            self._ended = True
            if self._blocks and not self._acquired.is_set():
                return
        self._close()

    def _block(self) -> None:
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            os.utime(self._turn)
        fcntl.flock(self._queue, fcntl.LOCK_UN)
        with self._guard:
            self._acquired.set()
            ended = self._ended
        if ended:
            self._close()

    def _close(self) -> None:
        # Closing does not release a lock that a forked child has inherited.
        for descriptor in (self._turn, self._queue):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


class Turns:
    """The turns at one catalog, by files in a directory below another one."""

    def __init__(
        self, top: str, directory: str, *, polled_seconds: float = 0.05, must_be_private: bool = False
    ) -> None:
        self._top = top
        self._directory = directory
        self._must_be_private = must_be_private
        """True if `top` is only for files of this user, and is created for them."""
        self._polled_seconds = polled_seconds
        """A process that has posted an offer queues if it was not accepted for so long."""
        self._impatient_until = -math.inf

    @contextlib.contextmanager
    def wait(
        self, name: str, seconds: float, *, offer: Callable[[], PostedOffer | None] = lambda: None
    ) -> Iterator[bool]:
        """Wait until no other process has its turn at `name`, at most for `seconds`, and have it for the block.

        The block runs in any case. It gets True if it has the turn. If another process has it, `offer` is called, which
        may post an offer. The wait ends once that is accepted.

        After a wait in vain, no turn of the next seconds is waited for: the holder is stopped, or very slow.
        """
        now = time.monotonic()
        patience = 0.0 if now < self._impatient_until else seconds
        has_turn, posted = False, None

        def post() -> PostedOffer | None:
            nonlocal posted
            posted = offer()
            return posted

        with contextlib.ExitStack() as held:
            # Without lock files, as on a disk that does not allow them, processes do not queue.
            with contextlib.suppress(OSError, UnusableEntryError):
                has_turn = self._open_turn(held, name).acquire(patience, post, self._polled_seconds)
                if not has_turn and (posted is None or not posted.is_accepted):
                    self._impatient_until = max(self._impatient_until, now + _IMPATIENCE * seconds)
            yield has_turn

    def post_offer(self, body: bytes) -> PostedOffer | None:
        """Offer work to the process that has the turn. Returns None if that is not possible."""
        return turn_offers.post_offer(self._top, self._directory, body)

    def find_offers(self) -> list[FoundOffer]:
        """Return the offers of other processes that wait."""
        return turn_offers.find_offers(self._top, self._directory)

    def _open_turn(self, held: contextlib.ExitStack, name: str) -> _Turn:
        """Open the lock files for as long as `held` lasts."""
        if self._must_be_private:
            _require_private(self._top)
        with (
            root_paths.hold_directory(self._top, self._directory, make=True) as folder,
            contextlib.ExitStack() as opened,
        ):
            descriptors = []
            for file in (f"queue-{name}", f"turn-{name}"):
                descriptors.append(os.open(file, _LOCK, 0o666, dir_fd=folder))
                opened.callback(os.close, descriptors[-1])
            opened.pop_all()
        turn = _Turn(*descriptors)
        held.callback(turn.end)
        return turn


def open_machine_turns(key: str) -> Turns:
    """Return the turns of this user's processes on this machine at something outside it, such as a bucket."""
    place = _IN_MEMORY if Path(_IN_MEMORY).is_dir() else tempfile.gettempdir()
    return Turns(
        f"{place}/pennon-turns-{os.getuid()}", key, polled_seconds=_POLLED_REMOTELY_SECONDS, must_be_private=True
    )


def _require_private(directory: str) -> None:
    """Create a directory that only this user can read and write. Raises UnusableEntryError if it is another's."""
    with contextlib.suppress(FileExistsError):
        Path(directory).mkdir(mode=0o700)
    found = Path(directory).lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UnusableEntryError(f"{directory} is not a directory that only this user can use")
