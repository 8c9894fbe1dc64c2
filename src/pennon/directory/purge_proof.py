"""Prove that a directory is a dropped table before it is deleted.

A row of the trash or a marker names a directory, and anyone may have written it. So the directory itself must show that
it is a table: it holds the files of a Lance table, and nothing else of value. If Pennon chose the directory's name,
additional files are allowed unless they are a table or a catalog. Any other directory was registered by a user, and may
hold only the files of a Lance table.

An interrupted purge leaves a directory without versions. It continues if everything left belongs to a table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.errors import InvalidTableStateError
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pennon.store import Store

_HASHED = re.compile(r"[0-9a-f]{8}_[^/]+")
_DIRECTORIES = frozenset(
    {
        "data",
        "tree",
        naming.VERSIONS_FOLDER,
        "_transactions",
        "_deletions",
        "_indices",
        "_refs",
        "_mem_wal",
        # Left by a client that used the table's directory as a root.
        ".lance-locks",
        ".lance-trash",
    }
)
_MARKERS = frozenset({layout.RESERVED_MARKER, layout.DEREGISTERED_MARKER, layout.PROTECTED_MARKER})
_DATA_FILE = re.compile(r"\.(lance|blob)(#[0-9]+)?$")
"""The end of a data file's name. A number follows if a killed process wrote only a part of it."""
_MAX_DIRECTORIES = 1000
"""How many directories besides a table's own are searched for other tables."""
_MAX_NAMES = 3


class NotProvenError(InvalidTableStateError):
    """A directory may be something else than a dropped table. Nothing was deleted."""


def is_generated(location: str) -> bool:
    """Return True for names that Pennon chooses: `<8 hex digits>_<object id>`, and `<name>.lance` at the root."""
    return is_hashed_directory(location) or layout.root_table_name(location) is not None


def is_hashed_directory(location: str) -> bool:
    """Return True if a name has the form `<8 hex digits>_<object id>`."""
    return _HASHED.fullmatch(location) is not None


def foreign_entries(names: Iterable[str]) -> list[str]:
    """Return the entries of a directory that do not belong to a Lance table, sorted."""
    return sorted(name for name in names if name not in _DIRECTORIES and name not in _MARKERS)


def require_table(store: Store, location: str, *, begun: bool = False) -> None:
    """Raise NotProvenError unless a directory is a table, is empty, or does not exist.

    `begun` means that a purge may have deleted a part of it, or that a creation died in it. Costs one or two requests
    for a generated name, and more for others.
    """
    names = store.list_names(location)
    if not names:
        return
    _require_no_catalog(location, names)
    _require_own_place(store, location)
    foreign = foreign_entries(names)
    if layout.RESERVED_MARKER in names or _has_versions(store, location, names):
        _require_nothing_live(store, location, names, foreign)
    elif not begun:
        raise _not_proven(location, "it holds no file of a Lance table")
    else:
        if foreign:
            raise _not_proven(location, f"it holds no version of a table, but {_format_names(foreign)}")
        _require_data_files(store, location, names)


def _require_no_catalog(location: str, names: set[str]) -> None:
    internal = sorted(name for name in names if name.startswith("__"))
    if internal:
        raise _not_proven(location, f"it holds {_format_names(internal)}, so it is a catalog")


def _require_own_place(store: Store, location: str) -> None:
    """Raise NotProvenError if the directory is inside another catalog or another table."""
    parts = location.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        names = store.list_names(above)
        if layout.MANIFEST in names:
            raise _not_proven(location, f"it belongs to the catalog in {above!r}")
        if naming.VERSIONS_FOLDER in names:
            raise _not_proven(location, f"it is inside the table at {above!r}")


def _has_versions(store: Store, location: str, names: set[str]) -> bool:
    if naming.VERSIONS_FOLDER not in names:
        return False
    versions = store.list_names(layout.inside(location, naming.VERSIONS_FOLDER))
    return any(name.endswith(layout.VERSION_SUFFIX) for name in versions)


def _require_nothing_live(store: Store, location: str, names: set[str], foreign: list[str]) -> None:
    """Raise NotProvenError if a table or catalog is inside; in a registered directory, if anything else is."""
    if not is_generated(location):
        if foreign:
            raise _not_proven(location, f"beside a table it holds {_format_names(foreign)}")
        _require_data_files(store, location, names)
        return
    # Links are not among the directories: what they point to is kept.
    directories = set(store.list_level(location).directories) & set(foreign) if foreign else set()
    paths = [layout.inside(location, name) for name in sorted(directories)]
    if store.is_local and "data" in names:
        # In a bucket this would cost one request for each table.
        paths += _directories_without_file(store, layout.inside(location, "data"))
    for path, inner in _walk(store, paths, location):
        if inner & {layout.MANIFEST, naming.VERSIONS_FOLDER}:
            raise _not_proven(location, f"it holds another table or catalog at {path!r}")


def _require_data_files(store: Store, location: str, names: set[str]) -> None:
    """Raise NotProvenError if `data` holds other files: anyone may give a directory that name."""
    if is_generated(location) or "data" not in names:
        return
    top = layout.inside(location, "data")
    files = [(top, file.name) for file in store.list_level(top).files]
    for path, _ in _walk(store, _directories_without_file(store, top), location):
        files += [(path, file.name) for file in store.list_level(path).files]
    for path, name in files:
        if not _DATA_FILE.search(name):
            raise _not_proven(location, f"it holds {name!r} in {path!r}")


def _directories_without_file(store: Store, path: str) -> list[str]:
    """Return the directories of a table's data that do not belong to a data file. Those of blobs do."""
    level = store.list_level(path)
    owners = {file.name.removesuffix(".lance") for file in level.files}
    return [layout.inside(path, name) for name in level.directories if name not in owners]


def _walk(store: Store, paths: list[str], location: str) -> Iterator[tuple[str, set[str]]]:
    """Yield all directories below some paths, with the names in each."""
    waiting = list(paths)
    seen = 0
    while waiting:
        path = waiting.pop()
        seen += 1
        if seen > _MAX_DIRECTORIES:
            raise _not_proven(location, f"it holds more than {_MAX_DIRECTORIES:,} directories that are no table's")
        level = store.list_level(path)
        yield path, {file.name for file in level.files} | set(level.directories)
        waiting += [layout.inside(path, name) for name in level.directories]


def _format_names(names: list[str]) -> str:
    first = ", ".join(repr(name) for name in names[:_MAX_NAMES])
    return first if len(names) <= _MAX_NAMES else f"{first} and {len(names) - _MAX_NAMES:,} more"


def _not_proven(location: str, reason: str) -> NotProvenError:
    return NotProvenError(
        f"{location!r} cannot be proven to be a dropped table, and is kept: {reason}. Move what is not the "
        "table's elsewhere and purge again, or delete the directory yourself"
    )
