"""The manifest of one root: validated reads, and mutations that share commits.

A read asks the store for the latest version and answers from memory. Fragments are read only if they changed.
A mutation is a plan: a function that checks its preconditions on a draft and changes it. The plans of threads that wait
at the same time are committed together. After a conflict, all of them run again on the latest version.
"""

from __future__ import annotations

import random
import time
from collections import deque
from contextlib import suppress
from threading import Event, Lock, RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import lance

from pennon.directory import layout
from pennon.directory.manifest import flags, history
from pennon.directory.manifest.commit import CommitConflict, CommitPlan, ManifestChange, commit, create_table
from pennon.directory.manifest.draft import Draft
from pennon.directory.manifest.loading import advance
from pennon.directory.manifest.skipped import find_skipped_rows
from pennon.directory.manifest.snapshot import Snapshot
from pennon.directory.manifest.upkeep import Upkeep
from pennon.directory.problems import warn_once
from pennon.errors import (
    ConcurrentModificationError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
    is_commit_conflict,
    is_not_found,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pennon.directory.manifest.row import Row
    from pennon.store import Store

T = TypeVar("T")

PLAN_ERRORS = (
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
)
"""Errors of plans and feature flags, so nothing was committed. After any other error, the outcome is unknown."""

_DEADLINE_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.5
_LARGEST_GROUP = 256
_OPEN_ATTEMPTS = 10


class _Mutation(Generic[T]):
    """A plan that waits for its commit, and its result."""

    def __init__(self, plan: Callable[[Draft], T]) -> None:
        self.plan = plan
        self.done = Event()
        self.result: T | None = None
        self.error: BaseException | None = None


class Manifest:
    """The manifest table of a root, opened at first use and absent until the first mutation."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._location = store.location(layout.MANIFEST)
        self._snapshot = Snapshot()
        self._dataset: lance.LanceDataset | None = None
        self._mark: object = None
        """Differs if the root was deleted and created again, and its manifest has the same version as before."""
        self._looked = False
        self._guard = RLock()
        self._commit_lock = Lock()
        self._waiting: deque[_Mutation[Any]] = deque()
        self._upkeep = Upkeep(self._location, store)

    def read(self, look: Callable[[Snapshot], T]) -> T:
        """Return the result of `look` on the latest version. It must be quick and keep no reference to the snapshot."""
        self._validate()
        with self._guard:
            flags.require_readable(self._snapshot.metadata, self._store.identity())
            return look(self._snapshot)

    def peek(self, look: Callable[[Snapshot], T]) -> T:
        """Return the result of `look` on the snapshot in memory, which may be outdated: a commit checks it again."""
        with self._guard:
            if self._looked:
                flags.require_readable(self._snapshot.metadata, self._store.identity())
                return look(self._snapshot)
        return self.read(look)

    def mutate(self, plan: Callable[[Draft], T]) -> T:
        """Commit the changes that `plan` makes to a draft, and return its result.

        If `plan` raises an error, nothing is changed. It may run several times. The commit point is the manifest's next
        version; see `commit`.
        """
        mutation = _Mutation(plan)
        self._waiting.append(mutation)
        with self._commit_lock:
            while not mutation.done.is_set():
                self._commit_waiting()
        if mutation.error is not None:
            raise mutation.error
        return mutation.result  # type: ignore[return-value]  # a mutation without error has its result

    def may_refer_to(self, location: str, error: BaseException) -> bool:
        """Return False if the commit of a row with this location failed for certain, so that its files can be deleted.

        After an error that is not one of a plan, such as a lost response, the manifest is read again.
        """
        if isinstance(error, PLAN_ERRORS):
            return False
        try:
            return self.read(lambda snapshot: bool(snapshot.object_ids_at(location)))
        except Exception:  # noqa: BLE001 - the caller raises the first error, and the files are kept
            return True

    def require_writable(self, *, validated: bool = False) -> None:
        """Raise UnsupportedOperationError if a mutation would, before other files are written.

        With `validated`, the caller has just read the manifest, which saves a request.
        """
        ask = self.peek if validated else self.read
        ask(lambda snapshot: flags.require_writable(snapshot.metadata, self._store.identity()))

    def update_metadata(self, changes: Mapping[str, str | None]) -> None:
        """Set keys of the metadata map, or remove those with None. Creates the manifest if there is none."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        attempt = 0
        while True:
            self._validate()
            with self._guard:
                dataset = self._dataset
                flags.require_readable(self._snapshot.metadata, self._store.identity())
                flags.require_writable(self._snapshot.metadata, self._store.identity())
            self._store.resolve(layout.MANIFEST)
            try:
                if dataset is None:
                    create_table(self._location, self._store.storage_options, [])
                    continue
                dataset.checkout_version(dataset.version).update_metadata(dict(changes))
            except CommitConflict:
                self._pause(attempt, deadline, "the properties of the root namespace")
            except OSError as error:
                if not is_commit_conflict(error):
                    raise
                self._pause(attempt, deadline, "the properties of the root namespace")
            else:
                return
            attempt += 1

    def close(self) -> None:
        """Finish upkeep and release the table."""
        self._upkeep.close()
        with self._guard:
            self._dataset = None
            self._snapshot = Snapshot()

    def _commit_waiting(self) -> None:
        """Commit all waiting plans. The caller holds the commit lock."""
        group: list[_Mutation[Any]] = []
        while self._waiting and len(group) < _LARGEST_GROUP:
            group.append(self._waiting.popleft())
        try:
            self._commit_group(group)
        except Exception as error:  # noqa: BLE001 - raised again in each thread of the group
            self._fail(group, error)
        except BaseException:
            interrupted = "The commit was interrupted in another thread of this process; check whether it succeeded"
            self._fail(group, ConcurrentModificationError(interrupted))
            raise

    def _fail(self, group: list[_Mutation[Any]], error: Exception) -> None:
        for mutation in group:
            if not mutation.done.is_set():
                mutation.error = mutation.error or error
                mutation.done.set()

    def _commit_group(self, group: list[_Mutation[Any]]) -> None:
        """Run the plans on the latest version and commit on top of it, until there is no conflict."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        attempt = 0
        while True:
            self._validate()
            with self._guard:
                flags.require_readable(self._snapshot.metadata, self._store.identity())
                flags.require_writable(self._snapshot.metadata, self._store.identity())
                plan = CommitPlan.from_draft(self._snapshot, self._run_plans(group))
                dataset = self._dataset
            if not (plan.added or plan.removed) or self._try_commit(dataset, plan):
                break
            self._pause(attempt, deadline, "the catalog")
            attempt += 1
        for mutation in group:
            mutation.done.set()

    def _run_plans(self, group: list[_Mutation[Any]]) -> Draft:
        """Run the plans on one draft, and return it. The changes of a plan that fails are undone."""
        draft = Draft(self._snapshot)
        for mutation in group:
            if mutation.error is not None:
                continue
            savepoint = draft.savepoint()
            try:
                mutation.result = mutation.plan(draft)
            except Exception as error:  # noqa: BLE001 - errors of a plan are raised in its thread
                mutation.error = error
                draft.roll_back(savepoint)
        return draft

    def _try_commit(self, dataset: lance.LanceDataset | None, plan: CommitPlan) -> bool:
        """Commit and advance the snapshot. Returns False after a conflict."""
        started = time.monotonic()
        self._store.resolve(layout.MANIFEST)
        try:
            if dataset is None:
                committed, change = create_table(self._location, self._store.storage_options, plan.rows)
            else:
                committed, change = commit(dataset, plan)
        except CommitConflict as conflict:
            self._discard(conflict.leftovers)
            return False
        if not self._is_in_history(committed, started):
            self._validate()
            return self._is_effective(plan.added, plan.removed)
        self._advance(dataset, committed, change)
        self._upkeep.record_commit(committed.version)
        return True

    def _advance(self, base: lance.LanceDataset | None, committed: lance.LanceDataset, change: ManifestChange) -> None:
        alone = committed.version == (0 if base is None else base.version) + 1
        with self._guard:
            if self._dataset is not None and self._snapshot.version >= committed.version:
                return  # a reader has loaded it, or a newer version
            advance(self._snapshot, committed, written=change.written, deleted=change.deleted if alone else None)
            self._keep_open(committed)

    def _is_in_history(self, committed: lance.LanceDataset, started: float) -> bool:
        """Return True if a commit is part of the table's history.

        Old versions are removed. So a writer that was stopped for long before its commit can put its version into a gap
        that a removal left, where no reader ever sees it. Such a version is younger than versions with higher numbers.
        """
        surely_current = 0.05 if self._store.is_local else 1.0
        if time.monotonic() - started < surely_current:
            return True
        found = history.list_versions(self._store)
        mine = found.get(committed.version)
        later = [modified for version, modified in found.items() if version > committed.version]
        if not later:
            return True
        return mine is not None and min(later) >= mine

    def _is_effective(self, added: list[Row], removed: list[str]) -> bool:
        """Return True if the latest version contains a change whose own version was removed."""
        kept = {row.object_id for row in added}
        with self._guard:
            return all(self._snapshot.get(row.object_id) == row for row in added) and not any(
                self._snapshot.get(key) for key in removed if key not in kept
            )

    def _discard(self, leftovers: tuple[str, ...]) -> None:
        """Delete the files of a failed commit. If that fails, upkeep deletes them later."""
        if leftovers:
            with suppress(OSError):
                self._store.delete(*(layout.inside(layout.MANIFEST, path) for path in leftovers))

    def _validate(self) -> None:
        """Advance the snapshot to the latest version. Costs one request if nothing changed."""
        with self._guard:
            if self._dataset is None:
                self._open()
                self._warn()
                return
            version, dataset, mark = self._snapshot.version, self._dataset, self._mark
        latest = history.find_latest(self._store, dataset)
        if latest == history.LatestVersion(version, mark):
            return
        with self._guard:
            if self._snapshot.version < latest.version or (self._snapshot.version, self._mark) == (version, mark):
                self._refresh(latest.version)
                self._warn()

    def _keep_open(self, dataset: lance.LanceDataset) -> None:
        self._dataset, self._mark = dataset, history.read_mark(self._store, dataset)

    def _warn(self) -> None:
        """Warn of skipped rows."""
        for problem in find_skipped_rows(self._snapshot):
            warn_once(problem, self._store.identity())

    def _open(self) -> None:
        """Open the latest version and load it, if there is a manifest."""
        self._snapshot = Snapshot()
        self._looked = True
        if history.is_absent(self._store):
            return
        self._store.resolve(layout.MANIFEST)
        for remaining in reversed(range(_OPEN_ATTEMPTS)):
            try:
                dataset = lance.dataset(self._location, storage_options=self._store.storage_options or None)
            except (OSError, ValueError) as error:
                if is_not_found(error):
                    return
                raise
            try:
                advance(self._snapshot, dataset)
            except (OSError, ValueError) as error:
                # Upkeep can remove a version after it was opened; the next attempt opens a newer one.
                self._snapshot = Snapshot()
                if not is_not_found(error) or not remaining:
                    raise
            else:
                self._keep_open(dataset)
                return

    def _refresh(self, latest: int) -> None:
        """Advance from the version in memory. If that version was removed, load the latest one completely."""
        dataset, self._dataset = self._dataset, None
        if dataset is not None and latest > self._snapshot.version:
            try:
                newer = dataset.checkout_version(latest)
                advance(self._snapshot, newer)
            except (OSError, ValueError) as error:
                if not is_not_found(error):
                    raise
            else:
                self._keep_open(newer)
                return
        self._open()

    def _pause(self, attempt: int, deadline: float, what: str) -> None:
        """Wait a random time before the next attempt. Raises ConcurrentModificationError after the deadline."""
        if time.monotonic() > deadline:
            raise ConcurrentModificationError(
                f"Could not commit to {what} at {self._store.identity()} in {_DEADLINE_SECONDS:.0f} s: "
                "others committed first every time; nothing was changed"
            )
        longest = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS)
        time.sleep(random.uniform(0, longest))  # noqa: S311 - jitter, not a secret
