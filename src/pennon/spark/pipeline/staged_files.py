"""Deleting what a run has staged, after proof that the run wrote it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError, TableNotFoundError
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.spark.jobs import version_scan
from pennon.spark.tables import job_commits
from pennon.spark.tables.destination import locate_table
from pennon.spark.tables.run_files import NOTES, RunDirectory, require_run_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from pennon.spark.address import Address
    from pennon.spark.pipeline.run_state import RunState
    from pennon.spark.tables.destination import Destination


@dataclass(frozen=True)
class StagedLocation:
    """A location where a run may have written a new table, and the name of its notes."""

    identifier: Identifier
    uri: str
    run: str


def has_versions(address: Address, identifier: Identifier) -> bool:
    """Return True if a table exists and has a version."""
    try:
        return not locate_table(address, identifier).declared
    except TableNotFoundError:
        return False


def root_store(address: Address) -> Any:
    """Return the store of a catalog's root, or None if it has no root."""
    from pennon.store import open_store

    root = dict(address.properties).get("root")
    return None if root is None else open_store(root, address.storage_options)


def sweep(address: Address, state: RunState, identifier: Identifier, run: str) -> list[str]:
    """Delete the files that were written for a target, by their notes, and return messages about what was kept."""
    kept = (
        delete_unreferenced(state, locate_table(address, identifier), run) if has_versions(address, identifier) else []
    )
    for uri in _find_locations(address, identifier, run):
        kept += discard_location(address, state, "staging", StagedLocation(identifier, uri, run))
    return kept


def discard_location(address: Address, state: RunState, work: str, place: StagedLocation) -> list[str]:
    """Delete a location of a new table; return a message if it is kept because nothing proves that the run wrote it."""
    catalog = address.connect()
    reason = ""
    try:
        catalog.require_new_table_location(list(place.identifier), place.uri)
        if _is_own(address, state, place):
            catalog.discard_table_location(list(place.identifier), place.uri)
        else:
            reason = "nothing in it proves that this run wrote it"
    except InvalidTableStateError as error:
        reason = str(error)
    if not reason:
        return []
    note = state.note_path(work)
    text = f"{place.uri!r}, which {note!r} refers to, was kept: {reason}. If it is not needed, delete it, then {note!r}"
    return [text]


def delete_unreferenced(state: RunState, destination: Destination, run: str, keep: Collection[str] = ()) -> list[str]:
    """Delete the files that a run wrote into a table and that no version refers to; return what was kept."""
    with destination.files(blobs=True) as files:
        noted = files.noted_files(run)
        if not noted:
            files.settle(run)
            return []
        dataset = destination.latest()
        # Anyone may have written the notes, so files that a version refers to are kept.
        seen = version_scan.scan_versions(
            dataset, version_scan.list_files(dataset), sorted(dataset.branches.list()), math.inf
        )
        if seen.is_complete:
            files.settle(run, seen.referenced.files.union(keep))
            return []
    text = (
        f"Files that {state.subject} wrote into table {format_identifier(destination.identifier)} were kept, "
        f"because not all of its versions can be read: {seen.unreadable[0]}. Repair it, then discard the run again"
    )
    return [text]


def run_of_note(state: RunState, work: str, note: dict[str, Any]) -> str:
    """Return the name of the run's notes in a table. Raises InvalidTableStateError if it is malformed."""
    run = note.get("run")
    if not isinstance(run, str):
        raise state.damaged_error(state.note_path(work), f"{run!r} is not the name of a run's notes")
    return require_run_name(run)


def _is_own(address: Address, state: RunState, place: StagedLocation) -> bool:
    """Return True if a location is empty, or if its content proves that this run wrote it."""
    with RunDirectory(place.uri, lambda: address.storage_options) as files:
        if not files.names("") or files.names(f"{NOTES}/{place.run}"):
            return True
    return _has_job_id(address, place.uri, state.job_id)


def _has_job_id(address: Address, uri: str, job_id: str) -> bool:
    """Return True if the first version at a location has the run's job id."""
    import lance

    try:
        made = lance.dataset(uri, version=1, storage_options=address.storage_options or None).read_transaction(1)
    except (OSError, ValueError):
        return False
    return made is not None and (made.transaction_properties or {}).get(job_commits.JOB) == job_id


def _find_locations(address: Address, identifier: Identifier, run: str) -> list[str]:
    """Return the directories of new tables with this name in which the run has left notes."""
    store = root_store(address)
    if store is None:
        return []
    endings = (f"_{object_id(identifier)}", f"_{object_id(identifier)}_")
    if address.impl == "iceberg":
        from pennon.iceberg.places import name_ending

        endings = (name_ending(identifier),) * 2
    with_name = [name for name in store.list_names("") if name.endswith(endings)]
    return [store.location(name) for name in with_name if store.list_names(f"{name}/{NOTES}/{run}")]
