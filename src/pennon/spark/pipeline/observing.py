"""Who is told how far a run has come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Observer(Protocol):
    """Is told how far a run has come."""

    def planned(self, work: Sequence[str]) -> None:
        """Hear what there is to do, in order."""

    def begun(self, work: str) -> None:
        """Hear that a piece of work begins."""

    def done(self, work: str, *, reused: bool) -> None:
        """Hear that it is done, or was before."""


class Silent:
    """Listens and says nothing."""

    def planned(self, work: Sequence[str]) -> None:
        """Do nothing."""

    def begun(self, work: str) -> None:
        """Do nothing."""

    def done(self, work: str, *, reused: bool) -> None:
        """Do nothing."""
