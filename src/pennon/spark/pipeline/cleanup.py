"""Deleting what a run has staged, after proof that the run wrote it.

The state of a run is in the root, where others can write. So a location in it is deleted only if the catalog proves
that it belongs to a new table that was never added, and if the files there prove that this run wrote them.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError, NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import format_identifier, object_id, parse_table_name
from pennon.spark.jobs import version_scan
from pennon.spark.pipeline import staged_notes
from pennon.spark.pipeline.run_location import root_store
from pennon.spark.pipeline.targets import find_published, has_versions
from pennon.spark.tables.destination import locate_table
from pennon.spark.tables.run_files import NOTES, RunDirectory, require_run_name
from pennon.table.history import JOB

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pennon.identifiers import Identifier
    from pennon.pipeline_runs.run_state import RunState
    from pennon.spark.address import Address
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.tables.destination import Destination

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CleanupResult:
    """The result of deleting what a run has staged."""

    published: dict[int, int]
    """Published targets with their versions; they are kept."""
    kept: tuple[str, ...] = ()
    """Messages about what was kept because the run may not have written it, and how to delete it."""


def clean_up(
    address: Address, state: RunState, definition: Definition, report: dict[str, Any] | None = None
) -> CleanupResult:
    """Delete everything that a run has staged, so that it can begin again. Published targets are kept."""
    published = find_published(address, state, definition)
    kept: list[str] = []
    removed = []
    for number, work in _find_staged(state, definition, kept):
        if number in published:
            continue
        try:
            left = _delete_staged(address, state, parse_table_name(definition.targets[number].table), number, work)
        except InvalidTableStateError as error:
            left = [str(error)]
        kept += left
        removed += [] if left else [number]
    _warn(kept)
    if published or kept:
        # Some targets are published or kept, so the state stays, and the run continues with the others.
        for number in removed:
            for work in (f"checks-{number}", f"target.{number}", f"staging.{number}"):
                state.undo(work)
    else:
        state.forget(report)
    return CleanupResult(published, tuple(kept))


def settle(address: Address, state: RunState, published: Collection[int], definition: Definition) -> None:
    """Delete the unreferenced files of targets that an earlier attempt has published."""
    for number in published:
        note = state.read_note(f"target.{number}")
        if note is None:
            continue
        identifier = parse_table_name(definition.targets[number].table)
        parsed = staged_notes.parse_note(state, number, note, identifier)
        destination = locate_table(address, identifier)
        if not parsed.new and destination.uri == parsed.uri:
            _warn(_delete_unreferenced(state, destination, parsed.run, parsed.files))


def sweep_intent(address: Address, state: RunState, number: int, identifier: Identifier) -> None:
    """Delete what a killed attempt has staged for a target, by the note that it made before."""
    work = f"staging.{number}"
    note = state.read_note(work)
    if note is not None:
        _warn(sweep(address, state, identifier, _run_of_intent(state, work, note)))
        state.undo(work)


def sweep(address: Address, state: RunState, identifier: Identifier, run: str) -> list[str]:
    """Delete the files that were written for a target, by their notes, and return messages about what was kept."""
    kept = []
    if has_versions(address, identifier):
        kept += _delete_unreferenced(state, locate_table(address, identifier), run)
    for uri in _find_locations(address, identifier, run):
        kept += _discard_location(address, state, "staging", identifier, uri=uri, run=run)
    return kept


def _warn(kept: list[str]) -> None:
    for message in kept:
        _log.warning("%s", message)


def _find_staged(state: RunState, definition: Definition, kept: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the targets that have staged data, each with the piece of work that describes it."""
    done = state.finished_work()
    for work in done:
        kind, _, number = work.partition(".")
        if kind not in {"target", "staging"}:
            continue
        if number not in map(str, range(len(definition.targets))):
            kept.append(str(state.damaged_error(state.note_path(work), "the pipeline has no such target")))
        elif kind == "target" or f"target.{number}" not in done:
            yield int(number), work


def _delete_staged(address: Address, state: RunState, identifier: Identifier, number: int, work: str) -> list[str]:
    """Delete what was staged for a target, and return messages about what was kept."""
    note = state.read_note(work)
    if note is None:
        return []
    if work == f"staging.{number}":
        return sweep(address, state, identifier, _run_of_intent(state, work, note))
    parsed = staged_notes.parse_note(state, number, note, identifier)
    if parsed.new:
        return _discard_location(address, state, work, identifier, uri=parsed.uri, run=parsed.run)
    try:
        destination = locate_table(address, identifier)
    except (TableNotFoundError, NamespaceNotFoundError):
        return []
    # If the table is at another location, the files were deleted with the table that was there.
    return _delete_unreferenced(state, destination, parsed.run) if destination.uri == parsed.uri else []


def _run_of_intent(state: RunState, work: str, note: dict[str, Any]) -> str:
    """Return the name of the run's notes in a table. Raises InvalidTableStateError if it is malformed."""
    run = note.get("run")
    if not isinstance(run, str):
        raise state.damaged_error(state.note_path(work), f"{run!r} is not the name of a run's notes")
    return require_run_name(run)


def _discard_location(
    address: Address, state: RunState, work: str, identifier: Identifier, *, uri: str, run: str
) -> list[str]:
    """Delete a location of a new table; return a message if it is kept because nothing proves that the run wrote it."""
    catalog = address.connect()
    try:
        catalog.require_new_table_location(list(identifier), uri)
        if _is_own(address, state, uri, run):
            catalog.discard_table_location(list(identifier), uri)
            return []
        reason = "nothing in it proves that this run wrote it"
    except InvalidTableStateError as error:
        reason = str(error)
    note = state.note_path(work)
    return [f"{uri!r}, which {note!r} refers to, was kept: {reason}. If it is not needed, delete it, then {note!r}"]


def _delete_unreferenced(state: RunState, destination: Destination, run: str, keep: Collection[str] = ()) -> list[str]:
    """Delete the files that a run wrote into a table and that no version refers to; return what was kept."""
    with destination.files(blobs=True) as files:
        if not files.noted_files(run):
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


def _is_own(address: Address, state: RunState, uri: str, run: str) -> bool:
    """Return True if a location is empty, or if its notes or its first version prove that this run wrote it."""
    import lance

    with RunDirectory(uri, lambda: address.storage_options) as files:
        if not files.names("") or files.names(f"{NOTES}/{run}"):
            return True
    try:
        made = lance.dataset(uri, version=1, storage_options=address.storage_options or None).read_transaction(1)
    except (OSError, ValueError):
        return False
    return made is not None and (made.transaction_properties or {}).get(JOB) == state.job_id


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
