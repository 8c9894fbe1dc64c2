"""What the catalog does in this process, counted for programs that export metrics, such as the server.

Counters belong to the process, not to a namespace. They only grow.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from threading import Lock


class Counter:
    """Counts events by one label. Thread-safe."""

    def __init__(self, name: str, description: str, *, label: str) -> None:
        self.name = name
        self.description = description
        self.label = label
        self._lock = Lock()
        self._values: dict[str, int] = {}

    def add(self, label: str) -> None:
        """Count an event."""
        with self._lock:
            self._values[label] = self._values.get(label, 0) + 1

    def values(self) -> dict[str, int]:
        """Return the number of events by label."""
        with self._lock:
            return dict(self._values)


class Distribution:
    """Counts values by their size. Thread-safe."""

    def __init__(self, name: str, description: str, *, bounds: tuple[float, ...]) -> None:
        self.name = name
        self.description = description
        self.bounds = bounds
        self._lock = Lock()
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        with self._lock:
            self._counts[bisect_left(self.bounds, value)] += 1
            self._sum += value

    def state(self) -> tuple[list[int], float]:
        """Return how many values are at most as large as each bound, and how many there are at all; and their sum."""
        with self._lock:
            return list(accumulate(self._counts)), self._sum


COMMITS = Counter("pennon_manifest_commits", "Attempts to commit to the manifest, by outcome.", label="outcome")
GROUP_SIZES = Distribution(
    "pennon_manifest_group_size",
    "Mutations that shared a commit to the manifest.",
    bounds=(1, 2, 4, 8, 16, 32, 64, 128, 256),
)
COMMIT_SECONDS = Distribution(
    "pennon_manifest_group_seconds",
    "Time of a group of mutations, from their first attempt to commit to the last.",
    bounds=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
MANIFEST_READS = Counter(
    "pennon_manifest_reads", "Requests for the latest manifest: hit if the version in memory is.", label="result"
)
OPEN_TABLES = Counter("pennon_table_cache_lookups", "Lookups of open tables in memory.", label="result")
UPKEEP_ROUNDS = Counter("pennon_manifest_upkeep_rounds", "Rounds of upkeep, by outcome.", label="outcome")

COUNTERS = (COMMITS, MANIFEST_READS, OPEN_TABLES, UPKEEP_ROUNDS)
DISTRIBUTIONS = (GROUP_SIZES, COMMIT_SECONDS)
HIT, MISS = "hit", "miss"
