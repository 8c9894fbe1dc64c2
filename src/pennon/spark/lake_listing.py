"""What a lake contains, as rows of DataFrames."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pennon.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import Identifier, quote_identifier, split_object_id
from pennon.table.history import read_transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lance import LanceDataset
    from lance_namespace_urllib3_client.models.table_version import TableVersion
    from pyspark.sql import DataFrame, SparkSession

    from pennon.results import DroppedTable
    from pennon.spark.address import Client

_Entry = TypeVar("_Entry")
_PAGE = 1000
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


def has_table(catalog: Client, identifier: Identifier) -> bool:
    """Return True if the catalog has a table, also if it is only declared; False also if a name is not valid."""
    from lance_namespace import TableExistsRequest

    try:
        catalog.table_exists(TableExistsRequest(id=list(identifier)))
    except (TableNotFoundError, NamespaceNotFoundError, InvalidInputError):
        return False
    return True


def iterate_namespaces(catalog: Client, parent: Identifier, *, recursive: bool) -> Iterator[Identifier]:
    """Yield the namespaces in a namespace; with `recursive`, also those below them."""
    from lance_namespace import ListNamespacesRequest

    def fetch(token: str | None) -> tuple[Iterable[str], str | None]:
        page = catalog.list_namespaces(ListNamespacesRequest(id=list(parent), limit=_PAGE, page_token=token))
        return page.namespaces, page.page_token

    for name in _iterate_pages(fetch):
        yield (*parent, name)
        if recursive:
            yield from iterate_namespaces(catalog, (*parent, name), recursive=True)


def iterate_tables(catalog: Client, namespace: Identifier) -> Iterator[Identifier]:
    """Yield the tables of a namespace."""
    from lance_namespace import ListTablesRequest

    def fetch(token: str | None) -> tuple[Iterable[str], str | None]:
        page = catalog.list_tables(ListTablesRequest(id=list(namespace), limit=_PAGE, page_token=token))
        return page.tables, page.page_token

    return ((*namespace, name) for name in _iterate_pages(fetch))


def iterate_all_tables(catalog: Client, namespace: Identifier) -> Iterator[Identifier]:
    """Yield the tables below a namespace, including declared ones.

    Raises NamespaceNotFoundError if the namespace does not exist.
    """
    from lance_namespace import ListTablesRequest

    def fetch(token: str | None) -> tuple[Iterable[str], str | None]:
        page = catalog.list_all_tables(ListTablesRequest(id=list(namespace), limit=_PAGE, page_token=token))
        return page.tables, page.page_token

    return map(split_object_id, _iterate_pages(fetch))


def iterate_versions(catalog: Client, identifier: Identifier) -> Iterator[TableVersion]:
    """Yield the versions of a table. Listing also finishes versions that a dead writer has committed."""
    from lance_namespace import ListTableVersionsRequest

    def fetch(token: str | None) -> tuple[Iterable[TableVersion], str | None]:
        request = ListTableVersionsRequest(id=list(identifier), limit=_PAGE, page_token=token)
        page = catalog.list_table_versions(request)
        return page.versions, page.page_token

    return _iterate_pages(fetch)


def iterate_dropped_tables(catalog: Client, namespace: Identifier) -> Iterator[DroppedTable]:
    """Yield the dropped tables of a namespace."""
    return _iterate_pages(lambda token: catalog.list_dropped_tables(namespace, token, _PAGE))


def _iterate_pages(fetch: Callable[[str | None], tuple[Iterable[_Entry], str | None]]) -> Iterator[_Entry]:
    """Yield the entries of all pages. `fetch` returns the page for a token, and the token of the next page."""
    token = None
    while True:
        page, token = fetch(token)
        yield from page
        if not token:
            return


def _read_transaction(dataset: LanceDataset, version: int) -> Any:
    try:
        return read_transaction(dataset, version)
    except (ValueError, OSError):
        return None  # old writers recorded no transactions
