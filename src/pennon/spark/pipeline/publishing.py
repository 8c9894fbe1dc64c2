"""From staged to visible, or to nothing: what a run has staged is published once, or removed."""

from __future__ import annotations

import logging
import math
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError, NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.spark import writing
from pennon.spark.commits import table_commits
from pennon.spark.commits.destination import locate_table
from pennon.spark.commits.run_files import NOTES, TableFiles, require_run_name
from pennon.spark.jobs import version_scan
from pennon.spark.pipeline import staged_notes
from pennon.spark.pipeline.queries import is_partial
from pennon.spark.pipeline.references import identifier_of
from pennon.spark.reading import scan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyspark.sql import SparkSession

    from pennon.spark.address import Address
    from pennon.spark.commits.destination import Destination
    from pennon.spark.commits.staged_write import StagedWrite
    from pennon.spark.lake import Lake
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.pipeline.state import RunState
    from pennon.spark.reading.scan import Scan

_PUBLISHING = "publishing"
_log = logging.getLogger(__name__)


# What is staged, as checks see it


def preview(staged: StagedWrite) -> Scan:
    """Give a target as it will be."""
    assert staged.preview is not None
    return scan.scan_pinned(staged.preview)


def only_new(staged: StagedWrite, whole: Scan) -> Scan:
    """Give the rows that the run writes: those of fragments that the published version does not have."""
    if not staged.read_version:
        return whole
    before = {
        fragment.fragment_id for fragment in staged.destination.pinned(staged.read_version).open().get_fragments()
    }
    is_overwrite = type(staged.operation).__name__ == "Overwrite"
    return (
        whole
        if is_overwrite
        else replace(whole, fragments=tuple(one for one in whole.fragments if one.id not in before))
    )


def published_rows(staged: StagedWrite) -> int | None:
    """Count the rows of the version on which the run builds; None if the table is new."""
    if not staged.read_version:
        return None
    return int(staged.destination.pinned(staged.read_version).open().count_rows())


def counted(spark: SparkSession, seen: Scan) -> int:
    """Count rows; of fragments that are new, none is deleted."""
    if is_partial(seen):
        return seen.rows
    return scan.count_rows(spark, seen)


# Staging


@dataclass(frozen=True)
class Intent:
    """Says under which name the files of a target are noted before one is written, so that no crash leaves them."""

    state: RunState
    number: int
    identifier: Identifier

    def announce(self) -> str:
        """Choose the name, and write it down."""
        note, _ = self.state.record(self._work, {"run": uuid.uuid4().hex, "table": list(self.identifier)})
        return str(note["run"])

    def sweep(self, address: Address) -> None:
        """Remove what a try that was killed while it staged the target has left."""
        note = self.state.done(self._work)
        if note is not None:
            for kept in _sweep(address, self.state, self.identifier, _run_of(self.state, self._work, note)):
                _log.warning("%s", kept)
            self.state.undo(self._work)

    @property
    def _work(self) -> str:
        return f"staging.{self.number}"


def is_there(address: Address, identifier: Identifier) -> bool:
    """Tell whether a table has a version."""
    try:
        return not locate_table(address, identifier).declared
    except TableNotFoundError:
        return False


# Publishing


def earlier(address: Address, state: RunState, definition: Definition) -> dict[int, int]:
    """Find the targets that an earlier try has published, with their versions; by number."""
    if _PUBLISHING not in state.all_done():
        return {}
    found = {}
    for number, target in enumerate(definition.targets):
        try:
            committed = table_commits.find_job(address, identifier_of(target.table), state.job_id)
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
    """Make what is staged visible, all at once if `together`; gives the versions, by the targets' numbers.

    Error 14 if one of those that must be `unchanged` has another version than when it was staged.
    """
    state.record(_PUBLISHING, {})
    if together:
        results = writing.publish_together(lake, list(staged.values()), job_id=state.job_id, unchanged=unchanged)
    else:
        results = [writing.publish(lake, one, job_id=state.job_id) for one in staged.values()]
    return {number: one.version for number, one in zip(staged, results, strict=True)}


