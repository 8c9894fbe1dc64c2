"""Files of a table: what is on storage, what its versions name, and what nobody names.

Only the five directories in which Lance keeps a table's own files are judged, and our own notes of writes, of the table
and of each of its branches.
A file whose name Lance would not give is never an orphan: nobody knows what it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.spark.commits.files import NOTES
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lance.fragment import FragmentMetadata

DATA, DELETIONS, INDICES = "data", "_deletions", "_indices"
VERSIONS, TRANSACTIONS = naming.FOLDER, "_transactions"
_JUDGED = {DATA, DELETIONS, INDICES, VERSIONS, TRANSACTIONS, NOTES}
_HINT = "latest_version_hint.json"
_DETACHED = re.compile(r"d([0-9]{1,20})\.manifest")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Stored:
    """A file on storage."""

    size: int
    modified: float
    """When it was written, in seconds, by the store's clock."""


@dataclass
class Named:
    """What the versions of a table name; paths are relative to the table's directory."""

    files: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes of data files, where the manifests tell, by the last part of the path, which is unique."""
    indexes: dict[str, int | None] = field(default_factory=dict)
    """Index segments by their id, with the bytes of all of their files, where known."""
    external: set[str] = field(default_factory=set)
    """Files that lie outside of the table's directory."""


@dataclass(frozen=True)
class Unnamed:
    """Files of a table that nothing names."""

    orphans: list[str] = field(default_factory=list)
    """Old enough that no writer can be about to commit them."""
    recent: list[str] = field(default_factory=list)
    """A writer may be at work on them."""
    strange: list[str] = field(default_factory=list)
    """Not Lance's, by their names; they are left alone."""


def data_files(metadata: FragmentMetadata) -> tuple[str, ...]:
    """Name the data files of a fragment; a fragment that is rewritten gets others."""
    return tuple(str(file.path) for file in metadata.files)


def place(path: str, branches: Collection[str]) -> tuple[str, str, str] | None:
    """Tell a file's branch prefix, its directory among those, and the rest; None if it is none of these."""
    prefix = ""
    if path.startswith("tree/"):
        inside = [f"tree/{branch}/" for branch in branches if path.startswith(f"tree/{branch}/")]
        if not inside:
            return None
        # A branch may lie inside of another one's directory: the longer name is the one that is meant.
        prefix = max(inside, key=len)
    folder, _, rest = path.removeprefix(prefix).partition("/")
    return (prefix, folder, rest) if rest and folder in _JUDGED else None


def detached_version(name: str) -> int | None:
    """Read the number of a detached version from its file's name; None if it is something else."""
    found = _DETACHED.fullmatch(name)
    return None if found is None else int(found[1])


def unnamed(
    listed: Mapping[str, Stored],
    named: Named,
    *,
    branches: Collection[str],
    now: float,
    age: float,
    kept: Collection[str] = (),
) -> Unnamed:
    """Find the files that no version names, and tell those that are older than `age` seconds from the recent ones.

    `kept` are files that something else than a version needs. A detached version is one that was staged and never
    published; it counts as unnamed, and so does what it alone names, unless the caller has put that into `named`.
    """
    orphans: list[str] = []
    recent: list[str] = []
    strange: list[str] = []
    for path, stored in sorted(listed.items()):
        where = place(path, branches)
        if where is None or path in kept or path in named.files:
            continue
        kind = _judged(*where, named)
        if kind is None:
            continue
        if kind == "strange":
            strange.append(path)
        else:
            (orphans if now - stored.modified >= age else recent).append(path)
    return Unnamed(orphans, recent, strange)


def missing(listed: Mapping[str, Stored], named: Named) -> list[str]:
    """Name the files that versions need and that are not there.

    Without its transaction's file a version is whole: Lance itself removes those of old versions that branches need.
    """
    held = _index_bytes(listed)
    gone = [path for path in named.files if path not in listed and f"/{TRANSACTIONS}/" not in f"/{path}"]
    gone += [f"{INDICES}/{segment}" for segment, size in named.indexes.items() if size and segment not in held]
    return sorted(gone)


def wrong_sizes(listed: Mapping[str, Stored], named: Named) -> list[str]:
    """Say which files are not as long as the manifests tell."""
    wrong = []
    for path, stored in sorted(listed.items()):
        expected = named.sizes.get(path.rpartition("/")[2])
        if expected is not None and path in named.files and stored.size != expected:
            wrong.append(f"{path} has {stored.size} bytes instead of {expected}")
    held = _index_bytes(listed)
    for segment, size in sorted(named.indexes.items()):
        if size is not None and segment in held and held[segment] != size:
            wrong.append(f"{INDICES}/{segment} has {held[segment]} bytes instead of {size}")
    return wrong


def _judged(prefix: str, folder: str, rest: str, named: Named) -> str | None:
    """Say what an unnamed file is: "unused", "strange", or None if it belongs to something that is named."""
    if folder == DATA:
        stem, _, inside = rest.partition("/")
        if inside:
            # Large values lie beside the data file that they belong to, in a directory of its name.
            is_blob = inside.endswith(".blob") and "/" not in inside
            owner = f"{prefix}{DATA}/{stem}.lance"
            return None if owner in named.files else "unused" if is_blob else "strange"
        return "unused" if rest.endswith(".lance") else "strange"
    if folder == DELETIONS:
        return "unused" if rest.endswith((".arrow", ".bin")) and "/" not in rest else "strange"
    if folder == INDICES:
        segment, _, inside = rest.partition("/")
        if segment in named.indexes:
            return None
        return "unused" if inside and _UUID.fullmatch(segment) else "strange"
    if folder == NOTES:
        return "unused"  # its run has ended without removing it
    if folder == TRANSACTIONS:
        return "unused" if rest.endswith(".txn") and "/" not in rest else "strange"
    if rest == _HINT or naming.parsed(rest) is not None:
        return None
    staged = naming.parsed_staged(rest) is not None or detached_version(rest) is not None
    return "unused" if staged else "strange"


def _index_bytes(listed: Mapping[str, Stored]) -> dict[str, int]:
    """Add up the files of each index segment."""
    held: dict[str, int] = {}
    for path, stored in listed.items():
        folder, _, name = path.rpartition("/")
        above, _, segment = folder.rpartition("/")
        if name and above.rpartition("/")[2] == INDICES:
            held[segment] = held.get(segment, 0) + stored.size
    return held


def ended(findings: Iterable[str], limit: int) -> list[str]:
    """Give the first findings, and how many there are more."""
    everything = list(findings)
    if len(everything) <= limit:
        return everything
    return [*everything[:limit], f"... and {len(everything) - limit} more"]
