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

MANAGED = {"table_version_management": "true", "lance.namespace.manifest.writer_feature_flags": str(1 << 16)}
"""The metadata of a manifest that manages the versions of its tables."""


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
        locations = _hashed_directories(ids)
    else:
        ids = [table_name(index) for index in tables]
        locations = [f"{object_id}.lance" for object_id in ids]
    namespaces = ["ns", *(namespace_name(index) for index in range(entries - len(ids) - 1))]
    kinds = ["table"] * len(ids) + ["namespace"] * len(namespaces)
    _write_rows(root, ids + namespaces, kinds, locations + [None] * len(namespaces))


def write_versions(root: Path, tables: int, versions: int) -> None:
    """Write a manifest of tables in `ns` whose versions the catalog manages. The tables have no files."""
    names = [f"ns${table_name(index)}" for index in range(tables)]
    locations = _hashed_directories(names)
    numbers = range(1, versions + 1)
    # Lance counts the names of its manifest files down.
    files = {number: f"_versions/{2**64 - 1 - number:020}.manifest" for number in numbers}
    _write_rows(
        root,
        ["ns", *names, *(f"{name}${number}" for name in names for number in numbers)],
        ["namespace"] + ["table"] * tables + ["table_version"] * (tables * versions),
        [None, *locations] + [None] * (tables * versions),
        metadata=[None] * (1 + tables)
        + [_version_metadata(f"{place}/{file}", number) for place in locations for number, file in files.items()],
    )
    manifest = lance.dataset(str(root / "__manifest"))
    manifest.update_metadata(MANAGED)


def append_tables(root: Path, tables: int) -> None:
    """Add tables in `many`, without files, to an existing manifest."""
    ids = [f"many${table_name(index)}" for index in range(tables)]
    kinds = ["namespace"] + ["table"] * tables
    _write_rows(root, ["many", *ids], kinds, [None, *_hashed_directories(ids)], mode="append")


def _hashed_directories(ids: list[str]) -> list[str | None]:
    """Return a directory name for each table, of the form that clients choose in namespaces."""
    return [f"{index * 2654435761 % 2**32:08x}_{object_id}" for index, object_id in enumerate(ids)]


def _version_metadata(path: str, number: int) -> str:
    return (
        f'{{"manifest_path":"{path}","naming_scheme":"V2","manifest_size":"500",'
        f'"e_tag":"0123456789abcdef","timestamp_millis":"{1_700_000_000_000 + number}"}}'
    )


def _write_rows(
    root: Path,
    ids: list[str],
    kinds: list[str],
    locations: list[str | None],
    *,
    metadata: list[str | None] | None = None,
    mode: str = "create",
) -> None:
    """Write rows into the manifest of a root."""
    empty = [None] * len(ids)
    columns = [ids, kinds, locations, metadata or empty, empty]
    rows = pa.table(dict(zip(MANIFEST_SCHEMA.names, columns, strict=True)), schema=MANIFEST_SCHEMA)
    options = {"data_storage_version": "2.2", "enable_v2_manifest_paths": True} if mode == "create" else {}
    lance.write_dataset(rows, str(root / "__manifest"), mode=mode, **options)


def footprint(directory: Path) -> Footprint:
    """Count the files below a directory, and their bytes."""
    sizes = [path.stat().st_size for path in directory.rglob("*") if path.is_file()]
    return Footprint(len(sizes), sum(sizes))


def write_indexes(root: Path) -> None:
    """Create the indexes that every client of a manifest keeps."""
    manifest = lance.dataset(str(root / "__manifest"))
    manifest.create_scalar_index("object_id", "BTREE", name="object_id_btree")
    manifest.create_scalar_index("object_type", "BITMAP", name="object_type_bitmap")
    manifest.create_scalar_index("base_objects", "LABEL_LIST", name="base_objects_label_list")
