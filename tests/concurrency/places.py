"""The files below a root, without a catalog."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import lance
import obstore
from obstore.store import S3Store

from tests.support import describe_table

if TYPE_CHECKING:
    from tests.support import Root

LOCKS = ".lance-locks"
TRASH = ".lance-trash"
MANIFEST = "__manifest"


def files(root: Root) -> set[str]:
    """Return the paths of all files and empty directories below the root, without locks."""
    found = _objects(root) if root.options else _local_files(Path(root.uri))
    return {path for path in found if path.split("/")[0] != LOCKS and path != TRASH}


def entries(root: Root) -> set[str]:
    """Return the names in the root, without the manifest and locks."""
    return {path.split("/")[0] for path in files(root)} - {MANIFEST}


def data_files(root: Root, location: str) -> set[str]:
    """Return the data files of one table."""
    return {path for path in files(root) if path.startswith(f"{location}/data/")}


def location(root: Root, ns: Any, *names: str) -> str:
    """Return a table's location relative to the root."""
    where = describe_table(ns, *names).location
    return where.removeprefix("file://").removeprefix(root.uri.rstrip("/")).strip("/")


def column(root: Root, ns: Any, *names: str, of: str = "who") -> list[Any]:
    """Return one column of a table, read at the location that `describe_table` returns."""
    where = describe_table(ns, *names).location
    return lance.dataset(where, storage_options=root.options or None).to_table()[of].to_pylist()


def versions(root: Root) -> list[int]:
    """Return the existing versions of the manifest, by the names of their files."""
    names = [path.split("/")[2] for path in files(root) if path.startswith(f"{MANIFEST}/_versions/")]
    return sorted((1 << 64) - 1 - int(name.removesuffix(".manifest")) for name in names if name.endswith(".manifest"))


def _local_files(root: Path) -> set[str]:
    found = set()
    for folder, folders, names in os.walk(root):
        here = Path(folder).relative_to(root)
        found.update((here / name).as_posix() for name in names)
        if not folders and not names and folder != str(root):
            found.add(here.as_posix())
    return found


def _objects(root: Root) -> set[str]:
    parts = urlsplit(root.uri)
    prefix = parts.path.strip("/") + "/"
    config: Any = root.options
    store = S3Store(parts.netloc, config=config)
    return {item["path"].removeprefix(prefix) for chunk in obstore.list(store, prefix) for item in chunk}
