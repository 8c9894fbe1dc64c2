"""What may have become of a table after a storm: is there an order of the calls that explains what is there?

The order has to agree with time: a call that ended before another one began comes first. Each call that was
acknowledged must have been possible at its turn. A call of a killed process has its effect or not.

A name that only one process at a time uses has one order alone, so refusals are checked too. On a name that all use,
a refusal says nothing: it may be due to somebody whose work was undone later.
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
"""How many steps are tried before it counts as not explained."""
SHOWN = 12
"""How many calls a failure shows."""
UNCERTAIN = {None, BUSY, INTERNAL}
"""Answers after which something may have changed."""
REFUSALS = {
    "create": {5, 14},
    "write": {14},
    "drop": {4, 14},
    "undrop": {4, 5, 14},
    "purge": {4, 13, 14},
    "status": set(),
}
"""What may be told on a name that others use too."""


@dataclass(frozen=True)
class Generation:
    """A dropped table that can be restored."""

    token: str
    since: float = 0.0
    """When the call that dropped it had ended."""
    place: str = UNKNOWN
    """Its location, if an answer named it."""


@dataclass(frozen=True)
class State:
    """What is there under one name; contents are named by the write that made them."""

    live: str | None = None
    place: str = UNKNOWN
    """The location of what is live, if an answer named it."""
    dropped: tuple[Generation, ...] = ()
    """The latest last."""
    doomed: bool = False
    """Whether there are generations besides that a killed purge has begun to delete."""

    def __str__(self) -> str:
        doomed = " and doomed ones" if self.doomed else ""
        return f"live {self.live}, dropped {self.tokens()}{doomed}"

    def tokens(self) -> list[str]:
        """Name the dropped contents, in an order that means nothing."""
        return sorted(generation.token for generation in self.dropped)


@dataclass(frozen=True)
class Rules:
    """How names behave in one place."""

    one_lineage: bool
    """A new table over a dropped one is its next version, so the dropped one is gone."""
    alone: bool
    """Only one process at a time uses the name."""

    def after(self, state: State, call: Call) -> Iterator[State]:
        """Give what a call may leave behind; nothing if what was told cannot be."""
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
                # The rows were written when somebody dropped the table: they are the dropped table's.
                yield from self._done(state, call)
            if call.what == "purge" and not self.one_lineage:
                # Somebody took one of several generations away meanwhile; the others are gone.
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
            # Who was dropped last is not certain where several do so at once.
            for chosen in [len(dropped) - 1] if self.alone else range(len(dropped)):
                if _agree(place, dropped[chosen].place):
                    rest = dropped[:chosen] + dropped[chosen + 1 :]
                    yield replace(state, live=dropped[chosen].token, place=dropped[chosen].place, dropped=rest)
        elif call.what == "purge":
            yield from self._purged(state, call, doomed=False)
        elif call.what == "status" and (not self.alone or call.told == [_status(state)] or call.killed):
            yield state

    def _purged(self, state: State, call: Call, *, doomed: bool) -> Iterator[State]:
        """Give what a purge leaves: nothing, or, where there can be several generations, those dropped meanwhile."""
        if self.alone or self.one_lineage:
            if state.live is None and (state.dropped or state.doomed):
                yield State(doomed=doomed)
            return
        # Whoever meets a purge of such a generation joins in, so it may be somebody else's work already.
        if call.told:
            kept = tuple(generation for generation in state.dropped if generation.place not in {UNKNOWN, *call.told})
            yield replace(state, dropped=kept, doomed=doomed)
            return
        recent = [generation for generation in state.dropped if generation.since > call.begun]
        for count in range(len(recent) + 1):
            for rest in itertools.combinations(recent, count):
                yield replace(state, dropped=rest, doomed=doomed)

    def _refusal(self, state: State, what: str) -> int | None:
        """Give the code with which a call is refused; None if it is not."""
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


def fault(calls: Sequence[Call], rules: Rules, seen: State) -> str | None:
    """Say what is wrong with what was seen at the end of all these calls on one name; None if it can be."""
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
    """Leave out calls that tell nothing, and give those of killed processes the time until which they may count."""
    calls = list(calls)
    if not rules.alone:
        calls = [call for call in calls if call.what != "status" and (call.killed or call.code in UNCERTAIN)]
    return [replace(call, ended=_settled(call, calls)) if call.killed and rules.one_lineage else call for call in calls]


def _settled(call: Call, calls: Sequence[Call]) -> float:
    """Tell when whatever a killed call left half done was completed or undone: by the next that was not in vain."""
    later = [other.ended for other in calls if other.begun > call.ended and not other.killed and other.code != BUSY]
    return min(later, default=math.inf)


def _ends(calls: Sequence[Call], rules: Rules, seen: State) -> tuple[set[State], tuple[int, State]]:
    """Search orders that agree with time for their states at the end, until one of them is what was seen.

    Gives the longest order as well, as the set of its calls, in bits, and the state that it leaves.
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
        todo.extend(reversed(steps))  # what was begun first is tried first
    return found, longest


def _steps(calls: Sequence[Call], rules: Rules, done: int, state: State) -> Iterator[tuple[int, State]]:
    """Take each call that may come next."""
    first_end = math.inf
    # Those before the first that is not done are done.
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
