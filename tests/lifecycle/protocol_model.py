"""The protocol of the marker `<name>.deleted` on an object store, small enough to try every interleaving.

There is one root table. Actors drop, purge, restore, create, append to it and set it aside, one request to the store
at a time. Any of them may stop for ever (it never moves again) or for a while (others move first) at any point, and a
lease may run out at any time. Each state is visited once; `explore` does so, and holds every state against the
promises.

What is there to be changed is the store: the marker, the versions, the data files, and the marker for other clients
inside of the directory. What is promised is kept beside it, as `Promise`, and changes where a call takes effect.

Each step of an actor is one request of the real code, named in the docstring of its function. Requests that change
nothing and whose answer is asked for again at the next conditional write are put together with the one that follows.
A marker is not numbered: it carries the set of the actors that know its e-tag, so that states which differ in nothing
but old nonces are one.

`off` switches rules off by name, to show that each is needed. The names are in `RULES`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RULES = {
    "guard": "every step of the marker is a compare-and-swap",
    "A": "every creation claims the marker, also on a free name",
    "B": "a purge reads the marker again after its listing",
    "C": "names that come again are deleted on the condition that they are what was listed",
    "D": "the version to build on is fixed at the claim, and the commit takes exactly the next one",
    "E": "restoring after a dead creation burns the version that it would take",
    "G": "a dead claim on a free name goes back to free, not to dropped",
    "H": "nothing is written into the directory without a claim",
    "settle": "whoever meets a claim whose lease is over brings it to rest",
    "look": "a drop looks again under its marker whether there is a table",
    "empty": "a restoration looks under its claim whether there is a table",
    "own": "a creation on a free name counts only if the marker that it removes is its own",
    "leftovers": "a dead creation on a free name is purged, or kept if it has a version, and nothing in between",
    "inside": "the marker inside of the directory hides nothing if a drop left it there",
    "deregistered": "and it does not make the table a deregistered one when that is dropped again",
    "appended": "restoring after a dead creation returns to the latest version that is not that creation's",
    "same": "a table is set aside only if nothing was written to it since it was copied",
    "renew": "a copy counts only if the claim stood all the while that it was made",
    "intact": "the copy of a table that could not be set aside is deleted only if that table is still dropped",
}

OLD = "o"
"""The data file of the table that is there at the beginning. Contents are data files: `o2` is `o` and what actor 2
appended, `1` is what actor 1 created."""

LIVE, DROPPED, PURGED, FREE = "live", "dropped", "purged", "free"
"""What may be said of the table. It is purged from the claim of a purge on: nobody can restore it then."""
_KEPT = {LIVE, DROPPED}
Version = tuple[int, str]


class Marker(NamedTuple):
    """What the marker beside the directory says."""

    state: str
    creating: bool = False
    """Whether the owner of a claim creates; else it restores."""
    prior: bool = False
    """Whether a claim was taken on a dropped table; the next three are then that table's."""
    burn: bool = False
    version: int = 0
    deregistered: bool = False
    drop: int = 0
    """The deletion id: of a dropped table, or of the one that a claim was taken on."""
    over: bool = False
    known: int = 0
    """The actors that know its e-tag, one bit for each."""


class Actor(NamedTuple):
    """Where an actor is, and what it remembers."""

    kind: str
    at: str = "start"
    base: Version = (0, "")
    """The version that it builds on."""
    contents: str = ""
    """What it is to commit; of a purge, the files that were there when it claimed them."""
    seen: tuple[Version, ...] = ()
    files: str = ""


class Promise(NamedTuple):
    """What has been promised about the table; `contents` is what shows, or what a restoration brings back."""

    life: str
    contents: str = ""


