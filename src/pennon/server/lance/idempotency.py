"""Answers to requests that clients send again, because they lost the first answer.

A client gives each change a key of its own, and sends the same key again with the same request. The first answer is
kept in memory for a time, and returned instead of a second change (docs/adr/0027). Creations are recognized without
this memory, too: see `own_creations.py`.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from starlette.responses import Response

from pennon.errors import InvalidInputError, ServiceUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = "idempotency-key"
KEPT_SECONDS = 24 * 3600.0
MOST_BYTES = 64 << 20
"""What all answers that are kept may take, with their keys."""
_LONGEST_KEY = 255
_ENTRY_BYTES = 1000
_BLOCK_BYTES = 1 << 20


@dataclass
class _Entry:
    """A request with a key, and its answer once there is one."""

    fingerprint: bytes
    expires: float
    answer: Response | None = None

    @property
    def size(self) -> int:
        return _ENTRY_BYTES + (0 if self.answer is None else len(self.answer.body))


class KeptAnswers:
    """Keeps the answers to requests with a key. Thread-safe."""

    def __init__(self, *, seconds: float = KEPT_SECONDS, most_bytes: int = MOST_BYTES) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._bytes = 0

    def answer_once(self, owner: str, key: str, fingerprint: bytes, handle: Callable[[], Response]) -> Response:
        """Return what `handle` answers, or what it answered before to the same request with this key.

        Nothing is kept of an error: the request may be sent again. Raises InvalidInputError if the key belongs to
        another request, ServiceUnavailableError if the first one is not answered yet.
        """
        if not key or len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable():
            raise InvalidInputError(f"An Idempotency-Key has 1 to {_LONGEST_KEY} printable ASCII characters")
        owned, entry = (owner, key), _Entry(fingerprint, time.monotonic() + self._seconds)
        with self._lock:
            self._forget_old()
            known = self._entries.setdefault(owned, entry)
            if known is entry:
                self._bytes += entry.size
        if known is not entry:
            return _repeat(known, key, fingerprint)
        try:
            answer = handle()
        except BaseException:
            with self._lock:
                self._forget(owned)
            raise
        with self._lock:
            self._bytes += len(answer.body)
            entry.answer = answer
        return answer

    def _forget_old(self) -> None:
        """Forget what is expired, and the oldest answers if all take too much memory."""
        now = time.monotonic()
        for _ in range(len(self._entries)):
            owned, entry = next(iter(self._entries.items()))
            if entry.expires > now and self._bytes <= self._most_bytes:
                return
            if entry.answer is None:
                self._entries.move_to_end(owned)
            else:
                self._forget(owned)

    def _forget(self, owned: tuple[str, str]) -> None:
        self._bytes -= self._entries.pop(owned).size


def _repeat(known: _Entry, key: str, fingerprint: bytes) -> Response:
    if known.fingerprint != fingerprint:
        raise InvalidInputError(f"The Idempotency-Key {key!r} was used for another request")
    if known.answer is None:
        raise ServiceUnavailableError(f"The request with the Idempotency-Key {key!r} is not finished yet; try again")
    first = known.answer
    return Response(first.body, first.status_code, dict(first.headers))


def fingerprint(parts: list[str], body: dict[str, Any] | bytes | IO[bytes]) -> bytes:
    """Return what is the same for the same request only."""
    digest = hashlib.sha256(json.dumps(parts).encode())
    if isinstance(body, dict):
        digest.update(json.dumps(body, sort_keys=True).encode())
    elif isinstance(body, bytes):
        digest.update(body)
    else:
        body.seek(0)
        while block := body.read(_BLOCK_BYTES):
            digest.update(block)
        body.seek(0)
    return digest.digest()


def digest_request(owner: str, key: str, fingerprint: bytes) -> str:
    """Return a digest of a request, its key and who sent it. It says nothing about any of them."""
    return hashlib.sha256(json.dumps([owner, key]).encode() + fingerprint).hexdigest()
