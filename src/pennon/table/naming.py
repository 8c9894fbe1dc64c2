"""Names of the manifest files in a table's `_versions` directory, in both naming schemes of Lance.

V1 writes `7.manifest`. V2 writes the largest number minus the version, with 20 digits, so that a listing shows the
newest version first. A staged manifest has a suffix, `7.manifest-<uuid>`, until its version is committed.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, InvalidTableStateError

if TYPE_CHECKING:
    from collections.abc import Iterable

V1, V2 = "V1", "V2"
VERSIONS_FOLDER = "_versions"
SUFFIX = ".manifest"
LARGEST = (1 << 64) - 1
_DIGITS = 20
_TOKEN = re.compile(r"[0-9A-Za-z-]{1,100}")


def format_name(version: int, scheme: str) -> str:
    """Return the file name of a version."""
    if scheme == V2:
        return f"{LARGEST - version:0{_DIGITS}}{SUFFIX}"
    if scheme == V1:
        return f"{version}{SUFFIX}"
    raise InvalidInputError(f"Unknown naming scheme {scheme!r}; known: {V1}, {V2}")


def parse_name(name: str) -> tuple[int, str] | None:
    """Return the version and scheme in the name of a manifest file, or None for another file or a staged manifest."""
    stem = name.removesuffix(SUFFIX)
    if stem == name or len(stem) > _DIGITS or not (stem.isascii() and stem.isdecimal()):
        return None
    number = int(stem)
    if number > LARGEST:
        return None
    return (LARGEST - number, V2) if len(stem) == _DIGITS else (number, V1)


def parse_staged_name(name: str) -> tuple[int, str] | None:
    """Return the version and scheme in the name of a staged manifest, or None for another file."""
    stem, _, token = name.partition(SUFFIX + "-")
    return parse_name(stem + SUFFIX) if _TOKEN.fullmatch(token) else None


@dataclass(frozen=True)
class Stamp:
    """A version on a local disk. It distinguishes its file from another one with the same name."""

    version: int
    scheme: str
    inode: int
    modified_ns: int
    size: int


def read_latest_stamp(location: str) -> Stamp | None:
    """Return the stamp of a table's latest version on a local disk, or None. One directory is listed."""
    found = find_newest_in(f"{location}/{VERSIONS_FOLDER}")
    return None if found is None else read_stamp(location, *found)


def find_newest_in(folder: str) -> tuple[int, str] | None:
    """Return the version and scheme of the newest manifest in a directory on a local disk, or None."""
    try:
        # This is faster than Path.iterdir, and it runs for each operation.
        return find_newest(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return None


def find_newest(files: Iterable[str]) -> tuple[int, str] | None:
    """Return the version and scheme of the newest manifest among files, or None."""
    names = [name for name in files if name.endswith(SUFFIX)]
    # The newest V2 name sorts first, unless there is a V1 name, which is shorter.
    first = min(names, default="")
    if len(first) == _DIGITS + len(SUFFIX) and (found := parse_name(first)) is not None:
        return found
    return max((found for name in names if (found := parse_name(name)) is not None), default=None)


def read_stamp(location: str, version: int, scheme: str) -> Stamp | None:
    """Return the stamp of a version on a local disk, or None if it has no file."""
    try:
        seen = os.stat(f"{location}/{VERSIONS_FOLDER}/{format_name(version, scheme)}", follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(seen.st_mode):
        raise InvalidTableStateError(f"Version {version} in {location!r} is not a regular file: remove it")
    return Stamp(version, scheme, seen.st_ino, seen.st_mtime_ns, seen.st_size)


def read_stamp_after(location: str, base: Stamp | None, version: int) -> Stamp | None:
    """Return the stamp of a version that was just committed on top of `base`, or None if it may be another one.

    While the base is the same file, the table was not created again, and no other client can have used the number.
    """
    if base is None:
        return None
    stamp = read_stamp(location, version, base.scheme)
    return stamp if read_stamp(location, base.version, base.scheme) == base else None
