"""Paths below a root: which are valid, and how to follow them on a disk.

The path of a store is relative, and none of its parts is empty, `.` or `..`. On a disk, each part is opened from the
directory before it, and symbolic links are not followed. The root itself may be a link, or be behind one: its owner
decided that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, UnusableEntryError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_SHOWN = 200
_ATTEMPTS = 20


@lru_cache(maxsize=4096)
def split_path(path: str) -> tuple[str, ...]:
    """Return the parts of a path below a root, none for the root. Raises InvalidInputError if it is not valid."""
    if not path:
        return ()
    parts = tuple(path.split("/"))
    if "" in parts or "." in parts or ".." in parts or "\0" in path:
        raise InvalidInputError(f"{shorten_text(path)} is not a path below the root")
    return parts


def check_path(path: str) -> str:
    """Return a path below a root. Raises InvalidInputError if it is not valid."""
    split_path(path)
    return path


def shorten_text(text: str) -> str:
    """Return a text of any length for a message: shortened, on one line, and without lone surrogates."""
    return ascii(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!a}... ({len(text)} characters)"


def is_text(name: str) -> bool:
    """Return True if the name of an entry is valid UTF-8. Others contain lone surrogates."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_directory(root: str, path: str) -> int:
    """Open a directory below a root and return its descriptor, which the caller closes.

    Raises FileNotFoundError or NotADirectoryError if there is none, UnusableEntryError if a part of the path is a
    symbolic link.
    """
    parts = split_path(path)
    try:
        # The first part is opened by its full name, which follows only links of the root itself.
        descriptor = os.open(f"{root}/{parts[0]}", _DIRECTORY) if parts else os.open(root, _ROOT)
    except NotADirectoryError as error:
        raise _explain_error("/".join((root, *parts[:1])), None, parts[:1], error) from error
    for number in range(1, len(parts)):
        try:
            inner = os.open(parts[number], _DIRECTORY, dir_fd=descriptor)
        except NotADirectoryError as error:
            raise _explain_error(parts[number], descriptor, parts[: number + 1], error) from error
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


@contextlib.contextmanager
def hold_directory(root: str, path: str, *, make: bool = False) -> Iterator[int]:
    """Hold a directory below a root open. With `make`, create it and its parents first. Raises as `open_directory`."""
    descriptor = _make_directory(root, path) if make else open_directory(root, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def hold_parent(root: str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Hold the directory of an entry open. Yields its descriptor and the name of the entry in it."""
    above, _, name = check_path(path).rpartition("/")
    with hold_directory(root, above, make=make) as descriptor:
        yield descriptor, name


def read_status(root: str, path: str) -> os.stat_result | None:
    """Return the status of an entry, also if it is a link, or None if there is none."""
    try:
        if len(split_path(path)) <= 1:
            return os.stat(f"{root}/{path}", follow_symlinks=not path)
        with hold_parent(root, path) as (descriptor, name):
            return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def walk(descriptor: int, below: str = "") -> Iterator[tuple[int, str, os.DirEntry[str]]]:
    """Iterate over all entries below an open directory that are not directories. Links are not followed.

    Yields, for each entry, the descriptor of its directory, the path of that directory, and the entry.
    """
    inner = []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                inner.append(entry.name)
            else:
                yield descriptor, below, entry
    for name in inner:
        try:
            child = os.open(name, _DIRECTORY, dir_fd=descriptor)
        except (FileNotFoundError, NotADirectoryError):
            continue  # it was removed or replaced during the walk
        try:
            yield from walk(child, f"{below}{name}/")
        finally:
            os.close(child)


def remove_tree(descriptor: int, name: str) -> None:
    """Delete a directory with everything in it. Links are deleted, their targets are not.

    A writer that found the directory before it was renamed may create a last file: that is deleted too.
    """
    child = os.open(name, _DIRECTORY, dir_fd=descriptor)
    try:
        for remaining in reversed(range(_ATTEMPTS)):
            _remove_content(child)
            try:
                os.rmdir(name, dir_fd=descriptor)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY or not remaining:
                    raise
            else:
                return
    finally:
        os.close(child)


def _remove_content(descriptor: int) -> None:
    with os.scandir(descriptor) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if is_directory:
            remove_tree(descriptor, name)
        else:
            os.unlink(name, dir_fd=descriptor)


def symlink_error(path: str) -> UnusableEntryError:
    """Return the error for an entry that cannot be used because it is a symbolic link."""
    return UnusableEntryError(
        f"{shorten_text(path)} in the root is a symbolic link, and links are not followed: "
        "put the directory itself there, or remove the link"
    )


def _make_directory(root: str, path: str) -> int:
    """Open a directory. Creates it and its parents if they do not exist."""
    try:
        descriptor = os.open(root, _ROOT)
    except FileNotFoundError:
        Path(root).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root, _ROOT)
    parts = split_path(path)
    for number, part in enumerate(parts, 1):
        try:
            inner = _make_entry(descriptor, part)
        except NotADirectoryError as error:
            raise _explain_error(part, descriptor, parts[:number], error) from error
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _make_entry(descriptor: int, name: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=descriptor)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=descriptor)
        return os.open(name, _DIRECTORY, dir_fd=descriptor)


def _explain_error(name: str, descriptor: int | None, parts: tuple[str, ...], error: OSError) -> Exception:
    """Return the error for a part of a path that is not a directory: a link, or something else."""
    try:
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return error
    return symlink_error("/".join(parts)) if stat.S_ISLNK(found.st_mode) else error
