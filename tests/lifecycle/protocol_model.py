"""The protocol of the marker `<name>.deleted` on an object store, small enough to try every interleaving.

One root table was dropped. Actors purge it, restore it or create it anew, one request at a time; any of them may stop
for ever or for a while at any point, and a lease may run out at any time. A state is explored once. `off` switches
rules off, to show that each is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OLD = "old"
"""The contents of the table that was dropped."""


@dataclass(frozen=True)
class Marker:
    """What the marker says; the number makes each write a different one, as a nonce does."""

    state: str
    number: int
    prior: bool = False
    """Whether a claim was taken on the dropped table."""
    creating: bool = False
    burn: bool = False
    version: int = 0
    over: bool = False


@dataclass(frozen=True)
class Actor:
    """Where an actor is, and what it remembers."""

    kind: str
    at: str = "start"
    number: int = 0
    version: int = 0
    base: int = 0
    prior: bool = False
    seen: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class World:
    """The store, the actors, and what was acknowledged."""

    marker: Marker | None
    versions: tuple[tuple[int, str], ...]
    actors: tuple[Actor, ...]
    acknowledged: tuple[str, ...] = ()
    written: int = 1

    @property
    def latest(self) -> tuple[int, str]:
        return max(self.versions, default=(0, ""))


def start(*kinds: str) -> World:
    return World(Marker("deleted", 0), ((1, OLD),), tuple(Actor(kind) for kind in kinds))


def explore(world: World, off: frozenset[str] = frozenset()) -> tuple[int, list[str]]:
    """Visit every state that can be reached; gives their number and the faults that were found."""
    seen = {world}
    waiting = [world]
    faults: set[str] = set()
    while waiting:
        current = waiting.pop()
        faults.update(_faults(current))
        for following in _steps(current, off):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return len(seen), sorted(faults)


def _faults(world: World) -> Iterator[str]:
    """Hold a state against what was promised."""
    done = world.acknowledged
    shown = [what for what in done if what != "purge"]
    if len([what for what in shown if what.startswith("undrop")]) > 1:
        yield "a table was restored twice"
    if not shown:
        return
    last = shown[-1]
    expected = OLD if last.startswith("undrop") else last
    if "purge" in done[done.index(last) :]:
        yield "a table that was shown again was purged"
    if world.latest[1] != expected:
        yield f"after {'an undrop' if expected == OLD else 'a creation'} the table holds {world.latest[1] or 'nothing'}"
    if world.marker is not None and world.marker.state == "deleted":
        yield "a table that was acknowledged is hidden"


def _steps(world: World, off: frozenset[str]) -> Iterator[World]:
    if world.marker is not None and world.marker.state != "deleted" and not world.marker.over:
        yield replace(world, marker=replace(world.marker, over=True))
    for index, actor in enumerate(world.actors):
        for changed, moved in STEPS[actor.kind](world, actor, off, index):
            yield replace(changed, actors=(*changed.actors[:index], moved, *changed.actors[index + 1 :]))


Step = tuple[World, Actor]


def _write(world: World, marker: Marker) -> World:
    return replace(world, marker=replace(marker, number=world.written), written=world.written + 1)


def _settle(world: World, actor: Actor) -> Iterator[Step]:
    """Bring a marker whose lease is over to rest, as one request of whoever meets it."""
    marker = world.marker
    if marker is None or not marker.over:
        return
    if marker.state == "purging":
        taken = _write(world, replace(marker, over=False))
        yield taken, replace(actor, at="settle-list", number=world.written)
    elif marker.prior:
        back = Marker("deleted", 0, burn=marker.burn or marker.creating, version=marker.version)
        yield _write(world, back), actor
    else:
        # A creation on a free name: kept if it was committed.
        yield replace(world, marker=None), actor


def _deleting(world: World, actor: Actor, off: frozenset[str], done: str) -> Iterator[Step]:
    """List, make sure of the claim, delete one by one, list again, remove the marker."""
    at = actor.at.rpartition("-")[2]
    stage = actor.at.removesuffix(at)
    if at == "list":
        if world.versions:
            yield world, replace(actor, at=f"{stage}sure", seen=world.versions)
        else:
            yield world, replace(actor, at=f"{stage}remove", seen=())
    elif at == "sure":
        mine = world.marker is not None and world.marker.number == actor.number
        yield world, replace(actor, at=f"{stage}delete" if mine or "check" in off else "lost")
    elif at == "delete":
        if not actor.seen:
            yield world, replace(actor, at=f"{stage}list")
            return
        (number, contents), *rest = actor.seen
        there = dict(world.versions).get(number)
        if there is not None and there != contents and "fence" not in off:
            yield world, replace(actor, at="lost")
            return
        left = tuple(entry for entry in world.versions if entry[0] != number)
        yield replace(world, versions=left), replace(actor, seen=tuple(rest))
    elif at == "remove":
        if world.marker is not None and world.marker.number == actor.number:
            acknowledged = (*world.acknowledged, "purge") if done == "purge" else world.acknowledged
            yield (
                replace(world, marker=None, acknowledged=acknowledged),
                replace(actor, at="end" if done == "purge" else "start", number=0),
            )
        else:
            yield world, replace(actor, at="lost")


def _purger(world: World, actor: Actor, off: frozenset[str], _: int) -> Iterator[Step]:
    marker = world.marker
    if actor.at == "start":
        if marker is None:
            yield world, replace(actor, at="lost")
        elif marker.state == "deleted":
            yield _write(world, Marker("purging", 0)), replace(actor, at="purge-list", number=world.written)
        else:
            yield from _settle(world, actor)
    elif actor.at.startswith(("purge-", "settle-")):
        yield from _deleting(world, actor, off, "purge" if actor.at.startswith("purge-") else "settle")


def _creator(world: World, actor: Actor, off: frozenset[str], index: int) -> Iterator[Step]:  # noqa: C901, PLR0912 - a branch per request
    marker = world.marker
    mine = marker is not None and marker.number == actor.number
    if actor.at == "start":
        if marker is None:
            yield _write(world, Marker("reviving", 0, creating=True)), replace(actor, at="look", number=world.written)
        elif marker.state == "deleted":
            claim = Marker("reviving", 0, prior=True, creating=True, burn=marker.burn, version=marker.version)
            yield _write(world, claim), replace(actor, at="base", number=world.written, prior=True)
        else:
            yield from _settle(world, actor)
    elif actor.at.startswith("settle-"):
        yield from _deleting(world, actor, off, "settle")
    elif actor.at == "look":
        yield world, replace(actor, at="refuse" if world.versions else "commit", version=0)
    elif actor.at == "refuse":
        yield replace(world, marker=None) if mine else world, replace(actor, at="lost")
    elif actor.at == "base":
        base = world.latest[0]
        if marker is None or not mine:
            yield world, replace(actor, at="lost")
        else:
            kept = marker.version if marker.burn and marker.version else base
            yield (
                _write(world, replace(marker, version=kept)),
                replace(actor, at="commit", number=world.written, version=base),
            )
    elif actor.at == "commit":
        base = world.latest[0] if "strict" in off else actor.version
        if base + 1 in dict(world.versions) or (base and base not in dict(world.versions)):
            yield world, replace(actor, at="lost")
        else:
            made = (*world.versions, (base + 1, f"new{index}"))
            yield replace(world, versions=tuple(sorted(made))), replace(actor, at="show")
    elif actor.at == "show":
        told = (*world.acknowledged, f"new{index}")
        if mine:
            yield replace(world, marker=None, acknowledged=told), replace(actor, at="end")
        else:
            yield world, replace(actor, at="lost")


def _undropper(world: World, actor: Actor, off: frozenset[str], index: int) -> Iterator[Step]:  # noqa: C901, PLR0912 - a branch per request
    marker = world.marker
    mine = marker is not None and marker.number == actor.number
    if actor.at == "start":
        if marker is None:
            yield world, replace(actor, at="lost")
        elif marker.state == "deleted":
            claim = Marker("reviving", 0, prior=True, burn=marker.burn, version=marker.version)
            yield (
                _write(world, claim),
                replace(
                    actor,
                    at="restore" if marker.burn and marker.version and "burn" not in off else "show",
                    number=world.written,
                    version=marker.version,
                ),
            )
        else:
            yield from _settle(world, actor)
    elif actor.at.startswith("settle-"):
        yield from _deleting(world, actor, off, "settle")
    elif actor.at == "restore":
        if marker is None or not mine:
            yield world, replace(actor, at="lost")
        else:
            sure = _write(world, marker)
            yield sure, replace(actor, at="commit", number=world.written, base=world.latest[0])
    elif actor.at == "commit":
        base = world.latest[0] if "strict" in off else actor.base
        if base + 1 in dict(world.versions):
            yield world, replace(actor, at="lost")
        else:
            made = (*world.versions, (base + 1, dict(world.versions).get(actor.version, "")))
            yield replace(world, versions=tuple(sorted(made))), replace(actor, at="show")
    elif actor.at == "show":
        told = (*world.acknowledged, f"undrop{index}")
        if mine:
            yield replace(world, marker=None, acknowledged=told), replace(actor, at="end")
        else:
            yield world, replace(actor, at="lost")


STEPS: dict[str, Callable[[World, Actor, frozenset[str], int], Iterator[Step]]] = {
    "purge": _purger,
    "create": _creator,
    "undrop": _undropper,
}
