"""Proving that a directory is a dropped table before it is deleted.

A row of the trash or a marker names a place, and anybody may have written it. So the directory itself has to show that
it is a table: the files of a Lance table are in it, and nothing else that somebody could miss. Where Pennon has chosen
the name, additional files are allowed as long as they are no table and no catalog. At any other place, which somebody
has registered, the directory may hold only what a Lance table has.

A purge that was interrupted leaves a directory without versions. It goes on if everything that is left is a table's.
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
        # Of a client for which the table's directory is a root.
        ".lance-locks",
        ".lance-trash",
    }
)
_MARKERS = frozenset({layout.RESERVED_MARKER, layout.DEREGISTERED_MARKER, layout.PROTECTED_MARKER})
_DATA_FILE = re.compile(r"\.(lance|blob)(#[0-9]+)?$")
"""How names of data files end. What a killed process has written in part has a number behind it."""
_MOST_DIRECTORIES = 1000
"""How many directories beside a table's own are looked into for other tables."""
_FEW = 3


class NotProvenError(InvalidTableStateError):
    """What is to be purged is not surely a dropped table (19): nothing was deleted."""


def is_generated(location: str) -> bool:
    """Tell whether Pennon chooses such names: `<8 hex digits>_<object id>`, and `<name>.lance` at the root."""
    return is_hashed(location) or layout.root_table_name(location) is not None


def is_hashed(location: str) -> bool:
    """Tell whether a name has the form `<8 hex digits>_<object id>`, which is chosen once and never again."""
    return _HASHED.fullmatch(location) is not None


def foreign_entries(names: Iterable[str]) -> list[str]:
    """Name the entries of a directory that are none of a Lance table's, sorted."""
    return sorted(name for name in names if name not in _DIRECTORIES and name not in _MARKERS)


def require_table(store: Store, location: str, *, begun: bool = False) -> None:
    """Raise NotProvenError unless a directory is a table, or is empty or absent.

    `begun` tells that a purge may have deleted a part of it already, or that a creation died in it. One or two requests
    for a generated name; more for others.
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
        raise _refused(location, "it holds no file of a Lance table")
    else:
        if foreign:
            raise _refused(location, f"it holds no version of a table, but {_named(foreign)}")
        _require_data_files(store, location, names)


def _require_no_catalog(location: str, names: set[str]) -> None:
    internal = sorted(name for name in names if name.startswith("__"))
    if internal:
        raise _refused(location, f"it holds {_named(internal)}, so it is a catalog")


def _require_own_place(store: Store, location: str) -> None:
    """Refuse what lies in a catalog of its own, or in another table."""
    parts = location.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        names = store.list_names(above)
        if layout.MANIFEST in names:
            raise _refused(location, f"it belongs to the catalog in {above!r}")
        if naming.VERSIONS_FOLDER in names:
            raise _refused(location, f"it lies in the table at {above!r}")


def _has_versions(store: Store, location: str, names: set[str]) -> bool:
    if naming.VERSIONS_FOLDER not in names:
        return False
    versions = store.list_names(layout.inside(location, naming.VERSIONS_FOLDER))
    return any(name.endswith(layout.VERSION_SUFFIX) for name in versions)


def _require_nothing_live(store: Store, location: str, names: set[str], foreign: list[str]) -> None:
    """Refuse what is beside a table's own files: everything at a registered place, else tables and catalogs."""
    if not is_generated(location):
        if foreign:
            raise _refused(location, f"beside a table it holds {_named(foreign)}")
        _require_data_files(store, location, names)
        return
    # Links are none of these: what is behind them stays.
    directories = set(store.list_level(location).directories) & set(foreign) if foreign else set()
    paths = [layout.inside(location, name) for name in sorted(directories)]
    if store.is_local and "data" in names:
        # In a bucket this would cost requests for each table.
        paths += _directories_without_file(store, layout.inside(location, "data"))
    for path, inner in _walk(store, paths, location):
        if inner & {layout.MANIFEST, naming.VERSIONS_FOLDER}:
            raise _refused(location, f"it holds another table or catalog at {path!r}")


def _require_data_files(store: Store, location: str, names: set[str]) -> None:
    """Refuse a directory whose data is not Lance's: anybody may call a directory `data`."""
    if is_generated(location) or "data" not in names:
        return
    top = layout.inside(location, "data")
    files = [(top, file.name) for file in store.list_level(top).files]
    for path, _ in _walk(store, _directories_without_file(store, top), location):
        files += [(path, file.name) for file in store.list_level(path).files]
    for path, name in files:
        if not _DATA_FILE.search(name):
            raise _refused(location, f"it holds {name!r} in {path!r}")


def _directories_without_file(store: Store, path: str) -> list[str]:
    """Return the directories of a table's data that do not belong to a data file, as those of its blobs do."""
    level = store.list_level(path)
    owners = {file.name.removesuffix(".lance") for file in level.files}
    return [layout.inside(path, name) for name in level.directories if name not in owners]


def _walk(store: Store, paths: list[str], location: str) -> Iterator[tuple[str, set[str]]]:
    """Go through directories, with the names in each."""
    waiting = list(paths)
    seen = 0
    while waiting:
        path = waiting.pop()
        seen += 1
        if seen > _MOST_DIRECTORIES:
            raise _refused(location, f"it holds more than {_MOST_DIRECTORIES:,} directories that are no table's")
        level = store.list_level(path)
        yield path, {file.name for file in level.files} | set(level.directories)
        waiting += [layout.inside(path, name) for name in level.directories]


def _named(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_FEW])
    return shown if len(names) <= _FEW else f"{shown} and {len(names) - _FEW:,} more"


def _refused(location: str, reason: str) -> NotProvenError:
    return NotProvenError(
        f"{location!r} is not surely a dropped table and is kept: {reason}. Move what is not the table's elsewhere and "
        "purge again, or delete the directory yourself"
    )
