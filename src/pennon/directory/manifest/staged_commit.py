"""Partial copies of the manifest table of a bucket, in temporary directories.

Lance commits to a bucket by four requests, each after the other. Here it commits to a local copy of the table that
consists of one manifest file and the deletion files that the commit extends. The new files are then uploaded together,
and the new manifest last, by put-if-absent. A client that follows the commits of others reads their files from such a
copy too (docs/adr/0024).
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import lance

from pennon.directory import layout
from pennon.directory.manifest import history
from pennon.directory.manifest.commit import CommitConflict, CommitPlan, ManifestChange, commit
from pennon.directory.manifest.loading import LARGE_CHANGE, describe_fragment
from pennon.store import LARGEST_MANIFEST, call_together
from pennon.table import naming
from pennon.table.scratch import create_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pennon.directory.manifest.snapshot import Fragment
    from pennon.store import Store

_KEPT_DELETIONS = 64
_MOST_COPIED = 64
"""More files are read through Lance."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VersionFile:
    """The manifest file of a version, with the mark of the stored object."""

    version: int
    mark: str
    body: bytes


class StagingArea:
    """Files of the latest versions that this client knows, so that it does not fetch them for the next commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._latest: VersionFile | None = None
        self._deletions: dict[str, bytes] = {}

    @contextmanager
    def stage(self, version: int, mark: str, plan: CommitPlan) -> Iterator[StagedCommit | None]:
        """Make the files of a commit on top of a version.

        Yields None if Lance has to commit instead: the temporary directory cannot be used, or the version is not stored
        under the name that today's clients use. The files in memory stay valid after the block, the dataset does not.
        """
        base = self._find_base(version, mark)
        with ExitStack() as stack:
            staged = None
            try:
                folder = None if base is None else create_folder(len(base.body))
                if base is not None and folder is not None:
                    staged = self._commit_locally(Path(stack.enter_context(folder)), base, plan)
            except (OSError, ValueError):
                _log.info("Lance commits to the bucket itself: staging failed", exc_info=True)
            yield staged

    @contextmanager
    def copy_changes(
        self, version: int, mark: str, known: Mapping[int, Fragment]
    ) -> Iterator[lance.LanceDataset | None]:
        """Open a copy of a version that has the files of those fragments that differ from the known ones.

        Yields None if Lance has to read them from the bucket: they are many, or are not where they should be.
        """
        file = self._find_base(version, mark)
        with ExitStack() as stack:
            dataset = None
            try:
                created = None if file is None else create_folder(len(file.body))
                if file is not None and created is not None:
                    folder = Path(stack.enter_context(created))
                    _write_files(folder, {_version_path(version): file.body})
                    dataset = lance.dataset(str(folder))
                    if not self._download(folder, list_changed_files(dataset, known)):
                        dataset = None
            except (OSError, ValueError):
                _log.info("Lance reads from the bucket itself: the copy failed", exc_info=True)
                dataset = None
            if dataset is not None:
                self._latest = file
            yield dataset

    def _download(self, folder: Path, paths: list[str] | None) -> bool:
        """Copy files from the bucket, and return True if all of them are there."""
        if paths is None or len(paths) > _MOST_COPIED:
            return False
        bodies = self._store.map(self._fetch, paths)
        found = {path: body for path, body in zip(paths, bodies, strict=True) if body is not None}
        _write_files(folder, found)
        return len(found) == len(paths)

    def record(self, staged: StagedCommit, mark: str) -> None:
        """Keep the files of a commit that succeeded."""
        self._latest = VersionFile(staged.version, mark, staged.body)
        self._deletions.update({path: body for path, body in staged.files.items() if path.startswith("_deletions/")})
        while len(self._deletions) > _KEPT_DELETIONS:
            del self._deletions[next(iter(self._deletions))]

    def _find_base(self, version: int, mark: str) -> VersionFile | None:
        """Return the file of a version, from memory if possible."""
        known = self._latest
        if known is not None and (known.version, known.mark) == (version, mark):
            return known
        path = layout.inside(layout.MANIFEST, _version_path(version))
        found = self._store.get(path, max_bytes=LARGEST_MANIFEST)
        # Another mark belongs to a root that was created again.
        is_same = found is not None and history.normalise_mark(found.e_tag) == mark
        return VersionFile(version, mark, found.body) if found is not None and is_same else None

    def _commit_locally(self, folder: Path, base: VersionFile, plan: CommitPlan) -> StagedCommit:
        given = {_version_path(base.version): base.body}
        _write_files(folder, given)
        dataset = lance.dataset(str(folder))
        extended = self._find_deletions(dataset, plan)
        _write_files(folder, extended)
        committed, change = commit(dataset, plan)
        path = _version_path(committed.version)
        files = {
            name: file.read_bytes()
            for file in folder.rglob("*")
            if file.is_file()
            and (name := file.relative_to(folder).as_posix()) not in {*given, *extended, path}
            # On a disk, Lance also writes a hint beside the manifest.
            and not name.startswith(naming.VERSIONS_FOLDER)
        }
        return StagedCommit(self._store, committed, change, files, (folder / path).read_bytes())

    def _find_deletions(self, dataset: lance.LanceDataset, plan: CommitPlan) -> dict[str, bytes]:
        """Return the deletion files of fragments from which more rows are deleted."""
        found = {}
        for number in plan.deleted_offsets:
            fragment = dataset.get_fragment(number)
            deletions = None if fragment is None else fragment.metadata.deletion_file
            if deletions is None or number in plan.removed_fragments:
                continue
            path = deletions.path(number)
            body = self._deletions.get(path) or self._fetch(path)
            if body is None:
                raise CommitConflict(f"{path} no longer exists")
            found[path] = body
        return found

    def _fetch(self, path: str) -> bytes | None:
        found = self._store.get(layout.inside(layout.MANIFEST, path), max_bytes=LARGEST_MANIFEST)
        return None if found is None else found.body


@dataclass(frozen=True)
class StagedCommit:
    """The files of a commit, and the version that Lance committed locally."""

    store: Store
    dataset: lance.LanceDataset
    change: ManifestChange
    files: dict[str, bytes]
    """Everything but the manifest, by path below the table."""
    body: bytes
    """The manifest."""

    @property
    def version(self) -> int:
        """The number of the new version."""
        return int(self.dataset.version)

    @property
    def leftovers(self) -> tuple[str, ...]:
        """The files that nothing refers to if the commit fails."""
        return tuple(self.files)

    def upload(self, *beside: Callable[[], object]) -> None:
        """Upload everything but the manifest, while other calls run."""
        located = ((layout.inside(layout.MANIFEST, path), body) for path, body in self.files.items())
        puts = (partial(self.store.put, path, body) for path, body in located)
        call_together(self.store, *puts, *beside)

    def publish(self) -> str | None:
        """Upload the manifest if no other client has: the commit point. Returns its mark, or None if another one has.

        Raises the error of the store if it remains unknown whether the manifest was stored.
        """
        path = layout.inside(layout.MANIFEST, _version_path(self.version))
        try:
            mark = self.store.create(path, self.body)
        except Exception:
            # Only the response may be lost.
            found = self.store.get(path, max_bytes=LARGEST_MANIFEST)
            if found is None:
                raise
            mark = found.e_tag if found.body == self.body else None
        return None if mark is None else history.normalise_mark(mark)


def list_changed_files(dataset: lance.LanceDataset, known: Mapping[int, Fragment]) -> list[str] | None:
    """Return the files of fragments that are new, and the changed deletion files. None if they are not beside it."""
    paths, rows = [], 0
    for fragment in dataset.get_fragments():
        before, now = known.get(fragment.fragment_id), describe_fragment(fragment.metadata)
        if before is None or before.files != now.files:
            paths += [f"data/{file.path}" for file in fragment.metadata.files]
            rows += fragment.metadata.physical_rows
            if rows > LARGE_CHANGE or any(file.base_id is not None for file in fragment.metadata.files):
                return None
        deletions = fragment.metadata.deletion_file
        if deletions is not None and (before is None or before.deletions != now.deletions):
            paths.append(deletions.path(fragment.fragment_id))
    # A path inside the copy has one folder and a name.
    is_plain = all(
        path.count("/") == 1 and not path.endswith(("/", "/.", "/..")) and "\0" not in path for path in paths
    )
    return paths if is_plain else None


def _version_path(version: int) -> str:
    return f"{naming.VERSIONS_FOLDER}/{naming.format_name(version, naming.V2)}"


def _write_files(folder: Path, files: dict[str, bytes]) -> None:
    for path, body in files.items():
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(body)
