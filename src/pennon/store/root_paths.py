"""Paths below a root: what they may look like, and how a disk is walked along them.

A path that a store takes is relative, and none of its parts is empty, `.` or `..`. On a disk each part is opened from
the directory before it, and none of them is followed if it is a symbolic link. The root itself may be one, or lie
behind one: that is the choice of whoever named it.
"""

from __future__ import annotations

import contextlib
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
_SHOWN = 200


@lru_cache(maxsize=4096)
def parts_of(path: str) -> tuple[str, ...]:
    """Return the parts of a path below a root, none for the root; raises InvalidInputError if it leads elsewhere."""
    if not path:
        return ()
    parts = tuple(path.split("/"))
    if "" in parts or "." in parts or ".." in parts or "\0" in path:
        raise InvalidInputError(f"{shorten_text(path)} is not a path below the root: nothing is read or written there")
    return parts


def checked(path: str) -> str:
    """Return a path below a root, or raise InvalidInputError if it leads elsewhere."""
    parts_of(path)
    return path


def shorten_text(text: str) -> str:
    """Return a text of unknown length as messages show it, on one line and without lone surrogates."""
    return ascii(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!a}... ({len(text)} characters)"


def is_text(name: str) -> bool:
    """Return True if a name from a directory is valid UTF-8; others have lone surrogates in them."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_directory(root: str, path: str) -> int:
    """Open a directory below a root and return its descriptor; the caller closes it.

    Raises FileNotFoundError or NotADirectoryError if it is not there, UnusableEntryError if a part of the path is a
    symbolic link.
    """
    parts = parts_of(path)
    try:
        # The first part is opened by its full name, which follows links of the root and nothing else.
        descriptor = os.open(f"{root}/{parts[0]}", _DIRECTORY) if parts else os.open(root, _ROOT)
    except NotADirectoryError as error:
        raise _reason("/".join((root, *parts[:1])), None, parts[:1], error) from error
    for number in range(1, len(parts)):
        try:
            inner = os.open(parts[number], _DIRECTORY, dir_fd=descriptor)
        except NotADirectoryError as error:
            raise _reason(parts[number], descriptor, parts[: number + 1], error) from error
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


@contextlib.contextmanager
def directory(root: str, path: str, *, make: bool = False) -> Iterator[int]:
    """Hold a directory below a root open, made first with all above it if asked; raises what `open_directory` does."""
    descriptor = _made(root, path) if make else open_directory(root, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def parent(root: str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Hold the directory open that an entry is in; gives its descriptor and the entry's name in it."""
    above, _, name = checked(path).rpartition("/")
    with directory(root, above, make=make) as descriptor:
        yield descriptor, name


def status(root: str, path: str) -> os.stat_result | None:
    """Look at an entry without following it; None if it is not there."""
    try:
        if len(parts_of(path)) <= 1:
            return os.stat(f"{root}/{path}", follow_symlinks=not path)  # noqa: PTH116 - on the way of every look
        with parent(root, path) as (descriptor, name):
            return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def walk(descriptor: int, below: str = "") -> Iterator[tuple[int, str, os.DirEntry[str]]]:
    """Iterate over all that is below an open directory but for directories; links are entries, never followed.

    Gives for each the descriptor of its directory, the path of that directory below the first, and the entry.
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
            continue  # what goes away, or becomes something else, is not there
        try:
            yield from walk(child, f"{below}{name}/")
        finally:
            os.close(child)


def remove_tree(descriptor: int, name: str) -> None:
    """Delete a directory with all that is in it; links in it go, what they point at stays."""
    child = os.open(name, _DIRECTORY, dir_fd=descriptor)
    try:
        with os.scandir(child) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for inner, is_directory in found:
            if is_directory:
                remove_tree(child, inner)
            else:
                os.unlink(inner, dir_fd=child)
    finally:
        os.close(child)
    os.rmdir(name, dir_fd=descriptor)


def linked(path: str) -> UnusableEntryError:
    """Say that something is a symbolic link and is not used for that."""
    return UnusableEntryError(
        f"{shorten_text(path)} in the root is a symbolic link, and links are not followed: "
        "put the directory itself there, or remove the link"
    )


def _made(root: str, path: str) -> int:
    """Open a directory that is made first if it is not there, with all above it."""
    try:
        descriptor = os.open(root, _ROOT)
    except FileNotFoundError:
        Path(root).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root, _ROOT)
    parts = parts_of(path)
    for number, part in enumerate(parts, 1):
        try:
            inner = _made_in(descriptor, part)
        except NotADirectoryError as error:
            raise _reason(part, descriptor, parts[:number], error) from error
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _made_in(descriptor: int, name: str) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=descriptor)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=descriptor)
        return os.open(name, _DIRECTORY, dir_fd=descriptor)


def _reason(name: str, descriptor: int | None, parts: tuple[str, ...], error: OSError) -> Exception:
    """Return the error for a part of a path that is no directory: a link, or something else."""
    try:
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return error
    return linked("/".join(parts)) if stat.S_ISLNK(found.st_mode) else error
