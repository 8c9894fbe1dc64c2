"""Keeping the manifest table in shape: indexes, and removal of old versions.

It runs in a background thread after every so many commits of this process, so no caller waits for it, and gives way to
whoever else works on the table: a conflict ends the round and the next one comes. So does the end of the process, at
any point of a round: every step leaves a valid table. Joining of small fragments needs no round of its own: commits do
it as they go.

Old versions are removed, with the files that only they use. Where Pennon alone writes, the last `KEPT_VERSIONS` stay:
many times what a reader needs between opening a version and having read it. Other clients take a version for the
latest as long as the next number is absent, and would commit into the gap that cleaning leaves. So once a commit of
another client is seen, the manifest is marked as shared, and every version younger than `SHARED_RETENTION_SECONDS`
stays. See docs/adr/0003.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING, Literal

import lance

from pennon import background
from pennon.directory import layout
from pennon.directory.manifest import flags, history
from pennon.directory.manifest.commit import COMMITTED_BY
from pennon.errors import is_commit_conflict, is_not_found

if TYPE_CHECKING:
    from collections.abc import Iterable
    from threading import Thread

    from pennon.store import Store

KEPT_VERSIONS = 24
SHARED_RETENTION_SECONDS = 7 * 24 * 3600.0
VERSIONS_PER_ROUND = 16
_UNINDEXED_SHARE = 0.2
_INDEXES: tuple[tuple[str, Literal["BTREE", "BITMAP", "LABEL_LIST"], str], ...] = (
    ("object_id", "BTREE", "object_id_btree"),
    ("object_type", "BITMAP", "object_type_bitmap"),
    ("base_objects", "LABEL_LIST", "base_objects_label_list"),
)
_log = logging.getLogger(__name__)


class Upkeep:
    """The rounds of upkeep of one manifest."""

    def __init__(self, location: str, store: Store) -> None:
        self._location = location
        self._store = store
        self._lock = Lock()
        self._due = False
        self._closing = False
        self._thread: Thread | None = None
        self._running = False
        self._last_round = 0
        self._authors: dict[int, bool] = {}

    def committed(self, version: int) -> None:
        """Take note of a commit; one in sixteen, whichever process it belongs to, begins a round in the background."""
        with self._lock:
            self._authors[version] = True
            if version // VERSIONS_PER_ROUND == self._last_round // VERSIONS_PER_ROUND:
                return
            first = self._last_round == 0
            self._last_round = version
            if self._closing or (first and version % VERSIONS_PER_ROUND):
                return
            self._due = True
            # A forked child has no thread of its parent's.
            if not self._running or self._thread is None or not self._thread.is_alive():
                self._thread = background.start(self._run, name="pennon-upkeep")
                self._running = self._thread is not None

    def close(self) -> None:
        """Finish the round that is due, and begin no more."""
        with self._lock:
            self._closing = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._take_due():
            self._round()

    def _take_due(self) -> bool:
        """Return True if a round is due; if none is, the thread ends and the next round starts another."""
        with self._lock:
            self._running, self._due = self._due, False
            return self._running

    def _round(self) -> None:
        try:
            # Cleaning deletes what it finds, also behind links.
            self._store.resolve(layout.MANIFEST, deeply=True)
            dataset = lance.dataset(self._location, storage_options=self._store.storage_options or None)
            self._clean(dataset)
            keep_indexes(dataset)
        except background.ProcessEndingError:
            raise
        except Exception as error:  # noqa: BLE001 - upkeep must not end its thread; the next round tries again
            if is_commit_conflict(error) or is_not_found(error):
                _log.debug("upkeep of %s gave way to another writer: %s", self._location, error)
            else:
                _log.warning("upkeep of %s failed and is tried again later", self._location, exc_info=True)

    def _clean(self, dataset: lance.LanceDataset) -> None:
        """Remove versions that nobody needs any more, with the files that only they use."""
        background.raise_if_ending()
        found = history.listed(self._store)
        kept = sorted(found)[-KEPT_VERSIONS:]
        doomed = [version for version in found if version < kept[0]]
        if not doomed:
            return
        if self._is_shared(dataset, found):
            now = max(found.values())
            doomed = [version for version in doomed if now - found[version] > SHARED_RETENTION_SECONDS]
        with self._lock:
            self._authors = {version: ours for version, ours in self._authors.items() if version >= kept[0]}
        if doomed:
            background.raise_if_ending()
            dataset.cleanup_old_versions(versions=sorted(doomed), error_if_tagged_old_versions=False)

    def _is_shared(self, dataset: lance.LanceDataset, found: Iterable[int]) -> bool:
        """Tell whether other clients write to this manifest, and leave a mark if they do."""
        if dataset.metadata.get(flags.SHARED) == "true":
            return True
        if all(self._is_ours(dataset, version) for version in sorted(found, reverse=True)):
            return False
        dataset.update_metadata({flags.SHARED: "true"})
        return True

    def _is_ours(self, dataset: lance.LanceDataset, version: int) -> bool:
        """Tell whether a version was committed by Pennon, here or elsewhere; each foreign one is read once."""
        with self._lock:
            known = self._authors.get(version)
        if known is None:
            background.raise_if_ending()
            known = _is_harmless(version, dataset.read_transaction(version))
            with self._lock:
                self._authors[version] = known
        return known


def _is_harmless(version: int, transaction: lance.Transaction | None) -> bool:
    """Tell whether a commit shows no other client at work on the catalog."""
    if transaction is None:
        return False
    if COMMITTED_BY in (transaction.transaction_properties or {}):
        return True
    operation = transaction.operation
    if version == 1 and isinstance(operation, lance.LanceOperation.Overwrite):
        # A manifest that begins with rows in it was filled by an import; other clients begin with an empty one.
        return bool(operation.fragments)
    return isinstance(operation, (lance.LanceOperation.CreateIndex, lance.LanceOperation.UpdateConfig))


def keep_indexes(dataset: lance.LanceDataset) -> None:
    """Make the indexes that are missing and take in new rows once they are a fair share of the table."""
    background.raise_if_ending()
    present = {
        index.name: {fragment_id for segment in index.segments for fragment_id in segment.fragment_ids}
        for index in dataset.describe_indices()
    }
    if not dataset.get_fragments():
        return
    for column, kind, name in _INDEXES:
        if name not in present:
            background.raise_if_ending()
            dataset.create_scalar_index(column, kind, name=name, replace=True)
    if len(present) < len(_INDEXES):
        return
    total = unindexed = 0
    for fragment in dataset.get_fragments():
        total += fragment.physical_rows
        if any(fragment.fragment_id not in covered for covered in present.values()):
            unindexed += fragment.physical_rows
    if unindexed > _UNINDEXED_SHARE * total:
        background.raise_if_ending()
        dataset.optimize.optimize_indices()