class World(NamedTuple):
    """The store, the actors, and what was promised."""

    marker: Marker | None
    versions: tuple[Version, ...]
    files: str
    """The data files."""
    inside: str
    """The marker in the directory for clients that know no other: of a drop, or of a deregistration."""
    actors: tuple[Actor, ...]
    promise: Promise
    aside: frozenset[tuple[int, str]] = frozenset()
    """Copies that were made of the table, each with what a restoration of it shows, by the number of their actor."""
    owed: frozenset[int] = frozenset()
    """Those of them that are all there is of a dropped table."""
    stray: bool = False
    """Whether a writer committed on a version that was purged since, which nothing in the protocol can prevent."""
    fault: str = ""

    @property
    def latest(self) -> Version:
        return self.versions[-1] if self.versions else (0, "")

    @property
    def has_files(self) -> bool:
        return bool(self.versions or self.files or self.inside)

    def is_deregistered(self, off: Off) -> bool:
        """Tell what a look makes of the marker inside (`listing._directory`)."""
        return self.inside == "deregistered" or ("inside" in off and bool(self.inside))

    def shows_files(self, off: Off) -> bool:
        """Tell whether a look finds anything but what a drop left."""
        return bool(self.versions or self.files) or self.is_deregistered(off)


class Found(NamedTuple):
    """What an exploration found."""

    states: int
    faults: list[str]
    strays: int
    trace: list[str]
    """The steps that lead to the first fault."""


Off = frozenset[str]
Step = tuple[World, Actor]
NOTHING_OFF: Off = frozenset()


def start(life: str, *kinds: str) -> World:
    """Set up a world whose table is live, dropped, or not there. Who appends to a dropped table had it open before."""
    there = () if life == FREE else ((1, OLD),)
    actors = tuple(
        Actor(kind, "write", there[0]) if kind == "append" and life == DROPPED else Actor(kind) for kind in kinds
    )
    marker = Marker("deleted") if life == DROPPED else None
    contents = "" if life == FREE else OLD
    return World(marker, there, contents, "drop" if life == DROPPED else "", actors, Promise(life, contents))


def explore(world: World, off: Off = NOTHING_OFF, until: str = "") -> Found:
    """Visit every state that can be reached, or those up to the first that has the fault `until`."""
    came_from: dict[World, World | None] = {world: None}
    waiting = deque([world])
    faults: dict[str, World] = {}
    strays = 0
    while waiting and until not in faults:
        current = waiting.popleft()
        for fault in _faults(current, off):
            faults.setdefault(fault, current)
        if current.stray:
            strays += 1
        if current.fault or current.stray:
            continue
        for following in steps(current, off):
            if following not in came_from:
                came_from[following] = current
                waiting.append(following)
    first = faults.get(until) or next(iter(faults.values()), None)
    return Found(len(came_from), sorted(faults), strays, [] if first is None else _trace(came_from, first))


def _trace(came_from: dict[World, World | None], world: World) -> list[str]:
    """Tell how a state came about: who moved, to where, and what the store held then."""
    told = []
    before = came_from[world]
    while before is not None:
        moved = [
            f"{index} {now.kind}: {then.at} -> {now.at}"
            for index, (then, now) in enumerate(zip(before.actors, world.actors, strict=True))
            if then != now
        ]
        who = ", ".join(moved) or "the lease runs out"
        told.append(f"{who}; {world.marker}, {world.versions}, files {world.files!r}, inside {world.inside}")
        world, before = before, came_from[before]
    return told[::-1]


# What is promised


def _faults(world: World, off: Off) -> Iterator[str]:
    """Hold a state against what was promised."""
    if world.fault:
        yield world.fault
    if world.stray:
        return
    marker, (life, contents) = world.marker, world.promise
    whole = world.versions and all(file in world.files for file in contents)
    if life in _KEPT and not whole:
        yield f"files of a {life} table are gone"
    if life == DROPPED and marker is None:
        yield "a dropped table shows"
    if life == LIVE:
        # A creation on a name that is taken hides the table while it finds that out.
        if marker is not None and (marker.state != "reviving" or marker.prior):
            yield "a live table is hidden"
        if marker is None and world.is_deregistered(off):
            yield "a live table is hidden by the marker inside of it"
        if world.latest[1] != contents:
            yield "a live table shows something else"
    if not _has_way_out(world, off):
        yield "there is no way out without an operator"


_ways_out: dict[tuple[World, Off], bool] = {}


def _has_way_out(world: World, off: Off) -> bool:
    """Tell whether somebody who comes alone, when the lease is over, brings the marker to rest."""
    marker = world.marker
    if marker is None or marker.state == "deleted":
        return True
    left = world._replace(marker=marker._replace(over=True, known=0), promise=Promise(FREE))
    return all(_comes_to_rest(left._replace(actors=(Actor(kind),)), off) for kind in ("purge", "create"))


