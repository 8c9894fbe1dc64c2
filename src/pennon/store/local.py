"""The store on a local disk, straight on the operating system.

Compare-and-swap is a `flock` on one of a fixed number of lock files, which are never unlinked, then read, compare,
write beside and rename; the lock dies with its holder. Put-if-absent writes beside and hard-links.

Nothing is followed that is a symbolic link below the root (see `root_paths`). A file counts only if it is a regular
one: links, pipes, sockets and devices are as good as absent to reads, and an error to writes that meet one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import math
import os
import shutil
import stat
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, unquote, urlsplit

from pennon.errors import UnusableEntryError
from pennon.store import root_paths
from pennon.store.protocol import LARGEST_OBJECT, Amount, Blob, FileEntry, Level, UnusableEntry, too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

LOCK_DIRECTORY = ".lance-locks"
TRASH_DIRECTORY = ".lance-trash"
_LOCK_FILES = 64
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}
_TABLE_LINKS = 5
_GRAIN_NANOSECONDS = 2_000_000_000
_TRUSTED_NANOSECONDS = 30_000_000_000
_ATTEMPTS = 10
_PLAIN_TABLES = 10_000
_NEW = "new-"
_LEFTOVER_SECONDS = 3600.0
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LANCE_DIRECTORIES = frozenset(
    ("data", "_versions", "_transactions", "_deletions", "_indices", "_refs", "_mem_wal", "tree")
)
"""What Lance reads and writes by name in a table's directory."""
_REFS = "_refs"
_REF_DIRECTORIES = frozenset(("tags", "branches"))
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}

T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True)
class _Full:
    """Table directories that held something when the root had been changed last at a certain time."""

    changed: int = 0
    taken: int = 0
    names: frozenset[str] = frozenset()


