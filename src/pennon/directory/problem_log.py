"""Warnings about entries of a root that are skipped: each one once in a process, in the log."""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pennon.directory.problems import Problem

_log = logging.getLogger(__name__)
_MOST = 10_000
"""How many warnings are remembered; a root with more of them needs a look at its list of problems."""
_LONGEST = 300
_lock = Lock()
_warned: set[tuple[str, str, str]] = set()


def warn_once(problem: Problem, root: str) -> None:
    """Log a problem of a root unless that was done before."""
    key = (root, problem.entry, problem.reason)
    with _lock:
        if key in _warned or len(_warned) >= _MOST:
            return
        _warned.add(key)
    entry = problem.entry[:_LONGEST].encode("unicode_escape").decode()
    _log.warning("%s: skipped '%s': %s; %s", root, entry, problem.reason[:_LONGEST], problem.fix[:_LONGEST])
