"""The manifest of one root: validated reads, and mutations that share commits.

A read asks the store for the latest version and answers from memory. Fragments are read only if they changed.
A mutation is a plan: a function that checks its preconditions on a draft and changes it. The plans of threads that wait
at the same time are committed together. After a conflict, all of them run again on the latest version.
"""

from __future__ import annotations

import logging
import math
import random
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import lance

from pennon import background, counters
from pennon.directory import layout
from pennon.directory.manifest import flags, history
from pennon.directory.manifest.commit import (
    CommitConflict,
    CommitPlan,
    ManifestChange,
    commit,
    create_table,
    has_offer,
)
from pennon.directory.manifest.commit_queue import CommitQueue
from pennon.directory.manifest.draft import Draft
from pennon.directory.manifest.loaded_snapshot import LoadedSnapshot
from pennon.directory.manifest.loading import advance
from pennon.directory.manifest.offers import RecordedRows, apply_offer, encode_offer, list_files
from pennon.directory.manifest.queried_snapshot import QueriedSnapshot, VersionGoneError
from pennon.directory.manifest.skipped import find_skipped_rows
from pennon.directory.manifest.staged_commit import StagingArea
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
from pennon.store import call_together
from pennon.table.version_identity import hash_content

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from threading import Thread

    from pennon.directory.manifest.commit_queue import Mutation
    from pennon.directory.manifest.draft import StoredRows
    from pennon.directory.manifest.row import Row
    from pennon.directory.manifest.snapshot import Snapshot
    from pennon.directory.manifest.staged_commit import StagedCommit
    from pennon.directory.manifest.upkeep import UpkeepState
    from pennon.store import Store
    from pennon.store.turn_offers import FoundOffer, PostedOffer

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
_TRUSTED_SECONDS = 0.5
"""A version that was the latest so recently is not validated again before a commit on top of it."""
_QUIET_SECONDS = 2.0
"""If others have not committed for so long, plans run on memory."""
_LONGEST_TURN_SECONDS = 1.0
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.5
_LONGEST_REMOTE_PAUSE_SECONDS = 0.03
"""In a bucket, those who lost are behind already: longer pauses would make them lose again."""
_YIELDED_COMMITS = 3
"""How many times the duration of a commit others need to read it and to commit on top of it."""
_OPEN_ATTEMPTS = 10
LOADED_AT_ONCE = 2_000
LOADED_AT_ONCE_REMOTELY = 200_000
"""A manifest with at most so many rows is loaded when it is opened. That takes as long as a few queries."""
_SECONDS_TO_LOAD_A_ROW = 1e-6
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Base:
    """The version on which plans ran."""

    dataset: lance.LanceDataset | None
    version: int
    mark: object
    validated_at: float

    def open(self, dataset: lance.LanceDataset) -> lance.LanceDataset:
        """Return the table at this version."""
        return dataset if dataset.version == self.version else dataset.checkout_version(self.version)


@dataclass(frozen=True)
class _OfferedGroup:
    """Mutations that this process has offered to others."""

    posted: PostedOffer
    since: int
    """The version that was the latest before. A later one may contain the mutations."""
    results: list[Any]


