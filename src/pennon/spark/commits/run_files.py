"""The files of one table's directory, for what Lance has no call for: notes of what a run wrote, and their removal.

Lance removes what a failed write left, but not what a killed process did, nor a finished task's files of which the
driver never heard. So tasks note each data file under `_pennon/<run>/` in the table's directory, and the driver, once
it knows which files belong to a version, removes the others. Only files that this very run noted are ever removed.
Lance names a file when it is complete: a task that is killed before it could note one leaves it to the cleanup job.

A task may go on when its write has ended: Spark does not wait for the others when one fails, nor for the slower of two
attempts. So one more note says that a run is open; whoever settles the run removes it, and a task that does not find it
when its own files are noted takes them back.
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
"""The note of a run of which nobody knows whether it was committed."""
_NAME = r"[0-9A-Za-z_-][0-9A-Za-z._-]*"
# Anybody who can write to the table can leave a note. Nothing but what a run writes is ever deleted for one.
_NOTED = re.compile(
    rf"data/{_NAME}\.lance|_deletions/{_NAME}\.(arrow|bin)|_transactions/{_NAME}\.txn|_versions/d[0-9]+\.manifest"
)
_RUN = re.compile(r"[0-9A-Za-z_-]{1,100}")
_log = logging.getLogger(__name__)


class TableFiles:
    """A table's directory in its store, or that of a branch. Paths are below that directory.

    `blobs` tells that data files may have directories beside them.
    """

    def __init__(
        self, uri: str, storage_options: Callable[[], dict[str, str]], *, branch: str | None = None, blobs: bool = False
    ) -> None:
        # The store is opened above the table: what it keeps for itself on a disk does not belong into a table.
        self._parent, _, name = uri.rstrip("/").rpartition("/")
        self._options = storage_options
        self._opened_with = storage_options()
        self._opened = open_store(self._parent, self._opened_with)
        folder = unquote(name) if "://" in uri else name
        self._folder = folder if branch is None else f"{folder}/tree/{branch}"
        self._blobs = blobs

    def __enter__(self) -> Self:
        """Use it in a with statement."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of connections."""
        self._opened.close()

    @property
    def _store(self) -> Store:
        """Give the store, opened anew if its options have changed since."""
        options = self._options()
        if options != self._opened_with:
            self._opened.close()
            self._opened, self._opened_with = open_store(self._parent, options), options
        return self._opened

    def require_plain(self) -> None:
        """Raise UnusableEntryError if the directory, or one that Lance knows in it, is a symbolic link."""
        self._store.resolve(self._folder)

    def names(self, path: str) -> set[str]:
        """Name the entries of one level; "" is the table's own directory."""
        return self._store.list_names(f"{self._folder}/{path}" if path else self._folder)

    def read(self, path: str) -> bytes | None:
        """Read a small file; None if it is absent."""
        found = self._store.get(f"{self._folder}/{path}")
        return None if found is None else found.body

    def write(self, path: str, body: bytes) -> None:
        """Write a small file, whatever was there."""
        self._store.put(f"{self._folder}/{path}", body)

    def open_run(self, run: str) -> None:
        """Write down that a run has begun."""
        self.note(run, _OPEN)

    def is_open(self, run: str) -> bool:
        """Tell whether a run has begun and not ended."""
        return self._store.get(f"{self._folder}/{_note_path(run, _OPEN)}") is not None

    def note(self, run: str, *paths: str) -> None:
        """Write down that a run has made files."""
        for path in paths:
            self._store.put(f"{self._folder}/{_note_path(run, path)}", _BODY)

    def noted_files(self, run: str) -> set[str]:
        """Return the files that a run has made; notes that name anything else are skipped with a warning."""
        found = {name.replace(_JOINT, "/") for name in self.names(f"{NOTES}/{require_run_name(run)}") if name != _OPEN}
        strange = sorted(path for path in found if not is_run_file(path) and path != UNCLEAR)
        if strange:
            _log.warning(
                "%d notes in %s/%s/%s name no file that a write makes, the first %r; they are left there",
                *(len(strange), self._folder, NOTES, run, strange[0]),
            )
        return found.difference(strange)

    def settle(self, run: str, keep: Collection[str] = ()) -> set[str]:
        """Remove what a run has made but for what is kept, then its notes; gives what was removed."""
        # From here on, tasks that note a file see that nobody will use it.
        self._forget(run, {_OPEN})
        noted = self.noted_files(run)
        doomed = noted.difference(keep, {UNCLEAR})
        self.delete(*sorted(doomed))
        self._forget(run, noted)
        return doomed

    def delete_noted(self, run: str, paths: Collection[str]) -> None:
        """Remove some of the files that a run has made, and their notes."""
        self.delete(*sorted(paths))
        self._forget(run, paths)

    def delete(self, *paths: str) -> None:
        """Delete files, and with data files what Lance keeps beside them; absent ones are fine."""
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
        """Delete everything below a path; the whole directory by default."""
        self._store.delete_tree(f"{self._folder}/{path}" if path else self._folder)

    def _forget(self, run: str, paths: Collection[str]) -> None:
        if paths:
            self._store.delete(*(f"{self._folder}/{_note_path(run, path)}" for path in sorted(paths)))
            self._store.prune(f"{self._folder}/{NOTES}/{run}")


def is_run_file(path: str) -> bool:
    """Return True if a path below a table's directory can be that of a file that a run has written."""
    return _NOTED.fullmatch(path) is not None


def require_run_name(run: str) -> str:
    """Return the name of a run's notes; raises InvalidTableStateError if it is none."""
    if _RUN.fullmatch(run) is None:
        raise InvalidTableStateError(f"{run[:100]!r} is not the name of a run's notes")
    return run


def _note_path(run: str, path: str) -> str:
    return f"{NOTES}/{require_run_name(run)}/{path.replace('/', _JOINT)}"