class LocalStore:
    """A root directory on a local disk."""

    is_local = True

    def __init__(self, root: Path, storage_options: dict[str, str]) -> None:
        self._root = root
        self._top = str(root)
        self._prefix = f"{root}/"
        self.storage_options = storage_options
        self._full = _Full()
        self._plain: dict[str, tuple[int, int]] = {}
        """Directories in which nothing that Lance knows is a link, with their number and time of change."""

    def identity(self) -> str:
        """Name the root by its path."""
        return str(self._root)

    def location(self, path: str) -> str:
        """Give the plain absolute path, which Lance takes as it is, whatever characters it holds."""
        return self._prefix + root_paths.checked(path)

    def resolve(self, path: str, *, deeply: bool = False) -> str:
        """Look at the directory and at those in it that Lance knows; `deeply` looks at everything below it."""
        address = self.location(path)
        seen = None if deeply or "/" in path else root_paths.status(self._top, path)
        if seen is not None and self._plain.get(path) == (seen.st_ino, seen.st_ctime_ns):
            return address
        try:
            descriptor = root_paths.open_directory(self._top, path)
        except (FileNotFoundError, NotADirectoryError):
            return address
        try:
            known = _require_plain(descriptor, path, _LANCE_DIRECTORIES)
            if _REFS in known:
                # Tags and branches are written into directories in this one, which may change while the table's does
                # not: such a table is looked at each time.
                seen = None
                refs_path = f"{path}/{_REFS}" if path else _REFS
                with (
                    contextlib.suppress(FileNotFoundError, NotADirectoryError),
                    root_paths.directory(self._top, refs_path) as refs,
                ):
                    _require_plain(refs, refs_path, _REF_DIRECTORIES)
            for _, below, entry in root_paths.walk(descriptor) if deeply else ():
                if entry.is_symlink():
                    raise root_paths.linked(f"{path}/{below}{entry.name}")
        finally:
            os.close(descriptor)
        # Nothing comes into a directory, or goes, without a new time. A change within the clock's grain would not show.
        if seen is not None and time.time_ns() - seen.st_ctime_ns > _GRAIN_NANOSECONDS:
            if len(self._plain) >= _PLAIN_TABLES:
                self._plain.clear()
            self._plain[path] = (seen.st_ino, seen.st_ctime_ns)
        return address

    def uri(self, path: str) -> str:
        """Give a percent-encoded file URI."""
        return "file://" + quote(self.location(path))

    def relative(self, location: str) -> str | None:
        """Accept a path or a file URI below the root."""
        if location.startswith("file:"):
            location = unquote(urlsplit(location).path)
        try:
            inside = Path(location).relative_to(self._root)
        except ValueError:
            return None
        return None if ".." in inside.parts else inside.as_posix()

    def absolute(self, path: str) -> str:
        """Give the path from the top of the disk."""
        return self.location(path).lstrip("/")

    def from_absolute(self, absolute: str) -> str | None:
        """Accept a path from the top of the disk, with or without the slash."""
        return self.relative(f"/{absolute.lstrip('/')}")

    def list_level(self, path: str = "") -> Level:
        """List one level; only files are looked at."""
        files: list[FileEntry] = []
        directories: list[str] = []
        unusable: list[UnusableEntry] = []
        try:
            with root_paths.directory(self._top, path) as descriptor, os.scandir(descriptor) as entries:
                for entry in entries:
                    if not root_paths.is_text(entry.name):
                        unusable.append(UnusableEntry(entry.name, "its name is not valid UTF-8"))
                    elif entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        # What goes away during the listing is not there.
                        with contextlib.suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            files.append(FileEntry(entry.name, status.st_size, status.st_mtime))
                    else:
                        with contextlib.suppress(FileNotFoundError):
                            unusable.append(UnusableEntry(entry.name, _kind(entry.stat(follow_symlinks=False))))
        except (FileNotFoundError, NotADirectoryError):
            return Level((), ())
        return Level(tuple(files), tuple(directories), tuple(unusable))

    def find_empty_tables(self, names: Sequence[str]) -> frozenset[str]:
        """Look into each directory, but for those that were full before, as long as the root has not changed since."""
        changed = _modified(self._root)
        before = self._full
        now = time.time_ns()
        # A change within the clock's grain of the last one would not show.
        fresh = now - before.taken < _TRUSTED_NANOSECONDS and now - changed > _GRAIN_NANOSECONDS
        trusted = before.names if fresh and before.changed == changed else frozenset()
        full: set[str] = set(trusted)
        empty: set[str] = set()
        for name in names:
            if name not in trusted:
                (full if self._holds_table(name) else empty).add(name)
        self._full = _Full(changed, before.taken if trusted else now, frozenset(full))
        return frozenset(empty)

    def list_names(self, path: str) -> set[str]:
        """List one level without looking at the entries."""
        try:
            descriptor = root_paths.open_directory(self._top, path)
        except (FileNotFoundError, NotADirectoryError):
            return set()
        try:
            found = os.listdir(descriptor)  # noqa: PTH208 - three times as fast as Path.iterdir
        finally:
            os.close(descriptor)
        return set(found) if all(map(str.isascii, found)) else {name for name in found if root_paths.is_text(name)}

    def now(self) -> float:
        """Tell the time: the clock of this machine is the one that dates its files."""
        return time.time()

    def measure(self, path: str) -> Amount:
        """Walk the directory; what goes away meanwhile does not count."""
        sizes = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), root_paths.directory(self._top, path) as top:
            for _, _, entry in root_paths.walk(top):
                with contextlib.suppress(FileNotFoundError):
                    sizes.append(entry.stat(follow_symlinks=False).st_size)
        return Amount(len(sizes), sum(sizes))

    def has_files(self, path: str) -> bool:
        """Tell whether there is a file somewhere below `path`."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), root_paths.directory(self._top, path) as top:
            return next(root_paths.walk(top), None) is not None
        return False

    def get(self, path: str, *, max_bytes: int = LARGEST_OBJECT) -> Blob | None:
        """Read a file; its e-tag is a hash of the body."""
        found = root_paths.status(self._top, path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return None
        try:
            with root_paths.parent(self._top, path) as (folder, name):
                descriptor = os.open(name, _READ, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with open(descriptor, "rb") as file:  # noqa: PTH123 - what is open is looked at, not a name
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            body = file.read(max_bytes + 1)
        if len(body) > max_bytes:
            raise too_large(path, max(status.st_size, len(body)), max_bytes)
        return Blob(body, _e_tag(body), status.st_mtime)

    def size(self, path: str) -> int | None:
        """Give a file's size."""
        found = root_paths.status(self._top, path)
        return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else None

    def stamp(self, path: str) -> str | None:
        """Tell files apart by their number, time and size."""
        found = root_paths.status(self._top, path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return None
        return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"

    def put(self, path: str, body: bytes) -> None:
        """Write beside and rename, so that nobody sees half a file."""
        with self._written_beside(body) as (beside, temporary):

            def replace(folder: int, name: str) -> None:
                os.replace(temporary, name, src_dir_fd=beside, dst_dir_fd=folder)

            self._into(path, replace)

    def create(self, path: str, body: bytes) -> str | None:
        """Write beside and hard-link, which fails if the name is taken."""
        with self._written_beside(body) as (beside, temporary):

            def link(folder: int, name: str) -> None:
                os.link(temporary, name, src_dir_fd=beside, dst_dir_fd=folder, follow_symlinks=False)

            try:
                self._into(path, link)
            except FileExistsError:
                self._require_file(path)
                return None
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                return self._create_without_links(path, body)
        return _e_tag(body)

    def swap(self, path: str, body: bytes, e_tag: str) -> str | None:
        """Replace under the lock if the body is still the one that `e_tag` stands for."""
        with self._locked("swap", path):
            current = self.get(path)
            if current is None or current.e_tag != e_tag:
                return None
            self.put(path, body)
        return _e_tag(body)

    def delete(self, *paths: str) -> None:
        """Delete files."""
        for path in paths:
            with (
                contextlib.suppress(FileNotFoundError, NotADirectoryError),
                root_paths.parent(self._top, path) as (folder, name),
            ):
                os.unlink(name, dir_fd=folder)

    def delete_if(self, path: str, e_tag: str) -> bool:
        """Delete under the lock if the body is still the same."""
        with self._locked("swap", path):
            current = self.get(path)
            if current is None or current.e_tag != e_tag:
                return False
            self.delete(path)
        return True

    def delete_tree(
        self,
        path: str,
        *,
        first: str | None = None,
        also: Sequence[str] = (),
    ) -> Amount:
        """Rename the directory away, which is atomic, and delete it there. A plain file is no tree and stays."""
        self.delete(*also)
        self._remove_leftovers()
        found = root_paths.status(self._top, path)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise root_paths.linked(path)
        if not path or found is None or not stat.S_ISDIR(found.st_mode):
            return Amount()
        with root_paths.directory(self._top, TRASH_DIRECTORY, make=True) as trash:
            doomed = uuid.uuid4().hex
            try:
                with root_paths.parent(self._top, path) as (folder, name):
                    os.rename(name, doomed, src_dir_fd=folder, dst_dir_fd=trash)
            except (FileNotFoundError, NotADirectoryError):
                return Amount()
            return _removed(trash, doomed)

    def copy_tree(self, source: str, target: str) -> list[str]:
        """Hard-link each file, or copy it where there are no such links. Symbolic links are left out."""
        copies = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), root_paths.directory(self._top, source) as top:
            for folder, below, entry in root_paths.walk(top):
                if entry.is_file(follow_symlinks=False):
                    path = f"{target}/{below}{entry.name}"
                    self._link(folder, entry.name, path)
                    copies.append(path)
        return copies

    def purge_tree(
        self,
        path: str,
        *,
        also: Sequence[str],
        seconds: float,
        still_mine: Callable[[], bool],
    ) -> Amount:
        """Delete the tree; the caller holds the lock of the name, and a rename takes all away at once."""
        return self.delete_tree(path, also=also)

    def require_conditional_writes(self) -> None:
        """Locks and renames are all that is needed."""

    def prune(self, path: str) -> None:
        """Remove a directory, and those above it that are then empty too, up to the root."""
        with contextlib.suppress(OSError):
            while path:
                with root_paths.parent(self._top, path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
                path = path.rpartition("/")[0]

    @contextlib.contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Hold the lock file that `name` falls on."""
        with self._locked("name", name):
            yield

    def map(self, function: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        """Return the function's results in order. The calls run one by one: system calls cost less than threads."""
        return [function(item) for item in items]

    def close(self) -> None:
        """Nothing is held open."""

    def _link(self, folder: int, name: str, target: str) -> None:
        def link(there: int, called: str) -> None:
            os.link(name, called, src_dir_fd=folder, dst_dir_fd=there, follow_symlinks=False)

        try:
            self._into(target, link)
        except FileExistsError:
            self._require_file(target)
        except OSError as error:
            if error.errno not in {*_NO_HARD_LINKS, errno.EXDEV}:
                raise
            with (
                open(os.open(name, _READ, dir_fd=folder), "rb") as source,  # noqa: PTH123 - a file of an open directory
                root_paths.parent(self._top, target, make=True) as (there, called),
                open(os.open(called, _WRITE_NEW, 0o666, dir_fd=there), "wb") as copy,  # noqa: PTH123 - the same
            ):
                shutil.copyfileobj(source, copy)

    def _remove_leftovers(self) -> None:
        """Delete what processes that were killed left half deleted or half written."""
        before = time.time() - _LEFTOVER_SECONDS
        for place, prefix in ((TRASH_DIRECTORY, ""), (LOCK_DIRECTORY, _NEW)):
            with contextlib.suppress(FileNotFoundError), root_paths.directory(self._top, place) as folder:
                with os.scandir(folder) as entries:
                    old = [
                        (entry.name, entry.is_dir(follow_symlinks=False))
                        for entry in entries
                        if entry.name.startswith(prefix) and _changed(entry) <= before
                    ]
                for name, is_directory in old:
                    # Another process may be at it as well; whatever stays is there for the next one.
                    with contextlib.suppress(OSError):
                        root_paths.remove_tree(folder, name) if is_directory else os.unlink(name, dir_fd=folder)

    def _into(self, path: str, write: Callable[[int, str], None]) -> None:
        """Write into a directory, which is made first, and again if somebody removes it as empty at that moment."""
        for remaining in reversed(range(_ATTEMPTS)):
            try:
                with root_paths.parent(self._top, path, make=True) as (folder, name):
                    write(folder, name)
            except FileNotFoundError:
                if not remaining:
                    raise
            else:
                return

    def _require_file(self, path: str) -> None:
        """Raise UnusableEntryError if what is in the way of a file is something else."""
        found = root_paths.status(self._top, path)
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise UnusableEntryError(
                f"{root_paths.shorten_text(path)} in the root is {_kind(found)} where a file should be: remove it"
            )

    def _holds_table(self, name: str) -> bool:
        # Most file systems count a directory's sub-directories in its link count: a table that was written has data,
        # transactions and versions. Whatever has less is looked at closely.
        try:
            # Once per table of a listing.
            links = os.stat(self._prefix + name, follow_symlinks=False).st_nlink  # noqa: PTH116
        except FileNotFoundError:
            return False
        return links >= _TABLE_LINKS or self.has_files(name)

    @contextlib.contextmanager
    def _written_beside(self, body: bytes) -> Iterator[tuple[int, str]]:
        temporary = f"{_NEW}{uuid.uuid4().hex}"
        with root_paths.directory(self._top, LOCK_DIRECTORY, make=True) as folder:
            try:
                _write(os.open(temporary, _WRITE_NEW, 0o666, dir_fd=folder), body)
                yield folder, temporary
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)

    def _create_without_links(self, path: str, body: bytes) -> str | None:
        try:
            with root_paths.parent(self._top, path, make=True) as (folder, name):
                _write(os.open(name, _WRITE_NEW, 0o666, dir_fd=folder), body)
        except FileExistsError:
            self._require_file(path)
            return None
        return _e_tag(body)

    @contextlib.contextmanager
    def _locked(self, purpose: str, name: str) -> Iterator[None]:
        # Swaps happen inside of `exclusive`: the two have lock files of their own, so that no thread waits for itself.
        slot = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % _LOCK_FILES
        file = f"{purpose}-{slot:02}"
        with root_paths.directory(self._top, LOCK_DIRECTORY, make=True) as folder:
            try:
                descriptor = os.open(file, _LOCK, 0o666, dir_fd=folder)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise root_paths.linked(f"{LOCK_DIRECTORY}/{file}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _write(descriptor: int, body: bytes) -> None:
    with open(descriptor, "wb") as file:
        file.write(body)


def _removed(trash: int, doomed: str) -> Amount:
    """Delete a tree that was renamed away, and tell what it was."""
    if stat.S_ISLNK(os.stat(doomed, dir_fd=trash, follow_symlinks=False).st_mode):
        # Somebody put a link in the place of the directory after it was looked at.
        os.unlink(doomed, dir_fd=trash)
        return Amount(1)
    sizes = []
    descriptor = os.open(doomed, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=trash)
    try:
        for _, _, entry in root_paths.walk(descriptor):
            with contextlib.suppress(FileNotFoundError):
                sizes.append(entry.stat(follow_symlinks=False).st_size)
    finally:
        os.close(descriptor)
    root_paths.remove_tree(trash, doomed)
    return Amount(len(sizes), sum(sizes))


def _require_plain(descriptor: int, path: str, names: frozenset[str]) -> set[str]:
    """Return which of the names are in an open directory; raises UnusableEntryError if one is a symbolic link."""
    found = set()
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.name in names:
                if entry.is_symlink():
                    raise root_paths.linked(f"{path}/{entry.name}")
                found.add(entry.name)
    return found


def _kind(status: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(status.st_mode), "a file of an unknown kind")


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _changed(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_ctime
    except FileNotFoundError:
        return math.inf


def _e_tag(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
