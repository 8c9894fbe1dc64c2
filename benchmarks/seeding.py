"""Roots that are written without a catalog, so that both implementations start from the same bytes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance
import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["ash", "beech", "cedar"]})

PRIMARY_KEY = {b"lance-schema:unenforced-primary-key:position": b"0"}
MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)


@dataclass(frozen=True)
class Footprint:
    """The number of files of a directory, and their bytes."""

    files: int
    bytes: int


def table_name(index: int) -> str:
    """Return the name of the table that was seeded at this index."""
    return f"t{index:06}"


def namespace_name(index: int) -> str:
    """Return the name of the root-level namespace that was seeded at this index."""
    return f"n{index:06}"


def arrow_stream() -> bytes:
    """Return the three rows of every created table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    return bytes(sink.getvalue().to_pybytes())


def write_tables(root: Path, count: int) -> None:
    """Create `count` tables at the root: one is written, the others are copies of its directory."""
    first = root / f"{table_name(0)}.lance"
    lance.write_dataset(ROWS, str(first))
    for index in range(1, count):
        shutil.copytree(first, root / f"{table_name(index)}.lance")


def write_manifest(root: Path, entries: int, *, nested: bool) -> None:
    """Write a manifest of half tables, in `ns` or at the root, and half root-level namespaces."""
    tables = range(entries // 2)
    if nested:
        ids = [f"ns${table_name(index)}" for index in tables]
        locations = [f"{index * 2654435761 % 2**32:08x}_{object_id}" for index, object_id in enumerate(ids)]
    else:
        ids = [table_name(index) for index in tables]
        locations = [f"{object_id}.lance" for object_id in ids]
    namespaces = ["ns", *(namespace_name(index) for index in range(entries - len(ids) - 1))]
    size = len(ids) + len(namespaces)
    columns = {
        "object_id": ids + namespaces,
        "object_type": ["table"] * len(ids) + ["namespace"] * len(namespaces),
        "location": locations + [None] * len(namespaces),
        "metadata": [None] * size,
        "base_objects": [None] * size,
    }
    rows = pa.table(columns, schema=MANIFEST_SCHEMA)
    lance.write_dataset(rows, str(root / "__manifest"), data_storage_version="2.2", enable_v2_manifest_paths=True)


def footprint(directory: Path) -> Footprint:
    """Count the files below a directory, and their bytes."""
    sizes = [path.stat().st_size for path in directory.rglob("*") if path.is_file()]
    return Footprint(len(sizes), sum(sizes))
