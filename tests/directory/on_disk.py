"""The manifest and the directories of a root, looked at and written with plain Lance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa

if TYPE_CHECKING:
    from pennon import DirectoryNamespace


def directory(ns: DirectoryNamespace) -> Path:
    """Give the directory of a root."""
    return Path(ns._store.identity())


def manifest(ns: DirectoryNamespace) -> lance.LanceDataset:
    """Open the manifest table."""
    return lance.dataset(str(directory(ns) / "__manifest"))


def has_manifest(ns: DirectoryNamespace) -> bool:
    """Tell whether there is a manifest."""
    return (directory(ns) / "__manifest").exists()


def manifest_rows(ns: DirectoryNamespace) -> dict[str, dict[str, Any]]:
    """Read the manifest's rows by their key."""
    return {row["object_id"]: row for row in manifest(ns).to_table().to_pylist()}


def write_table(path: Path | str, values: list[int] | None = None) -> lance.LanceDataset:
    """Write a table with plain Lance, as a client without a catalog does."""
    return lance.write_dataset(pa.table({"x": values or [1, 2, 3]}), str(path))


def rows(location: str | Path) -> list[int]:
    """Read a table's column with plain Lance."""
    return lance.dataset(str(location)).to_table()["x"].to_pylist()


def files(ns: DirectoryNamespace) -> dict[str, int]:
    """Map every file that means something (no lock files) to its size."""
    top = directory(ns)
    return {
        str(path.relative_to(top)): path.stat().st_size
        for path in sorted(top.rglob("*"))
        if path.is_file() and path.relative_to(top).parts[0] not in {".lance-locks", ".lance-trash"}
    }