def settle(address: Address, state: RunState, published: Collection[int], definition: Definition) -> None:
    """Remove what an earlier try wrote for targets that it published, and that belongs to no version."""
    for number in published:
        note = state.done(f"target.{number}")
        if note is None:
            continue
        identifier = identifier_of(definition.targets[number].table)
        parsed = staged_notes.parse(state, number, note, identifier)
        destination = locate_table(address, identifier)
        if not parsed["new"] and destination.uri == parsed["uri"]:
            for kept in _settled(state, destination, parsed["run"], set(parsed["files"])):
                _log.warning("%s", kept)


def moved(staged: StagedWrite) -> bool:
    """Tell whether a table has another version than when something was staged for it."""
    destination = staged.destination
    if staged.new:
        return is_there(destination.address, staged.identifier)
    return int(destination.latest().version) != staged.read_version


# Giving up


@dataclass(frozen=True)
class CleanUp:
    """What came of removing what a run has staged."""

    published: dict[int, int]
    """Targets that are published, with their versions: they stay."""
    kept: tuple[str, ...] = ()
    """What was kept because it is not certainly the run's own: the reasons, and how to remove it."""


def clean_up(
    address: Address, state: RunState, definition: Definition, report: dict[str, Any] | None = None
) -> CleanUp:
    """Remove all that a run has staged, and let it begin again; targets that are published stay.

    The state lies in the root, where others can write. So a place that it names is deleted only if the catalog proves
    that it is one of a new table that did not come into it, and the files in it that this run wrote it.
    """
    published = earlier(address, state, definition)
    kept: list[str] = []
    removed = []
    for number, work in _staged(state, definition, kept):
        if number in published:
            continue
        try:
            left = _remove(address, state, identifier_of(definition.targets[number].table), number, work)
        except InvalidTableStateError as error:
            left = [str(error)]
        kept += left
        removed += [] if left else [number]
    for one in kept:
        _log.warning("%s", one)
    if published or kept:
        # Some of the targets that are published one by one are: the run goes on with the others.
        for number in removed:
            for work in (f"checks-{number}", f"target.{number}", f"staging.{number}"):
                state.undo(work)
    else:
        state.forget(report)
    return CleanUp(published, tuple(kept))


def _staged(state: RunState, definition: Definition, kept: list[str]) -> Iterator[tuple[int, str]]:
    """Give the targets of which something is staged, each with the piece of work that says what."""
    done = state.all_done()
    for work in done:
        kind, _, number = work.partition(".")
        if kind not in {"target", "staging"}:
            continue
        if number not in map(str, range(len(definition.targets))):
            kept.append(str(state.damaged(state.place_of(work), "the pipeline has no such target")))
        elif kind == "target" or f"target.{number}" not in done:
            yield int(number), work


def _remove(address: Address, state: RunState, identifier: Identifier, number: int, work: str) -> list[str]:
    """Remove what was staged for a target, or what is left of it; gives what was kept, and why."""
    note = state.done(work)
    if note is None:
        return []
    if work == f"staging.{number}":
        return _sweep(address, state, identifier, _run_of(state, work, note))
    parsed = staged_notes.parse(state, number, note, identifier)
    if parsed["new"]:
        return _discard(address, state, work, _Place(identifier, parsed["uri"], parsed["run"]))
    try:
        destination = locate_table(address, identifier)
    except (TableNotFoundError, NamespaceNotFoundError):
        return []
    if destination.uri != parsed["uri"]:
        return []  # the files went with the table that was there
    return _settled(state, destination, parsed["run"])


def _sweep(address: Address, state: RunState, identifier: Identifier, run: str) -> list[str]:
    """Find by their notes the files that were written for a target, and remove them; gives what was kept, and why."""
    kept = _settled(state, locate_table(address, identifier), run) if is_there(address, identifier) else []
    for uri in _places(address, identifier, run):
        kept += _discard(address, state, "staging", _Place(identifier, uri, run))
    return kept