class Manifest:
    """The manifest table of a root, opened at first use and absent until the first mutation."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._location = store.location(layout.MANIFEST)
        self._snapshot: Snapshot = LoadedSnapshot()
        self._dataset: lance.LanceDataset | None = None
        """The table at the version of the snapshot, or at an earlier one after a staged commit."""
        self._mark: object = None
        """Differs if the root was deleted and created again, and its manifest has the same version as before."""
        self._looked = False
        self._validated_at = -math.inf
        """A time by `time.monotonic` at which the version in memory was the latest."""
        self._changed_by_others_at = -math.inf
        """When this client last found a version that others committed."""
        self._updated_version = 0
        """The last version whose metadata map this client changed. It is read like a version of others."""
        self._leftovers: tuple[str, ...] = ()
        """Files of commits that lost. Only the thread that leads the commit queue changes it."""
        self._committed_at = -math.inf
        self._commit_seconds = 0.0
        """When this client last committed to a bucket, and how long that took."""
        self._missing: object = None
        """Not None if another process has committed an offer of this client, and the snapshot may be older."""
        self._guard = RLock()
        self._loader: Thread | None = None
        self._queue = CommitQueue(self._commit_group)
        self._staging = StagingArea(store)
        self._upkeep = Upkeep(self._location, store)

    def read(self, look: Callable[[Snapshot], T]) -> T:
        """Return the result of `look` on the latest version. It must be quick and keep no reference to the snapshot."""
        self._validate()
        return self._look(look)

    def read_whole(self, look: Callable[[LoadedSnapshot], T]) -> T:
        """Return the result of `look` on the latest version, with all rows in memory."""
        self._validate()
        with self._guard:
            flags.require_readable(self._snapshot.metadata, self._store.identity())
            return look(self._load_whole())

    def peek(self, look: Callable[[Snapshot], T]) -> T:
        """Return the result of `look` on the snapshot in memory, which may be outdated: a commit checks it again.

        It contains what this client committed.
        """
        if self._missing is not None:
            self._validate()
        return self._look(look) if self._looked else self.read(look)

    def _look(self, look: Callable[[Snapshot], T]) -> T:
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            with self._guard:
                snapshot = self._snapshot
                flags.require_readable(snapshot.metadata, self._store.identity())
                if isinstance(snapshot, LoadedSnapshot):
                    return look(snapshot)
            # A version in storage never changes: other threads need not wait for its queries.
            self._load_if_worth_it(snapshot)
            try:
                return look(snapshot)
            except VersionGoneError:
                if time.monotonic() > deadline:
                    raise
                self._open_again(snapshot)

    def mutate(self, plan: Callable[[Draft], T], *, may_be_offered: bool = False) -> T:
        """Commit the changes that `plan` makes to a draft, and return its result.

        If `plan` raises an error, nothing is changed. It may run several times. The commit point is the manifest's next
        version; see `commit`. With `may_be_offered`, another process on the same disk may commit the change, even if
        this one dies while it waits.
        """
        return self._queue.run(plan, may_be_offered=may_be_offered)

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
                dataset, version = self._dataset, self._snapshot.version
                flags.require_readable(self._snapshot.metadata, self._store.identity())
                flags.require_writable(self._snapshot.metadata, self._store.identity())
            self._store.resolve(layout.MANIFEST)
            try:
                if dataset is None:
                    create_table(self._location, self._store.storage_options, [])
                    continue
                updated = dataset.checkout_version(version)
                updated.update_metadata(dict(changes))
            except CommitConflict:
                self._pause(attempt, deadline, "the properties of the root namespace")
            except OSError as error:
                if not is_commit_conflict(error):
                    raise
                self._pause(attempt, deadline, "the properties of the root namespace")
            else:
                self._updated_version = updated.version
                return
            attempt += 1

    def find_upkeep(self) -> UpkeepState | None:
        """Return what upkeep has to do, or None if there is no manifest. Costs a few requests."""
        if not self.read(lambda snapshot: snapshot.version):
            return None
        return self._upkeep.find_state()

    def run_upkeep(self) -> None:
        """Remove old versions and build indexes now. It loses nothing beside writers."""
        self.require_writable()
        self._upkeep.run()

    def close(self) -> None:
        """Finish upkeep and release the table."""
        self._upkeep.close()
        with self._guard:
            self._dataset = None
            self._snapshot = LoadedSnapshot()

    def _commit_group(self, group: list[Mutation[Any]]) -> None:
        """Commit a group, in turn with other processes on the same disk. See `_commit_plans`."""
        # Before there is a manifest, a failed mutation leaves no files behind.
        if self._dataset is None:
            self._commit_plans(group)
            return
        self._yield_to_others()
        offered: _OfferedGroup | None = None

        def offer() -> PostedOffer | None:
            nonlocal offered
            offered = self._offer(group)
            return None if offered is None else offered.posted

        try:
            with self._store.turns.wait(layout.MANIFEST, _LONGEST_TURN_SECONDS, offer=offer) as has_turn:
                if offered is not None and offered.posted.withdraw():
                    self._commit_plans(group, accepts_offers=has_turn)
                elif offered is not None and offered.posted.check():
                    self._complete(offered, group)
                else:
                    self._commit_plans(group, offered, accepts_offers=has_turn)
        finally:
            if offered is not None:
                offered.posted.close()

    def _offer(self, group: list[Mutation[Any]]) -> _OfferedGroup | None:
        """Offer the changes of a group to the process that commits next. Returns None if that is not possible."""
        if not all(mutation.may_be_offered for mutation in group):
            return None
        since = history.find_latest(self._store).version
        with self._guard:
            if not isinstance(self._snapshot, LoadedSnapshot):
                return None
            files = list_files(self._snapshot)
            recorded = RecordedRows(self._snapshot)
            draft = self._run_plans(group, recorded)
        is_planned = all(mutation.error is None for mutation in group) and bool(draft.changes)
        results = [mutation.result for mutation in group]
        for mutation in group:
            mutation.result = mutation.error = None
        body = encode_offer(recorded, draft, files) if is_planned else None
        posted = None if body is None else self._store.turns.post_offer(body)
        return None if posted is None else _OfferedGroup(posted, since, results)

    def _complete(self, offered: _OfferedGroup, group: list[Mutation[Any]]) -> None:
        """Return the results of a group that another process has committed."""
        self._missing = offered
        for mutation, result in zip(group, offered.results, strict=True):
            mutation.result, mutation.error = result, None

    def _was_committed(self, offered: _OfferedGroup, version: int) -> bool:
        """Return True if a version contains an offer that was taken.

        Raises ConcurrentModificationError if that is unknown, because a version was removed that may have added it.
        """
        with self._guard:
            dataset = self._dataset
        if dataset is None:
            return False
        try:
            later = range(version, offered.since, -1)
            found = next((number for number in later if has_offer(dataset, number, offered.posted.offer_id)), None)
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                raise
            raise ConcurrentModificationError(
                f"Another process took a change of the catalog at {self._store.identity()} to commit it and did not "
                "answer; check whether it succeeded"
            ) from error
        return found is not None and self._is_in_history(found, -math.inf)

    def _yield_to_others(self) -> None:
        """Wait between two commits to a bucket while others commit too.

        The client that committed last is ahead: the others have to read its commit first. Without a pause it would win
        every time.
        """
        if self._store.is_local:
            return
        with self._guard:
            is_quiet = time.monotonic() - self._changed_by_others_at > _QUIET_SECONDS
            due = self._committed_at + _YIELDED_COMMITS * self._commit_seconds
        if not is_quiet and (wait := due - time.monotonic()) > 0:
            time.sleep(min(wait, _LONGEST_TURN_SECONDS))

    def _commit_plans(
        self, group: list[Mutation[Any]], offered: _OfferedGroup | None = None, *, accepts_offers: bool = False
    ) -> None:
        """Run the plans on the latest version and commit on top of it, until there is no conflict.

        In a bucket, the plans run on the version in memory without asking the store: the commit verifies it. An error,
        or a result without a change, is verified by no commit, so the store is asked then.

        The group was `offered` to a process that took it and did not answer: it may have committed it, or may still do
        so. With `accepts_offers`, what other processes offer is committed too.
        """
        deadline = time.monotonic() + _DEADLINE_SECONDS
        attempt = 0
        verified = not self._can_plan_on_memory()
        while True:
            if verified:
                # The validation last: it may itself run requests together.
                call_together(self._store, self._delete_leftovers, partial(self._validate, for_commit=True))
            with self._guard:
                snapshot = self._snapshot
                base = _Base(self._dataset, snapshot.version, self._mark, self._validated_at)
                try:
                    draft = self._run_plans(group, snapshot)
                    plan = CommitPlan.from_draft(snapshot, draft)
                    is_final = verified or not (
                        plan.changes_nothing or any(mutation.error is not None for mutation in group)
                    )
                    accepts = accepts_offers and is_final and not plan.changes_nothing and offered is None
                    taken = self._take_offers(draft) if accepts else []
                    if taken:
                        plan = plan.with_offers(snapshot, draft, tuple(one.offer_id for one in taken))
                except VersionGoneError:
                    self._open_again(snapshot)
                    self._pause(attempt, deadline, "the catalog")
                    attempt += 1
                    continue
            # A process that took the offer late commits on the same version, and only one of the two succeeds.
            if offered is not None and self._was_committed(offered, base.version):
                self._complete(offered, group)
                return
            if not is_final:
                verified = True
                for mutation in group:
                    mutation.error = None
                continue
            if plan.changes_nothing:
                return
            if self._try_commit(base, plan, taken):
                counters.COMMITS.add("committed")
                return
            counters.COMMITS.add("conflict")
            self._pause(attempt, deadline, "the catalog")
            attempt += 1
            verified = True

    def _can_plan_on_memory(self) -> bool:
        """Return True if the version in memory is probably the latest, and a staged commit will verify it.

        A local directory is always listed, which costs next to nothing. While others commit, plans on memory would
        often be in vain.
        """
        with self._guard:
            is_quiet = time.monotonic() - self._changed_by_others_at > _QUIET_SECONDS
            return is_quiet and self._mark is not None and self._is_staged

    def _take_offers(self, draft: Draft) -> list[FoundOffer]:
        """Add the changes that other processes offer, as far as they fit, and return the offers."""
        taken = []
        for offer in self._store.turns.find_offers():
            savepoint = draft.savepoint()
            if apply_offer(draft, offer.body, list_files(self._snapshot)) and offer.take():
                taken.append(offer)
            else:
                draft.roll_back(savepoint)
        return taken

    def _run_plans(self, group: list[Mutation[Any]], rows: StoredRows) -> Draft:
        """Run the plans on one draft, and return it. The changes of a plan that fails are undone."""
        draft = Draft(rows)
        try:
            flags.require_readable(self._snapshot.metadata, self._store.identity())
            flags.require_writable(self._snapshot.metadata, self._store.identity())
        except UnsupportedOperationError as error:
            for mutation in group:
                mutation.error = mutation.error or error
        for mutation in group:
            if mutation.error is not None:
                continue
            savepoint = draft.savepoint()
            try:
                mutation.result = mutation.plan(draft)
            except VersionGoneError:
                raise
            except Exception as error:  # noqa: BLE001 - errors of a plan are raised in its thread
                mutation.error = error
                draft.roll_back(savepoint)
        return draft

    def _try_commit(self, base: _Base, plan: CommitPlan, taken: Sequence[FoundOffer] = ()) -> bool:
        """Commit on top of a version, and advance the snapshot. Returns False on a conflict.

        The offers that were taken are accepted if the commit succeeds. Otherwise, those who posted them find out.
        """
        started = time.monotonic()
        self._store.resolve(layout.MANIFEST)
        try:
            if self._is_staged and base.dataset is not None and isinstance(base.mark, str):
                with self._staging.stage(base.version, base.mark, plan) as staged:
                    if staged is not None:
                        return self._commit_staged(base, plan, staged, started, taken)
            if base.dataset is None:
                committed, change = create_table(self._location, self._store.storage_options, plan.rows)
            else:
                committed, change = commit(base.open(base.dataset), plan)
        except CommitConflict as conflict:
            self._leftovers += conflict.leftovers
            for offer in taken:
                offer.give_back()
            return False
        if not self._is_in_history(committed.version, base.validated_at):
            self._validate()
            return self._is_effective(plan.added, plan.removed)
        for offer in taken:
            offer.accept()
        self._advance(base, committed, change, started)
        self._upkeep.record_commit(committed.version)
        return True

    @property
    def _is_staged(self) -> bool:
        """True if the files of commits are made locally and uploaded: in a bucket, with all rows in memory."""
        return not self._store.is_local and isinstance(self._snapshot, LoadedSnapshot)

    def _commit_staged(
        self, base: _Base, plan: CommitPlan, staged: StagedCommit, started: float, taken: Sequence[FoundOffer]
    ) -> bool:
        """Upload a commit that was made locally. Returns False on a conflict.

        The version below it is validated during the upload, unless it was the latest a moment ago. Otherwise the
        manifest could fill a gap that the removal of old versions left.
        """
        is_current = started - base.validated_at < _TRUSTED_SECONDS
        try:
            staged.upload(*(() if is_current else (self._validate,)))
        except Exception:
            self._leftovers += staged.leftovers
            self._delete_leftovers()
            raise
        with self._guard:
            is_base = (self._snapshot.version, self._mark) == (base.version, base.mark)
            validated_at = self._validated_at
        mark = staged.publish() if is_base else None
        if mark is None:
            self._leftovers += staged.leftovers
            for offer in taken:
                offer.give_back()
            return False
        if not self._is_in_history(staged.version, validated_at):
            self._validate()
            return self._is_effective(plan.added, plan.removed)
        for offer in taken:
            offer.accept()
        self._staging.record(staged, mark)
        with self._guard:
            self._committed_at = time.monotonic()
            self._commit_seconds = self._committed_at - started
            if (self._snapshot.version, self._mark) == (base.version, base.mark):
                self._advance_loaded(staged.dataset, staged.change, alone=True)
                self._mark = mark
                self._validated_at = max(self._validated_at, started)
        self._upkeep.record_commit(staged.version)
        return True

    def _advance(self, base: _Base, committed: lance.LanceDataset, change: ManifestChange, started: float) -> None:
        with self._guard:
            if self._dataset is not None and self._snapshot.version >= committed.version:
                return  # a reader has loaded it, or a newer version
            if isinstance(self._snapshot, LoadedSnapshot):
                self._advance_loaded(committed, change, alone=committed.version == base.version + 1)
            else:
                self._snapshot = self._query(committed)
            self._dataset = committed
            # In a bucket the next validation finds out what identifies the version.
            self._mark = history.read_local_mark(self._store, committed.version) if self._store.is_local else None
            self._validated_at = max(self._validated_at, started)

    def _advance_loaded(self, committed: lance.LanceDataset, change: ManifestChange, *, alone: bool) -> None:
        """Advance the snapshot in memory by what was committed, `alone` if nobody else has committed in between."""
        if isinstance(self._snapshot, LoadedSnapshot):
            advance(self._snapshot, committed, written=change.written, deleted=change.deleted if alone else None)

    def _is_in_history(self, version: int, since: float) -> bool:
        """Return True if a commit on a version that was the latest at `since` is part of the table's history.

        Old versions are removed. So a writer that was stopped for long before its commit can put its version into a gap
        that a removal left, where no reader ever sees it. Such a version is younger than versions with higher numbers.
        """
        surely_current = 0.05 if self._store.is_local else 1.0
        if time.monotonic() - since < surely_current:
            return True
        found = history.list_versions(self._store)
        mine = found.get(version)
        later = [modified for number, modified in found.items() if number > version]
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

    def _delete_leftovers(self) -> None:
        """Delete the files of commits that failed. If that fails, upkeep deletes them later."""
        leftovers, self._leftovers = self._leftovers, ()
        if leftovers:
            with suppress(OSError):
                self._store.delete(*(layout.inside(layout.MANIFEST, path) for path in leftovers))

    def _validate(self, *, for_commit: bool = False) -> None:
        """Advance the snapshot to the latest version. Costs one request if nothing changed."""
        started = time.monotonic()
        missing = self._missing
        self._follow_latest(for_commit=for_commit)
        with self._guard:
            if self._missing is missing:
                self._missing = None
            self._validated_at = max(self._validated_at, started)

    def _follow_latest(self, *, for_commit: bool) -> None:
        with self._guard:
            if self._dataset is None:
                counters.MANIFEST_READS.add(counters.MISS)
                self._open()
                self._warn()
                return
            version, mark, dataset = self._snapshot.version, self._mark, self._dataset
        if mark is None and not self._store.is_local:
            latest, is_unchanged = self._ask_lance(dataset, for_commit=for_commit)
        else:
            latest = history.find_latest(self._store)
            is_unchanged = latest == history.LatestVersion(version, mark)
        counters.MANIFEST_READS.add(counters.HIT if is_unchanged else counters.MISS)
        if is_unchanged:
            with self._guard:
                if (self._snapshot.version, self._mark) == (version, mark):
                    self._mark = latest.mark
            return
        with self._guard:
            if self._snapshot.version < latest.version or (self._snapshot.version, self._mark) == (version, mark):
                is_own = self._upkeep.may_have_committed(self._snapshot.version + 1, latest.version)
                if latest.version != self._updated_version and not is_own:
                    self._changed_by_others_at = time.monotonic()
                self._refresh(latest)
                self._warn()

    def _ask_lance(self, dataset: lance.LanceDataset, *, for_commit: bool) -> tuple[history.LatestVersion, bool]:
        """Return the latest version, and whether it is the open one, whose mark is not known yet.

        A commit needs the mark, and reads it first, by one request more: it must not be newer than the content.
        """
        stored = history.find_latest(self._store) if for_commit else None
        try:
            newest = dataset.checkout_version((None, None))
        except (OSError, ValueError) as error:
            if is_not_found(error):
                return history.LatestVersion(0), False
            raise
        is_unchanged = newest.version == dataset.version and hash_content(newest) == hash_content(dataset)
        if is_unchanged and stored is not None and stored.version == newest.version:
            return stored, True
        return history.LatestVersion(int(newest.version)), is_unchanged

    def _warn(self) -> None:
        """Warn of skipped rows."""
        if isinstance(self._snapshot, LoadedSnapshot):
            for problem in find_skipped_rows(self._snapshot):
                warn_once(problem, self._store.identity())

    def _open(self) -> None:
        """Open the latest version and load it, if there is a manifest."""
        self._snapshot = LoadedSnapshot()
        self._looked = True
        for remaining in reversed(range(_OPEN_ATTEMPTS)):
            mark = None
            if self._store.is_local:
                latest = history.find_latest(self._store)
                # The latest version can be removed while it is looked at.
                if not latest.version and history.is_absent(self._store):
                    return
                mark = latest.mark
            self._store.resolve(layout.MANIFEST)
            try:
                dataset = lance.dataset(self._location, storage_options=self._store.storage_options or None)
            except (OSError, ValueError) as error:
                if is_not_found(error):
                    return
                raise
            try:
                self._snapshot = self._open_snapshot(dataset)
            except (OSError, ValueError) as error:
                # Upkeep can remove a version after it was opened; the next attempt opens a newer one.
                self._snapshot = LoadedSnapshot()
                if not is_not_found(error) or not remaining:
                    raise
            else:
                # A mark from before the version was opened, or none, makes the next validation look again.
                self._dataset, self._mark = dataset, mark
                return

    def _open_snapshot(self, dataset: lance.LanceDataset) -> Snapshot:
        """Return a version of the manifest: in memory if it is small, or if that was worth it before."""
        rows = sum(fragment.physical_rows for fragment in dataset.get_fragments())
        if rows > (LOADED_AT_ONCE if self._store.is_local else LOADED_AT_ONCE_REMOTELY):
            return self._query(dataset)
        snapshot = LoadedSnapshot()
        advance(snapshot, dataset)
        return snapshot

    def _query(self, dataset: lance.LanceDataset) -> QueriedSnapshot:
        """Return a version that stays in storage. The time that queries took before counts on."""
        snapshot = QueriedSnapshot(dataset)
        if isinstance(self._snapshot, QueriedSnapshot):
            snapshot.seconds = self._snapshot.seconds
        return snapshot

    def _load_if_worth_it(self, snapshot: Snapshot) -> None:
        """Load all rows in the background once queries have taken as long as that takes."""
        if not isinstance(snapshot, QueriedSnapshot) or not snapshot.seconds:
            return
        rows = sum(fragment.live for fragment in snapshot.fragments.values())
        if snapshot.seconds < rows * _SECONDS_TO_LOAD_A_ROW:
            return
        with self._guard:
            if self._loader is not None and self._loader.is_alive():
                return
            self._loader = background.start(self._load_in_background, name="pennon-load")

    def _load_in_background(self) -> None:
        with self._guard:
            dataset = self._dataset
        if dataset is None:
            return
        loaded = LoadedSnapshot()
        try:
            advance(loaded, dataset)
        except (OSError, ValueError) as error:
            if not is_not_found(error):
                _log.warning("loading %s failed and will be tried again", self._location, exc_info=True)
            return
        with self._guard:
            if self._dataset is None or isinstance(self._snapshot, LoadedSnapshot):
                return
            if loaded.version != self._snapshot.version:
                advance(loaded, self._dataset)
            self._snapshot = loaded
            self._warn()

    def _load_whole(self) -> LoadedSnapshot:
        """Return the snapshot with all rows in memory. The caller holds the guard."""
        attempt = 0
        while not isinstance(self._snapshot, LoadedSnapshot):
            loaded = LoadedSnapshot()
            attempt += 1
            try:
                if self._dataset is not None:
                    advance(loaded, self._dataset)
            except (OSError, ValueError) as error:
                if not is_not_found(error) or attempt == _OPEN_ATTEMPTS:
                    raise
                self._open_again(self._snapshot)
            else:
                self._snapshot = loaded
                self._warn()
        return self._snapshot

    def _open_again(self, snapshot: Snapshot) -> None:
        """Open the latest version instead of one that was removed."""
        with self._guard:
            if self._snapshot is snapshot:
                self._dataset = None
                self._open()

    def _refresh(self, latest: history.LatestVersion) -> None:
        """Advance from the version in memory. If that version was removed, load the latest one completely."""
        dataset, self._dataset = self._dataset, None
        if dataset is not None and latest.version > self._snapshot.version:
            try:
                if self._advance_by_copy(latest):
                    self._dataset, self._mark = dataset, latest.mark
                    return
                newer = dataset.checkout_version(latest.version)
                if isinstance(self._snapshot, LoadedSnapshot):
                    advance(self._snapshot, newer)
                else:
                    self._snapshot = self._query(newer)
            except (OSError, ValueError) as error:
                if not is_not_found(error):
                    raise
            else:
                self._dataset, self._mark = newer, latest.mark
                return
        self._open()

    def _advance_by_copy(self, latest: history.LatestVersion) -> bool:
        """Advance the snapshot by the files that changed in a bucket. Returns False if Lance has to read them.

        An empty snapshot is loaded as a whole.
        """
        snapshot = self._snapshot
        if not isinstance(latest.mark, str) or not isinstance(snapshot, LoadedSnapshot) or not len(snapshot):
            return False
        with self._staging.copy_changes(latest.version, latest.mark, snapshot.fragments) as copied:
            if copied is not None:
                advance(snapshot, copied)
            return copied is not None

    def _pause(self, attempt: int, deadline: float, what: str) -> None:
        """Wait a random time before the next attempt. Raises ConcurrentModificationError after the deadline."""
        if time.monotonic() > deadline:
            self._delete_leftovers()
            raise ConcurrentModificationError(
                f"Could not commit to {what} at {self._store.identity()} in {_DEADLINE_SECONDS:.0f} s: "
                "others committed first every time; nothing was changed"
            )
        limit = _LONGEST_PAUSE_SECONDS if self._store.is_local else _LONGEST_REMOTE_PAUSE_SECONDS
        longest = min(_FIRST_PAUSE_SECONDS * 2**attempt, limit)
        time.sleep(random.uniform(0, longest))  # noqa: S311 - jitter, not a secret
