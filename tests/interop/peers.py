"""The other clients of a root: pylance's own DirectoryNamespace, LanceDB, and plain Lance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import lancedb
import pyarrow as pa
from lance.namespace import DirectoryNamespace as ReferenceNamespace

from tests.support import MODES, describe_table

if TYPE_CHECKING:
    from tests.support import Root


def reference_client(root: Root, mode: str = "compatibility") -> Any:
    """Open pylance's own DirectoryNamespace."""
    return ReferenceNamespace(**root.properties, **MODES[mode])


def lancedb_connection(root: Root, mode: str = "compatibility", impl: str = "dir") -> Any:
    """Connect LanceDB to the root; `impl` is its own directory namespace, or a class by its full name."""
    return lancedb.connect_namespace(impl, {**root.properties, **MODES[mode]})


def values(ns: Any, *names: str) -> list[Any]:
    """Return the column `x`, read with plain Lance at the location that a client describes."""
    return lance.dataset(describe_table(ns, *names).location).to_table()["x"].to_pylist()


def append(ns: Any, *names: str, x: list[int]) -> None:
    """Append rows with plain Lance, at the location that a client's description gives."""
    lance.write_dataset(pa.table({"x": x}), describe_table(ns, *names).location, mode="append")


def manifest(root: Root) -> lance.LanceDataset:
    """Open the manifest as the Lance table that it is."""
    return lance.dataset(f"{root.uri}/__manifest")


def manifest_rows(root: Root) -> dict[str, dict[str, Any]]:
    """Return the rows of the manifest by object id."""
    return {row["object_id"]: row for row in manifest(root).to_table().to_pylist()}
