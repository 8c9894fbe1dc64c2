"""A model of the marker protocol for `<name>.deleted` on an object store, small enough to try every interleaving.

There is one root table. Actors drop, purge, restore, create, append to it and set it aside, with one request to the
store at a time. Any actor may stop at any point, permanently (it never moves again) or for a while (others move first),
and a lease may expire at any time. `explore` visits each state once and checks it against the guarantees.

The actors change the store: the marker, the versions, the data files, and the inner marker, which a drop writes into
the directory for other clients. `Guarantee` is kept beside the store, and changes when a call takes effect.

Each step of an actor is one request of the real code. The docstring of its function names that code, relative to
`pennon.directory`. A request that changes nothing is joined with the next one if a later conditional write checks its
result anyway. A marker has no e-tag, but the set of the actors that know its e-tag. So states that differ only in old
nonces are one state.

`off` switches off rules by name, to show that each rule is necessary. `RULES` lists the names.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RULES = {
    "guard": "every step of the marker is a compare-and-swap",
    "A": "a creation claims the marker, also on a free name",
    "B": "a purge reads the marker again after its listing",
    "C": "file names that can be used again are deleted only if they are the files that were listed",
    "D": "the base version is fixed at the claim, and exactly the next version is committed",
    "E": "a restore after a dead creation takes the version number that the creation would take",
    "G": "an expired claim on a free name is removed",
    "H": "nothing is written into the directory without a claim",
    "settle": "the next client settles an expired claim",
    "look": "a drop checks the directory again under its marker",
    "empty": "a restore checks the directory again under its claim",
    "own": "a creation on a free name succeeds only if it removes its own marker",
    "leftovers": "files of a dead creation on a free name are purged, or kept if they include a version",
    "inside": "the inner marker, which a drop writes for other clients, hides nothing by itself",
    "deregistered": "the inner marker of a drop does not count as a deregistration when the table is dropped again",
    "appended": "the version of rule E has the latest contents that are not the dead creation's",
    "same": "a table is set aside only if nothing was written to it since it was copied",
    "renew": "a copy counts only if the claim was held throughout",
    "intact": "an unneeded copy is deleted only if the table is still dropped",
}

OLD = "o"
"""The data file of the table that exists at the start.

