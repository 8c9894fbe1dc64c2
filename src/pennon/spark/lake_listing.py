"""What a lake contains, as rows of DataFrames."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from pennon.catalog_pages import iterate_dropped_tables, iterate_namespaces, iterate_tables, iterate_versions
from pennon.identifiers import Identifier, quote_identifier
from pennon.table.history import read_transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import LanceDataset
    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark.address import Client

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class ResultRows(NamedTuple):
    """Rows, and their schema as Spark's DDL."""

    rows: Sequence[tuple[Any, ...]]
    schema: str

    def to_dataframe(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a DataFrame."""
        return spark.createDataFrame(self.rows, self.schema)


def list_namespaces(catalog: Client, parent: Identifier, *, recursive: bool) -> ResultRows:
    """Return the namespaces below a namespace."""
    found = iterate_namespaces(catalog, parent, recursive=recursive)
    return ResultRows([(quote_identifier(one[:-1]), one[-1]) for one in found], "namespace string, name string")


def list_tables(catalog: Client, parent: Identifier, *, recursive: bool) -> ResultRows:
    """Return the tables of a namespace; with `recursive`, also of the namespaces below it."""
    namespaces = [parent, *(iterate_namespaces(catalog, parent, recursive=True) if recursive else ())]
    found = [one for namespace in namespaces for one in iterate_tables(catalog, namespace)]
    rows = [(quote_identifier(one[:-1]), one[-1], quote_identifier(one)) for one in found]
    return ResultRows(rows, "namespace string, name string, table string")


def list_dropped_tables(catalog: Client, parent: Identifier) -> ResultRows:
    """Return the dropped tables of a namespace."""
    rows = [
        (quote_identifier(tuple(one.id)), one.deletion_id, one.dropped_at, one.purgeable_at)
        for one in iterate_dropped_tables(catalog, parent)
    ]
    return ResultRows(rows, "table string, deletion_id string, dropped_at timestamp, purgeable_at timestamp")


def list_versions(catalog: Client, identifier: Identifier) -> ResultRows:
    """Return the versions of a table."""
    rows = [
        (one.version, None if one.timestamp_millis is None else _EPOCH + timedelta(milliseconds=one.timestamp_millis))
        for one in iterate_versions(catalog, identifier)
    ]
    return ResultRows(rows, "version bigint, timestamp timestamp")


def list_history(dataset: LanceDataset) -> ResultRows:
    """Return the versions of a table with the operation and the properties of each transaction, the newest first."""
    rows = []
    listed: list[dict[str, Any]] = dataset.versions()  # type: ignore[assignment]  # Lance's Version is such a dict
    for one in sorted(listed, key=lambda each: -int(each["version"])):
        transaction = _read_transaction(dataset, one["version"])
        operation = None if transaction is None else type(transaction.operation).__name__
        properties = None if transaction is None else dict(transaction.transaction_properties or {})
        rows.append((one["version"], one["timestamp"].astimezone(), operation, properties))
    return ResultRows(rows, "version bigint, timestamp timestamp, operation string, properties map<string, string>")


def list_tags(dataset: LanceDataset) -> ResultRows:
    """Return the tags of a table."""
    rows = [(name, one["branch"], one["version"]) for name, one in sorted(dataset.tags.list().items())]
    return ResultRows(rows, "tag string, branch string, version bigint")


def list_branches(dataset: LanceDataset) -> ResultRows:
    """Return the branches of a table."""
    branches = sorted(dataset.branches.list().items())
    rows = [(name, one.get("parent_branch"), one.get("parent_version")) for name, one in branches]
    return ResultRows(rows, "branch string, parent_branch string, parent_version bigint")


def list_indexes(dataset: LanceDataset) -> ResultRows:
    """Return the indexes of a table."""
    rows = [
        (one.name, one.index_type, list(one.field_names), int(one.num_rows_indexed))
        for one in dataset.describe_indices()
    ]
    return ResultRows(rows, "index string, type string, columns array<string>, rows bigint")


def _read_transaction(dataset: LanceDataset, version: int) -> Any:
    try:
        return read_transaction(dataset, version)
    except (ValueError, OSError):
        return None  # old writers recorded no transactions
