"""Mutations of threads that wait at the same time, gathered into groups that share one commit.

One thread leads: it takes all waiting mutations and commits them. The others sleep until theirs is done, or until they
are to lead. Threads that mutate in a loop come back a moment after their commit, so the next leader waits for them
briefly: until as many wait as took part or waited in one of the last commits, or until nobody comes any more. A lone
caller never waits.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pennon import counters
from pennon.errors import ConcurrentModificationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.directory.manifest.draft import Draft

T = TypeVar("T")

_LARGEST_GROUP = 256
_LONGEST_GATHERING_SECONDS = 0.05
_SHORTEST_SILENCE_SECONDS = 0.001
_LONGEST_SILENCE_SECONDS = 0.01
_SILENCE_SHARE = 8
"""The leader starts when nobody came for this share of the time that the last commit took."""

_REMEMBERED_GROUPS = 4
"""The largest of so many last groups is awaited. A thread that missed one is not expected to miss the next."""
_RETURN_SHARE = 5
"""Threads that took part in the last commit are waited for if it ended less than so many times its duration ago."""


class Mutation(Generic[T]):
    """A plan that waits for its commit, and its result."""

    __slots__ = ("_wake", "done", "error", "may_be_offered", "plan", "result")

    def __init__(self, plan: Callable[[Draft], T], *, may_be_offered: bool = False) -> None:
        self.plan = plan
        self.may_be_offered = may_be_offered
        self.done = False
        self.result: T | None = None
        self.error: BaseException | None = None
        self._wake = Lock()
        self._wake.acquire()

    def wait(self) -> None:
        """Wait until the mutation is done, or its thread is to lead."""
        self._wake.acquire()

    def wake(self) -> None:
        """Wake the thread that waits."""
        self._wake.release()


@dataclass(frozen=True)
class _LastGroup:
    """What the last commit shows about the next: how many threads mutate, and how long a commit takes."""

    threads: int = 1
    ended: float = float("-inf")
    seconds: float = 0.0


class CommitQueue:
    """The mutations that wait for a commit."""

    def __init__(self, commit: Callable[[list[Mutation[Any]]], None]) -> None:
        self._commit = commit
        self._lock = Lock()
        self._waiting: deque[Mutation[Any]] = deque()
        self._leader: Mutation[Any] | None = None
        self._awaited = 0
        self._complete = Event()
        self._last = _LastGroup()
        self._sizes: deque[int] = deque(maxlen=_REMEMBERED_GROUPS)

    def run(self, plan: Callable[[Draft], T], *, may_be_offered: bool = False) -> T:
        """Commit the changes that `plan` makes, and return its result. Raises the error of the plan or the commit.

        With `may_be_offered`, another process may commit them.
        """
        mutation = Mutation(plan, may_be_offered=may_be_offered)
        try:
            with self._lock:
                self._waiting.append(mutation)
                leads = self._leader is None
                if leads:
                    self._leader = mutation
                elif len(self._waiting) == self._awaited:
                    self._complete.set()
            if not leads:
                mutation.wait()
            if not mutation.done:
                self._lead()
        finally:
            self._leave(mutation)
        if mutation.error is not None:
            raise mutation.error
        return mutation.result  # type: ignore[return-value]  # a mutation without error has its result

    def _lead(self) -> None:
        """Commit all waiting mutations. The leader's own is the first of them."""
        self._gather()
        with self._lock:
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), _LARGEST_GROUP))]
        started = time.monotonic()
        try:
            self._commit(group)
        except Exception as error:  # noqa: BLE001 - raised again in each thread of the group
            _fail(group, error)
        except BaseException:
            interrupted = "The commit was interrupted in another thread of this process; check whether it succeeded"
            _fail(group, ConcurrentModificationError(interrupted))
            raise
        finally:
            ended = time.monotonic()
            self._sizes.append(len(group) + len(self._waiting))
            self._last = _LastGroup(max(self._sizes), ended, ended - started)
            counters.GROUP_SIZES.add(len(group))
            counters.COMMIT_SECONDS.add(ended - started)
            for mutation in group:
                mutation.done = True
                mutation.wake()

    def _gather(self) -> None:
        """Wait for threads that took part in the last commit, as long as they keep coming."""
        last = self._last
        with self._lock:
            self._awaited = min(last.threads, _LARGEST_GROUP)
            self._complete.clear()
            present = len(self._waiting)
        now = time.monotonic()
        # Threads that do more than mutate come back later, but together.
        is_loop = now < last.ended + _RETURN_SHARE * last.seconds
        deadline = now + min(last.seconds, _LONGEST_GATHERING_SECONDS) if is_loop else now
        silence = min(max(last.seconds / _SILENCE_SHARE, _SHORTEST_SILENCE_SECONDS), _LONGEST_SILENCE_SECONDS)
        while present < self._awaited and time.monotonic() < deadline and not self._complete.wait(silence):
            before, present = present, len(self._waiting)
            if present == before:
                return

    def _leave(self, mutation: Mutation[Any]) -> None:
        """Let another thread lead. A mutation whose thread was interrupted before its commit is withdrawn."""
        with self._lock:
            if not mutation.done:
                with suppress(ValueError):
                    self._waiting.remove(mutation)
            if self._leader is mutation:
                self._leader = self._waiting[0] if self._waiting else None
                if self._leader is not None:
                    self._leader.wake()


def _fail(group: list[Mutation[Any]], error: Exception) -> None:
    for mutation in group:
        mutation.error = mutation.error or error