Contents are data files: `o2` is `o` and the rows that actor 2 appended, `1` is the table that actor 1 created.
"""

LIVE, DROPPED, PURGED, FREE = "live", "dropped", "purged", "free"
"""The states of the table. It is purged as soon as a purge has claimed it: no client can restore it then."""
_KEPT = {LIVE, DROPPED}
Version = tuple[int, str]


class Marker(NamedTuple):
    """The contents of the marker beside the directory."""

    state: str
    creating: bool = False
    """Whether the owner of the claim creates the table. Otherwise it restores it."""
    prior: bool = False
    """Whether the claim is on a dropped table. If so, the next three fields belong to that table."""
    burn: bool = False
    version: int = 0
    deregistered: bool = False
    drop: int = 0
    """The deletion id of the dropped table, or of the dropped table that was claimed."""
    expired: bool = False
    known: int = 0
    """The actors that know the e-tag, one bit for each."""


class Actor(NamedTuple):
    """The next step of an actor, and what it remembers."""

    kind: str
    at: str = "start"
    base: Version = (0, "")
    """The version that the actor builds on."""
    contents: str = ""
    """What the actor will commit. For a purge: the files that existed when it claimed the table."""
    seen: tuple[Version, ...] = ()
    files: str = ""


class Guarantee(NamedTuple):
    """What is guaranteed about the table. `contents` are those of the live table, or of the dropped one."""

    life: str
    contents: str = ""


class World(NamedTuple):
    """The store, the actors and the guarantee."""

    marker: Marker | None
    versions: tuple[Version, ...]
    files: str
    """The data files."""
    inside: str
    """The inner marker, for clients that know no other: of a drop, or of a deregistration."""
    actors: tuple[Actor, ...]
    guarantee: Guarantee
    aside: frozenset[tuple[int, str]] = frozenset()
    """Published copies of the table: the number of the actor, and the contents that a restore returns."""
    owed: frozenset[int] = frozenset()
    """The actors whose copy is the only one of a dropped table."""
    stray: bool = False
    """Whether a writer committed on a version that was purged. The protocol cannot prevent that."""
    fault: str = ""

    @property
    def latest(self) -> Version:
        return self.versions[-1] if self.versions else (0, "")

    @property
    def has_files(self) -> bool:
        return bool(self.versions or self.files or self.inside)

    def is_deregistered(self, off: Off) -> bool:
        """Return True if the inner marker counts as a deregistration (`lookup.directories._directory`)."""
        return self.inside == "deregistered" or ("inside" in off and bool(self.inside))

    def shows_files(self, off: Off) -> bool:
        """Return True if the directory has anything but the inner marker of a drop."""
        return bool(self.versions or self.files) or self.is_deregistered(off)


class Exploration(NamedTuple):
    """The result of visiting all states."""

    states: int
    faults: list[str]
    strays: int
    trace: list[str]
    """The steps that lead to the first fault."""


Off = frozenset[str]
Step = tuple[World, Actor]
NOTHING_OFF: Off = frozenset()


def start(life: str, *kinds: str) -> World:
    """Return a world whose table is live, dropped or free.

    An actor that appends to a dropped table has opened it before the drop.
    """
    there = () if life == FREE else ((1, OLD),)
    actors = tuple(
        Actor(kind, "write", there[0]) if kind == "append" and life == DROPPED else Actor(kind) for kind in kinds
    )
    marker = Marker("deleted") if life == DROPPED else None
    contents = "" if life == FREE else OLD
    return World(marker, there, contents, "drop" if life == DROPPED else "", actors, Guarantee(life, contents))


def explore(world: World, off: Off = NOTHING_OFF, until: str = "") -> Exploration:
    """Visit every reachable state, or stop at the first one that has the fault `until`."""
    came_from: dict[World, World | None] = {world: None}
    waiting = deque([world])
    faults: dict[str, World] = {}
    strays = 0
    while waiting and until not in faults:
        current = waiting.popleft()
        for fault in _find_faults(current, off):
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
    return Exploration(len(came_from), sorted(faults), strays, [] if first is None else _trace(came_from, first))


def _trace(came_from: dict[World, World | None], world: World) -> list[str]:
    """Return the steps that lead to a state: the actor that moved, its next step, and the contents of the store."""
    lines = []
    before = came_from[world]
    while before is not None:
        moved = [
            f"{index} {now.kind}: {then.at} -> {now.at}"
            for index, (then, now) in enumerate(zip(before.actors, world.actors, strict=True))
            if then != now
        ]
        move = ", ".join(moved) or "the lease expires"
        lines.append(f"{move}; {world.marker}, {world.versions}, files {world.files!r}, inner marker {world.inside!r}")
        world, before = before, came_from[before]
    return lines[::-1]


# Guarantees


def _find_faults(world: World, off: Off) -> Iterator[str]:
    """Yield the guarantees that a state breaks."""
    if world.fault:
        yield world.fault
    if world.stray:
        return
    marker, (life, contents) = world.marker, world.guarantee
    whole = world.versions and all(file in world.files for file in contents)
    if life in _KEPT and not whole:
        yield f"files of a {life} table are gone"
    if life == DROPPED and marker is None:
        yield "a dropped table is visible"
    if life == LIVE:
        # A creation on a taken name hides the table until it detects that the name is taken.
        if marker is not None and (marker.state != "reviving" or marker.prior):
            yield "a live table is hidden"
        if marker is None and world.is_deregistered(off):
            yield "a live table is hidden by its inner marker"
        if world.latest[1] != contents:
            yield "a live table has other contents"
    if not _can_be_settled(world, off):
        yield "no client can settle the marker"


_settles: dict[tuple[World, Off], bool] = {}


def _can_be_settled(world: World, off: Off) -> bool:
    """Return True if a client that is alone after the lease has expired settles the marker."""
    marker = world.marker
    if marker is None or marker.state == "deleted":
        return True
    left = world._replace(marker=marker._replace(expired=True, known=0), guarantee=Guarantee(FREE))
    return all(_always_settles(left._replace(actors=(Actor(kind),)), off) for kind in ("purge", "create"))


def _always_settles(world: World, off: Off) -> bool:
    key = (world, off)
    if key not in _settles:
        # The lease of a client that is alone and continues does not expire.
        following = list(_moves(world, off))
        if following:
            _settles[key] = False  # A client that returns to the same state never ends.
            _settles[key] = all(_always_settles(after, off) for after in following)
        else:
            _settles[key] = world.marker is None or world.marker.state == "deleted"
    return _settles[key]


def _record_visible_creation(world: World, off: Off) -> World:
    """Guarantee a table that is visible although its creation was never acknowledged.

    The creator died after the commit.
    """
    life, _ = world.guarantee
    seen = world.marker is None and not world.is_deregistered(off) and world.versions
    if life not in _KEPT and seen and all(file in world.files for file in world.latest[1]):
        return world._replace(guarantee=Guarantee(LIVE, world.latest[1]))
    return world


def _acknowledge(world: World, what: str, contents: str = "") -> World:
    """Record that a creation or a restore was acknowledged."""
    life, kept = world.guarantee
    if what == "undrop":
        if life in {LIVE, PURGED} or not world.versions:
            return world._replace(fault="a restore was acknowledged without a dropped table")
        # A late commit of a creator can be dropped and restored too. Nothing is guaranteed about it.
        return world._replace(guarantee=Guarantee(LIVE, kept)) if life == DROPPED else world
    if life == LIVE and kept != contents:
        return world._replace(fault="a creation was acknowledged over a live table")
    return world._replace(guarantee=Guarantee(LIVE, contents))


# Steps that all actors share


def steps(world: World, off: Off = NOTHING_OFF) -> Iterator[World]:
    """Yield all states that can follow: the lease expires, or an actor moves."""
    marker = world.marker
    if marker is not None and marker.state != "deleted" and not marker.expired:
        yield world._replace(marker=marker._replace(expired=True))
    yield from _moves(world, off)


def _moves(world: World, off: Off) -> Iterator[World]:
    for index, actor in enumerate(world.actors):
        for changed, moved in ACTORS[actor.kind](world, actor, index, off):
            actors = (*changed.actors[:index], moved, *changed.actors[index + 1 :])
            yield _record_visible_creation(changed._replace(actors=actors), off)


def _knows(world: World, index: int) -> bool:
    return world.marker is not None and bool(world.marker.known >> index & 1)


def _read_marker(world: World, index: int) -> World:
    """Read the marker and its e-tag."""
    marker = world.marker
    return world if marker is None else world._replace(marker=marker._replace(known=marker.known | 1 << index))


def _write_marker(world: World, index: int, marker: Marker) -> World:
    return world._replace(marker=marker._replace(known=1 << index))


def _swap_marker(world: World, index: int, marker: Marker, off: Off) -> World | None:
    """Replace the marker if its e-tag is known, else return None (`markers.claim.replace_marker`)."""
    return _write_marker(world, index, marker) if _knows(world, index) or "guard" in off else None


def _delete(world: World, versions: tuple[Version, ...] = (), files: str = "") -> World:
    """Delete versions and files, and record a fault if they belong to a live or dropped table."""
    life, contents = world.guarantee
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


def _add_file(world: World, file: str) -> World:
    return world._replace(files="".join(sorted({*world.files, file})))


def _stop(actor: Actor) -> Actor:
    """End with an error, which is the same as stopping permanently. The actor forgets everything."""
    return Actor(actor.kind, "lost")


def _commit(world: World, base: Version, contents: str) -> World | None:
    """Commit exactly the next version after `base`; return None if that version exists.

    The real code is `write_version` and `restore_version` in `pennon.table.writing`. Lance does not check that `base`
    is still the version that was read. If all versions were purged, it commits version 1. If a new table has a version
    of the same number, it commits the next one. The protocol cannot prevent either, so both are strays.
    """
    number, before = base
    if world.latest == base:
        return world._replace(versions=(*world.versions, (number + 1, contents)))
    if not world.versions:
        return world._replace(versions=((1, contents),), stray=True)
    if world.latest[0] <= number and before != world.latest[1]:
        return world._replace(versions=(*world.versions, (world.latest[0] + 1, contents)), stray=True)
    return None


# Settling the claim of a dead client (`root_tables.settle.settle`)


def _begin_settling(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Read the claim of another actor and choose how to settle it. Nothing happens before its lease has expired."""
    marker = world.marker
    if marker is None or marker.state == "deleted" or not marker.expired or "settle" in off:
        return
    if marker.state == "purging":
        at = "settle.take"
    elif marker.prior or "G" in off:
        at = "back.swap"
    else:
        at = "roll.take" if "leftovers" in off else "roll.look"
    yield _read_marker(world, index), Actor(actor.kind, at)


