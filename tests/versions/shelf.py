"""A namespace with tables whose versions tests inspect through the catalog, in its manifest and on the store."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments
from lance_namespace import (
    BatchDeleteTableVersionsRequest,
    CreateTableVersionResponse,
    DescribeTableVersionRequest,
    LanceNamespace,
    ListTableVersionsRequest,
    TableVersion,
)

from pennon.directory.versions import managed
from tests.support import Root, create_table, describe_table, ipc

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from pennon import DirectoryNamespace


class Shelf:
    """A namespace in a catalog with or without version management."""

    def __init__(self, ns: DirectoryNamespace, where: Root, parent: tuple[str, ...], *, is_managed: bool) -> None:
        self.ns, self.where, self.parent, self.is_managed = ns, where, parent, is_managed
        self._store = ns._store

    def id(self, name: str) -> list[str]:
        return [*self.parent, name]

    def key(self, name: str) -> str:
        return "$".join(self.id(name))

    # Tables

    def create(self, name: str, *batches: list[int]) -> str:
        """Create a table with a version for each batch of rows, and return its location."""
        first, *others = batches or ([1, 2, 3],)
        create_table(self.ns, *self.id(name), data=ipc({"x": first}))
        for rows in others:
            self.append(name, rows)
        return self.location(name)

    def append(self, name: str, rows: list[int]) -> int:
        """Append through the namespace, as plain pylance code does."""
        data = pa.table({"x": rows})
        return lance.write_dataset(data, **self.through(name), mode="append").version

    def location(self, name: str) -> str:
        return describe_table(self.ns, *self.id(name)).location

    def through(self, name: str) -> dict[str, Any]:
        """Return the arguments with which pylance opens a table through the namespace."""
        return {
            "namespace_client": self.ns,
            "table_id": self.id(name),
            "storage_options": self.where.options or None,
        }

    def open(self, name: str, **options: Any) -> LanceDataset:
        return lance.dataset(**self.through(name), **options)

    def open_plain(self, name: str, **options: Any) -> LanceDataset:
        """Open a table by its path, without the catalog."""
        return lance.dataset(self.location(name), storage_options=self.where.options or None, **options)

    def rows(self, name: str, **options: Any) -> list[int]:
        return self.open(name, **options).to_table()["x"].to_pylist()

    def plain_rows(self, name: str, **options: Any) -> list[int]:
        return self.open_plain(name, **options).to_table()["x"].to_pylist()

    # Versions

    def list_versions(self, name: str, **options: Any) -> list[int]:
        """Return the versions, oldest first unless `descending`."""
        request = ListTableVersionsRequest(id=self.id(name), **{"descending": False, **options})
        return [one.version for one in self.ns.list_table_versions(request).versions]

    def describe_version(self, name: str, version: int | None = None) -> TableVersion:
        request = DescribeTableVersionRequest(id=self.id(name), version=version)
        return self.ns.describe_table_version(request).version

    def delete(self, name: str, *ranges: tuple[int, int], **options: Any) -> int:
        spans = [{"start_version": start, "end_version": end} for start, end in ranges]
        request = BatchDeleteTableVersionsRequest.model_validate({"id": self.id(name), "ranges": spans, **options})
        return self.ns.batch_delete_table_versions(request).deleted_count

    def stage(self, name: str, rows: list[int] | None = None) -> dict[str, Any]:
        """Let pylance stage the manifest of an append, and return the request that it would send."""
        recorder = CommitRecorder(self.ns)
        location = self.location(name)
        options = self.where.options or None
        fragments = write_fragments(
            pa.table({"x": [9] if rows is None else rows}), location, mode="append", storage_options=options
        )
        LanceDataset.commit(
            location,
            LanceOperation.Append(fragments),
            read_version=self.describe_version(name).version,
            storage_options=options,
            namespace_client=recorder,
            table_id=self.id(name),
            namespace_client_managed_versioning=True,
        )
        (request,) = recorder.requests
        return request

    def append_unfinished(self, monkeypatch: pytest.MonkeyPatch, name: str, rows: list[int]) -> str:
        """Append by a writer that dies after the commit to the catalog's manifest, and return the staged path."""
        request = self.stage(name, rows)
        with unfinished(monkeypatch):
            self.ns.create_table_version(request)
        assert self.row(name, request["version"])["manifest_path"] in request["manifest_path"]
        return request["manifest_path"]

    # Stored files and rows

    def files(self, location: str) -> list[str]:
        """Return the names of a table's manifest files, staged ones included."""
        inside = self._store.relative(location)
        return sorted(self._store.list_names(f"{inside}/_versions") - {"latest_version_hint.json"})

    def staged_files(self, location: str) -> list[str]:
        return [name for name in self.files(location) if ".manifest-" in name]

    def top(self) -> set[str]:
        """Return the names in the root, except those of the catalog itself."""
        return {name for name in self._store.list_names("") if not name.startswith(("__", ".lock", "_"))}

    def manifest(self) -> LanceDataset:
        return lance.dataset(self._store.location("__manifest"), storage_options=self.where.options or None)

    def manifest_rows(self) -> dict[str, dict[str, Any]]:
        """Return the rows of the catalog's manifest, by key."""
        rows = self.manifest().to_table().to_pylist()
        assert len({row["object_id"] for row in rows}) == len(rows), "a key exists twice"
        return {row["object_id"]: row for row in rows}

    def version_rows(self) -> dict[str, list[int]]:
        """Return the versions that have rows, by the key of their table, which must exist."""
        rows = self.manifest_rows()
        found: dict[str, list[int]] = {}
        for key, row in rows.items():
            if row["object_type"] == "table_version":
                table, _, number = key.rpartition("$")
                assert rows.get(table, {}).get("object_type") == "table", f"{key} has no table"
                found.setdefault(table, []).append(int(number))
        return {table: sorted(numbers) for table, numbers in found.items()}

    def row(self, name: str, version: int) -> dict[str, str]:
        """Return the metadata of a version row."""
        return json.loads(self.manifest_rows()[f"{self.key(name)}${version}"]["metadata"])

    def check_same(self, name: str) -> None:
        """Check that the catalog and the files of a table agree."""
        through, plain = self.open(name), self.open_plain(name)
        assert through.version == plain.version == self.describe_version(name).version
        assert through.to_table().equals(plain.to_table())
        assert self.list_versions(name) == [one["version"] for one in plain.versions()]
        # Readers delete nothing: staged files of finished versions may remain.
        finished = {path.rpartition("/")[2] for path in self.finished_paths(name)}
        assert set(self.staged_files(self.location(name))) <= finished

    def finished_paths(self, name: str) -> list[str]:
        """Return the staged paths of finished versions."""
        rows = [self.row(name, version) for version in self.version_rows().get("$".join(self.id(name)), [])]
        staged = [(row.get("staged_path"), row["manifest_path"]) for row in rows]
        return [path for path, final in staged if path is not None and path != final]


class CommitRecorder(LanceNamespace):
    """Responds to pylance like the namespace, but only records which version is to be created."""

    def __init__(self, ns: DirectoryNamespace) -> None:
        self._ns = ns
        self.requests: list[dict[str, Any]] = []

    def namespace_id(self) -> str:
        return f"recorder of {self._ns.namespace_id()}"

    def describe_table(self, request: Any) -> Any:
        answer = self._ns.describe_table(request)
        answer.managed_versioning = True
        return answer

    def list_table_versions(self, request: Any) -> Any:
        return self._ns.list_table_versions(request)

    def describe_table_version(self, request: Any) -> Any:
        return self._ns.describe_table_version(request)

    def create_table_version(self, request: Any) -> CreateTableVersionResponse:
        asked = {key: value for key, value in dict(request).items() if value is not None}
        self.requests.append(asked)
        return CreateTableVersionResponse(
            version=TableVersion(version=asked["version"], manifest_path=asked["manifest_path"])
        )


@contextmanager
def unfinished(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave created versions unfinished, as if their writer had died."""
    with monkeypatch.context() as patch:
        patch.setattr(managed, "finish", lambda _, versions, **_how: [record for _, record in versions])
        yield
