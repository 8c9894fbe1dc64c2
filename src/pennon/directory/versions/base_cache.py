"""The manifests of versions that this client committed, for the appends that follow them."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pennon.directory.versions.record import VersionRecord
    from pennon.directory.versions.version_rows import ManagedTable

_TRUSTED_SECONDS = 0.5
_LARGEST_CACHE = 16 << 20


@dataclass(frozen=True)
class BaseManifest:
    """A finished version, and its manifest."""

    record: VersionRecord
    body: bytes


class BaseCache:
    """The latest manifests of tables, up to a total size. The least recently used one is dropped first."""

    def __init__(self, most: int = _LARGEST_CACHE) -> None:
        self._most = most
        self._size = 0
        self._lock = Lock()
        self._bases: OrderedDict[ManagedTable, BaseManifest] = OrderedDict()
        self._committed_at = -math.inf

    def is_recent(self) -> bool:
        """Return True if this client committed an append just now: the rows in memory were the latest ones then.

        So a commit on top of them is likely to succeed.
        """
        return time.monotonic() - self._committed_at < _TRUSTED_SECONDS

    def find(self, table: ManagedTable) -> BaseManifest | None:
        """Return what is stored for a table, or None."""
        with self._lock:
            return self._bases.get(table)

    def keep(self, table: ManagedTable, base: BaseManifest, committed_at: float) -> None:
        """Store the latest manifest of a table, instead of an earlier one.

        `committed_at` is a time by `time.monotonic` before its commit.
        """
        with self._lock:
            self._committed_at = max(self._committed_at, committed_at)
            before = self._bases.pop(table, None)
            self._bases[table] = base
            self._size += len(base.body) - (0 if before is None else len(before.body))
            while self._size > self._most:
                _, dropped = self._bases.popitem(last=False)
                self._size -= len(dropped.body)
