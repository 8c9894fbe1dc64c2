"""The results of a race: the outcome of each member, round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.concurrency.workers import Outcome

EXISTS = 5
MISSING = 4
CONFLICT = 14


def by_name(names: list[str], results: list[list[Outcome]]) -> Iterator[tuple[str, tuple[Outcome, ...]]]:
    """Pair each name with its outcomes, by the index of the member."""
    return zip(names, zip(*results, strict=True), strict=True)


def winner(outcomes: tuple[Outcome, ...], *, losers_get: set[int]) -> int:
    """Return the only member that succeeded. All others must have one of the codes."""
    winners = [index for index, outcome in enumerate(outcomes) if outcome.acknowledged]
    assert len(winners) == 1, f"{len(winners)} winners: {outcomes}"
    expect_codes(outcomes, losers_get)
    return winners[0]


def expect_codes(outcomes: tuple[Outcome, ...] | list[Outcome], allowed: set[int]) -> None:
    """Check that every error has one of the codes."""
    strange = [outcome for outcome in outcomes if not outcome.acknowledged and outcome.code not in allowed]
    assert not strange, f"expected only {sorted(allowed)}: {strange}"


def all_acknowledged(results: list[list[Outcome]]) -> None:
    """Check that every call succeeded."""
    refused = [outcome for outcomes in results for outcome in outcomes if not outcome.acknowledged]
    assert not refused, f"{len(refused)} refused, for example {refused[:3]}"
