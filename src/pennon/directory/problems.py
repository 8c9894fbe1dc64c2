"""Warnings of entries of the root that cannot be used. They are skipped, kept and reported."""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pennon.results import Problem

_log = logging.getLogger(__name__)
_MAX_WARNINGS = 10_000
_MAX_CHARACTERS = 300
_lock = Lock()
_warned: set[tuple[str, str, str]] = set()


def warn_once(problem: Problem, root: str) -> None:
    """Log a problem of a root, once in each process. At most 10,000 problems are logged."""
    key = (root, problem.entry, problem.reason)
    with _lock:
        if key in _warned or len(_warned) >= _MAX_WARNINGS:
            return
        _warned.add(key)
    entry = problem.entry[:_MAX_CHARACTERS].encode("unicode_escape").decode()
    reason, fix = problem.reason[:_MAX_CHARACTERS], problem.fix[:_MAX_CHARACTERS]
    _log.warning("%s: skipped '%s': %s; %s", root, entry, reason, fix)
