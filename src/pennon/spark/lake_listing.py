"""The contents of a lake as DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.options import PLAN
from pennon.spark.reading.pinned import pin
from pennon.spark.reading.scan import Scan, count_cores, serialize_scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark.address import Address
    from pennon.spark.lake import Lake

_PAGE = 1000


def source_frame(spark: SparkSession, address: Address, wanted: Scan) -> DataFrame:
    """Return a DataFrame that reads a scan through the data source, so that Spark pushes filters down."""
    reader = spark.read.format("pennon").schema(wanted.spark_schema()).option(PLAN, serialize_scan(wanted))
    reader = reader.option("impl", address.impl).option("splits", count_cores(spark))
    return reader.load(quote_identifier(wanted.table.identifier))


def list_namespaces(lake: Lake, parent: Identifier, *, recursive: bool) -> DataFrame:
    """Return the namespaces below a namespace."""
    rows = [(".".join(one[:-1]), one[-1]) for one in iterate_namespaces(lake, parent, recursive=recursive)]
    return lake.spark.createDataFrame(rows, "namespace string, name string")


def list_tables(lake: Lake, parent: Identifier, *, recursive: bool) -> DataFrame:
    """Return the tables of a namespace."""
    rows = [
        (quote_identifier(one[:-1]), one[-1], quote_identifier(one))
        for one in iterate_tables(lake, parent, recursive=recursive)
    ]
    return lake.spark.createDataFrame(rows, "namespace string, name string, table string")


def iterate_tables(lake: Lake, parent: Identifier, *, recursive: bool) -> Iterator[Identifier]:
    """Yield the tables of a namespace; with `recursive`, also of the namespaces below it."""
    where = [parent, *(iterate_namespaces(lake, parent, recursive=True) if recursive else ())]
    for namespace in where:
        for name in _iterate_pages(lake.catalog.list_tables, namespace, "tables"):
            yield (*namespace, name)


def list_dropped_tables(lake: Lake, parent: Identifier) -> DataFrame:
    """Return the dropped tables of a namespace."""
    rows: list[tuple[Any, ...]] = []
    token = None
    while True:
        page, token = lake.catalog.list_dropped_tables(parent, token, _PAGE)
        rows += [(quote_identifier(tuple(one.id)), one.deletion_id, one.dropped_at, one.purgeable_at) for one in page]
        if not token:
            break
    schema = "table string, deletion_id string, dropped_at timestamp, purgeable_at timestamp"
    return lake.spark.createDataFrame(rows, schema)


def list_versions(lake: Lake, identifier: Identifier) -> DataFrame:
    """Return the versions of a table."""
    from lance_namespace import ListTableVersionsRequest

    rows: list[tuple[Any, ...]] = []
    token = None
    while True:
        page = lake.catalog.list_table_versions(
            ListTableVersionsRequest(id=list(identifier), limit=_PAGE, page_token=token)
        )
        rows += [(one.version, one.timestamp_millis) for one in page.versions]
        token = page.page_token
        if not token:
            break
    frame = lake.spark.createDataFrame(rows, "version bigint, millis bigint")
    return frame.selectExpr("version", "timestamp_millis(millis) AS timestamp")


def list_history(lake: Lake, identifier: Identifier) -> DataFrame:
    """Return the versions of a table with the operation and the properties of each transaction."""
    _, dataset = pin(lake.address, identifier)
    rows = []
    listed: list[dict[str, Any]] = dataset.versions()  # type: ignore[assignment]  # Lance's Version is such a dict
    for one in sorted(listed, key=lambda each: -int(each["version"])):
        transaction = _read_transaction(dataset, one["version"])
        operation = None if transaction is None else type(transaction.operation).__name__
        properties = None if transaction is None else dict(transaction.transaction_properties or {})
        rows.append((one["version"], one["timestamp"].astimezone(), operation, properties))
    return lake.spark.createDataFrame(
        rows, "version bigint, timestamp timestamp, operation string, properties map<string, string>"
    )


def list_tags(lake: Lake, identifier: Identifier) -> DataFrame:
    """Return the tags of a table."""
    _, dataset = pin(lake.address, identifier)
    rows = [(name, one["branch"], one["version"]) for name, one in sorted(dataset.tags.list().items())]
    return lake.spark.createDataFrame(rows, "tag string, branch string, version bigint")


def list_branches(lake: Lake, identifier: Identifier) -> DataFrame:
    """Return the branches of a table."""
    _, dataset = pin(lake.address, identifier)
    rows = [
        (name, one.get("parent_branch"), one.get("parent_version"))
        for name, one in sorted(dataset.branches.list().items())
    ]
    return lake.spark.createDataFrame(rows, "branch string, parent_branch string, parent_version bigint")


def list_indexes(lake: Lake, identifier: Identifier) -> DataFrame:
    """Return the indexes of a table."""
    _, dataset = pin(lake.address, identifier)
    rows = [
        (one.name, one.index_type, list(one.field_names), int(one.num_rows_indexed))
        for one in dataset.describe_indices()
    ]
    return lake.spark.createDataFrame(rows, "index string, type string, columns array<string>, rows bigint")


def _read_transaction(dataset: Any, version: int) -> Any:
    try:
        return dataset.read_transaction(version)
    except (ValueError, OSError, TypeError):
        # Old writers recorded no transactions, and pylance cannot read the compaction of an indexed table.
        return None


def iterate_namespaces(lake: Lake, parent: Identifier, *, recursive: bool) -> Iterator[Identifier]:
    """Yield the namespaces of a namespace; with `recursive`, also those below them."""
    for name in _iterate_pages(lake.catalog.list_namespaces, parent, "namespaces"):
        child = (*parent, name)
        yield child
        if recursive:
            yield from iterate_namespaces(lake, child, recursive=True)


def _iterate_pages(listing: Any, parent: Identifier, field: str) -> Iterator[str]:
    token = None
    while True:
        page = listing({"id": list(parent), "limit": _PAGE, "page_token": token})
        yield from getattr(page, field)
        token = page.page_token
        if not token:
            return
