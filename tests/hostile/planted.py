"""Hostile data planted into a root with plain Lance, plain files and plain objects: without any help of Pennon.

Every function takes a `Root`, on disk or in a bucket.
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import lance
import obstore
import pyarrow as pa
import pytest
from obstore.store import S3Store

from tests.hostile.hostile_support import fingerprint
from tests.support import Root

if TYPE_CHECKING:
    from collections.abc import Mapping


DAY_MS = 86_400_000
_LISTS = pa.list_(pa.field("object_id", pa.string()))
MANIFEST = pa.schema(
    [
        pa.field(
            "object_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "0"}
        ),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", _LISTS),
    ]
)


def everyday_root(request: Any, tmp_path: Path) -> Root:
    """Return an empty root on disk, or in a bucket, as the fixture's parameter requires."""
    if request.param == "disk":
        return Root(str(tmp_path / "place" / "root"))
    endpoint = request.getfixturevalue("hostile_s3").endpoint
    return Root(endpoint.uri(f"place-{uuid.uuid4().hex}/root"), endpoint.storage_options())


DISK_BUT_IN_THE_SOAK = ["disk", pytest.param("bucket", marks=[pytest.mark.s3, pytest.mark.soak])]
"""Parameters of a fixture for long lists of cases. Other tests use a bucket every day."""


def now_ms() -> int:
    """Return the time in milliseconds, as in markers and rows."""
    return int(time.time() * 1000)


def is_bucket(root: Root) -> bool:
    """Return True if a root is in a bucket."""
    return "://" in root.uri


def plant_rows(root: Root, rows: list[dict[str, Any]]) -> None:
    """Append rows to the manifest, which is made if there is none; keys as in its schema, missing ones are null."""
    uri, options = f"{root.uri}/__manifest", root.options or None
    try:
        schema = lance.dataset(uri, storage_options=options).schema
    except (OSError, ValueError):
        schema = MANIFEST
        lance.write_dataset(pa.Table.from_pylist([], schema), uri, storage_options=options)
    lance.write_dataset(pa.Table.from_pylist(rows, schema), uri, mode="append", storage_options=options)


def plant_row(
    root: Root,
    object_id: str,
    object_type: str = "table",
    location: str | None = None,
    metadata: str | Mapping[str, Any] | None = None,
) -> None:
    """Append one row to the manifest; metadata that is no text is written as JSON."""
    text = metadata if metadata is None or isinstance(metadata, str) else json.dumps(metadata)
    plant_rows(root, [{"object_id": object_id, "object_type": object_type, "location": location, "metadata": text}])


def plant_trash_row(root: Root, location: str | None, object_id: str = "victim", **content: Any) -> str:
    """Append a row to the trash that was due a day ago, unless `content` says otherwise; returns the deletion id."""
    deletion_id = uuid.uuid4().hex
    known = {"state": "dropped", "object_id": object_id, "deleted_at_ms": str(now_ms() - DAY_MS), "ttl_ms": "1000"}
    plant_row(
        root,
        f"__trash${deletion_id}",
        "table",
        location,
        {key: value for key, value in {**known, **content}.items() if value is not None},
    )
    return deletion_id


def plant_marker(root: Root, name: str, body: bytes) -> None:
    """Write the marker beside the root table `name`."""
    plant_file(root, f"{name}.deleted", body)


def plant_file(root: Root, path: str, body: bytes) -> None:
    """Write a file or object below the root."""
    if is_bucket(root):
        obstore.put(_bucket(root), f"{_prefix(root)}/{path}", body)
        return
    target = Path(root.uri) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(body)


def remove_file(root: Root, path: str) -> None:
    """Delete a file or object below the root."""
    if is_bucket(root):
        obstore.delete(_bucket(root), [f"{_prefix(root)}/{path}"])
    else:
        (Path(root.uri) / path).unlink()


def plant_table(root: Root, location: str, values: list[int]) -> None:
    """Write a table with plain Lance."""
    lance.write_dataset(pa.table({"x": values}), f"{root.uri}/{location}", storage_options=root.options or None)


def values_at(root: Root, location: str) -> list[int]:
    """Return the values of a table, read with plain Lance."""
    return lance.dataset(f"{root.uri}/{location}", storage_options=root.options or None).to_table()["x"].to_pylist()


def contents(root: Root, below: str = "") -> dict[str, tuple[Any, ...]]:
    """Return the kind and a hash of every file below a path of the root."""
    if not is_bucket(root):
        path = Path(root.uri) / below
        found = fingerprint(path) if path.exists() else {}
        return {name: about for name, about in found.items() if about[0] != "directory"}
    prefix = f"{_prefix(root)}/{below}"
    found = [item for chunk in obstore.list(_bucket(root), prefix) for item in chunk]
    return {item["path"].removeprefix(prefix): (item["size"], item["e_tag"]) for item in found}


def manifest_rows(root: Root) -> dict[str, dict[str, Any]]:
    """Return the rows of the manifest by object id."""
    dataset = lance.dataset(f"{root.uri}/__manifest", storage_options=root.options or None)
    return {row["object_id"]: row for row in dataset.to_table().to_pylist()}


def _prefix(root: Root) -> str:
    return urlsplit(root.uri).path.strip("/")


def _bucket(root: Root) -> S3Store:
    config: Any = {key: value for key, value in root.options.items() if key != "allow_http"}
    return S3Store(urlsplit(root.uri).netloc, config=config, client_options={"allow_http": True})
