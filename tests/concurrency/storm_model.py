"""The possible results of a storm: is there an order of the calls that explains the final state?

The order has to agree with time: a call that ended before another one began comes first. Each call that was
acknowledged must have been possible at its turn. A call of a killed process has its effect or not.

A name that only one process at a time uses has a single order, so refusals are checked too. On a name that all use,
they are not: a refusal may be caused by a call that was undone later.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.concurrency.storm import Call

UNKNOWN = ""
BUSY = 14
INTERNAL = 18
LARGEST_SEARCH = 1_000_000
"""The number of steps after which a state counts as unexplained."""
SHOWN = 12
"""The number of calls that a failure shows."""
UNCERTAIN = {None, BUSY, INTERNAL}
"""Outcomes after which something may have changed."""
REFUSALS = {
    "create": {5, 14},
    "write": {14},
    "drop": {4, 14},
    "undrop": {4, 5, 14},
    "purge": {4, 13, 14, 19},
    "status": set(),
}
"""Possible outcomes on a name that others use too.

A purge keeps a directory without versions (19). For a moment, an overwrite that lost leaves such a directory of data
files behind a purge, and another process can drop it.
"""


@dataclass(frozen=True)
class Generation:
    """A dropped table that can be restored."""

    token: str
    since: float = 0.0
    """The end of the call that dropped it."""
    place: str = UNKNOWN
    """Its location, if a response named it."""


@dataclass(frozen=True)
class State:
    """The state of one name. Contents are named after the write that created them."""

    live: str | None = None
    place: str = UNKNOWN
    """The location of the live table, if a response named it."""
    dropped: tuple[Generation, ...] = ()
    """Sorted, the latest last."""
    doomed: bool = False
    """True if there are other generations that a killed purge has begun to delete."""

    def __str__(self) -> str:
        doomed = " and doomed ones" if self.doomed else ""
        return f"live {self.live}, dropped {self.tokens()}{doomed}"

    def tokens(self) -> list[str]:
        """Return the dropped contents in a fixed order."""
        return sorted(generation.token for generation in self.dropped)


@dataclass(frozen=True)
class Rules:
    """The behaviour of names in one place."""

    one_lineage: bool
    """A new table over a dropped one is its next version, so the dropped one no longer exists."""
    alone: bool
    """Only one process at a time uses the name."""

    def after(self, state: State, call: Call) -> Iterator[State]:
        """Iterate over the states that a call may leave; none if its outcome is impossible."""
        if call.killed:
            yield state
            yield from self._done(state, call)
            if call.what == "purge" and not self.one_lineage:
                yield from self._purged(state, call, doomed=True)
        elif call.acknowledged:
            yield from self._done(state, call)
        elif not self.alone:
            yield state
            if call.what == "write":
                # The table was dropped after the rows were written, so they belong to the dropped table.
                yield from self._done(state, call)
            if call.what == "purge" and not self.one_lineage:
                # Another client removed one of several generations first; the others are gone.
                yield from self._purged(state, call, doomed=False)
        elif call.code == self._refusal(state, call.what):
            yield state

    def _done(self, state: State, call: Call) -> Iterator[State]:
        live, dropped = state.live, state.dropped
        place = call.told[0] if call.told and call.what != "purge" else UNKNOWN
        if call.what == "write" or (call.what == "create" and live is None):
            if live is None or _agree(place, state.place):
                yield replace(state, live=call.token, place=place, dropped=() if self.one_lineage else dropped)
        elif call.what == "drop" and live is not None:
            if _agree(place, state.place):
                gone = Generation(live, call.ended, place or state.place)
                yield replace(state, live=None, place=UNKNOWN, dropped=(*dropped, gone))
        elif call.what == "undrop" and live is None and dropped:
            # The order of concurrent drops is unknown.
            for chosen in [len(dropped) - 1] if self.alone else range(len(dropped)):
                if _agree(place, dropped[chosen].place):
                    rest = dropped[:chosen] + dropped[chosen + 1 :]
                    yield replace(state, live=dropped[chosen].token, place=dropped[chosen].place, dropped=rest)
        elif call.what == "purge":
            yield from self._purged(state, call, doomed=False)
        elif call.what == "status" and (not self.alone or call.told == [_status(state)] or call.killed):
            yield state

    def _purged(self, state: State, call: Call, *, doomed: bool) -> Iterator[State]:
        """Iterate over the states that a purge may leave: nothing, or generations that were dropped during it."""
        if self.alone or self.one_lineage:
            if state.live is None and (state.dropped or state.doomed):
                yield State(doomed=doomed)
            return
        # A client that finds a purge of such a generation continues it, so another client may have completed it.
        if call.told:
            kept = tuple(generation for generation in state.dropped if generation.place not in {UNKNOWN, *call.told})
            yield replace(state, dropped=kept, doomed=doomed)
            return
        recent = [generation for generation in state.dropped if generation.since > call.begun]
        for count in range(len(recent) + 1):
            for rest in itertools.combinations(recent, count):
                yield replace(state, dropped=rest, doomed=doomed)

    def _refusal(self, state: State, what: str) -> int | None:
        """Return the code with which a call is refused, or None if it is not."""
        if what == "create":
            return 5 if state.live is not None else None
        if what == "drop":
            return 4 if state.live is None else None
        if what == "purge":
            return 13 if state.live is not None else None if state.dropped or state.doomed else 4
        if what == "undrop" and not state.dropped:
            return 14 if state.doomed else 4
        return 5 if what == "undrop" and state.live is not None else None


def _agree(one: str, other: str) -> bool:
    return UNKNOWN in {one, other} or one == other


def _status(state: State) -> str:
    if state.live is not None:
        return "Exists"
    return "SoftDeleted" if state.dropped or state.doomed else "NotFound"


def find_fault(calls: Sequence[Call], rules: Rules, seen: State) -> str | None:
    """Return what is wrong with the final state of a name after all these calls, or None if it is possible."""
    strange = [call for call in calls if not call.killed and call.code not in {None, *REFUSALS[call.what]}]
    told = [f"unexpected answer: {call}" for call in strange]
    calls = sorted(_effective(calls, rules), key=lambda call: call.begun)
    ends, stuck = _ends(calls, rules, seen)
    if not ends:
        told += ["no order explains the answers; one that goes far", *_shown(calls, *stuck)]
    elif not any(_same(state, seen) for state in ends):
        told += [f"there is {seen}, but possible is only", *(f"  {text}" for text in sorted(map(str, ends)))]
        told += ["after", *(f"  {call}" for call in calls[-SHOWN:])]
    return "\n".join(told) or None


def _shown(calls: Sequence[Call], done: int, state: State) -> list[str]:
    past = [call for index, call in enumerate(calls) if done >> index & 1]
    rest = [call for index, call in enumerate(calls) if not done >> index & 1]
    return [*(f"  {call}" for call in past[-SHOWN:]), f"leaves {state} before", *(f"  {call}" for call in rest[:SHOWN])]


def _effective(calls: Iterable[Call], rules: Rules) -> list[Call]:
    """Return the calls that matter. Those of killed processes end when they were settled."""
    calls = list(calls)
    if not rules.alone:
        calls = [call for call in calls if call.what != "status" and (call.killed or call.code in UNCERTAIN)]
    return [replace(call, ended=_settled(call, calls)) if call.killed and rules.one_lineage else call for call in calls]


def _settled(call: Call, calls: Sequence[Call]) -> float:
    """Return when a killed call was completed or undone: at the end of the next call that had an effect."""
    later = [other.ended for other in calls if other.begun > call.ended and not other.killed and other.code != BUSY]
    return min(later, default=math.inf)


def _ends(calls: Sequence[Call], rules: Rules, seen: State) -> tuple[set[State], tuple[int, State]]:
    """Return the final states of all orders that agree with time, until one is the state that was seen.

    Also returns the longest order, as a bit set of its calls and the state that it leaves.
    """
    everything = (1 << len(calls)) - 1
    found: set[State] = set()
    todo = [(0, State())]
    known = set(todo)
    longest = todo[0]
    while todo and len(known) < LARGEST_SEARCH:
        done, state = todo.pop()
        longest = max(longest, (done, state), key=lambda step: step[0].bit_count())
        if done == everything:
            found.add(state)
            if _same(state, seen):
                break
            continue
        steps = [step for step in _steps(calls, rules, done, state) if step not in known]
        known.update(steps)
        todo.extend(reversed(steps))  # calls that began first are tried first
    return found, longest


def _steps(calls: Sequence[Call], rules: Rules, done: int, state: State) -> Iterator[tuple[int, State]]:
    """Iterate over the calls that may come next, with the state after each."""
    first_end = math.inf
    # All calls before the first pending one are done.
    for index in range((~done & (done + 1)).bit_length() - 1, len(calls)):
        if done >> index & 1:
            continue
        if calls[index].begun > first_end:
            return
        first_end = min(first_end, calls[index].ended)
        for after in rules.after(state, calls[index]):
            yield done | 1 << index, after


def _same(state: State, seen: State) -> bool:
    return state.live == seen.live and state.tokens() == seen.tokens()
