"""Short functions for operations on rows. Requests are models, which every client accepts."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
from lance_namespace import (
    CountTableRowsRequest,
    DeleteFromTableRequest,
    InsertIntoTableRequest,
    MergeInsertIntoTableRequest,
    QueryTableRequest,
    UpdateTableRequest,
)

from tests.support import ipc


def count(ns: Any, *names: str, **options: Any) -> int:
    return ns.count_table_rows(CountTableRowsRequest(id=list(names), **options)).count


def query(ns: Any, *names: str, k: int = 100, vector: Any = None, **options: Any) -> pa.Table:
    body = {"id": list(names), "k": k, "vector": _vector(vector), **options}
    return read(ns.query_table(QueryTableRequest.model_validate(body)).data)


def insert(ns: Any, *names: str, data: Any, **options: Any) -> Any:
    return ns.insert_into_table(InsertIntoTableRequest(id=list(names), **options), _bytes(data))


def merge(ns: Any, *names: str, data: Any, on: Any = "id", **options: Any) -> Any:
    keys = [on] if isinstance(on, str) else on
    return ns.merge_insert_into_table(MergeInsertIntoTableRequest(id=list(names), on=keys, **options), _bytes(data))


def update(ns: Any, *names: str, to: dict[str, str] | list[list[str]], **options: Any) -> Any:
    updates = [list(pair) for pair in to.items()] if isinstance(to, dict) else to
    return ns.update_table(UpdateTableRequest(id=list(names), updates=updates, **options))


def delete(ns: Any, *names: str, where: str, **options: Any) -> Any:
    return ns.delete_from_table(DeleteFromTableRequest(id=list(names), predicate=where, **options))


def read(data: bytes) -> pa.Table:
    """Return the rows of an Arrow IPC file."""
    return pa.ipc.open_file(data).read_all()


def dataset(ns: Any, *names: str) -> lance.LanceDataset:
    """Open a table with Lance, through the catalog."""
    return lance.dataset(namespace_client=ns, table_id=list(names))


def ids(table: pa.Table) -> list[int]:
    return table["id"].to_pylist()


def _vector(vector: Any) -> dict[str, Any]:
    if not vector:
        return {}
    return {"multi_vector": vector} if isinstance(vector[0], list) else {"single_vector": vector}


def _bytes(data: Any) -> Any:
    return ipc(data) if isinstance(data, (dict, pa.Table)) else data
