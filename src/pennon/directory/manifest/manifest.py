"""The manifest of one root: validated reads, and mutations that share commits.

A read asks the store for the latest version and answers from memory; only if the version moved are the changed
fragments read. A mutation is a plan: a function that checks its preconditions on a draft and changes it. Plans of
several threads that wait at the same time are committed together; after a conflict all of them are planned again on
the version that won.
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
from pennon.directory.manifest.commit import Change, CommitConflict, Work, commit, create_table
from pennon.directory.manifest.draft import Draft
from pennon.directory.manifest.loading import advance
from pennon.directory.manifest.skipped import skipped_rows
from pennon.directory.manifest.snapshot import Snapshot
from pennon.directory.manifest.upkeep import Upkeep
from pennon.directory.problem_log import warn_once
from pennon.errors import ConcurrentModificationError, is_commit_conflict, is_not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pennon.directory.manifest.row import Row
    from pennon.store import Store

T = TypeVar("T")

_DEADLINE_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.5
_LARGEST_GROUP = 256
_OPEN_ATTEMPTS = 10


class _Mutation(Generic[T]):
    """A plan that waits for its commit, and its outcome."""

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
        """Tells the version in memory from one of the same number in a root that was deleted and created again."""
        self._looked = False
        self._guard = RLock()
        self._commit_lock = Lock()
        self._waiting: deque[_Mutation[Any]] = deque()
        self._upkeep = Upkeep(self._location, store)

    def read(self, look: Callable[[Snapshot], T]) -> T:
        """Answer a question from the latest version; `look` must be quick and keep no reference to the snapshot."""
        self._validate()
        with self._guard:
            flags.require_readable(self._snapshot.metadata, self._store.identity())
            return look(self._snapshot)

    def peek(self, look: Callable[[Snapshot], T]) -> T:
        """Answer from what is in memory, which may be out of date: for hints that a later commit makes sure of."""
        with self._guard:
            if self._looked:
                flags.require_readable(self._snapshot.metadata, self._store.identity())
                return look(self._snapshot)
        return self.read(look)

    def mutate(self, plan: Callable[[Draft], T]) -> T:
        """Commit what `plan` does to a draft, and return what it returns; what it raises is raised and changes nothing.

        `plan` may run several times. The commit point is the manifest's next version; see `commit`.
        """
        mutation = _Mutation(plan)
        self._waiting.append(mutation)
        with self._commit_lock:
            while not mutation.done.is_set():
                self._lead()
        if mutation.error is not None:
            raise mutation.error
        return mutation.result  # type: ignore[return-value]  # a mutation without error has its result

    def require_writable(self, *, validated: bool = False) -> None:
        """Refuse now, before anything beside the manifest is written, what a mutation would refuse.

        A caller that has just read the manifest says so and saves a request.
        """
        ask = self.peek if validated else self.read
        ask(lambda snapshot: flags.require_writable(snapshot.metadata, self._store.identity()))

    def update_metadata(self, changes: Mapping[str, str | None]) -> None:
        """Set and remove (None) keys of the table's metadata map, which creates the manifest if there is none."""
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
        """Finish upkeep and let go of the table."""
        self._upkeep.close()
        with self._guard:
            self._dataset = None
            self._snapshot = Snapshot()

    def _lead(self) -> None:
        """Commit every plan that waits, as the one thread that holds the commit lock."""
        group: list[_Mutation[Any]] = []
        while self._waiting and len(group) < _LARGEST_GROUP:
            group.append(self._waiting.popleft())
        try:
            self._commit_group(group)
        except Exception as error:  # noqa: BLE001 - raised again by each caller whose commit it was
            self._settle(group, error)
        except BaseException:
            interrupted = "The commit was interrupted by another thread of this process; look whether it went through"
            self._settle(group, ConcurrentModificationError(interrupted))
            raise

    def _settle(self, group: list[_Mutation[Any]], error: Exception) -> None:
        for mutation in group:
            if not mutation.done.is_set():
                mutation.error = mutation.error or error
                mutation.done.set()

    def _commit_group(self, group: list[_Mutation[Any]]) -> None:
        """Plan on the latest version and commit on top of exactly that one, again and again until it holds."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        attempt = 0
        while True:
            self._validate()
            with self._guard:
                flags.require_readable(self._snapshot.metadata, self._store.identity())
                flags.require_writable(self._snapshot.metadata, self._store.identity())
                work = Work.of(self._snapshot, self._planned(group))
                dataset = self._dataset
            if not (work.added or work.removed) or self._try_commit(dataset, work):
                break
            self._pause(attempt, deadline, "the catalog")
            attempt += 1
        for mutation in group:
            mutation.done.set()

    def _planned(self, group: list[_Mutation[Any]]) -> Draft:
        """Run the plans on one draft; a plan that fails is settled and leaves no change."""
        draft = Draft(self._snapshot)
        for mutation in group:
            if mutation.error is not None:
                continue
            savepoint = draft.savepoint()
            try:
                mutation.result = mutation.plan(draft)
            except Exception as error:  # noqa: BLE001 - whatever a plan raises is its caller's to see
                mutation.error = error
                draft.roll_back(savepoint)
        return draft

    def _try_commit(self, dataset: lance.LanceDataset | None, work: Work) -> bool:
        """Commit and bring the snapshot along; False after a conflict."""
        started = time.monotonic()
        self._store.resolve(layout.MANIFEST)
        try:
            if dataset is None:
                landed, change = create_table(self._location, self._store.storage_options, work.rows)
            else:
                landed, change = commit(dataset, work)
        except CommitConflict as conflict:
            self._discard(conflict.leftovers)
            return False
        if not self._stands(landed, started):
            self._validate()
            return self._holds(work.added, work.removed)
        self._take(dataset, landed, change)
        self._upkeep.committed(landed.version)
        return True

    def _take(self, before: lance.LanceDataset | None, landed: lance.LanceDataset, change: Change) -> None:
        base = 0 if before is None else before.version
        alone = landed.version == base + 1
        with self._guard:
            if self._dataset is not None and self._snapshot.version >= landed.version:
                return  # a reader has come by and read it, or what came after
            advance(self._snapshot, landed, written=change.written, deleted=change.deleted if alone else None)
            self._hold(landed)

    def _stands(self, landed: lance.LanceDataset, started: float) -> bool:
        """Tell whether a commit is part of the table's history.

        Old versions are cleaned away, so a writer that was stopped for long between looking and committing can put
        its version into a gap that cleaning left, where no reader ever sees it. Such a version is older in number but
        younger in time than its successors.
        """
        surely_current = 0.05 if self._store.is_local else 1.0
        if time.monotonic() - started < surely_current:
            return True
        found = history.listed(self._store)
        mine = found.get(landed.version)
        later = [modified for version, modified in found.items() if version > landed.version]
        if not later:
            return True
        return mine is not None and min(later) >= mine

    def _holds(self, added: list[Row], removed: list[str]) -> bool:
        """Tell from the latest version whether a change took effect, where its own version is gone."""
        kept = {row.object_id for row in added}
        with self._guard:
            return all(self._snapshot.get(row.object_id) == row for row in added) and not any(
                self._snapshot.get(key) for key in removed if key not in kept
            )

    def _discard(self, leftovers: tuple[str, ...]) -> None:
        """Remove the files of a lost commit; if that fails, cleaning finds them later."""
        if leftovers:
            with suppress(OSError):
                self._store.delete(*(layout.inside(layout.MANIFEST, path) for path in leftovers))

    def _validate(self) -> None:
        """Bring the snapshot to the latest version if it is not there: one request when nothing changed."""
        with self._guard:
            if self._dataset is None:
                self._open()
                self._warn()
                return
            version, dataset, mark = self._snapshot.version, self._dataset, self._mark
        latest = history.latest(self._store, dataset)
        if latest == history.Latest(version, mark):
            return
        with self._guard:
            if self._snapshot.version < latest.version or (self._snapshot.version, self._mark) == (version, mark):
                self._refresh(latest.version)
                self._warn()

    def _hold(self, dataset: lance.LanceDataset) -> None:
        self._dataset, self._mark = dataset, history.mark_of(self._store, dataset)

    def _warn(self) -> None:
        """Log which rows were skipped."""
        for problem in skipped_rows(self._snapshot):
            warn_once(problem, self._store.identity())

    def _open(self) -> None:
        """Open the latest version and read it; there may be no manifest."""
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
                # A version can be cleaned away between opening and reading; the next look finds a newer one.
                self._snapshot = Snapshot()
                if not is_not_found(error) or not remaining:
                    raise
            else:
                self._hold(dataset)
                return

    def _refresh(self, latest: int) -> None:
        """Go on from the version in memory; if that is not possible, begin anew."""
        dataset, self._dataset = self._dataset, None
        if dataset is not None and latest > self._snapshot.version:
            try:
                newer = dataset.checkout_version(latest)
                advance(self._snapshot, newer)
            except (OSError, ValueError) as error:
                if not is_not_found(error):
                    raise
            else:
                self._hold(newer)
                return
        self._open()

    def _pause(self, attempt: int, deadline: float, what: str) -> None:
        """Wait a random moment before the next try, or give up."""
        if time.monotonic() > deadline:
            raise ConcurrentModificationError(
                f"Could not commit to {what} at {self._store.identity()} in {_DEADLINE_SECONDS:.0f} s: "
                "others committed first every time; nothing was changed"
            )
        longest = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS)
        time.sleep(random.uniform(0, longest))  # noqa: S311 - jitter, not a secret
