"""Checks by a new client, name by name, after processes were killed."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

import pytest
from lance_namespace.errors import TableNotFoundError

from pennon.store import local
from tests.concurrency.places import MANIFEST, TRASH, column, entries, files
from tests.concurrency.storm_model import Generation, Rules, State, find_fault
from tests.concurrency.workers import ROWS, open_client
from tests.support import Root, create_table, drop_table, ipc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.concurrency.storm import Call, Place

PROBE = ".lance-probe-"
"""The prefix of objects with which a client probes the store; a client that is killed then leaves one."""
_one_at_a_time = Lock()


def find_faults(place: Place, ns: Any, name: str, calls: Sequence[Call], *, alone: bool) -> Iterator[str]:
    """Compare a name with the possible results of the calls, then use the name and purge it."""
    try:
        wrong = find_fault(calls, Rules(place.one_lineage, alone), settle_and_read(place, ns, name))
        if wrong is not None:
            yield f"{place.mode}: {name}: {wrong}"
        use(place, ns, name)
    except Exception as error:
        history = "\n".join(f"  {call}" for call in sorted(calls, key=lambda call: call.begun))
        raise AssertionError(f"{place.mode}: {name} cannot be used ({error!r}) after\n{history}") from error


def settle_and_read(place: Place, ns: Any, name: str) -> State:
    """Settle a name, return what is live and what is dropped, and leave everything dropped."""
    live = None
    # Reads change nothing. The first undrop completes or undoes the work of a killed process.
    with suppress(TableNotFoundError):
        ns.undrop_table([name], deletion_id="none of them")
    if ns.table_status([name]).status == "Exists":
        live = content(place, ns, name)
        drop_table(ns, name)
    dropped = []
    for table in ns.list_dropped_tables()[0]:
        if table.id != [name] or table.being_purged:
            continue
        ns.undrop_table([name], deletion_id=table.deletion_id)
        dropped.append(content(place, ns, name))
        drop_table(ns, name)
    if live is not None:
        dropped.remove(live)
    return State(live, dropped=tuple(Generation(token) for token in dropped))


def content(place: Place, ns: Any, name: str) -> str:
    """Return the write whose rows a table has: all of them and no others."""
    rows = column(place.root, ns, name)
    assert rows == rows[:1] * ROWS, f"{name} has the rows {rows}"
    return rows[0]


def use(place: Place, ns: Any, name: str) -> None:
    """Perform every operation on a name that is not live, and leave it purged."""
    create_table(ns, name, data=ipc({"who": ["after"] * ROWS}))
    assert content(place, ns, name) == "after"
    drop_table(ns, name)
    ns.undrop_table([name])
    assert content(place, ns, name) == "after"
    drop_table(ns, name)
    assert ns.purge_tables([[name]], force=True).failed == []
    assert ns.table_status([name]).status == "NotFound"
    assert [table for table in ns.list_dropped_tables()[0] if table.id == [name]] == []


def leftovers(place: Place, calls: Sequence[Call]) -> Iterator[str]:
    """Iterate over what is left of tables after all are purged.

    A purge does not delete a directory of a killed creation that never got a row. No response and no report ever named
    the location of such a directory.
    """
    if not place.root.options:
        sweep_trash(place.root)
    left = {path for path in files(place.root) if path.split("/")[0] != MANIFEST and not path.startswith(PROBE)}
    if place.one_lineage:
        if left:
            yield f"{place.mode}: left behind: {sorted(left)}"
        return
    named = {where.rpartition("/")[2] for call in calls for where in call.told or [] if call.what != "status"}
    orphans = {path.split("/")[0] for path in left}
    if orphans & named:
        yield f"{place.mode}: left behind by purges: {sorted(orphans & named)}"
    killed = [call for call in calls if call.killed and call.what in {"create", "write"}]
    if len(orphans - named) > len(killed):
        yield f"{place.mode}: left behind by {len(killed)} killed creations: {sorted(orphans - named)}"


def sweep_trash(root: Root) -> None:
    """Delete what killed purges had moved aside, as a later purge does."""
    with _one_at_a_time, pytest.MonkeyPatch.context() as patch, open_client(root, "v1") as ns:
        patch.setattr(local, "_LEFTOVER_SECONDS", -60.0)
        create_table(ns, "last")
        drop_table(ns, "last", purge="true")
    assert TRASH not in entries(root)
