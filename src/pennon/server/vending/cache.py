"""Credentials that are used again while they are valid for long enough."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from pennon.config import EXPIRY

if TYPE_CHECKING:
    from collections.abc import Callable

    Key = tuple[str, str, bool]
_MOST_KEPT = 10_000


class CredentialCache:
    """Keeps the credentials of each client and table. Threads share it."""

    def __init__(self, least_seconds: float) -> None:
        self._least_seconds = least_seconds
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, dict[str, str]] = OrderedDict()

    def find_or_make(self, key: Key, make: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Return kept credentials while they are valid for the least time, and then new ones."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and int(kept[EXPIRY]) / 1000 - time.time() > self._least_seconds:
            return dict(kept)
        made = make()
        with self._lock:
            self._kept[key] = made
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return dict(made)
