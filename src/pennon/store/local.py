"""A store on a local disk.

Compare-and-swap takes a `flock` on one of a fixed number of lock files, which are never deleted. It then reads,
compares, writes a temporary file and renames it. The lock ends with the process that holds it. Put-if-absent writes a
temporary file and creates a hard link to it.

Symbolic links below the root are not followed (see `root_paths`). Only regular files count. Reads treat links, pipes,
sockets and devices as absent; writes fail if one is in the way.
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
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, unquote, urlsplit

from pennon.errors import UnusableEntryError
from pennon.store import root_paths
from pennon.store.protocol import LARGEST_OBJECT, Amount, Blob, FileEntry, Level, UnusableEntry, too_large_error
from pennon.store.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

LOCK_DIRECTORY = ".lance-locks"
TRASH_DIRECTORY = ".lance-trash"
_LOCK_FILES = 64
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}
_OWN_LINKS = 2
_TABLE_LINKS = _OWN_LINKS + 3
_CLOCK_NANOSECONDS = 2_000_000_000
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
"""The directories in a table's directory that Lance uses."""
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
class _FilledTables:
    """The table directories that contain files, for one modification time of the root."""

    root_modified: int = 0
    checked_at: int = 0
    names: frozenset[str] = frozenset()


class LocalStore:
    """A root directory on a local disk."""

    is_local = True

    def __init__(self, root: Path, storage_options: dict[str, str]) -> None:
        self._root = root
        self._top = str(root)
        self._prefix = f"{root}/"
        self.storage_options = storage_options
        self._filled = _FilledTables()
        self.turns = Turns(self._top, LOCK_DIRECTORY)
        self._plain: dict[str, tuple[int, int]] = {}
        """Inode and change time of directories in which nothing that Lance uses is a link."""

    def identity(self) -> str:
        """Return the path of the root."""
        return str(self._root)

    def location(self, path: str) -> str:
        """Return the absolute path. Lance takes it as it is, with any characters."""
        return self._prefix + root_paths.check_path(path)

    def resolve(self, path: str, *, deeply: bool = False) -> str:
        """Check the directory and those in it that Lance uses. `deeply` checks everything below it."""
        address = self.location(path)
        seen = None if deeply or "/" in path else root_paths.read_status(self._top, path)
        if seen is not None and self._plain.get(path) == (seen.st_ino, seen.st_ctime_ns):
            return address
        try:
            descriptor = root_paths.open_directory(self._top, path)
        except (FileNotFoundError, NotADirectoryError):
            return address
        try:
            known = _require_plain(descriptor, path, _LANCE_DIRECTORIES)
            if _REFS in known:
                # Tags and branches are written to subdirectories of this one. A change there does not change the
                # table's directory, so such a table is checked each time.
                seen = None
                refs_path = f"{path}/{_REFS}" if path else _REFS
                with (
                    contextlib.suppress(FileNotFoundError, NotADirectoryError),
                    root_paths.hold_directory(self._top, refs_path) as refs,
                ):
                    _require_plain(refs, refs_path, _REF_DIRECTORIES)
            for _, below, entry in root_paths.walk(descriptor) if deeply else ():
                if entry.is_symlink():
                    raise root_paths.symlink_error(f"{path}/{below}{entry.name}")
        finally:
            os.close(descriptor)
        # A new or removed entry changes the directory's time. A change within the clock's resolution would not show.
        if seen is not None and time.time_ns() - seen.st_ctime_ns > _CLOCK_NANOSECONDS:
            if len(self._plain) >= _PLAIN_TABLES:
                self._plain.clear()
            self._plain[path] = (seen.st_ino, seen.st_ctime_ns)
        return address

    def uri(self, path: str) -> str:
        """Return a percent-encoded file URI."""
        return "file://" + quote(self.location(path))

    def relative(self, location: str) -> str | None:
        """Return the relative path of a path or file URI below the root."""
        if location.startswith("file:"):
            location = unquote(urlsplit(location).path)
        try:
            inside = Path(location).relative_to(self._root)
        except ValueError:
            return None
        return None if ".." in inside.parts else inside.as_posix()

    def absolute(self, path: str) -> str:
        """Return the path from the top of the disk."""
        return self.location(path).lstrip("/")

    def from_absolute(self, absolute: str) -> str | None:
        """Return the relative path of a path from the top of the disk, with or without a leading slash."""
        return self.relative(f"/{absolute.lstrip('/')}")

    def list_level(self, path: str = "") -> Level:
        """Return one level. Only files are examined."""
        files: list[FileEntry] = []
        directories: list[str] = []
        unusable: list[UnusableEntry] = []
        try:
            with root_paths.hold_directory(self._top, path) as descriptor, os.scandir(descriptor) as entries:
                for entry in entries:
                    if not root_paths.is_text(entry.name):
                        unusable.append(UnusableEntry(entry.name, "its name is not valid UTF-8"))
                    elif entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        # A file that is deleted during the listing is left out.
                        with contextlib.suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            files.append(FileEntry(entry.name, status.st_size, status.st_mtime))
                    else:
                        with contextlib.suppress(FileNotFoundError):
                            unusable.append(
                                UnusableEntry(entry.name, _describe_kind(entry.stat(follow_symlinks=False)))
                            )
        except (FileNotFoundError, NotADirectoryError):
            return Level((), ())
        return Level(tuple(files), tuple(directories), tuple(unusable))

    def find_empty_tables(self, names: Sequence[str], *, subdirectories: int) -> frozenset[str]:
        """Examine each directory, except those that had files before, if the root has not changed since.

        A directory is looked into only if its link count does not show that it is a table.
        """
        try:
            descriptor = os.open(self._top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return frozenset(names)
        try:
            return self._find_empty(descriptor, names, subdirectories)
        finally:
            os.close(descriptor)

    def _find_empty(self, descriptor: int, names: Sequence[str], subdirectories: int) -> frozenset[str]:
        root = os.fstat(descriptor)
        modified = root.st_mtime_ns
        before = self._filled
        now = time.time_ns()
        # A change within the clock's resolution of the last one would not show.
        fresh = now - before.checked_at < _TRUSTED_NANOSECONDS and now - modified > _CLOCK_NANOSECONDS
        trusted = before.names if fresh and before.root_modified == modified else frozenset()
        unknown = [name for name in names if name not in trusted]
        # The link count of a directory includes its subdirectories on most file systems. Others report a constant.
        if unknown and root.st_nlink == _OWN_LINKS + subdirectories:
            unknown = [name for name in unknown if not _has_table_links(descriptor, name, root.st_dev)]
        empty = frozenset([name for name in unknown if not self.has_files(name)])
        filled = trusted.union(names) - empty
        self._filled = _FilledTables(modified, before.checked_at if trusted else now, filled)
        return empty

    def list_first_files(self, path: str) -> tuple[list[FileEntry], bool]:
        """Return all files: a directory has no pages."""
        return sorted(self.list_level(path).files, key=attrgetter("name")), True

    def list_names(self, path: str) -> set[str]:
        """Return the names in a directory without examining the entries."""
        try:
            descriptor = root_paths.open_directory(self._top, path)
        except (FileNotFoundError, NotADirectoryError):
            return set()
        try:
            found = os.listdir(descriptor)
        finally:
            os.close(descriptor)
        return set(found) if all(map(str.isascii, found)) else {name for name in found if root_paths.is_text(name)}

    def now(self) -> float:
        """Return the time of this machine, which also dates its files."""
        return time.time()

    def measure(self, path: str) -> Amount:
        """Walk the directory. Files that are deleted during the walk do not count."""
        sizes = []
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            root_paths.hold_directory(self._top, path) as top,
        ):
            for _, _, entry in root_paths.walk(top):
                with contextlib.suppress(FileNotFoundError):
                    sizes.append(entry.stat(follow_symlinks=False).st_size)
        return Amount(len(sizes), sum(sizes))

    def has_files(self, path: str) -> bool:
        """Return True if there is a file below `path`."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            root_paths.hold_directory(self._top, path) as top,
        ):
            return next(root_paths.walk(top), None) is not None
        return False

    def get(self, path: str, *, max_bytes: int = LARGEST_OBJECT) -> Blob | None:
        """Return a file. Its e-tag is a hash of the body."""
        found = root_paths.read_status(self._top, path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return None
        try:
            with root_paths.hold_parent(self._top, path) as (folder, name):
                descriptor = os.open(name, _READ, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return None
            body = file.read(max_bytes + 1)
        if len(body) > max_bytes:
            raise too_large_error(path, max(status.st_size, len(body)), max_bytes)
        return Blob(body, _e_tag(body), status.st_mtime)

    def size(self, path: str) -> int | None:
        """Return the size of a file."""
        found = root_paths.read_status(self._top, path)
        return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else None

    def stamp(self, path: str) -> str | None:
        """Return the inode, modification time and size of a file."""
        found = root_paths.read_status(self._top, path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return None
        return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"

    def put(self, path: str, body: bytes) -> None:
        """Write a temporary file and rename it, so that no reader sees half a file."""
        with self._write_temporary(body) as (folder, temporary):

            def replace(target: int, name: str) -> None:
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=target)

            self._write_entry(path, replace)

    def create(self, path: str, body: bytes) -> str | None:
        """Write a temporary file and create a hard link, which fails if the name exists."""
        with self._write_temporary(body) as (folder, temporary):

            def link(target: int, name: str) -> None:
                os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=target, follow_symlinks=False)

            try:
                self._write_entry(path, link)
            except FileExistsError:
                self._require_file(path)
                return None
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                return self._create_without_links(path, body)
        return _e_tag(body)

    def swap(self, path: str, body: bytes, e_tag: str) -> str | None:
        """Replace a file under the lock if its body still has this e-tag."""
        with self._hold_lock("swap", path):
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
                root_paths.hold_parent(self._top, path) as (folder, name),
            ):
                os.unlink(name, dir_fd=folder)

    def delete_if(self, path: str, e_tag: str) -> bool:
        """Delete a file under the lock if its body still has this e-tag."""
        with self._hold_lock("swap", path):
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
        """Rename the directory into the trash, which is atomic, and delete it there. A plain file stays."""
        self.delete(*also)
        self.remove_leftovers()
        found = root_paths.read_status(self._top, path)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise root_paths.symlink_error(path)
        if not path or found is None or not stat.S_ISDIR(found.st_mode):
            return Amount()
        with root_paths.hold_directory(self._top, TRASH_DIRECTORY, make=True) as trash:
            doomed = uuid.uuid4().hex
            try:
                with root_paths.hold_parent(self._top, path) as (folder, name):
                    os.rename(name, doomed, src_dir_fd=folder, dst_dir_fd=trash)
            except (FileNotFoundError, NotADirectoryError):
                return Amount()
            return _delete_renamed(trash, doomed)

    def list_leftovers(self) -> list[str]:
        """Return old entries of the trash, and old temporary files."""
        return [f"{place}/{name}" for place, _, name, _ in self._walk_leftovers()]

    def remove_leftovers(self) -> None:
        """Delete old entries of the trash, and old temporary files."""
        for _, folder, name, is_directory in self._walk_leftovers():
            # Another process may delete the same entry. The next call deletes what remains.
            with contextlib.suppress(OSError):
                root_paths.remove_tree(folder, name) if is_directory else os.unlink(name, dir_fd=folder)

    def _walk_leftovers(self) -> Iterator[tuple[str, int, str, bool]]:
        """Iterate over what killed processes left: its directory, the directory's descriptor, its name and kind."""
        before = time.time() - _LEFTOVER_SECONDS
        for place, prefix in ((TRASH_DIRECTORY, ""), (LOCK_DIRECTORY, _NEW)):
            with contextlib.suppress(FileNotFoundError), root_paths.hold_directory(self._top, place) as folder:
                with os.scandir(folder) as entries:
                    old = [
                        (entry.name, entry.is_dir(follow_symlinks=False))
                        for entry in entries
                        if entry.name.startswith(prefix) and _read_changed(entry) <= before
                    ]
                for name, is_directory in old:
                    yield place, folder, name, is_directory

    def copy_tree(self, source: str, target: str) -> list[str]:
        """Create a hard link to each file, or copy it if the disk has no hard links. Symbolic links are left out."""
        copies = []
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            root_paths.hold_directory(self._top, source) as top,
        ):
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
        """Delete the tree. The caller holds the lock of the name, and the rename is atomic."""
        return self.delete_tree(path, also=also)

    def require_conditional_writes(self) -> None:
        """Return: locks and renames are enough."""

    def prune(self, path: str) -> None:
        """Remove an empty directory, and each parent below the root that is then empty."""
        with contextlib.suppress(OSError):
            while path:
                with root_paths.hold_parent(self._top, path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
                path = path.rpartition("/")[0]

    @contextlib.contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Hold the lock file for `name`."""
        with self._hold_lock("name", name):
            yield

    def map(self, function: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        """Return the results in order. The calls run one by one: system calls cost less than threads."""
        return [function(item) for item in items]

    def close(self) -> None:
        """Return: nothing is held open."""

    def _link(self, folder: int, name: str, target: str) -> None:
        def link(target_folder: int, target_name: str) -> None:
            os.link(name, target_name, src_dir_fd=folder, dst_dir_fd=target_folder, follow_symlinks=False)

        try:
            self._write_entry(target, link)
        except FileExistsError:
            self._require_file(target)
        except OSError as error:
            if error.errno not in {*_NO_HARD_LINKS, errno.EXDEV}:
                raise
            with (
                open(os.open(name, _READ, dir_fd=folder), "rb") as source,
                root_paths.hold_parent(self._top, target, make=True) as (target_folder, target_name),
                open(os.open(target_name, _WRITE_NEW, 0o666, dir_fd=target_folder), "wb") as copy,
            ):
                shutil.copyfileobj(source, copy)

    def _write_entry(self, path: str, write: Callable[[int, str], None]) -> None:
        """Write an entry. Creates its directory first, and again if another process removes it as empty."""
        for remaining in reversed(range(_ATTEMPTS)):
            try:
                with root_paths.hold_parent(self._top, path, make=True) as (folder, name):
                    write(folder, name)
            except FileNotFoundError:
                if not remaining:
                    raise
            else:
                return

    def _require_file(self, path: str) -> None:
        """Raise UnusableEntryError if an entry that is not a regular file is at the path."""
        found = root_paths.read_status(self._top, path)
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise UnusableEntryError(
                f"{root_paths.shorten_text(path)} in the root is {_describe_kind(found)}, not a file: remove it"
            )

    @contextlib.contextmanager
    def _write_temporary(self, body: bytes) -> Iterator[tuple[int, str]]:
        temporary = f"{_NEW}{uuid.uuid4().hex}"
        with root_paths.hold_directory(self._top, LOCK_DIRECTORY, make=True) as folder:
            try:
                _write(os.open(temporary, _WRITE_NEW, 0o666, dir_fd=folder), body)
                yield folder, temporary
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)

    def _create_without_links(self, path: str, body: bytes) -> str | None:
        try:
            with root_paths.hold_parent(self._top, path, make=True) as (folder, name):
                _write(os.open(name, _WRITE_NEW, 0o666, dir_fd=folder), body)
        except FileExistsError:
            self._require_file(path)
            return None
        return _e_tag(body)

    @contextlib.contextmanager
    def _hold_lock(self, purpose: str, name: str) -> Iterator[None]:
        # Swaps run inside `exclusive`. The two use different lock files, so that no thread waits for itself.
        slot = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % _LOCK_FILES
        file = f"{purpose}-{slot:02}"
        with root_paths.hold_directory(self._top, LOCK_DIRECTORY, make=True) as folder:
            try:
                descriptor = os.open(file, _LOCK, 0o666, dir_fd=folder)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise root_paths.symlink_error(f"{LOCK_DIRECTORY}/{file}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _write(descriptor: int, body: bytes) -> None:
    with open(descriptor, "wb") as file:
        file.write(body)


def _delete_renamed(trash: int, doomed: str) -> Amount:
    """Delete a directory that was renamed into the trash, and return its files and size."""
    if not stat.S_ISDIR(os.stat(doomed, dir_fd=trash, follow_symlinks=False).st_mode):
        # Another process replaced the directory by a link or a file after it was examined.
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
                    raise root_paths.symlink_error(f"{path}/{entry.name}")
                found.add(entry.name)
    return found


def _describe_kind(status: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(status.st_mode), "a file of an unknown kind")


def _has_table_links(root: int, name: str, device: int) -> bool:
    """Return True if the link count of a directory in the open root shows the three subdirectories of a table.

    These are data, transactions and versions. A creator that died early, or a deletion, leaves fewer, perhaps empty
    ones. A directory on another device, a mount point, may not count links.
    """
    try:
        found = os.stat(name, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return found.st_nlink >= _TABLE_LINKS and found.st_dev == device and stat.S_ISDIR(found.st_mode)


def _read_changed(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_ctime
    except FileNotFoundError:
        return math.inf


def _e_tag(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
