"""Rows of the manifest that are skipped when it is read, because no identifier leads to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.results import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.directory.manifest.loaded_snapshot import LoadedSnapshot

REPAIR = "have the client that wrote it repair it, or remove the row"
DEREGISTER = "deregister the table, which removes the row and touches no file"
_LONGEST = 200


def find_skipped_rows(snapshot: LoadedSnapshot) -> Iterator[Problem]:
    """Iterate over the skipped rows, each with the reason."""
    count = snapshot.unreadable_rows()
    if count:
        yield Problem(layout.MANIFEST, f"{count:,} rows have no id or no type", REPAIR)
    for object_id, reason in snapshot.skipped.items():
        yield Problem(shorten_id(object_id), reason, REPAIR)
    for object_id, fault in snapshot.location_faults().items():
        yield create_location_problem(object_id, fault)


def create_location_problem(object_id: str, fault: str) -> Problem:
    """Return the problem of a table row whose location is unusable."""
    return Problem(shorten_id(object_id), f"no table can be at its location: {fault}", DEREGISTER)


def shorten_id(object_id: str) -> str:
    """Return an id, shortened for reports: other clients can write one of any length."""
    return object_id if len(object_id) <= _LONGEST else f"{object_id[:_LONGEST]}…"
