"""The files that a run of a write leaves in a table's directory: notes about them, and their removal.

Lance removes the files of a failed write, but not those of a killed process, nor those of a finished task whose report
did not reach the driver. So tasks note each data file under `_pennon/<run>/` in the table's directory. When the driver
knows which files belong to a version, it removes the others. It only removes files that the same run noted. Lance names
a file when it is complete: if a task is killed before it notes a file, the cleanup job removes that file.

A task may outlive its write: Spark does not wait for other tasks when one fails, nor for the slower of two attempts. So
a note records that the run is open. The driver removes it when it settles the run, and a task that does not find it
after noting its own files deletes them.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pennon.errors import InvalidTableStateError
from pennon.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from typing_extensions import Self

    from pennon.store import Store

NOTES = "_pennon"
_JOINT = "!"
_BODY = b"1"
_OPEN = "open"
_DATA = "data/"
_SUFFIX = ".lance"
UNCLEAR = "unclear"
"""The note of a run whose outcome is unknown."""
_NAME = r"[0-9A-Za-z_-][0-9A-Za-z._-]*"
# Anyone who can write to the table can leave a note, so only files of the kinds that a run writes are deleted.
_NOTED = re.compile(
    rf"data/{_NAME}\.lance|_deletions/{_NAME}\.(arrow|bin)|_transactions/{_NAME}\.txn|_versions/d[0-9]+\.manifest"
)
_RUN = re.compile(r"[0-9A-Za-z_-]{1,100}")
_log = logging.getLogger(__name__)


class RunDirectory:
    """The directory of a table or of a branch in its store. Paths are relative to it.

    With `blobs`, data files may have directories beside them.
    """

    def __init__(
        self, uri: str, storage_options: Callable[[], dict[str, str]], *, branch: str | None = None, blobs: bool = False
    ) -> None:
        # The store is opened above the table: on a disk it keeps files of its own, which must not be in a table.
        self._parent, _, name = uri.rstrip("/").rpartition("/")
        self._options = storage_options
        self._opened_with = storage_options()
        self._opened = open_store(self._parent, self._opened_with)
        folder = unquote(name) if "://" in uri else name
        self._folder = folder if branch is None else f"{folder}/tree/{branch}"
        self._blobs = blobs

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close connections."""
        self._opened.close()

    @property
    def _store(self) -> Store:
        """Return the store, opened again if its options have changed."""
        options = self._options()
        if options != self._opened_with:
            self._opened.close()
            self._opened, self._opened_with = open_store(self._parent, options), options
        return self._opened

    def require_plain(self) -> None:
        """Raise UnusableEntryError if the directory, or one that Lance knows in it, is a symbolic link."""
        self._store.resolve(self._folder)

    def names(self, path: str) -> set[str]:
        """Return the names of the entries in a directory; "" is the table's own directory."""
        return self._store.list_names(f"{self._folder}/{path}" if path else self._folder)

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file, or None if it does not exist."""
        found = self._store.get(f"{self._folder}/{path}")
        return None if found is None else found.body

    def write(self, path: str, body: bytes) -> None:
        """Write a small file, and replace an existing one."""
        self._store.put(f"{self._folder}/{path}", body)

    def open_run(self, run: str) -> None:
        """Note that a run has started."""
        self.note(run, _OPEN)

    def is_open(self, run: str) -> bool:
        """Return True if a run has started and has not been settled."""
        return self._store.get(f"{self._folder}/{_note_path(run, _OPEN)}") is not None

    def note(self, run: str, *paths: str) -> None:
        """Note that a run has written files."""
        for path in paths:
            self._store.put(f"{self._folder}/{_note_path(run, path)}", _BODY)

    def noted_files(self, run: str) -> set[str]:
        """Return the files that a run has noted. Notes that name anything else are skipped with a warning."""
        found = {name.replace(_JOINT, "/") for name in self.names(f"{NOTES}/{require_run_name(run)}") if name != _OPEN}
        strange = sorted(path for path in found if not is_run_file(path) and path != UNCLEAR)
        if strange:
            _log.warning(
                "%d notes in %s/%s/%s do not name a file that a write creates, the first %r; they are kept",
                *(len(strange), self._folder, NOTES, run, strange[0]),
            )
        return found.difference(strange)

    def settle(self, run: str, keep: Collection[str] = ()) -> set[str]:
        """Delete the files of a run except those in `keep`, then its notes; return the deleted files."""
        # From here on, tasks that note a file see that the run is settled.
        self._forget(run, {_OPEN})
        noted = self.noted_files(run)
        doomed = noted.difference(keep, {UNCLEAR})
        self.delete(*sorted(doomed))
        self._forget(run, noted)
        return doomed

    def delete_noted(self, run: str, paths: Collection[str]) -> None:
        """Delete some of the files of a run, and their notes."""
        self.delete(*sorted(paths))
        self._forget(run, paths)

    def delete(self, *paths: str) -> None:
        """Delete files, and the directories of blobs beside data files. Missing files are ignored."""
        if not paths:
            return
        self._store.delete(*(f"{self._folder}/{path}" for path in paths))
        if self._blobs:
            for path in paths:
                if path.startswith(_DATA) and path.endswith(_SUFFIX):
                    self._store.delete_tree(f"{self._folder}/{path.removesuffix(_SUFFIX)}")
        for folder in {path.rpartition("/")[0] for path in paths}:
            self._store.prune(f"{self._folder}/{folder}")

    def delete_tree(self, path: str = "") -> None:
        """Delete everything below a path, by default the whole directory."""
        self._store.delete_tree(f"{self._folder}/{path}" if path else self._folder)

    def _forget(self, run: str, paths: Collection[str]) -> None:
        if paths:
            self._store.delete(*(f"{self._folder}/{_note_path(run, path)}" for path in sorted(paths)))
            self._store.prune(f"{self._folder}/{NOTES}/{run}")


def is_run_file(path: str) -> bool:
    """Return True if a path in a table's directory can be that of a file of a run."""
    return _NOTED.fullmatch(path) is not None


def require_run_name(run: str) -> str:
    """Return the name of a run; raises InvalidTableStateError if it is not valid."""
    if _RUN.fullmatch(run) is None:
        raise InvalidTableStateError(f"{run[:100]!r} is not the name of a run's notes")
    return run


def _note_path(run: str, path: str) -> str:
    return f"{NOTES}/{require_run_name(run)}/{path.replace('/', _JOINT)}"
