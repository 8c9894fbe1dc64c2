"""From staged to visible, or to nothing: what a run has staged is published once, or removed."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import Identifier, object_id
from pennon.spark import writing
from pennon.spark.commits import committing
from pennon.spark.commits.destination import located
from pennon.spark.commits.files import NOTES, TableFiles
from pennon.spark.pipeline.queries import is_partial
from pennon.spark.pipeline.references import identifier_of
from pennon.spark.reading import scan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyspark.sql import SparkSession

    from pennon.spark.address import Address
    from pennon.spark.commits.staged import StagedWrite
    from pennon.spark.lake import Lake
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.pipeline.state import RunState
    from pennon.spark.reading.scan import Scan

_PUBLISHING = "publishing"


# What is staged, as checks see it


def preview(staged: StagedWrite) -> Scan:
    """Give a target as it will be."""
    assert staged.preview is not None  # noqa: S101 - nothing is noted as staged before it is readable
    return scan.of_pinned(staged.preview)


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
    return scan.count(spark, seen)


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
            _sweep(address, self.identifier, note["run"])
            self.state.undo(self._work)

    @property
    def _work(self) -> str:
        return f"staging.{self.number}"


def is_there(address: Address, identifier: Identifier) -> bool:
    """Tell whether a table has a version."""
    try:
        return not located(address, identifier).declared
    except TableNotFoundError:
        return False


# Publishing


def earlier(address: Address, state: RunState, definition: Definition) -> dict[int, int]:
    """Find the targets that an earlier try has published, with their versions; by number."""
    if state.done(_PUBLISHING) is None:
        return {}
    found = {}
    for number, target in enumerate(definition.targets):
        try:
            committed = committing.find(address, identifier_of(target.table), state.job_id)
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


def settle(address: Address, state: RunState, published: Collection[int]) -> None:
    """Remove what an earlier try wrote for targets that it published, and that belongs to no version."""
    for number in published:
        note = state.done(f"target.{number}")
        if note is not None and not note["new"]:
            with _files(address, note["uri"], blobs=note["blobs"]) as files:
                files.settle(note["run"], set(note["files"]))


def moved(staged: StagedWrite) -> bool:
    """Tell whether a table has another version than when something was staged for it."""
    destination = staged.destination
    if staged.new:
        return is_there(destination.address, staged.identifier)
    return int(destination.latest().version) != staged.read_version


# Giving up


def clean_up(
    address: Address, state: RunState, definition: Definition, report: dict[str, Any] | None = None
) -> dict[int, int]:
    """Remove all that a run has staged, and let it begin anew; targets that are published stay, and are given back."""
    published = earlier(address, state, definition)
    removed = [number for number, note in _staged(state) if number not in published and _remove(address, note)]
    if not published:
        state.forget(report)
    else:
        # Some of the targets that are published one by one are: the run goes on with the others.
        for number in removed:
            for work in (f"checks-{number}", f"target.{number}", f"staging.{number}"):
                state.undo(work)
    return published


def _staged(state: RunState) -> Iterator[tuple[int, dict[str, Any]]]:
    done = state.all_done()
    for work, note in done.items():
        kind, _, number = work.partition(".")
        if kind == "target" or (kind == "staging" and f"target.{number}" not in done):
            yield int(number), note


def _remove(address: Address, note: dict[str, Any]) -> bool:
    """Remove what was staged for a target, or what is left of it."""
    if note.get("new"):
        with _files(address, note["uri"]) as files:
            files.delete_tree()
    elif "uri" in note:
        with _files(address, note["uri"], blobs=bool(note.get("blobs"))) as files:
            files.settle(note["run"])
    else:
        _sweep(address, tuple(note["table"]), note["run"])
    return True


def _sweep(address: Address, identifier: Identifier, run: str) -> None:
    """Find by their notes the files that were written for a target, and remove them."""
    if is_there(address, identifier):
        with located(address, identifier).files(blobs=True) as files:
            files.settle(run)
    for place in _places(address, identifier, run):
        with _files(address, place) as files:
            files.delete_tree()


def _places(address: Address, identifier: Identifier, run: str) -> list[str]:
    """Find the directories of new tables of this name in which the run has left notes."""
    store = root_store(address)
    if store is None:
        return []
    endings = (f"_{object_id(identifier)}", f"_{object_id(identifier)}_")
    if address.impl == "iceberg":
        from pennon.iceberg.places import name_ending  # noqa: PLC0415 - rarely needed

        endings = (name_ending(identifier),) * 2
    with_name = [name for name in store.names("") if name.endswith(endings)]
    return [store.location(name) for name in with_name if store.names(f"{name}/{NOTES}/{run}")]


def root_store(address: Address) -> Any:  # noqa: ANN401 - a Store, or None where the catalog has none
    """Open the root of a catalog."""
    from pennon.store import open_store  # noqa: PLC0415 - it imports the stores

    root = dict(address.properties).get("root")
    return None if root is None else open_store(root, address.storage_options)


def _files(address: Address, uri: str, *, blobs: bool = False) -> TableFiles:
    return TableFiles(uri, lambda: address.storage_options, blobs=blobs)
