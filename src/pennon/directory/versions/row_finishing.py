"""Version rows that are changed in the background, after the manifests of their versions were copied.

A version is finished in two steps: its staged manifest is copied to its final name, and its row is changed to point
there. In an object store, the second step is a commit of its own. So a writer returns after the copy, which clients
that read files need. A background thread changes the rows of all tables in one commit, and then deletes the staged
manifests. A crash before that leaves unfinished versions, as any other crash after the commit of a version does: the
next reader finishes them.
"""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock
from typing import TYPE_CHECKING

from pennon import background
from pennon.directory.versions.version_rows import find_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from threading import Thread

    from pennon.directory.manifest import Draft, Manifest, Snapshot
    from pennon.directory.versions.record import VersionRecord
    from pennon.directory.versions.version_rows import ManagedTable
    from pennon.store import Store

_PAUSE_SECONDS = 0.5
"""The time between two commits that change rows. A version that is created alone is finished at once."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CopiedVersion:
    """A version whose manifest has its final name, while its row still points to the staged one."""

    table: ManagedTable
    before: VersionRecord
    after: VersionRecord


class RowFinisher:
    """Changes the rows of copied versions in the background, and deletes their staged manifests."""

    def __init__(self, store: Store, manifest: Manifest | None) -> None:
        self._store = store
        self._manifest = manifest
        self._lock = Lock()
        self._copied: dict[str, CopiedVersion] = {}
        self._thread: Thread | None = None
        self._running = False
        self._finished_at = -math.inf
        self._hurry = Event()

    def add(self, versions: Iterable[CopiedVersion]) -> None:
        """Finish these versions later. If the process is ending, they are finished now."""
        with self._lock:
            self._copied.update((version.before.path, version) for version in versions)
            # A forked child does not have its parent's thread.
            if not self._running or self._thread is None or not self._thread.is_alive():
                self._thread = background.start(self._run, name="pennon-finish", stop=self._hurry.set)
                self._running = self._thread is not None
            is_waited_for = self._running
        if not is_waited_for:
            self._finish_all()

    def find(self, record: VersionRecord) -> VersionRecord | None:
        """Return the finished record of an unfinished version if this client has copied its manifest."""
        with self._lock:
            copied = self._copied.get(record.path)
        return None if copied is None else copied.after

    def close(self) -> None:
        """Finish all versions."""
        self._hurry.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._copied:
                    self._running = False
                    return
                due = self._finished_at + _PAUSE_SECONDS
            self._hurry.wait(due - time.monotonic())
            self._finish_all()

    def _finish_all(self) -> None:
        """Finish all copied versions in one commit, and delete their staged manifests in one request.

        No error is raised: the versions exist, and the next reader finishes those that remain.
        """
        with self._lock:
            versions = list(self._copied.values())
        try:
            finished = self._change_rows(versions)
            if finished:
                with suppress(OSError):
                    self._store.delete(*(version.before.path for version in finished))
        except Exception as error:  # noqa: BLE001 - an error must not end the thread
            names = ", ".join(f"{version.after.version} of '{version.table.key}'" for version in versions)
            _log.warning("version %s is committed but not finished yet: %s", names, error)
        finally:
            with self._lock:
                self._finished_at = time.monotonic()
                for version in versions:
                    self._copied.pop(version.before.path, None)

    def _change_rows(self, versions: Sequence[CopiedVersion]) -> list[CopiedVersion]:
        """Change the rows that still point to staged manifests. Returns the versions whose rows are finished."""
        if self._manifest is None:
            return []
        finished = self._manifest.peek(lambda snapshot: _list_finished(snapshot, versions))
        if len(finished) == len(versions):
            return finished

        def plan(draft: Draft) -> list[CopiedVersion]:
            change_rows(draft, versions)
            return _list_finished(draft, versions)

        return self._manifest.mutate(plan)


def change_rows(draft: Draft, versions: Iterable[CopiedVersion]) -> None:
    """Make the rows of copied versions point to their final names, unless they were changed or removed."""
    for version in versions:
        current = find_record(draft, version.table, version.after.version)
        if current is not None and current.path == version.before.path:
            draft.put(version.after.to_row(version.table.key))


def _list_finished(rows: Draft | Snapshot, versions: Iterable[CopiedVersion]) -> list[CopiedVersion]:
    """Return the versions whose rows point to their final names.

    A version without a row is left out. Its table may have another name now, with a row that is unfinished.
    """
    return [
        version
        for version in versions
        if (current := find_record(rows, version.table, version.after.version)) is not None
        and current.path == version.after.path
        and current.staged_path == version.before.path
    ]
