"""Publishing what a run has staged, once, or deleting it."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError, NamespaceNotFoundError, TableNotFoundError
from pennon.spark import tables
from pennon.spark.pipeline import staged_notes
from pennon.spark.pipeline.staged_files import (
    StagedLocation,
    delete_unreferenced,
    discard_location,
    has_versions,
    run_of_note,
    sweep,
)
from pennon.spark.pipeline.statements import parse_table_name
from pennon.spark.tables import job_commits
from pennon.spark.tables.destination import locate_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.lake import Lake
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.pipeline.run_state import RunState
    from pennon.spark.tables.staged_write import StagedWrite

_PUBLISHING = "publishing"
_log = logging.getLogger(__name__)


# Staging


@dataclass(frozen=True)
class StagingIntent:
    """The name under which the files of a target are noted, recorded before the first one is written.

    After a crash, the files are found by it.
    """

    state: RunState
    number: int
    identifier: Identifier

    def announce(self) -> str:
        """Choose the name, record it and return it."""
        note, _ = self.state.record(self._work, {"run": uuid.uuid4().hex, "table": list(self.identifier)})
        return str(note["run"])

    def sweep(self, address: Address) -> None:
        """Delete what a killed attempt has staged for the target."""
        note = self.state.read_note(self._work)
        if note is not None:
            for kept in sweep(address, self.state, self.identifier, run_of_note(self.state, self._work, note)):
                _log.warning("%s", kept)
            self.state.undo(self._work)

    @property
    def _work(self) -> str:
        return f"staging.{self.number}"


# Publishing


def find_published(address: Address, state: RunState, definition: Definition) -> dict[int, int]:
    """Return the targets that an earlier attempt has published: their numbers and versions."""
    if _PUBLISHING not in state.finished_work():
        return {}
    found = {}
    for number, target in enumerate(definition.targets):
        try:
            committed = job_commits.find_job(address, parse_table_name(target.table), state.job_id)
        except (TableNotFoundError, NamespaceNotFoundError):
            continue
        if committed is not None:
            found[number] = committed.version
    return found


def publish(
    lake: Lake,
    state: RunState,
    staged: Mapping[int, StagedWrite],
    *,
    together: bool,
    unchanged: Collection[Identifier],
) -> dict[int, int | None]:
    """Publish what is staged, all at once if `together`, and return the versions by target number.

    Raises ConcurrentModificationError if a table that must be `unchanged` has another version than when it was staged.
    """
    state.record(_PUBLISHING, {})
    if together:
        results = tables.publish_together(lake, list(staged.values()), job_id=state.job_id, unchanged=unchanged)
    else:
        results = [tables.publish(lake, one, job_id=state.job_id) for one in staged.values()]
    return {number: one.version for number, one in zip(staged, results, strict=True)}


def settle(address: Address, state: RunState, published: Collection[int], definition: Definition) -> None:
    """Delete the unreferenced files of targets that an earlier attempt has published."""
    for number in published:
        note = state.read_note(f"target.{number}")
        if note is None:
            continue
        identifier = parse_table_name(definition.targets[number].table)
        parsed = staged_notes.parse_note(state, number, note, identifier)
        destination = locate_table(address, identifier)
        if not parsed["new"] and destination.uri == parsed["uri"]:
            for kept in delete_unreferenced(state, destination, parsed["run"], set(parsed["files"])):
                _log.warning("%s", kept)


def has_moved(staged: StagedWrite) -> bool:
    """Return True if a table has another version than when something was staged for it."""
    destination = staged.destination
    if staged.new:
        return has_versions(destination.address, staged.identifier)
    return int(destination.latest().version) != staged.read_version


# Cleanup


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
    """Delete everything that a run has staged, so that it can begin again. Published targets are kept.

    The state is in the root, where others can write. So a location in it is deleted only if the catalog proves that it
    belongs to a new table that was never added, and if the files there prove that this run wrote them.
    """
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
    for one in kept:
        _log.warning("%s", one)
    if published or kept:
        # Some targets are published or kept, so the state stays, and the run continues with the others.
        for number in removed:
            for work in (f"checks-{number}", f"target.{number}", f"staging.{number}"):
                state.undo(work)
    else:
        state.forget(report)
    return CleanupResult(published, tuple(kept))


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
        return sweep(address, state, identifier, run_of_note(state, work, note))
    parsed = staged_notes.parse_note(state, number, note, identifier)
    if parsed["new"]:
        return discard_location(address, state, work, StagedLocation(identifier, parsed["uri"], parsed["run"]))
    try:
        destination = locate_table(address, identifier)
    except (TableNotFoundError, NamespaceNotFoundError):
        return []
    if destination.uri != parsed["uri"]:
        return []  # the files were deleted with the table that was there
    return delete_unreferenced(state, destination, parsed["run"])
