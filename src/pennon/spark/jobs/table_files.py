"""Files of a table: those in storage, those that its versions refer to, and those that nothing refers to.

Only the five directories of Lance and the notes of Pennon's writes are considered, for the table and each of its
branches. A file with a name that Lance does not use is never an orphan, because its origin is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.spark.tables.run_files import NOTES
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lance.fragment import FragmentMetadata

DATA, DELETIONS, INDICES = "data", "_deletions", "_indices"
VERSIONS, TRANSACTIONS = naming.VERSIONS_FOLDER, "_transactions"
_HINT = "latest_version_hint.json"
_DETACHED = re.compile(r"d([0-9]{1,20})\.manifest")
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAMES = {
    DATA: re.compile(r"[^/]+\.lance|[^/]+/[^/]+\.blob"),
    DELETIONS: re.compile(r"[^/]+\.(arrow|bin)"),
    INDICES: re.compile(rf"{_UUID}/.+"),
    TRANSACTIONS: re.compile(r"[^/]+\.txn"),
    NOTES: re.compile(r".+"),
}


@dataclass(frozen=True)
class StoredFile:
    """A file in storage."""

    size: int
    modified: float
    """The time of the last write in seconds, by the store's clock."""


@dataclass
class ReferencedFiles:
    """The files in a table's directory that its versions refer to. Paths are relative to the directory."""

    files: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes of data files that manifests record, by the last part of the path, which is unique."""
    indexes: dict[str, int | None] = field(default_factory=dict)
    """The id of each index segment, with the total size of its files if known."""


@dataclass(frozen=True)
class UnreferencedFiles:
    """Files of a table that nothing refers to."""

    orphans: list[str] = field(default_factory=list)
    """Files so old that no writer can be about to commit them."""
    recent: list[str] = field(default_factory=list)
    """Files that a writer may be about to commit."""
    strange: list[str] = field(default_factory=list)
    """Files with names that Lance does not use; they are never deleted."""


def data_files(metadata: FragmentMetadata) -> tuple[str, ...]:
    """Return the data files of a fragment. A rewritten fragment has others."""
    return tuple(str(file.path) for file in metadata.files)


def split_path(path: str, branches: Collection[str]) -> tuple[str, str, str] | None:
    """Return a path's branch prefix, directory and rest, or None if it is in none of the known directories."""
    prefix = ""
    if path.startswith("tree/"):
        inside = [f"tree/{branch}/" for branch in branches if path.startswith(f"tree/{branch}/")]
        if not inside:
            return None
        # The directory of a branch may be below that of another branch. The longest name is the right one.
        prefix = max(inside, key=len)
    folder, _, rest = path.removeprefix(prefix).partition("/")
    return (prefix, folder, rest) if rest and (folder == VERSIONS or folder in _NAMES) else None


def detached_version(name: str) -> int | None:
    """Return the number of a detached version from the name of its file, or None if it is another file."""
    found = _DETACHED.fullmatch(name)
    return None if found is None else int(found[1])


def find_unreferenced(
    listed: Mapping[str, StoredFile],
    referenced: ReferencedFiles,
    *,
    branches: Collection[str],
    now: float,
    age: float,
    kept: Collection[str] = (),
) -> UnreferencedFiles:
    """Return the files that no version refers to; those older than `age` seconds are orphans.

    `kept` are files that are needed although no version refers to them. A detached version was staged and never
    published. It counts as unreferenced, with the files that only it refers to, unless the caller has added those to
    `referenced`.
    """
    found = UnreferencedFiles()
    for path, stored in sorted(listed.items()):
        where = split_path(path, branches)
        if where is None or path in kept or path in referenced.files or _is_part_of_referenced(*where, referenced):
            continue
        _, folder, rest = where
        if not _is_name_of_lance(folder, rest):
            found.strange.append(path)
        elif now - stored.modified >= age:
            found.orphans.append(path)
        else:
            found.recent.append(path)
    return found


def find_missing(listed: Mapping[str, StoredFile], referenced: ReferencedFiles) -> list[str]:
    """Return the files that versions need and that do not exist.

    A version is complete without its transaction file: Lance removes those of old versions that branches need.
    """
    held = _index_bytes(listed)
    gone = [path for path in referenced.files if path not in listed and f"/{TRANSACTIONS}/" not in f"/{path}"]
    gone += [f"{INDICES}/{segment}" for segment, size in referenced.indexes.items() if size and segment not in held]
    return sorted(gone)


def find_wrong_sizes(listed: Mapping[str, StoredFile], referenced: ReferencedFiles) -> list[str]:
    """Return a message for each file whose size differs from that in the manifests."""
    wrong = []
    for path, stored in sorted(listed.items()):
        expected = referenced.sizes.get(path.rpartition("/")[2])
        if expected is not None and path in referenced.files and stored.size != expected:
            wrong.append(f"{path} has {stored.size} bytes instead of {expected}")
    held = _index_bytes(listed)
    for segment, size in sorted(referenced.indexes.items()):
        if size is not None and segment in held and held[segment] != size:
            wrong.append(f"{INDICES}/{segment} has {held[segment]} bytes instead of {size}")
    return wrong


def _is_part_of_referenced(prefix: str, folder: str, rest: str, referenced: ReferencedFiles) -> bool:
    """Return True if a file that no version names belongs to something that one does."""
    first, _, inside = rest.partition("/")
    if folder == DATA:
        # Blobs are in a directory that has the name of their data file.
        return bool(inside) and f"{prefix}{DATA}/{first}.lance" in referenced.files
    if folder == INDICES:
        return first in referenced.indexes
    return folder == VERSIONS and (rest == _HINT or naming.parse_name(rest) is not None)


def _is_name_of_lance(folder: str, rest: str) -> bool:
    """Return True if Lance or Pennon gives such names to files in a directory."""
    if folder == VERSIONS:
        return naming.parse_staged_name(rest) is not None or detached_version(rest) is not None
    return _NAMES[folder].fullmatch(rest) is not None


def _index_bytes(listed: Mapping[str, StoredFile]) -> dict[str, int]:
    """Return the total size of the files of each index segment."""
    held: dict[str, int] = {}
    for path, stored in listed.items():
        folder, _, name = path.rpartition("/")
        above, _, segment = folder.rpartition("/")
        if name and above.rpartition("/")[2] == INDICES:
            held[segment] = held.get(segment, 0) + stored.size
    return held