@dataclass(frozen=True)
class _Place:
    """Where a run may have written a new table, under the name of its notes."""

    identifier: Identifier
    uri: str
    run: str


def _discard(address: Address, state: RunState, work: str, place: _Place) -> list[str]:
    """Delete a place at which the run wrote a new table; gives what was kept, and why, if that is not proven."""
    catalog = address.connect()
    reason = ""
    try:
        catalog.require_new_table_location(list(place.identifier), place.uri)
        if _wrote(address, state, place):
            catalog.discard_table_location(list(place.identifier), place.uri)
        else:
            reason = "nothing in it says that this run wrote it"
    except InvalidTableStateError as error:
        reason = str(error)
    if not reason:
        return []
    note = state.place_of(work)
    text = f"{place.uri!r}, which {note!r} names, was kept: {reason}. If nobody needs it, delete it, and then {note!r}"
    return [text]


def _wrote(address: Address, state: RunState, place: _Place) -> bool:
    """Return True if nothing is at a place, or if what is there says that this run wrote it."""
    with _files(address, place.uri) as files:
        if not files.names("") or files.names(f"{NOTES}/{place.run}"):
            return True
    return _is_named(address, place.uri, state.job_id)


def _is_named(address: Address, uri: str, job_id: str) -> bool:
    """Return True if the first version at a place says that it was made by this run."""
    import lance

    try:
        made = lance.dataset(uri, version=1, storage_options=address.storage_options or None).read_transaction(1)
    except (OSError, ValueError):
        return False
    return made is not None and (made.transaction_properties or {}).get(table_commits.JOB) == job_id


def _settled(state: RunState, destination: Destination, run: str, keep: Collection[str] = ()) -> list[str]:
    """Remove the files that a run wrote into a table and that no version names; gives what was kept, and why."""
    with destination.files(blobs=True) as files:
        noted = files.noted_files(run)
        if not noted:
            files.settle(run)
            return []
        dataset = destination.latest()
        # Notes are files that anybody may have left: what a version names stays, whoever noted it.
        seen = version_scan.scan_versions(
            dataset, version_scan.list_files(dataset), sorted(dataset.branches.list()), math.inf
        )
        if seen.is_complete:
            files.settle(run, seen.referenced.files.union(keep))
            return []
    text = (
        f"Files that {state.subject} wrote into table {format_identifier(destination.identifier)} were kept, "
        "as not all of its "
        f"versions can be read: {seen.unreadable[0]}. Mend the table, and discard the run again"
    )
    return [text]


def _run_of(state: RunState, work: str, note: dict[str, Any]) -> str:
    run = note.get("run")
    if not isinstance(run, str):
        raise state.damaged(state.place_of(work), f"{run!r} is not the name of a run's notes")
    return require_run_name(run)


def _places(address: Address, identifier: Identifier, run: str) -> list[str]:
    """Find the directories of new tables of this name in which the run has left notes."""
    store = root_store(address)
    if store is None:
        return []
    endings = (f"_{object_id(identifier)}", f"_{object_id(identifier)}_")
    if address.impl == "iceberg":
        from pennon.iceberg.places import name_ending

        endings = (name_ending(identifier),) * 2
    with_name = [name for name in store.list_names("") if name.endswith(endings)]
    return [store.location(name) for name in with_name if store.list_names(f"{name}/{NOTES}/{run}")]


def root_store(address: Address) -> Any:
    """Open the root of a catalog."""
    from pennon.store import open_store

    root = dict(address.properties).get("root")
    return None if root is None else open_store(root, address.storage_options)


def _files(address: Address, uri: str, *, blobs: bool = False) -> TableFiles:
    return TableFiles(uri, lambda: address.storage_options, blobs=blobs)
