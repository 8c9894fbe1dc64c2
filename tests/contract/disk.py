"""The files below a root, on disk or in memory: tests compare them before and after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa

if TYPE_CHECKING:
    from pennon import DirectoryNamespace

WORKING_DIRECTORIES = {".lance-locks", ".lance-trash"}


def directory(ns: DirectoryNamespace) -> Path:
    """Return the directory of a root."""
    return Path(ns._store.identity())


def everything(ns: DirectoryNamespace) -> dict[str, int]:
    """Map every path below the root, directories included, to its time of change."""
    top = directory(ns)
    return {str(path.relative_to(top)): path.lstat().st_mtime_ns for path in sorted(top.rglob("*"))}


def contents(ns: DirectoryNamespace) -> dict[str, int]:
    """Map every file that means something (no lock files) to its size."""
    top = directory(ns)
    return {
        str(path.relative_to(top)): path.stat().st_size
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.relative_to(top).parts[0] not in WORKING_DIRECTORIES
    }


def write_table(path: Path | str, values: list[int] | None = None) -> lance.LanceDataset:
    """Write a table with plain Lance, as a client without a catalog does."""
    return lance.write_dataset(pa.table({"x": values or [1, 2, 3]}), str(path))


def rows(location: str) -> list[int]:
    """Return a column of a table, read with plain Lance."""
    return lance.dataset(location).to_table()["x"].to_pylist()


class OnDisk:
    """What the shipped contract asks of an implementation, by the files below its root."""

    def contents(self, catalog):
        return contents(catalog)

    def supports(self, catalog, operation):
        return not (operation == "rename_table" and "manifest_enabled=False" in repr(catalog))
