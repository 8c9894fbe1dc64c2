"""Run the cases of the table of operations on a namespace."""

from __future__ import annotations

import inspect
import shutil
import uuid
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import lance_namespace
import pyarrow as pa
from lance.namespace import DirectoryNamespace as ReferenceNamespace
from lance_namespace import LanceNamespace
from lance_namespace.errors import LanceNamespaceError

from pennon import DirectoryNamespace

if TYPE_CHECKING:
    from collections.abc import Callable

REFERENCE = "reference client"
MODES: dict[str, dict[str, str]] = {
    "V1": {"manifest_enabled": "false", "dir_listing_enabled": "true"},
    "V2": {"manifest_enabled": "true", "dir_listing_enabled": "false"},
    "compatibility": {"manifest_enabled": "true", "dir_listing_enabled": "true"},
    "managed": {"manifest_enabled": "true", "dir_listing_enabled": "true"},
    REFERENCE: {"manifest_enabled": "true", "dir_listing_enabled": "true"},
}
_REQUESTS = {
    "list_all_tables": "ListTablesRequest",
    "create_table_scalar_index": "CreateTableIndexRequest",
    "create_empty_table": "CreateTableRequest",
}
_WIDTH = 8


@dataclass(frozen=True)
class Answer:
    """The result of a case: a short text, and the message of the error, if there is one."""

    text: str
    message: str = ""


@dataclass(frozen=True)
class Case:
    """One call of an operation; `do` returns a text to show, or None for plain success."""

    label: str
    do: Callable[[Subject], str | None]


class Subject:
    """A namespace in a root of its own."""

    def __init__(self, mode: str, root: Path) -> None:
        root.mkdir(parents=True)
        self.root = root
        self.is_reference = mode == REFERENCE
        kind = ReferenceNamespace if self.is_reference else DirectoryNamespace
        self.namespace: Any = kind(root=str(root), **MODES[mode])
        if mode == "managed":
            self.namespace.enable_table_version_management()
        self.create("t", rows(0, 300))

    def close(self) -> None:
        """Close the namespace."""
        if not self.is_reference:
            self.namespace.close()

    def ask(self, operation: str, *data: bytes, **fields: Any) -> Any:
        """Call an operation with the SDK's request, or with a dict where the reference client needs one."""
        name = _REQUESTS.get(operation) or operation.title().replace("_", "") + "Request"
        request: Any = getattr(lance_namespace, name)(**fields)
        method = getattr(self.namespace, operation)
        if self.is_reference and "dict" in str(next(iter(inspect.signature(method).parameters.values())).annotation):
            request = request.model_dump(exclude_none=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return method(request, *data)

    def create(self, name: str, data: pa.Table, **fields: Any) -> Any:
        """Create a table at the root."""
        return self.ask("create_table", ipc(data), id=[name], **fields)

    def opened(self) -> lance.LanceDataset:
        """Open the table."""
        return lance.dataset(namespace_client=self.namespace, table_id=["t"])

    def append(self) -> None:
        """Append a row, as any Lance program does."""
        lance.write_dataset(rows(1000, 1), self.opened(), mode="append")

    def stage(self) -> dict[str, Any]:
        """Stage a manifest for the table's next version, as Lance does before it commits."""
        folder = Path(self.ask("describe_table", id=["t"]).location) / "_versions"
        latest = self.opened().version
        there = max(folder.glob("*.manifest"), key=lambda file: file.stat().st_mtime_ns)
        staged = folder / f"{(1 << 64) - 2 - latest:020}.manifest-{uuid.uuid4()}"
        shutil.copy(there, staged)
        size = staged.stat().st_size
        return {"id": ["t"], "version": latest + 1, "manifest_path": str(staged), "manifest_size": size} | {
            "naming_scheme": "V2"
        }


def answered(subject: Subject, case: Case) -> Answer:
    """Run a case and return its result."""
    try:
        return Answer(case.do(subject) or "yes")
    except LanceNamespaceError as error:
        return Answer(str(int(error.code)), str(error))
    except Exception as error:  # noqa: BLE001 - other clients raise anything
        return Answer("no code", str(error))


def operations() -> list[str]:
    """Return the names of the interface's operations, in its order."""
    return [name for name, value in vars(LanceNamespace).items() if callable(value) and not name.startswith("_")]


def rows(start: int, count: int) -> pa.Table:
    """Return rows with a column for each kind of index."""
    numbers = range(start, start + count)
    vectors = pa.array([float((i * 7) % 13) for i in range(count * _WIDTH)], pa.float32())
    return pa.table(
        {
            "x": pa.array(numbers, pa.int64()),
            "s": [f"word {i}" for i in numbers],
            "v": pa.FixedSizeListArray.from_arrays(vectors, _WIDTH),
        }
    )


def ipc(data: pa.Table) -> bytes:
    """Return a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return bytes(sink.getvalue())