def _comes_to_rest(world: World, off: Off) -> bool:
    key = (world, off)
    if key not in _ways_out:
        # The lease of somebody who is alone and goes on does not run out.
        following = list(_moves(world, off))
        if following:
            _ways_out[key] = False  # Whoever comes back to the same state never ends.
            _ways_out[key] = all(_comes_to_rest(after, off) for after in following)
        else:
            _ways_out[key] = world.marker is None or world.marker.state == "deleted"
    return _ways_out[key]


def _took_effect(world: World, off: Off) -> World:
    """Count a table that everybody sees and nobody acknowledged as made: its creator died after the commit."""
    life, _ = world.promise
    seen = world.marker is None and not world.is_deregistered(off) and world.versions
    if life not in _KEPT and seen and all(file in world.files for file in world.latest[1]):
        return world._replace(promise=Promise(LIVE, world.latest[1]))
    return world


def _acknowledged(world: World, what: str, contents: str = "") -> World:
    """Note that a creation or a restoration was acknowledged."""
    life, kept = world.promise
    if what == "undrop":
        if life in {LIVE, PURGED} or not world.versions:
            return world._replace(fault="a restoration was acknowledged of a table that was not there to be restored")
        # What a creator that was too late committed can be dropped and restored as well; nothing is promised of it.
        return world._replace(promise=Promise(LIVE, kept)) if life == DROPPED else world
    if life == LIVE and kept != contents:
        return world._replace(fault="a creation was acknowledged over a live table")
    return world._replace(promise=Promise(LIVE, contents))


# What everybody does


def steps(world: World, off: Off = NOTHING_OFF) -> Iterator[World]:
    """Give all states that can follow: a lease runs out, or an actor moves."""
    marker = world.marker
    if marker is not None and marker.state != "deleted" and not marker.over:
        yield world._replace(marker=marker._replace(over=True))
    yield from _moves(world, off)


def _moves(world: World, off: Off) -> Iterator[World]:
    for index, actor in enumerate(world.actors):
        for changed, moved in ACTORS[actor.kind](world, actor, index, off):
            actors = (*changed.actors[:index], moved, *changed.actors[index + 1 :])
            yield _took_effect(changed._replace(actors=actors), off)


def _knows(world: World, index: int) -> bool:
    return world.marker is not None and bool(world.marker.known >> index & 1)


def _read(world: World, index: int) -> World:
    """Read the marker, and its e-tag with it."""
    marker = world.marker
    return world if marker is None else world._replace(marker=marker._replace(known=marker.known | 1 << index))


def _written(world: World, index: int, marker: Marker) -> World:
    return world._replace(marker=marker._replace(known=1 << index))


def _swapped(world: World, index: int, marker: Marker, off: Off) -> World | None:
    """Write the marker on the condition that it is the one that is known (`claim.replace_marker`)."""
    return _written(world, index, marker) if _knows(world, index) or "guard" in off else None


def _without(world: World, versions: tuple[Version, ...] = (), files: str = "") -> World:
    """Delete versions and files, and see whether that was allowed."""
    life, contents = world.promise
    fault = world.fault
    if life in _KEPT and any(version in world.versions for version in versions):
        fault = f"a version of a {life} table was deleted"
    if life in _KEPT and any(file in contents for file in files if file in world.files):
        fault = f"data of a {life} table was deleted"
    numbers = [number for number, _ in versions]
    return world._replace(
        versions=tuple(version for version in world.versions if version[0] not in numbers),
        files="".join(file for file in world.files if file not in files),
        fault=fault,
    )


def _with_file(world: World, file: str) -> World:
    return world._replace(files="".join(sorted({*world.files, file})))


def _lost(actor: Actor) -> Actor:
    """End with an error, or as if stopped for ever; what is remembered does not matter any more."""
    return Actor(actor.kind, "lost")


