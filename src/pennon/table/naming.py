"""Names of the manifest files in a table's `_versions` directory, in both schemes that Lance knows.

V1 writes `7.manifest`; V2 writes the number counted down from the largest one, with 20 digits, so that a listing shows
the newest first. A staged manifest has a suffix of its own, `7.manifest-<uuid>`, until its version is committed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from pennon.errors import InvalidInputError

V1, V2 = "V1", "V2"
FOLDER = "_versions"
SUFFIX = ".manifest"
LARGEST = (1 << 64) - 1
_DIGITS = 20


def file_name(version: int, scheme: str) -> str:
    """Name the file of a version."""
    if scheme == V2:
        return f"{LARGEST - version:0{_DIGITS}}{SUFFIX}"
    if scheme == V1:
        return f"{version}{SUFFIX}"
    raise InvalidInputError(f"Unknown naming scheme {scheme!r}; known: {V1}, {V2}")


def parsed(name: str) -> tuple[int, str] | None:
    """Read version and scheme from the name of a manifest file; None if it is something else, a staged one included."""
    stem = name.removesuffix(SUFFIX)
    if stem == name or not (stem.isascii() and stem.isdecimal()):
        return None
    return (LARGEST - int(stem), V2) if len(stem) == _DIGITS else (int(stem), V1)


def parsed_staged(name: str) -> tuple[int, str] | None:
    """Read version and scheme from the name of a staged manifest; None if it is none."""
    stem, _, token = name.partition(SUFFIX + "-")
    return parsed(stem + SUFFIX) if token else None


@dataclass(frozen=True)
class Stamp:
    """A version on a local disk, and what tells its file from another one of the same name."""

    version: int
    inode: int
    modified_ns: int
    size: int


def latest_in(location: str) -> Stamp | None:
    """Find the latest version of a table on a local disk, with one look into a directory; None if there is none."""
    folder = f"{location}/{FOLDER}"
    try:
        names = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]  # noqa: PTH208 - Path is slower
        # The newest of the second scheme comes first, unless there is one of the first scheme, which is shorter.
        newest = min(names, default="")
        if len(newest) != _DIGITS + len(SUFFIX):
            newest = max(names, key=lambda name: (parsed(name) or (0,))[0], default="")
        found = parsed(newest)
        if found is None:
            return None
        seen = os.stat(f"{folder}/{newest}")  # noqa: PTH116 - the same
    except FileNotFoundError:
        return None
    return Stamp(found[0], seen.st_ino, seen.st_mtime_ns, seen.st_size)
