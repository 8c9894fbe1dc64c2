"""Sessions of people who have signed in. The browser holds a random id, and this process the token behind it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

SESSION_SECONDS = 12 * 3600
"""How long a session lasts after it began."""
MOST_SESSIONS = 10_000
_ID_BYTES = 32
_ANONYMOUS = "anonymous"


@dataclass(frozen=True)
class Session:
    """What is known of a session."""

    token: str = field(repr=False)
    ends_at: float


class Sessions:
    """The sessions of a server, in memory. Threads share them.

    They are found by the hash of their id, so a lookup takes the same time however much of an id is right.
    """

    def __init__(self, *, seconds: float = SESSION_SECONDS, most: int = MOST_SESSIONS) -> None:
        self.seconds = seconds
        """How long a session lasts."""
        self._most = most
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(_ID_BYTES)

    def begin(self, token: str) -> str:
        """Begin a session and return its id. The oldest one ends if there are too many."""
        session_id = secrets.token_urlsafe(_ID_BYTES)
        with self._lock:
            self._sessions[_hash(session_id)] = Session(token, time.monotonic() + self.seconds)
            while len(self._sessions) > self._most:
                self._sessions.popitem(last=False)
        return session_id

    def find(self, session_id: str) -> Session | None:
        """Return a session, or None if it does not exist or has ended."""
        key = _hash(session_id)
        with self._lock:
            found = self._sessions.get(key)
            if found is not None and found.ends_at <= time.monotonic():
                del self._sessions[key]
                return None
            return found

    def end(self, session_id: str) -> None:
        """End a session, if it exists."""
        with self._lock:
            self._sessions.pop(_hash(session_id), None)

    def form_token(self, session_id: str) -> str:
        """Return the token that forms of a session contain, so that no other site can send them."""
        return hmac.new(self._secret, (session_id or _ANONYMOUS).encode(), "sha256").hexdigest()

    def is_form_token(self, session_id: str, given: str) -> bool:
        """Return True if a form contained the token of the session."""
        return hmac.compare_digest(self.form_token(session_id).encode(), given.encode("utf-8", "replace"))


def _hash(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "replace")).digest()
