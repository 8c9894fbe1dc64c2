"""Observers of the progress of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Observer:
    """Receives the progress of a run. This one ignores it; subclasses override what they show."""

    def planned(self, work: Sequence[str]) -> None:
        """Receive the names of all pieces of work, in order."""

    def begun(self, work: str) -> None:
        """Receive the name of a piece of work that begins."""

    def done(self, work: str, *, reused: bool) -> None:
        """Receive the name of a piece of work that is finished; `reused` if an earlier attempt finished it."""
