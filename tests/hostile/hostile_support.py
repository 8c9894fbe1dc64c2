"""Helpers of the tests which store hostile data in a root."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa

from pennon.store import open_store

if TYPE_CHECKING:
    from pennon import DirectoryNamespace
    from tests.support import Root


def fingerprint(path: Path | str) -> dict[str, tuple[object, ...]]:
    """Return the kind, size, content hash or link target of every entry below ``path``.

    Links are described, never followed, so what a link of the tree points at has to be fingerprinted by its own path.
    """
    top = Path(path)
    found: dict[str, tuple[object, ...]] = {".": _described(top)}
    for directory, names, files in os.walk(top):
        for name in (*names, *files):
            entry = Path(directory, name)
            found[str(entry.relative_to(top))] = _described(entry)
    return found


def _described(entry: Path) -> tuple[object, ...]:
    """Return the kind of one entry, and a value that changes with its content."""
    status = entry.lstat()
    if stat.S_ISLNK(status.st_mode):
        return ("link", str(entry.readlink()))
    if stat.S_ISDIR(status.st_mode):
        return ("directory",)
    if not stat.S_ISREG(status.st_mode):
        return ("special", stat.S_IFMT(status.st_mode))
    return ("file", status.st_size, hashlib.sha256(entry.read_bytes()).hexdigest())


def beside(root: Root) -> dict[str, tuple[object, ...]]:
    """Return the entries beside a root, on its disk or in its bucket, without the root itself."""
    if "://" not in root.uri:
        return {
            name: kind
            for name, kind in fingerprint(Path(root.uri).parent).items()
            if name != "root" and not name.startswith("root/")
        }
    around = root.uri.removesuffix("root").rstrip("/")
    store = open_store(around, root.options)
    level = store.list_level()
    found: dict[str, tuple[object, ...]] = {file.name: (file.size,) for file in level.files}
    for directory in level.directories:
        if directory != "root":
            amount = store.measure(directory)
            found[directory] = (amount.files, amount.size)
    return found


def add_rows(ns: DirectoryNamespace, *rows: dict[str, str | None]) -> None:
    """Write rows into the manifest with plain Lance, as anybody can who can write to the root."""
    where, options = ns._store.location("__manifest"), ns._store.storage_options or None
    schema = lance.dataset(where, storage_options=options).schema
    lance.write_dataset(pa.Table.from_pylist(list(rows), schema), where, mode="append", storage_options=options)


def table_row(key: str, location: str) -> dict[str, str | None]:
    """Describe the row of a table."""
    return {"object_id": key, "object_type": "table", "location": location}


def version_row(table: str, version: int | str, **metadata: str) -> dict[str, str | None]:
    """Describe the row of a version of a table."""
    return {"object_id": f"{table}${version}", "object_type": "table_version", "metadata": json.dumps(metadata)}


def write_beside(root: Root, name: str, values: list[int]) -> str:
    """Write a table beside the root, with which the catalog has nothing to do; returns where it is."""
    where = f"{root.uri.removesuffix('root')}{name}"
    lance.write_dataset(pa.table({"x": values}), where, storage_options=root.options or None)
    return where


def rows_at(where: str, root: Root) -> list[int]:
    """Return the column of a table, read with plain Lance."""
    return lance.dataset(where, storage_options=root.options or None).to_table()["x"].to_pylist()
