"""Upkeep of the manifest table: indexes, and removal of old versions.

It runs in rounds, in a background thread, after a number of commits, so no caller waits for it. A conflict with another
client ends the round, and the next round tries again. The process may end at any point: every step leaves a valid
table. Small fragments are joined by commits, not here.

Old versions are removed, with the files that only they use. If only Pennon writes, the last `KEPT_VERSIONS` are kept:
many more than a reader needs between opening a version and reading it. Other clients take a version for the latest if
the next number does not exist, and would commit into the gap that a removal leaves. So once a commit of another client
is seen, the manifest is marked as shared, and every version younger than `SHARED_RETENTION_SECONDS` is kept. See
docs/adr/0003.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Literal

import lance

from pennon import background, counters
from pennon.directory import layout
from pennon.directory.manifest import flags, history
from pennon.directory.manifest.commit import COMMITTED_BY
from pennon.errors import is_commit_conflict, is_not_found
from pennon.table.history import read_transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from threading import Thread

    from pennon.store import Store

KEPT_VERSIONS = 24
SHARED_RETENTION_SECONDS = 7 * 24 * 3600.0
VERSIONS_PER_ROUND = 16
OVERDUE_VERSIONS = 64
FEW_ROWS = 2_000
"""Manifests with more rows are queried by their indexes, and need them."""
_UNINDEXED_SHARE = 0.2
_UNINDEXED_ROWS = 128
"""So few new rows are found without an index as fast as with it."""
_INDEXES: tuple[tuple[str, Literal["BTREE", "BITMAP", "LABEL_LIST"], str], ...] = (
    ("object_id", "BTREE", "object_id_btree"),
    ("object_type", "BITMAP", "object_type_bitmap"),
    ("base_objects", "LABEL_LIST", "base_objects_label_list"),
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UpkeepState:
    """What the upkeep of a manifest has to do."""

    versions: int
    """How many versions have files."""
    removable: int
    """How many of them a round would remove."""
    missing_indexes: tuple[str, ...]
    rows: int
    unindexed_rows: int
    fragments: int

    @property
    def is_overdue(self) -> bool:
        """True if no process has run a round for long, or a round would build an index. Small manifests need none."""
        needs_index = self.rows > FEW_ROWS and (bool(self.missing_indexes) or self.is_unindexed)
        return self.removable > OVERDUE_VERSIONS or needs_index

    @property
    def is_unindexed(self) -> bool:
        """True if so many rows are not indexed that a round would index them."""
        return self.unindexed_rows > max(_UNINDEXED_ROWS, _UNINDEXED_SHARE * self.rows)


class Upkeep:
    """Runs the upkeep of one manifest."""

    def __init__(self, location: str, store: Store) -> None:
        self._location = location
        self._store = store
        self._lock = Lock()
        self._due = False
        self._only_if_neglected = True
        self._closing = False
        self._thread: Thread | None = None
        self._running = False
        self._last_round = 0
        self._authors: dict[int, bool] = {}
        self._own_versions: set[int] = set()
        self._is_committing = False
        """True while a round makes a commit of its own. Its version is known only afterwards."""

    def record_commit(self, version: int) -> None:
        """Record a commit of this process. Every sixteenth version starts a round, in the process that committed it.

        Some are committed by upkeep itself or by other clients. So a process that has started none for long looks
        whether versions have accumulated.
        """
        with self._lock:
            self._authors[version] = True
            self._last_round = self._last_round or version
            is_regular = version % VERSIONS_PER_ROUND == 0
            if not is_regular and version < self._last_round + OVERDUE_VERSIONS:
                return
            self._last_round = version
            if self._closing:
                return
            self._due = True
            self._only_if_neglected = self._only_if_neglected and not is_regular
            # A forked child does not have its parent's thread.
            if not self._running or self._thread is None or not self._thread.is_alive():
                self._thread = background.start(self._run, name="pennon-upkeep")
                self._running = self._thread is not None

    def may_have_committed(self, first: int, last: int) -> bool:
        """Return False if a version in a range was certainly not committed by a round of this process."""
        with self._lock:
            return self._is_committing or all(version in self._own_versions for version in range(first, last + 1))

    def find_state(self) -> UpkeepState:
        """Return what there is to do. The manifest must exist."""
        found = history.list_versions(self._store)
        dataset = self._open()
        removable = self._choose_removable(found, is_shared=dataset.metadata.get(flags.SHARED) == "true")
        present, total, unindexed = _measure_indexes(dataset)
        missing = tuple(name for _, _, name in _INDEXES if name not in present)
        return UpkeepState(len(found), len(removable), missing, total, unindexed, len(dataset.get_fragments()))

    def run(self) -> None:
        """Run a round now. Raises the error of a step that fails; a conflict with another client is none."""
        try:
            self._run_steps()
        except (OSError, ValueError, RuntimeError) as error:
            if not is_commit_conflict(error) and not is_not_found(error):
                raise

    def close(self) -> None:
        """Finish the round that is due, and start no more."""
        with self._lock:
            self._closing = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._take_due():
            with self._lock:
                only_if_neglected, self._only_if_neglected = self._only_if_neglected, True
            self._run_round(only_if_neglected=only_if_neglected)

    def _take_due(self) -> bool:
        """Return True if a round is due. If not, the thread ends, and the next round starts a new one."""
        with self._lock:
            self._running, self._due = self._due, False
            return self._running

    def _run_round(self, *, only_if_neglected: bool) -> None:
        try:
            if only_if_neglected and len(history.list_versions(self._store)) < OVERDUE_VERSIONS:
                return  # other processes run the rounds
            self._run_steps()
            counters.UPKEEP_ROUNDS.add("done")
        except background.ProcessEndingError:
            raise
        except Exception as error:  # noqa: BLE001 - an error must not end the thread; the next round tries again
            if is_commit_conflict(error) or is_not_found(error):
                counters.UPKEEP_ROUNDS.add("conflict")
                _log.debug("upkeep of %s stopped because another client wrote: %s", self._location, error)
            else:
                counters.UPKEEP_ROUNDS.add("failed")
                _log.warning("upkeep of %s failed and will be tried again", self._location, exc_info=True)

    def _run_steps(self) -> None:
        # Removing versions also deletes files behind links.
        self._store.resolve(layout.MANIFEST, deeply=True)
        dataset = self._open()
        self._remove_old_versions(dataset)
        update_indexes(dataset, self._recorded)

    @contextmanager
    def _recorded(self, dataset: lance.LanceDataset) -> Iterator[None]:
        """Record the version that the block commits with a dataset."""
        background.raise_if_ending()
        with self._lock:
            self._is_committing = True
        try:
            yield
        finally:
            with self._lock:
                self._is_committing = False
                oldest = dataset.version - KEPT_VERSIONS
                self._own_versions = {version for version in self._own_versions if version > oldest} | {dataset.version}

    def _open(self) -> lance.LanceDataset:
        return lance.dataset(self._location, storage_options=self._store.storage_options or None)

    def _choose_removable(self, found: Mapping[int, float], *, is_shared: bool) -> list[int]:
        """Return the versions that are old enough to be removed."""
        kept = sorted(found)[-KEPT_VERSIONS:]
        removable = [version for version in found if version < kept[0]] if kept else []
        if not is_shared or not removable:
            return removable
        now = max(found.values())
        return [version for version in removable if now - found[version] > SHARED_RETENTION_SECONDS]

    def _remove_old_versions(self, dataset: lance.LanceDataset) -> None:
        """Remove old versions, with the files that only they use."""
        background.raise_if_ending()
        found = history.list_versions(self._store)
        removable = self._choose_removable(found, is_shared=False)
        if not removable:
            return
        kept = sorted(found)[-KEPT_VERSIONS:]
        removable = self._choose_removable(found, is_shared=self._is_shared(dataset, found))
        with self._lock:
            self._authors = {version: ours for version, ours in self._authors.items() if version >= kept[0]}
        if removable:
            background.raise_if_ending()
            dataset.cleanup_old_versions(versions=sorted(removable), error_if_tagged_old_versions=False)

    def _is_shared(self, dataset: lance.LanceDataset, found: Iterable[int]) -> bool:
        """Return True if other clients write to this manifest, and record that they do."""
        if dataset.metadata.get(flags.SHARED) == "true":
            return True
        if all(self._is_ours(dataset, version) for version in sorted(found, reverse=True)):
            return False
        dataset.update_metadata({flags.SHARED: "true"})
        return True

    def _is_ours(self, dataset: lance.LanceDataset, version: int) -> bool:
        """Return True if Pennon committed a version, in any process. Each version is read at most once."""
        with self._lock:
            known = self._authors.get(version)
        if known is None:
            background.raise_if_ending()
            known = _is_harmless(version, read_transaction(dataset, version))
            with self._lock:
                self._authors[version] = known
        return known


def _is_harmless(version: int, transaction: lance.Transaction | None) -> bool:
    """Return True unless a commit shows that another client writes to the catalog."""
    if transaction is None:
        return False
    if COMMITTED_BY in (transaction.transaction_properties or {}):
        return True
    operation = transaction.operation
    if version == 1 and isinstance(operation, lance.LanceOperation.Overwrite):
        # A first version with rows comes from an import; other clients start with an empty manifest.
        return bool(operation.fragments)
    return isinstance(operation, (lance.LanceOperation.CreateIndex, lance.LanceOperation.UpdateConfig))


def update_indexes(
    dataset: lance.LanceDataset,
    recorded: Callable[[lance.LanceDataset], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Create missing indexes, and index new rows once they are a fair share of the table.

    Each commit is made in a block of `recorded`.
    """
    background.raise_if_ending()
    present, total, unindexed = _measure_indexes(dataset)
    if not dataset.get_fragments():
        return
    for column, kind, name in _INDEXES:
        if name not in present:
            with recorded(dataset):
                dataset.create_scalar_index(column, kind, name=name, replace=True)
    if len(present) < len(_INDEXES):
        return
    if unindexed > max(_UNINDEXED_ROWS, _UNINDEXED_SHARE * total):
        with recorded(dataset):
            dataset.optimize.optimize_indices()


def _measure_indexes(dataset: lance.LanceDataset) -> tuple[set[str], int, int]:
    """Return the names of the indexes, the number of rows, and how many rows an index does not cover."""
    present = {
        index.name: {fragment_id for segment in index.segments for fragment_id in segment.fragment_ids}
        for index in dataset.describe_indices()
    }
    total = unindexed = 0
    for fragment in dataset.get_fragments():
        total += fragment.physical_rows
        if any(fragment.fragment_id not in covered for covered in present.values()):
            unindexed += fragment.physical_rows
    return set(present), total, unindexed
