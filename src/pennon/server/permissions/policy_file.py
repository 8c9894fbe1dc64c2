"""The policy file of a running server: read again when it changes, kept as it was if the new content is invalid."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from pennon.errors import InvalidInputError
from pennon.server.permissions.policy import Policy, parse_policy
from pennon.yaml_documents.nodes import read_file

if TYPE_CHECKING:
    from pathlib import Path

POLICY_VARIABLE = "PENNON_SERVE_POLICY"
CHECK_SECONDS = 1.0
_log = logging.getLogger(__name__)


class PolicySource(Protocol):
    """Where the current policy comes from."""

    def current(self) -> Policy:
        """Return the policy that is in force."""


def load_policy(file: Path) -> Policy:
    """Return the policy in a file. Raises InvalidInputError with all problems if it is not valid."""
    return parse_policy(read_file(file, "the policy"), str(file))


class PolicyFile:
    """The policy in a file. Threads share it."""

    def __init__(self, file: Path, policy: Policy, *, stamp: tuple[int, ...] | None = None) -> None:
        self._file = file
        self._policy = policy
        self._stamp = stamp
        self._checked_at = time.monotonic()
        self._lock = threading.Lock()

    @classmethod
    def open(cls, file: Path) -> PolicyFile:
        """Read a file. Raises InvalidInputError with all problems if it is not valid."""
        # A change between the two is noticed later, because the stamp is the older one.
        stamp = _stamp_of(file)
        return cls(file, load_policy(file), stamp=stamp)

    def current(self) -> Policy:
        """Return the policy that is in force. Looks at the file at most once in a second."""
        if time.monotonic() - self._checked_at >= CHECK_SECONDS and self._lock.acquire(blocking=False):
            # While one thread reads the file, the others use the policy before.
            try:
                self._refresh()
            finally:
                self._checked_at = time.monotonic()
                self._lock.release()
        return self._policy

    def _refresh(self) -> None:
        stamp = _stamp_of(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._policy = load_policy(self._file)
        except InvalidInputError as error:
            _log.error("The policy has changed and is not valid; the one before stays in force:\n%s", error)
        else:
            _log.warning("The policy %s has changed and is in force", self._file)


def _stamp_of(file: Path) -> tuple[int, ...] | None:
    """Return what changes when a file does, or None if it cannot be read."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
