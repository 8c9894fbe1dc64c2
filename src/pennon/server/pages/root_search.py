"""A search of the whole root for what cannot be used, in the background: it may read a file for each dropped table.

One search runs at a time, and its result is kept until the next one.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from pennon import background
from pennon.directory.inspection import inspect
from pennon.directory.problem_search import find_problems
from pennon.server.lance.errors import INTERNAL, describe_error, status_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from pennon.directory.catalog import Catalog
    from pennon.identifiers import Identifier
    from pennon.results import Problem

T = TypeVar("T")
MOST_KEPT = 200
"""How many entries of each kind are kept."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Findings(Generic[T]):
    """Entries of one kind: how many there are, and the first of them."""

    count: int
    first: tuple[T, ...]

    @classmethod
    def of(cls, found: Collection[T]) -> Findings[T]:
        """Return the findings without those that are not kept."""
        return cls(len(found), tuple(islice(found, MOST_KEPT)))


@dataclass(frozen=True)
class RootReport:
    """What a search has found."""

    problems: Findings[Problem]
    without_directory: Findings[tuple[Identifier, str]]
    """Tables whose directory does not exist, with its location."""
    without_row: Findings[str]
    """Directories that no client finds."""


@dataclass(frozen=True)
class SearchState:
    """The search that is running, and the end of the one before."""

    running_since: datetime | None = None
    ended: datetime | None = None
    seconds: float = 0
    report: RootReport | None = None
    """None if no search has ended, or if the last one failed."""
    error: str = ""


class RootSearch:
    """The searches of one catalog. Threads share it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._state = SearchState()

    @property
    def state(self) -> SearchState:
        """What is known now."""
        with self._lock:
            return self._state

    def start(self) -> None:
        """Start a search, unless one is running."""
        with self._lock:
            if self._state.running_since is not None:
                return
            before = self._state
            self._state = SearchState(
                datetime.now(timezone.utc), before.ended, before.seconds, before.report, before.error
            )
        if background.start(self._run, name="pennon-root-search") is None:
            self._end(SearchState(error="The server is stopping"))

    def _run(self) -> None:
        started = time.monotonic()
        report, error = None, ""
        try:
            report = self._search()
        except Exception as failure:  # noqa: BLE001 - the page shows it
            code, error = describe_error(failure)
            if status_of(code) >= INTERNAL:
                _log.error("The search of the root failed: %s", failure, exc_info=failure)
        self._end(SearchState(None, datetime.now(timezone.utc), time.monotonic() - started, report, error))

    def _search(self) -> RootReport:
        problems = find_problems(self._catalog)
        differences = inspect(self._catalog)
        return RootReport(
            Findings.of(problems),
            Findings.of(sorted(differences.without_directory.items())),
            Findings.of(differences.without_row),
        )

    def _end(self, state: SearchState) -> None:
        with self._lock:
            self._state = state
