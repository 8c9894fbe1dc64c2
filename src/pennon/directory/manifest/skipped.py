"""Rows of the manifest that are skipped as it is read, because nobody could ever ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.directory.manifest.snapshot import Snapshot

REPAIR = "have the client that wrote it repair it, or remove the row"
DEREGISTER = "deregister the table, which removes the row and touches no file"
_LONGEST = 200


def skipped_rows(snapshot: Snapshot) -> Iterator[Problem]:
    """Name the rows that were skipped, with the reason."""
    count = snapshot.unreadable_rows()
    if count:
        yield Problem(layout.MANIFEST, f"{count:,} rows have no id or no type", REPAIR)
    for object_id, reason in snapshot.skipped.items():
        yield Problem(shorten_id(object_id), reason, REPAIR)
    for object_id, fault in snapshot.location_faults().items():
        yield location_problem(object_id, fault)


def location_problem(object_id: str, fault: str) -> Problem:
    """Describe the row of a table whose location cannot be used."""
    return Problem(shorten_id(object_id), f"no table can be at its location: {fault}", DEREGISTER)


def shorten_id(object_id: str) -> str:
    """Return an id as reports show it: others may have written one of any length."""
    return object_id if len(object_id) <= _LONGEST else f"{object_id[:_LONGEST]}…"
