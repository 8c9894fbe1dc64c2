"""A catalog with tables for jobs, and helpers to damage them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa

from tests.support import create_namespace, create_table, declare_table, describe_table, ipc

if TYPE_CHECKING:
    from pennon import DirectoryNamespace
    from pennon.spark import Lake
    from pennon.spark.address import Address
    from pennon.spark.jobs import JobResults, TableOutcome


class Stock:
    """A catalog on a local disk."""

    def __init__(self, address: Address, root: Path) -> None:
        self.address, self.root = address, root

    @property
    def catalog(self) -> DirectoryNamespace:
        return self.address.connect()

    def lake(self, spark: Any) -> Lake:
        from pennon.spark import attach

        return attach(spark, impl=self.address.impl, **dict(self.address.properties))

    def namespace(self, *names: str) -> None:
        create_namespace(self.catalog, *names)

    def create(self, *names: str, batches: int = 1, rows: int = 10, **columns: list[Any]) -> Path:
        """Create a table with one fragment and version for each batch, and return its directory."""
        create_table(self.catalog, *names, data=ipc(_batch(0, rows, columns)))
        for number in range(1, batches):
            self.append(*names, data=_batch(number, rows, columns))
        return self.directory(*names)

    def append(self, *names: str, data: pa.Table) -> int:
        return lance.write_dataset(data, namespace_client=self.catalog, table_id=list(names), mode="append").version

    def declare(self, *names: str) -> Path:
        declare_table(self.catalog, *names)
        return self.directory(*names)

    def directory(self, *names: str) -> Path:
        return Path(describe_table(self.catalog, *names).location)

    def open(self, *names: str) -> lance.LanceDataset:
        return lance.dataset(namespace_client=self.catalog, table_id=list(names))

    def compact(self, *names: str) -> None:
        """Compact a table as another writer does."""
        self.open(*names).optimize.compact_files()

    def keys(self, *names: str) -> list[int]:
        """Return the keys of all rows, sorted."""
        return sorted(self.open(*names).to_table(columns=["k"])["k"].to_pylist())


def _batch(number: int, rows: int, columns: dict[str, list[Any]]) -> pa.Table:
    keys = list(range(number * rows, (number + 1) * rows))
    return pa.table({"k": keys, "s": [f"text {key}" for key in keys], **columns})


def by_table(results: JobResults) -> dict[str | None, TableOutcome]:
    """Return the outcomes of a job by table."""
    return {outcome.table: outcome for outcome in results}


def files(directory: Path) -> set[str]:
    """Return the relative paths of all files below a directory."""
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}
