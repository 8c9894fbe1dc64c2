"""Small tables for tests."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa

from tests.support import create_table, describe_table, ipc

WIDTH = 8


def numbers(ns: Any, name: str = "t", rows: int = 10) -> None:
    """Create a table with a column `x` of numbers from 0 and one `s` of words."""
    create_table(ns, name, data=ipc({"x": list(range(rows)), "s": [f"word{i}" for i in range(rows)]}))


def append(ns: Any, name: str, data: dict[str, Any] | pa.Table, branch: str | None = None) -> None:
    """Append rows through the namespace, as any Lance program does."""
    table = data if isinstance(data, pa.Table) else pa.table(data)
    dataset = opened(ns, name)
    if branch is not None:
        dataset = dataset.checkout_version((branch, None))
    lance.write_dataset(table, dataset, mode="append")


def opened(ns: Any, name: str = "t", **at: Any) -> lance.LanceDataset:
    """Open a table through its namespace, as any Lance program does."""
    return lance.dataset(namespace_client=ns, table_id=[name], **at)


def by_path(ns: Any, name: str = "t", **at: Any) -> lance.LanceDataset:
    """Open a table by its path, without its namespace."""
    return lance.dataset(describe_table(ns, name).location, **at)


def values(ns: Any, name: str = "t", column: str = "x", **at: Any) -> list[Any]:
    """Return the values of a column, sorted."""
    found = opened(ns, name, **at).to_table(columns=[column])[column].to_pylist()
    return sorted(found, key=lambda value: (value is None, value))


def version(ns: Any, name: str = "t") -> int:
    """Return the latest version of a table."""
    return opened(ns, name).version