def _settle(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Make one step of settling. After the last one the actor starts again."""
    part, _, at = actor.at.partition(".")
    if part == "settle":
        yield from _delete_directory(world, actor, index, off)
    elif part == "back":
        yield from _return_to_dropped(world, actor, index, off)
    else:
        yield from _undo_creation(world, actor, index, off, at)


def _return_to_dropped(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Make a claimed table dropped again, then hide it from other clients (`root_tables.visibility.hide_dropped`)."""
    if actor.at == "back.swap":
        old = world.marker or Marker("deleted")
        dropped = old._replace(
            state="deleted", burn=old.burn or old.creating, prior=False, creating=False, expired=False
        )
        moved = _swap_marker(world, index, dropped, off)
        yield (world, Actor(actor.kind)) if moved is None else (moved, Actor(actor.kind, "back.hide"))
    else:
        old = world.marker
        yield _write_inner_marker(world, deregistered=old is not None and old.deregistered), Actor(actor.kind)


def _write_inner_marker(world: World, *, deregistered: bool) -> World:
    """Write the inner marker, however late.

    The real code deletes it again if the table was restored or purged since. The guarantees must not depend on that,
    because the client may die first.
    """
    return world._replace(inside="deregistered" if deregistered else "drop")


def _undo_creation(world: World, actor: Actor, index: int, off: Off, at: str) -> Iterator[Step]:
    """Keep a dead creation on a free name if it has a version, else purge it (`deletion.delete_failed_creation`).

    Once the marker has the state `purging`, the creator cannot succeed, and a version that it commits late is deleted.
    """
    if "leftovers" in off:
        yield from _undo_creation_in_place(world, actor, index, off, at)
    elif at == "look":
        yield world, Actor(actor.kind, "roll.remove" if world.versions else "settle.take")
    else:
        yield world._replace(marker=None) if _knows(world, index) else world, Actor(actor.kind)


def _undo_creation_in_place(world: World, actor: Actor, index: int, off: Off, at: str) -> Iterator[Step]:
    """Do the same without the rule: under a claim for a creation, and with unconditional deletes.

    The steps are: look, check the claim, list, delete, remove the marker.
    """
    if at == "take":
        held = _swap_marker(world, index, Marker("reviving", creating=True), off)
        yield (world, Actor(actor.kind)) if held is None else (held, Actor(actor.kind, "roll.look"))
    elif at == "look":
        yield world, Actor(actor.kind, "roll.remove" if world.versions else "roll.sure")
    elif at == "sure":
        yield world, Actor(actor.kind, "roll.list" if _knows(world, index) else "roll.remove")
    elif at == "list":
        yield world, Actor(actor.kind, "roll.delete", seen=world.versions, files=world.files)
    elif at == "delete":
        yield _delete(world, actor.seen, actor.files)._replace(inside=""), Actor(actor.kind, "roll.remove")
    else:
        yield world._replace(marker=None) if _knows(world, index) else world, Actor(actor.kind)


# Deleting the directory under a claim (`root_tables.deletion.delete_table`, `ObjectStore.purge_tree`)


def _delete_directory(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Check the claim, list, check the claim and delete, until a listing is empty. Then remove the marker."""
    part, _, at = actor.at.partition(".")
    if at == "take":
        held = _swap_marker(world, index, Marker("purging"), off)
        yield (
            (world, Actor(actor.kind))
            if held is None
            else (held, Actor(actor.kind, f"{part}.mine", contents=world.files))
        )
    elif at == "mine":
        yield world, actor._replace(at=f"{part}.list") if _knows(world, index) else _stop(actor)
    elif at == "list":
        if not world.has_files:
            yield world, actor._replace(at=f"{part}.remove")
        else:
            following = f"{part}.delete" if "B" in off else f"{part}.sure"
            yield world, actor._replace(at=following, seen=world.versions, files=world.files)
    elif at == "sure":
        yield world, actor._replace(at=f"{part}.delete") if _knows(world, index) else _stop(actor)
    elif at == "delete":
        yield from _delete_listed(world, actor, index, off)
    elif at == "late":
        # The lease expired during the deletion: continue only under a new lease.
        held = _swap_marker(world, index, Marker("purging"), off)
        yield (world, _stop(actor)) if held is None else (held, actor._replace(at=f"{part}.mine"))
    elif at == "stale":
        # Another actor wrote a file of the same name. The claim expires at once (`deletion._expire_on_error`).
        given = world._replace(marker=Marker("purging", expired=True)) if _knows(world, index) else world
        yield given, _stop(actor)
    else:
        yield from _finish_deleting(world, actor, index)


def _delete_listed(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Delete the listed versions in any order, each only if it is unchanged, then all other files at once."""
    part = actor.at.partition(".")[0]
    for version in actor.seen:
        there = dict(world.versions).get(version[0])
        if there not in {None, version[1]} and "C" not in off:
            yield world, actor._replace(at=f"{part}.stale", seen=(), files="")
            continue
        gone = (version[0], there or "")
        rest = tuple(other for other in actor.seen if other != version)
        yield _delete(world, (gone,)), actor._replace(seen=rest)
    if not actor.seen:
        # The names of data files are never used again.
        yield _delete(world, files=actor.files)._replace(inside=""), actor._replace(at=f"{part}.list", files="")
    elif world.marker is not None and world.marker.expired and _knows(world, index):
        yield world, actor._replace(at=f"{part}.late", seen=(), files="")


def _finish_deleting(world: World, actor: Actor, index: int) -> Iterator[Step]:
    """Remove the marker if the actor still owns it. The purge is acknowledged anyway: the listing was empty."""
    if set(actor.contents) & set(world.files):
        world = world._replace(fault="a purge left files behind")
    ended = world._replace(marker=None) if _knows(world, index) else world
    yield ended, Actor(actor.kind, "end" if actor.at.startswith("purge") else "start")


# The actors


def _drop(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`root_tables.drop.drop`: find, write the marker if absent, look again, hide from other clients."""
    marker = world.marker
    if actor.at == "start":
        taken_for = world.is_deregistered(off) or ("deregistered" in off and bool(world.inside))
        seen = "deregistered" if taken_for else ""
        yield world, Actor(actor.kind, "put", contents=seen) if world.shows_files(off) else _stop(actor)
    elif actor.at == "put":
        if marker is None:
            dropped = _write_marker(world, index, Marker("deleted", deregistered=bool(actor.contents), drop=index + 1))
            life, contents = world.guarantee
            guarantee = Guarantee(DROPPED, contents) if life == LIVE else Guarantee(FREE)
            following = "hide" if "look" in off else "look"
            yield dropped._replace(guarantee=guarantee), Actor(actor.kind, following, contents=world.files)
        elif marker.state == "deleted":
            yield world, _stop(actor)
        else:
            yield from _begin_settling(world, actor, index, off)
    elif actor.at == "look":
        yield world, Actor(actor.kind, "hide" if world.shows_files(off) else "back", contents="seen")
    elif actor.at == "back":
        yield world._replace(marker=None) if _knows(world, index) else world, _stop(actor)
    elif actor.at == "hide":
        hidden = _write_inner_marker(world, deregistered=_knows(world, index) and bool(marker and marker.deregistered))
        if not actor.contents:
            hidden = hidden._replace(fault="a drop was acknowledged without a table")
        yield hidden, Actor(actor.kind, "end")
    elif "." in actor.at:
        yield from _settle(world, actor, index, off)


def _purge(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`root_tables.purge.purge_table`: read, settle an expired claim, claim, delete."""
    marker = world.marker
    if actor.at == "start":
        if marker is None:
            yield world, _stop(actor)
        elif marker.state == "deleted":
            yield _read_marker(world, index), Actor(actor.kind, "claim")
        else:
            yield from _begin_settling(world, actor, index, off)
    elif actor.at == "claim":
        held = _swap_marker(world, index, Marker("purging"), off)
        if held is None:
            yield world, _stop(actor)
            return
        if world.guarantee.life == DROPPED:
            held = held._replace(guarantee=Guarantee(PURGED))
        yield held, Actor(actor.kind, "purge.mine", contents=world.files)
    elif actor.at.startswith("purge."):
        yield from _delete_directory(world, actor, index, off)
    elif "." in actor.at:
        yield from _settle(world, actor, index, off)


def _undrop(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`root_tables.undrop.undrop`: read, claim, commit a version if rule E requires it, reveal, remove the marker."""
    marker = world.marker
    if "." in actor.at:
        yield from _settle(world, actor, index, off)
    elif actor.at in {"start", "claim"}:
        yield from _claim_dropped(world, actor, index, off)
    elif actor.at == "look":
        yield (
            world,
            Actor(actor.kind, "reveal" if world.versions else "unclaim" if world.shows_files(off) else "let go"),
        )
    elif actor.at == "let go":
        yield world._replace(marker=None) if _knows(world, index) else world, _stop(actor)
    elif actor.at in {"base", "renew", "commit"}:
        yield from _restore_version(world, actor, index, off)
    elif actor.at == "unclaim":
        yield from _release_claim(world, actor, index, off)
    elif actor.at == "reveal":
        # Without the claim, this would show the table to other clients and then fail at the next step.
        shown = world._replace(inside="") if marker is not None and not marker.deregistered else world
        yield (shown, Actor(actor.kind, "show")) if _knows(world, index) else (world, _stop(actor))
    elif actor.at == "show":
        if _knows(world, index):
            yield _acknowledge(world._replace(marker=None), "undrop"), Actor(actor.kind, "end")
        else:
            yield world, _stop(actor)


def _claim_dropped(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`lifecycle.dropped.find`, which settles an expired claim, and the change of the marker to `reviving`."""
    marker = world.marker
    if actor.at == "start":
        if marker is None:
            yield world, _stop(actor)
        elif marker.state == "deleted":
            unclaimed = "H" in off and marker.burn and marker.version
            yield _read_marker(world, index), Actor(actor.kind, "base" if unclaimed else "claim", (marker.version, ""))
        else:
            yield from _begin_settling(world, actor, index, off)
    elif actor.at == "claim":
        old = marker or Marker("deleted")
        held = _swap_marker(
            world, index, old._replace(state="reviving", prior=True, creating=False, expired=False), off
        )
        burns = old.burn and old.version and "E" not in off and "H" not in off
        following = "base" if burns else "reveal" if "empty" in off else "look"
        yield (world, _stop(actor)) if held is None else (held, Actor(actor.kind, following, (old.version, "")))


def _restore_version(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`root_tables.undrop._restore_version`: find the base version, renew the claim, commit the old contents."""
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
        sure = None if marker is None else _swap_marker(world, index, marker, off)
        yield (world, actor._replace(at="unclaim")) if sure is None else (sure, actor._replace(at="commit"))
    else:
        made = _commit(world, world.latest if "D" in off else actor.base, actor.contents)
        at = "claim" if "H" in off else "reveal"
        yield (world, Actor(actor.kind, "unclaim")) if made is None else (made, Actor(actor.kind, at))


def _release_claim(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Release a claim after an error (`markers.claim.Claim.release`): restore the previous marker, or remove it."""
    old = world.marker
    if old is None or old.state == "deleted" or not _knows(world, index):
        yield world, _stop(actor)
    elif old.prior:
        dropped = old._replace(state="deleted", prior=False, creating=False, expired=False)
        yield _swap_marker(world, index, dropped, off) or world, _stop(actor)
    else:
        yield world._replace(marker=None), _stop(actor)


def _create(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`root_tables.create.create`: claim, look or find the base version, write data, commit, remove the marker."""
    if "." in actor.at:
        yield from _settle(world, actor, index, off)
    elif actor.at in {"start", "claim", "base", "fix", "look"}:
        yield from _claim_for_creation(world, actor, index, off)
    elif actor.at == "write":
        yield _add_file(world, str(index)), actor._replace(at="commit")
    elif actor.at == "commit":
        base = world.latest if "D" in off else actor.base
        made = _commit(world, base, str(index))
        undo = Actor(actor.kind, "undo", contents=actor.contents)
        if made is not None:
            yield made, Actor(actor.kind, "reveal" if actor.contents == "prior" else "show", contents=actor.contents)
        # The commit may also fail for another reason.
        yield world, undo
    elif actor.at == "undo":
        following = _stop(actor) if actor.contents == "unclaimed" else Actor(actor.kind, "unclaim")
        yield _delete(world, files=str(index)), following
    elif actor.at == "unclaim":
        yield from _release_claim(world, actor, index, off)
    elif actor.at == "reveal":
        yield world._replace(inside=""), actor._replace(at="show")
    elif actor.at == "show":
        yield from _finish_creation(world, actor, index, off)


def _claim_for_creation(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`markers.claim.acquire` and `root_tables.create._record_base`."""
    marker = world.marker
    if actor.at == "start":
        if marker is None and "A" in off:
            yield world, Actor(actor.kind, "look", contents="unclaimed")
        elif marker is None:
            yield _write_marker(world, index, Marker("reviving", creating=True)), Actor(actor.kind, "look")
        elif marker.state == "deleted":
            yield _read_marker(world, index), Actor(actor.kind, "claim")
        else:
            yield from _begin_settling(world, actor, index, off)
    elif actor.at == "claim":
        old = marker or Marker("deleted")
        held = _swap_marker(world, index, old._replace(state="reviving", prior=True, creating=True, expired=False), off)
        # Another actor was first: start again.
        yield (world, Actor(actor.kind)) if held is None else (held, Actor(actor.kind, "base"))
    elif actor.at == "look":
        taken = bool(world.versions) or world.is_deregistered(off)
        refused = _stop(actor) if actor.contents == "unclaimed" else Actor(actor.kind, "unclaim")
        yield world, refused if taken else actor._replace(at="write")
    elif actor.at == "base":
        yield world, Actor(actor.kind, "fix", world.latest, "prior")
    elif marker is not None:
        kept = marker.version if marker.burn and marker.version else actor.base[0]
        fixed = _swap_marker(world, index, marker._replace(version=kept), off)
        yield (world, _stop(actor)) if fixed is None else (fixed, actor._replace(at="write"))
    else:
        yield world, _stop(actor)


def _finish_creation(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Remove the marker. This acknowledges the creation."""
    mine = _knows(world, index)
    shown = world._replace(marker=None) if mine else world
    careless = "own" in off and actor.contents != "prior"
    if mine or careless or actor.contents == "unclaimed":
        yield _acknowledge(shown, "create", str(index)), Actor(actor.kind, "end")
    else:
        yield world, _stop(actor)


def _set_aside(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """`root_tables.set_aside.set_aside`: claim, copy, compare, renew, publish the copy, end the claim, purge.

    No other actor uses the name of the copy. Until the copy is published, any client may purge it.
    """
    if actor.at.startswith("purge."):
        for changed, moved in _delete_directory(world, actor, index, off):
            # If the purge fails, the whole operation fails.
            yield changed, actor._replace(at="judge", seen=(), files="") if moved.at == "lost" else moved
    elif "." in actor.at:
        yield from _settle(world, actor, index, off)
    elif actor.at in {"start", "claim"}:
        for changed, moved in _claim_dropped(world, actor, index, off - {"H"}):
            life, contents = world.guarantee
            claimed = (world.marker.drop if world.marker else 0, contents if life == DROPPED else "")
            taken = moved.at in {"base", "look", "reveal"}
            yield changed, Actor(actor.kind, "copy", claimed) if taken else moved
    elif actor.at == "unclaim":
        yield from _release_claim(world, actor, index, off)
    elif actor.at in {"copy", "check", "renew", "publish"}:
        yield from _copy(world, actor, index, off)
    else:
        yield from _purge_original(world, actor, index, off)


def _copy(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Copy the table, check that it was not written to, renew the claim, publish the copy."""
    if actor.at == "copy":
        yield world, actor._replace(at="check", seen=world.versions, files=world.files)
    elif actor.at == "check":
        same = (actor.seen, actor.files) == (world.versions, world.files) or "same" in off
        following = Actor(
            actor.kind,
            "publish" if "renew" in off else "renew",
            actor.base,
            _find_restored_contents(actor, world.marker),
        )
        yield world, following if same else Actor(actor.kind, "unclaim")
    elif actor.at == "renew":
        sure = None if world.marker is None else _swap_marker(world, index, world.marker, off)
        yield (world, _stop(actor)) if sure is None else (sure, actor._replace(at="publish"))
    else:
        published = world._replace(aside=world.aside | {(index, actor.contents)})
        if not actor.contents.startswith(actor.base[1]):
            published = published._replace(fault="other contents than those of the dropped table were set aside")
        yield published, actor._replace(at="give")


def _find_restored_contents(actor: Actor, marker: Marker | None) -> str:
    """Return the contents that a restore of the copy returns."""
    if not actor.seen:
        return ""
    latest = actor.seen[-1][1]
    if marker is None or not (marker.burn and marker.version):
        return latest
    kept = dict(actor.seen).get(marker.version, "")
    return max((contents for _, contents in actor.seen if contents.startswith(kept)), key=len)


def _purge_original(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """End the claim with a new deletion id and purge the table with that id. If this fails, delete the copy."""
    marker, rest = world.marker, 10 + index
    if actor.at == "give":
        old = marker or Marker("deleted")
        given = old._replace(state="deleted", prior=False, creating=False, expired=False, drop=rest)
        moved = _swap_marker(world, index, given, off)
        yield (world, actor._replace(at="judge")) if moved is None else (moved, actor._replace(at="find"))
    elif actor.at == "find":
        ours = marker is not None and marker.state == "deleted" and marker.drop == rest
        yield _read_marker(world, index), actor._replace(at="take" if ours else "judge")
    elif actor.at == "take":
        held = _swap_marker(world, index, Marker("purging"), off)
        if held is None:
            yield world, actor._replace(at="judge")
            return
        life, contents = world.guarantee
        if life == DROPPED:
            held = held._replace(guarantee=Guarantee(PURGED), owed=world.owed | {index})
            if contents != actor.contents and "same" in off:
                held = held._replace(fault="a table was set aside without its contents")
            elif contents != actor.contents:
                # A client that knows no markers appended between the comparison and the claim.
                held = held._replace(stray=True)
        yield held, Actor(actor.kind, "purge.mine", actor.base, world.files)
    elif actor.at == "judge":
        ids = {actor.base[0], rest}
        intact = marker is not None and (marker.state == "deleted" or marker.prior) and marker.drop in ids
        keeps = not intact and "intact" not in off
        yield world, _stop(actor) if keeps else Actor(actor.kind, "clear")
    elif actor.at == "clear":
        fault = "the only copy of a dropped table was deleted" if index in world.owed else world.fault
        left = frozenset(copy for copy in world.aside if copy[0] != index)
        yield world._replace(aside=left, fault=fault), _stop(actor)


def _append(world: World, actor: Actor, index: int, off: Off) -> Iterator[Step]:
    """Append as plain Lance does, without markers: read, write, commit the next version, with retries."""
    if actor.at == "start":
        if world.marker is None and world.versions and not world.is_deregistered(off):
            yield world, Actor(actor.kind, "write", world.latest)
    elif actor.at == "write":
        yield _add_file(world, str(index)), actor._replace(at="commit")
    elif actor.at == "commit":
        contents = actor.base[1] + str(index)
        made = _commit(world, actor.base, contents)
        if made is not None:
            life, kept = world.guarantee
            if life in _KEPT and kept == actor.base[1]:
                made = made._replace(guarantee=Guarantee(life, contents))
            yield made, Actor(actor.kind, "end")
        elif world.latest[1].startswith(actor.base[1]):
            # Another append was committed first.
            yield world, actor._replace(base=world.latest)
        else:
            yield world, _stop(actor)


ACTORS: dict[str, Callable[[World, Actor, int, Off], Iterator[Step]]] = {
    "drop": _drop,
    "purge": _purge,
    "undrop": _undrop,
    "create": _create,
    "append": _append,
    "aside": _set_aside,
}
