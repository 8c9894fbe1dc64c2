"""Read and write the manifest and the directories of a root with plain Lance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa

if TYPE_CHECKING:
    from pennon import DirectoryNamespace


def directory(ns: DirectoryNamespace) -> Path:
    """Return the directory of a root."""
    return Path(ns._store.identity())


def manifest(ns: DirectoryNamespace) -> lance.LanceDataset:
    """Open the manifest table."""
    return lance.dataset(str(directory(ns) / "__manifest"))


def has_manifest(ns: DirectoryNamespace) -> bool:
    """Return True if the root has a manifest."""
    return (directory(ns) / "__manifest").exists()


def manifest_rows(ns: DirectoryNamespace) -> dict[str, dict[str, Any]]:
    """Return the rows of the manifest by object id."""
    return {row["object_id"]: row for row in manifest(ns).to_table().to_pylist()}


def write_table(path: Path | str, values: list[int] | None = None) -> lance.LanceDataset:
    """Write a table with plain Lance, as a client without a catalog does."""
    return lance.write_dataset(pa.table({"x": values or [1, 2, 3]}), str(path))


def rows(location: str | Path) -> list[int]:
    """Return the column `x` of a table, read with plain Lance."""
    return lance.dataset(str(location)).to_table()["x"].to_pylist()


def files(ns: DirectoryNamespace) -> dict[str, int]:
    """Return the size of every file of the root, without lock files and the local trash."""
    top = directory(ns)
    return {
        str(path.relative_to(top)): path.stat().st_size
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.relative_to(top).parts[0] not in {".lance-locks", ".lance-trash"}
    }