def _committed(world: World, base: Version, contents: str) -> World | None:
    """Commit the next version after `base`, strictly (`write_version`, `restore`); None if it is taken.

    Lance does not ask whether `base` is still what was read: with all versions gone it makes the first, and over one of
    a new table with the same number it makes the next. Both are strays of the kind that the protocol cannot prevent.
    """
    number, before = base
    if world.latest == base:
        return world._replace(versions=(*world.versions, (number + 1, contents)))
    if not world.versions:
        return world._replace(versions=((1, contents),), stray=True)
    if world.latest[0] <= number and before != world.latest[1]:
        return world._replace(versions=(*world.versions, (world.latest[0] + 1, contents)), stray=True)
    return None


# Bringing to rest what a dead owner left (`purging.settle`)


def _settled(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Go on according to a marker that stands in the way and was read; nothing happens before its lease is over."""
    marker = world.marker
    if marker is None or marker.state == "deleted" or not marker.over or "settle" in off:
        return
    if marker.state == "purging":
        at = "settle.take"
    elif marker.prior or "G" in off:
        at = "back.swap"
    else:
        at = "roll.take" if "leftovers" in off else "roll.look"
    yield _read(world, index), Actor(actor.kind, at)


def _settling(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Take one step in settling; at its end the actor begins anew."""
    part, _, at = actor.at.partition(".")
    if part == "settle":
        yield from _deleting(world, actor, index, off)
    elif part == "back":
        yield from _taking_back(world, actor, index, off)
    else:
        yield from _rolling_back(world, actor, index, off, at)


def _taking_back(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Return a dead claim on a dropped table to dropped, then hide it from other clients (`removal.hide_dropped`)."""
    if actor.at == "back.swap":
        old = world.marker or Marker("deleted")
        dropped = old._replace(state="deleted", burn=old.burn or old.creating, prior=False, creating=False, over=False)
        moved = _swapped(world, index, dropped, off)
        yield (world, Actor(actor.kind)) if moved is None else (moved, Actor(actor.kind, "back.hide"))
    else:
        old = world.marker
        yield _hidden_inside(world, deregistered=old is not None and old.deregistered), Actor(actor.kind)


def _hidden_inside(world: World, *, deregistered: bool) -> World:
    """Write the marker inside of the directory, however late.

    The real code takes it back if it finds that it was late. Whether it lives to do so must not matter.
    """
    return world._replace(inside="deregistered" if deregistered else "drop")


def _rolling_back(world: World, actor: Actor, index: int, off: Off, at: str) -> Iterator[Step]:
    """Undo a dead creation on a free name: keep it if it has a version, else purge what it left.

    Once the marker says `purging` the creator cannot be acknowledged, and a version that it commits late goes too.
    """
    if "leftovers" in off:
        yield from _rolling_back_in_place(world, actor, index, off, at)
    elif at == "look":
        yield world, Actor(actor.kind, "roll.remove" if world.versions else "settle.take")
    else:
        yield world._replace(marker=None) if _knows(world, index) else world, Actor(actor.kind)


def _rolling_back_in_place(world: World, actor: Actor, index: int, off: Off, at: str) -> Iterator[Step]:
    """Do so under a claim like that of a creator, and with plain deletes: look, make sure, `delete_tree`, let go."""
    if at == "take":
        held = _swapped(world, index, Marker("reviving", creating=True), off)
        yield (world, Actor(actor.kind)) if held is None else (held, Actor(actor.kind, "roll.look"))
    elif at == "look":
        yield world, Actor(actor.kind, "roll.remove" if world.versions else "roll.sure")
    elif at == "sure":
        yield world, Actor(actor.kind, "roll.list" if _knows(world, index) else "roll.remove")
    elif at == "list":
        yield world, Actor(actor.kind, "roll.delete", seen=world.versions, files=world.files)
    elif at == "delete":
        yield _without(world, actor.seen, actor.files)._replace(inside=""), Actor(actor.kind, "roll.remove")
    else:
        yield world._replace(marker=None) if _knows(world, index) else world, Actor(actor.kind)


# Deleting the directory under a claim (`purging._finish`, `ObjectStore.purge_tree`)


def _deleting(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Make sure, list, make sure, delete, until a listing is empty; then remove the marker."""
    part, _, at = actor.at.partition(".")
    if at == "take":
        held = _swapped(world, index, Marker("purging"), off)
        yield (
            (world, Actor(actor.kind))
            if held is None
            else (held, Actor(actor.kind, f"{part}.mine", contents=world.files))
        )
    elif at == "mine":
        yield world, actor._replace(at=f"{part}.list") if _knows(world, index) else _lost(actor)
    elif at == "list":
        if not world.has_files:
            yield world, actor._replace(at=f"{part}.remove")
        else:
            following = f"{part}.delete" if "B" in off else f"{part}.sure"
            yield world, actor._replace(at=following, seen=world.versions, files=world.files)
    elif at == "sure":
        yield world, actor._replace(at=f"{part}.delete") if _knows(world, index) else _lost(actor)
    elif at == "delete":
        yield from _deleting_listed(world, actor, index, off)
    elif at == "late":
        # The lease ended during the deletion: go on under a new one, or not at all.
        held = _swapped(world, index, Marker("purging"), off)
        yield (world, _lost(actor)) if held is None else (held, actor._replace(at=f"{part}.mine"))
    elif at == "stale":
        # Somebody wrote a file anew. The marker is left to be taken over at once (`_given_up_on_error`).
        given = world._replace(marker=Marker("purging", over=True)) if _knows(world, index) else world
        yield given, _lost(actor)
    else:
        yield from _done_deleting(world, actor, index)


def _deleting_listed(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Delete the versions that were listed, in any order, each only if it is still the same; then the rest at once."""
    part = actor.at.partition(".")[0]
    for version in actor.seen:
        there = dict(world.versions).get(version[0])
        if there not in {None, version[1]} and "C" not in off:
            yield world, actor._replace(at=f"{part}.stale", seen=(), files="")
            continue
        gone = (version[0], there or "")
        rest = tuple(other for other in actor.seen if other != version)
        yield _without(world, (gone,)), actor._replace(seen=rest)
    if not actor.seen:
        # Data files have names that never come again.
        yield _without(world, files=actor.files)._replace(inside=""), actor._replace(at=f"{part}.list", files="")
    elif world.marker is not None and world.marker.over and _knows(world, index):
        yield world, actor._replace(at=f"{part}.late", seen=(), files="")


def _done_deleting(world: World, actor: Actor, index: int) -> Iterator[Step]:
    """Remove the marker if it is still one's own; a purge is acknowledged either way, since the listing was empty."""
    if set(actor.contents) & set(world.files):
        world = world._replace(fault="a purge left something behind")
    ended = world._replace(marker=None) if _knows(world, index) else world
    yield ended, Actor(actor.kind, "end" if actor.at.startswith("purge") else "start")


# The actors


def _dropper(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`dropping._drop_root_table`: find, put the marker if absent, look again, hide from other clients."""
    marker = world.marker
    if actor.at == "start":
        taken_for = world.is_deregistered(off) or ("deregistered" in off and bool(world.inside))
        seen = "deregistered" if taken_for else ""
        yield world, Actor(actor.kind, "put", contents=seen) if world.shows_files(off) else _lost(actor)
    elif actor.at == "put":
        if marker is None:
            dropped = _written(world, index, Marker("deleted", deregistered=bool(actor.contents), drop=index + 1))
            life, contents = world.promise
            promise = Promise(DROPPED, contents) if life == LIVE else Promise(FREE)
            following = "hide" if "look" in off else "look"
            yield dropped._replace(promise=promise), Actor(actor.kind, following, contents=world.files)
        elif marker.state == "deleted":
            yield world, _lost(actor)
        else:
            yield from _settled(world, actor, index, off)
    elif actor.at == "look":
        yield world, Actor(actor.kind, "hide" if world.shows_files(off) else "back", contents="seen")
    elif actor.at == "back":
        yield world._replace(marker=None) if _knows(world, index) else world, _lost(actor)
    elif actor.at == "hide":
        hidden = _hidden_inside(world, deregistered=_knows(world, index) and bool(marker and marker.deregistered))
        if not actor.contents:
            hidden = hidden._replace(fault="a drop was acknowledged of nothing")
        yield hidden, Actor(actor.kind, "end")
    elif "." in actor.at:
        yield from _settling(world, actor, index, off)


def _purger(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`purging.purge_root_table`: read, settle what a dead owner left, claim, delete."""
    marker = world.marker
    if actor.at == "start":
        if marker is None:
            yield world, _lost(actor)
        elif marker.state == "deleted":
            yield _read(world, index), Actor(actor.kind, "claim")
        else:
            yield from _settled(world, actor, index, off)
    elif actor.at == "claim":
        held = _swapped(world, index, Marker("purging"), off)
        if held is None:
            yield world, _lost(actor)
            return
        if world.promise.life == DROPPED:
            held = held._replace(promise=Promise(PURGED))
        yield held, Actor(actor.kind, "purge.mine", contents=world.files)
    elif actor.at.startswith("purge."):
        yield from _deleting(world, actor, index, off)
    elif "." in actor.at:
        yield from _settling(world, actor, index, off)


def _undropper(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`restoring._undrop_root_table`: read, claim, burn a version if need be, show to other clients, let go."""
    marker = world.marker
    if "." in actor.at:
        yield from _settling(world, actor, index, off)
    elif actor.at in {"start", "claim"}:
        yield from _claiming_dropped(world, actor, index, off)
    elif actor.at == "look":
        yield (
            world,
            Actor(actor.kind, "reveal" if world.versions else "unclaim" if world.shows_files(off) else "let go"),
        )
    elif actor.at == "let go":
        yield world._replace(marker=None) if _knows(world, index) else world, _lost(actor)
    elif actor.at in {"base", "renew", "commit"}:
        yield from _burning(world, actor, index, off)
    elif actor.at == "unclaim":
        yield from _returning_claim(world, actor, index, off)
    elif actor.at == "reveal":
        # Too late, this would show the table to other clients, and then fail at the next step.
        shown = world._replace(inside="") if marker is not None and not marker.deregistered else world
        yield (shown, Actor(actor.kind, "show")) if _knows(world, index) else (world, _lost(actor))
    elif actor.at == "show":
        if _knows(world, index):
            yield _acknowledged(world._replace(marker=None), "undrop"), Actor(actor.kind, "end")
        else:
            yield world, _lost(actor)


def _claiming_dropped(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`dropped.find`, which settles what a dead owner left, and the swap to `reviving`."""
    marker = world.marker
    if actor.at == "start":
        if marker is None:
            yield world, _lost(actor)
        elif marker.state == "deleted":
            unclaimed = "H" in off and marker.burn and marker.version
            yield _read(world, index), Actor(actor.kind, "base" if unclaimed else "claim", (marker.version, ""))
        else:
            yield from _settled(world, actor, index, off)
    elif actor.at == "claim":
        old = marker or Marker("deleted")
        held = _swapped(world, index, old._replace(state="reviving", prior=True, creating=False, over=False), off)
        burns = old.burn and old.version and "E" not in off and "H" not in off
        following = "base" if burns else "reveal" if "empty" in off else "look"
        yield (world, _lost(actor)) if held is None else (held, Actor(actor.kind, following, (old.version, "")))


def _burning(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`restoring._with_old_version`: find the version to build on, renew the claim, commit the old contents on it."""
    marker = world.marker
    if actor.at == "base":
        kept = dict(world.versions).get(actor.base[0], "")
        if not kept:
            yield world, actor._replace(at="unclaim")
            return
        if "appended" not in off:
            kept = max((contents for _, contents in world.versions if contents.startswith(kept)), key=len)
        following = "commit" if "H" in off else "renew"
        yield world, Actor(actor.kind, following, world.latest, kept)
    elif actor.at == "renew":
        sure = None if marker is None else _swapped(world, index, marker, off)
        yield (world, actor._replace(at="unclaim")) if sure is None else (sure, actor._replace(at="commit"))
    else:
        made = _committed(world, world.latest if "D" in off else actor.base, actor.contents)
        at = "claim" if "H" in off else "reveal"
        yield (world, Actor(actor.kind, "unclaim")) if made is None else (made, Actor(actor.kind, at))


def _returning_claim(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Give a claim back after an error: the marker is what it was before, or nothing."""
    old = world.marker
    if old is None or old.state == "deleted" or not _knows(world, index):
        yield world, _lost(actor)
    elif old.prior:
        dropped = old._replace(state="deleted", prior=False, creating=False, over=False)
        yield _swapped(world, index, dropped, off) or world, _lost(actor)
    else:
        yield world._replace(marker=None), _lost(actor)


def _creator(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`root_creation.create_root_table`: claim, look or find the base, write data, commit, let go."""
    if "." in actor.at:
        yield from _settling(world, actor, index, off)
    elif actor.at in {"start", "claim", "base", "fix", "look"}:
        yield from _claiming(world, actor, index, off)
    elif actor.at == "write":
        yield _with_file(world, str(index)), actor._replace(at="commit")
    elif actor.at == "commit":
        base = world.latest if "D" in off else actor.base
        made = _committed(world, base, str(index))
        undo = Actor(actor.kind, "undo", contents=actor.contents)
        if made is not None:
            yield made, Actor(actor.kind, "reveal" if actor.contents == "prior" else "show", contents=actor.contents)
        # It may also fail for a reason of its own.
        yield world, undo
    elif actor.at == "undo":
        following = _lost(actor) if actor.contents == "unclaimed" else Actor(actor.kind, "unclaim")
        yield _without(world, files=str(index)), following
    elif actor.at == "unclaim":
        yield from _returning_claim(world, actor, index, off)
    elif actor.at == "reveal":
        yield world._replace(inside=""), actor._replace(at="show")
    elif actor.at == "show":
        yield from _showing(world, actor, index, off)


def _claiming(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`claim.acquire` and `root_tables.create._record_base`."""
    marker = world.marker
    if actor.at == "start":
        if marker is None and "A" in off:
            yield world, Actor(actor.kind, "look", contents="unclaimed")
        elif marker is None:
            yield _written(world, index, Marker("reviving", creating=True)), Actor(actor.kind, "look")
        elif marker.state == "deleted":
            yield _read(world, index), Actor(actor.kind, "claim")
        else:
            yield from _settled(world, actor, index, off)
    elif actor.at == "claim":
        old = marker or Marker("deleted")
        held = _swapped(world, index, old._replace(state="reviving", prior=True, creating=True, over=False), off)
        # Somebody else was first: look again what there is.
        yield (world, Actor(actor.kind)) if held is None else (held, Actor(actor.kind, "base"))
    elif actor.at == "look":
        taken = bool(world.versions) or world.is_deregistered(off)
        refused = _lost(actor) if actor.contents == "unclaimed" else Actor(actor.kind, "unclaim")
        yield world, refused if taken else actor._replace(at="write")
    elif actor.at == "base":
        yield world, Actor(actor.kind, "fix", world.latest, "prior")
    elif marker is not None:
        kept = marker.version if marker.burn and marker.version else actor.base[0]
        fixed = _swapped(world, index, marker._replace(version=kept), off)
        yield (world, _lost(actor)) if fixed is None else (fixed, actor._replace(at="write"))
    else:
        yield world, _lost(actor)


def _showing(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Remove the marker, which is what acknowledges a creation."""
    mine = _knows(world, index)
    shown = world._replace(marker=None) if mine else world
    careless = "own" in off and actor.contents != "prior"
    if mine or careless or actor.contents == "unclaimed":
        yield _acknowledged(shown, "create", str(index)), Actor(actor.kind, "end")
    else:
        yield world, _lost(actor)


def _setter_aside(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`setting_aside.set_aside`: claim, copy, look again, renew, publish the copy, give the claim back, purge.

    The copy has a name that nobody else uses. Until it is published, whoever finds it purges it.
    """
    if actor.at.startswith("purge."):
        for changed, moved in _deleting(world, actor, index, off):
            # A purge that cannot go on is an error of the whole.
            yield changed, actor._replace(at="judge", seen=(), files="") if moved.at == "lost" else moved
    elif "." in actor.at:
        yield from _settling(world, actor, index, off)
    elif actor.at in {"start", "claim"}:
        for changed, moved in _claiming_dropped(world, actor, index, off - {"H"}):
            life, contents = world.promise
            claimed = (world.marker.drop if world.marker else 0, contents if life == DROPPED else "")
            taken = moved.at in {"base", "look", "reveal"}
            yield changed, Actor(actor.kind, "copy", claimed) if taken else moved
    elif actor.at == "unclaim":
        yield from _returning_claim(world, actor, index, off)
    elif actor.at in {"copy", "check", "renew", "publish"}:
        yield from _copying(world, actor, index, off)
    else:
        yield from _purging_rest(world, actor, index, off)


def _copying(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Copy the table, look whether it was written to, renew the claim, publish the copy."""
    if actor.at == "copy":
        yield world, actor._replace(at="check", seen=world.versions, files=world.files)
    elif actor.at == "check":
        same = (actor.seen, actor.files) == (world.versions, world.files) or "same" in off
        following = Actor(
            actor.kind, "publish" if "renew" in off else "renew", actor.base, _restored(actor, world.marker)
        )
        yield world, following if same else Actor(actor.kind, "unclaim")
    elif actor.at == "renew":
        sure = None if world.marker is None else _swapped(world, index, world.marker, off)
        yield (world, _lost(actor)) if sure is None else (sure, actor._replace(at="publish"))
    else:
        published = world._replace(aside=world.aside | {(index, actor.contents)})
        if not actor.contents.startswith(actor.base[1]):
            published = published._replace(fault="something else than the dropped table was set aside")
        yield published, actor._replace(at="give")


def _restored(actor: Actor, marker: Marker | None) -> str:
    """Give what a restoration of the copy shows."""
    if not actor.seen:
        return ""
    latest = actor.seen[-1][1]
    if marker is None or not (marker.burn and marker.version):
        return latest
    kept = dict(actor.seen).get(marker.version, "")
    return max((contents for _, contents in actor.seen if contents.startswith(kept)), key=len)


def _purging_rest(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Give the claim back under a deletion id of one's own, and purge what has this id; else take the copy away."""
    marker, rest = world.marker, 10 + index
    if actor.at == "give":
        old = marker or Marker("deleted")
        given = old._replace(state="deleted", prior=False, creating=False, over=False, drop=rest)
        moved = _swapped(world, index, given, off)
        yield (world, actor._replace(at="judge")) if moved is None else (moved, actor._replace(at="find"))
    elif actor.at == "find":
        ours = marker is not None and marker.state == "deleted" and marker.drop == rest
        yield _read(world, index), actor._replace(at="take" if ours else "judge")
    elif actor.at == "take":
        held = _swapped(world, index, Marker("purging"), off)
        if held is None:
            yield world, actor._replace(at="judge")
            return
        life, contents = world.promise
        if life == DROPPED:
            held = held._replace(promise=Promise(PURGED), owed=world.owed | {index})
            if contents != actor.contents and "same" in off:
                held = held._replace(fault="a table was set aside without its contents")
            elif contents != actor.contents:
                # Somebody who knows nothing of markers appended between the look and the claim.
                held = held._replace(stray=True)
        yield held, Actor(actor.kind, "purge.mine", actor.base, world.files)
    elif actor.at == "judge":
        ids = {actor.base[0], rest}
        intact = marker is not None and (marker.state == "deleted" or marker.prior) and marker.drop in ids
        keeps = not intact and "intact" not in off
        yield world, _lost(actor) if keeps else Actor(actor.kind, "clear")
    elif actor.at == "clear":
        fault = "the only copy of a dropped table was deleted" if index in world.owed else world.fault
        left = frozenset(copy for copy in world.aside if copy[0] != index)
        yield world._replace(aside=left, fault=fault), _lost(actor)


def _appender(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Append as Lance does, without any notion of markers: read, write, commit the next version, with retries."""
    if actor.at == "start":
        if world.marker is None and world.versions and not world.is_deregistered(off):
            yield world, Actor(actor.kind, "write", world.latest)
    elif actor.at == "write":
        yield _with_file(world, str(index)), actor._replace(at="commit")
    elif actor.at == "commit":
        contents = actor.base[1] + str(index)
        made = _committed(world, actor.base, contents)
        if made is not None:
            life, kept = world.promise
            if life in _KEPT and kept == actor.base[1]:
                made = made._replace(promise=Promise(life, contents))
            yield made, Actor(actor.kind, "end")
        elif world.latest[1].startswith(actor.base[1]):
            # Another append came first.
            yield world, actor._replace(base=world.latest)
        else:
            yield world, _lost(actor)


ACTORS: dict[str, Callable[[World, Actor, int, Off], Iterator[Step]]] = {
    "drop": _dropper,
    "purge": _purger,
    "undrop": _undropper,
    "create": _creator,
    "append": _appender,
    "aside": _setter_aside,
}
