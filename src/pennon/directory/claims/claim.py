"""Moving the marker of a root table from one state to the next: each a conditional write, which decides who may.

A lease never decides about data alone. A creator that comes back late finds that the marker is not its own any more,
or loses the strict commit of its version; a purger that comes back late is fenced (see `fence`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.directory import layout, retention
from pennon.directory.claims.marker import DELETED, UNREADABLE, Marker, parsed, unreadable
from pennon.directory.problem_log import warn_once
from pennon.directory.problems import Problem
from pennon.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    LanceNamespaceError,
    UnusableEntryError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.store import Store

_ATTEMPTS = 8


@dataclass(frozen=True)
class Standing:
    """A marker as it stands in the store; None if there is none, though its body may be there."""

    name: str
    marker: Marker | None
    e_tag: str
    written: float = 0.0
    """When it was written, in seconds, by the store's clock; 0 where nobody asked."""


def read(store: Store, name: str) -> Standing | None:
    """Read the marker of a root table; None if there is nothing at all. One that is too large cannot be understood."""
    try:
        blob = store.get(layout.deleted(name))
    except UnusableEntryError as error:
        found = Standing(name, unreadable(str(error)), "")
    else:
        if blob is None:
            return None
        found = Standing(name, parsed(blob.body), blob.e_tag, blob.modified)
    problem = problem_of(found)
    if problem is not None:
        warn_once(problem, store.identity())
    return found


def problem_of(standing: Standing) -> Problem | None:
    """Return what is wrong with a marker and how to fix it, or None if it can be read."""
    marker = standing.marker
    if marker is None:
        return None
    kept = marker if marker.state in {DELETED, UNREADABLE} else marker.prior
    if kept is None or not kept.fault:
        return None
    entry = layout.deleted(standing.name)
    if kept.state == UNREADABLE:
        return Problem(
            entry,
            f"the marker cannot be read: {kept.fault}",
            f"upgrade Pennon if a newer version wrote it, or delete '{entry}' to show the table again",
        )
    return Problem(entry, f"for how long the dropped table is kept cannot be read: {kept.fault}", retention.FIX)


def take(store: Store, name: str, wanted: Marker, settle: Callable[[Standing], None]) -> Standing:
    """Claim a name that is free or dropped, whose marker then becomes `prior`; 14 if another caller holds it.

    `settle` brings a marker whose owner is dead to rest. The commit point is one conditional write. A crash after it
    leaves the name hidden until the lease is over.
    """
    for _ in range(_ATTEMPTS):
        written = wanted.renewed()
        e_tag = store.create(layout.deleted(name), written.body())
        if e_tag is not None:
            return Standing(name, written, e_tag)
        current = read(store, name)
        if current is None:
            continue
        if current.marker is not None and current.marker.state != DELETED:
            if not current.marker.is_over:
                raise not_available(current)
            settle(current)
            continue
        held = move(store, current, replace(wanted, prior=current.marker))
        if held is not None:
            return held
    raise held_by_another(name)


def move(store: Store, current: Standing, to: Marker) -> Standing | None:
    """Write the next state if the marker is still the one that was read; None if somebody else was first."""
    written = to.renewed()
    e_tag = store.swap(layout.deleted(current.name), written.body(), current.e_tag)
    return None if e_tag is None else Standing(current.name, written, e_tag)


def remove(store: Store, held: Standing) -> bool:
    """Remove the marker if it is still the one that was written or read; False if somebody took it over."""
    if store.delete_if(layout.deleted(held.name), held.e_tag):
        return True
    return store.get(layout.deleted(held.name)) is None


def remove_own(store: Store, held: Standing) -> bool:
    """Remove the marker, which shows a dropped table again; False if it was not this caller's any more.

    A marker that is gone counts as another's work: somebody may have purged the table.
    """
    return store.delete_if(layout.deleted(held.name), held.e_tag)


def is_mine(store: Store, held: Standing) -> bool:
    """Tell whether a marker that was written still stands."""
    current = read(store, held.name)
    if current is None or current.marker is None or held.marker is None:
        return False
    return current.marker.nonce == held.marker.nonce


def hides(size: int | None) -> bool:
    """Tell from the size of a marker whether it hides its table."""
    return size is not None and size >= layout.SHORTEST_CLAIM


def not_available(standing: Standing) -> LanceNamespaceError:
    """Say why a name whose marker is not at rest cannot be claimed: somebody is at work, or nobody can tell."""
    problem = problem_of(standing)
    if standing.marker is not None and standing.marker.state == UNREADABLE and problem is not None:
        return InvalidTableStateError(
            f"Table '{standing.name}' is hidden by '{problem.entry}', and kept: {problem.reason}; {problem.fix}"
        )
    return held_by_another(standing.name)


def held_by_another(name: str) -> ConcurrentModificationError:
    """Say that somebody else is at work on a table."""
    return ConcurrentModificationError(
        f"Table '{name}' is being created, dropped, restored or purged by another client; try again later"
    )
